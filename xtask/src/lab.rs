//! Tests of NUMA memory nodes, in emulated machines with two and with three nodes
//! (`kernel/lab/run`).

use std::{
    path::Path,
    process::{Command, Stdio},
};

use crate::cargo::{self, Outcome};

const SCRIPT: &str = "kernel/lab/run";
/// List of the tests that need memory nodes.
#[cfg(test)]
const LIST: &str = "kernel/lab/tests";

const MISSING: &str = "\
lab: NOT RUN. What it needs is missing on this machine, as said above.
lab: pages are moved between memory nodes there, which a machine with one node cannot test.";

/// Runs the lab with arguments for its script; fails if an emulator or a kernel is missing.
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
    cargo::command(root, root.join(SCRIPT).as_os_str())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// The script runs cargo, which would compile most of the workspace again.
    #[test]
    fn the_script_does_not_see_the_package_of_this_program() {
        let script = script(&crate::root());
        let name = script.get_envs().find(|(name, _)| *name == "CARGO_PKG_NAME");
        assert_eq!(name.map(|(_, value)| value), Some(None), "cargo sets it for tests");
    }

    /// A filter of a module that was renamed would select no test.
    #[test]
    fn the_selected_tests_are_of_files_that_exist() {
        let root = crate::root();
        let list = std::fs::read_to_string(root.join(LIST)).expect("the list");
        let lines = list.lines().filter(|line| !line.starts_with('#'));
        let mut programs = 0;
        for line in lines {
            let mut words = line.split(' ');
            let (krate, program) = words.next().and_then(|it| it.split_once('-')).expect("a name");
            let package = root.join("crates").join(krate);
            let unit = program == format!("terrace_{krate}");
            let modules = if unit { "src" } else { "tests/suite" };
            let test = package.join("tests").join(format!("{program}.rs"));
            assert!(unit || test.exists(), "{}: no such file", test.display());
            for filter in words {
                let module = filter.split("::").next().expect("a word");
                let file = package.join(modules).join(format!("{module}.rs"));
                assert!(file.exists(), "{line}: {} does not exist", file.display());
            }
            programs += 1;
        }
        assert!(programs > 5, "{list}");
    }

    #[test]
    fn the_script_is_there_and_refuses_what_it_does_not_know() {
        let root = crate::root();
        let metadata = std::fs::metadata(root.join(SCRIPT)).expect("the script");
        assert!(metadata.permissions().mode() & 0o111 != 0, "{SCRIPT} cannot be run");
        let error = run(&root, &["--wings".to_owned()]).expect_err("no such argument");
        assert!(error.starts_with("lab: failed"), "{error}");
    }
}
