//! Tests of the low crates in emulated machines with two and with three memory nodes
//! (`kernel/lab/run`).

use std::{
    path::Path,
    process::{Command, Stdio},
};

use crate::cargo::{self, Outcome};

const SCRIPT: &str = "kernel/lab/run";

const MISSING: &str = "\
lab: NOT RUN. What it needs is missing on this machine, as said above.
lab: pages are moved between memory nodes there, which a machine with one node cannot test.";

/// Runs the lab with the arguments of its script; fails with a message if something is missing.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let mut command = script(root);
    command.args(arguments);
    cargo::run(command).result("lab")
}

/// Runs the lab under the distribution's kernel, with the programs of the whole workspace's build,
/// if an emulator and that kernel are available. Without them it succeeds with a message.
pub fn run_if_possible(root: &Path) -> Outcome {
    let mut check = script(root);
    check.arg("--check").stdout(Stdio::null());
    if !check.status().is_ok_and(|status| status.success()) {
        eprintln!("{MISSING}");
        return Outcome { ok: true, ..Outcome::default() };
    }
    let mut command = script(root);
    command.arg("--workspace");
    let outcome = cargo::run(command);
    if outcome.ok && outcome.counts.passed == 0 {
        eprintln!("lab: no test ran");
        return Outcome { ok: false, ..outcome };
    }
    outcome
}

fn script(root: &Path) -> Command {
    let mut command = Command::new(root.join(SCRIPT));
    command.current_dir(root).env("CARGO_TERM_COLOR", "never");
    command
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_script_is_there_and_refuses_what_it_does_not_know() {
        let root = crate::root();
        let metadata = std::fs::metadata(root.join(SCRIPT)).expect("the script");
        assert!(metadata.permissions().mode() & 0o111 != 0, "{SCRIPT} cannot be run");
        let error = run(&root, &["--wings".to_owned()]).expect_err("no such argument");
        assert!(error.starts_with("lab: failed"), "{error}");
    }
}
