//! Loom models of the lock-free words.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::cargo::{self, Outcome};

/// Groups of crates with loom models, and the cargo arguments that select their test programs.
/// Cargo compiles the common dependencies of a group once.
const PROGRAMS: &[(&[&str], &[&str])] = &[
    (&["terrace-ledger", "terrace-latch"], &["--test", "loom"]),
    (&["terrace-pool", "terrace-region", "terrace-objects"], &["--lib", "loom_tests"]),
];

/// Runs every loom program.
pub fn run(root: &Path) -> Outcome {
    let mut all = Outcome { ok: true, ..Outcome::default() };
    for (packages, target) in PROGRAMS {
        let mut command = cargo::cargo(root);
        command.args(["test", "--release"]);
        command.args(packages.iter().flat_map(|name| ["--package", name]));
        command
            .args(*target)
            .env("RUSTFLAGS", "--cfg loom")
            // Not Clippy: some constants of these builds make no sense to it, such as no turns.
            .env("RUSTC_WORKSPACE_WRAPPER", "")
            .env("CARGO_TARGET_DIR", subdirectory(root, "loom"));
        let outcome = cargo::run(command);
        if outcome.ok && outcome.programs < packages.len() {
            eprintln!("{}: only {} loom programs ran", packages.join(", "), outcome.programs);
            all.ok = false;
        }
        all = all.and(outcome);
    }
    all
}

/// Returns a separate directory below the target directory, for builds with other flags.
pub fn subdirectory(root: &Path, name: &str) -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    root.join(target).join(name)
}
