//! Tests of the crates without system calls under Miri.

use std::{path::Path, process::Stdio};

use crate::{
    cargo::{self, Outcome},
    loom::subdirectory,
};

/// Crates and their tests that run under Miri: all of the ledger and the market, and those tests of
/// the other crates that neither read files nor wait for the clock, for which Miri is a thousand
/// times too slow. Under Miri reserved memory comes from the heap, so that every access to a frame
/// is checked.
const PROGRAMS: &[(&str, &[&str])] = &[
    ("terrace-ledger", &[]),
    ("terrace-market", &[]),
    ("terrace-sys", &["--lib", "--", "buffer", "map", "pages", "size", "transfer"]),
    ("terrace-store", &["--lib", "--", "tests"]),
    ("terrace-latch", &["--lib"]),
    ("terrace-pool", &["--lib"]),
    ("terrace-pool", &["--doc"]),
    (
        "terrace-objects",
        &["--lib", "--test", "fuzz", "--test", "model", "--test", "linear", "--test", "typed"],
    ),
];

const MISSING: &str = "\
miri: NOT RUN. There is no nightly toolchain with Miri on this machine.
miri: `rustup toolchain install nightly --component miri --component rust-src` installs it.";

/// Runs Miri; fails with a message if it is not installed.
pub fn run(root: &Path) -> Outcome {
    if !installed(root) {
        eprintln!("{MISSING}");
        return Outcome::default();
    }
    let mut all = Outcome { ok: true, ..Outcome::default() };
    for (package, tests) in PROGRAMS {
        let mut command = cargo::nightly(root);
        command
            .args(["miri", "test", "--package", package])
            .args(*tests)
            .env("CARGO_TARGET_DIR", subdirectory(root, "miri"));
        let outcome = cargo::run(command);
        if outcome.ok && outcome.counts.passed == 0 {
            eprintln!("miri of {package}: no test ran");
            all.ok = false;
        }
        all = all.and(outcome);
    }
    all
}

/// Runs Miri if it is installed; otherwise succeeds with a message.
pub fn run_if_installed(root: &Path) -> Outcome {
    if installed(root) {
        return run(root);
    }
    eprintln!("{MISSING}");
    Outcome { ok: true, ..Outcome::default() }
}

/// Returns true if the nightly toolchain has Miri.
fn installed(root: &Path) -> bool {
    let mut command = cargo::nightly(root);
    command.args(["miri", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
