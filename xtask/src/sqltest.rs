//! The checks of SQL against others: the sqllogictest suite and the fuzzer.

use std::{path::Path, process::Command};

use crate::{
    cargo::{self, Outcome},
    loom::subdirectory,
};

const PROGRAM: &str = "terrace-sqltest";

/// Seconds that each of the two runs of the fuzzer takes before every change.
const FUZZ_SECONDS: &str = "60";
/// The seed that every change is checked with, beside a fresh one.
const FUZZ_SEED: &str = "1";
/// One query in so many of the suite's tenth runs before every change.
const SLT_SAMPLE: &str = "3";

/// Runs the program with a command and the arguments behind it.
pub fn run(root: &Path, command: &str, arguments: &[String]) -> Result<(), String> {
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    start(root, command, &arguments).result(command)
}

/// The part of the suite that every change waits for.
pub fn tenth(root: &Path) -> Outcome {
    start(root, "slt", &["--tenth", "--sample", SLT_SAMPLE])
}

/// The fuzzer with the fixed seed, which decides, and with a fresh one, which it prints: what that
/// one finds may be older than the change, and is only told.
pub fn fuzz(root: &Path) -> Outcome {
    let fixed = start(root, "fuzz", &["--seconds", FUZZ_SECONDS, "--seed", FUZZ_SEED]);
    let fresh = start(root, "fuzz", &["--seconds", FUZZ_SECONDS]);
    if !fresh.ok {
        eprintln!("the fuzzer with a fresh seed has found what is printed above; it needs a test");
    }
    fixed
}

/// Builds the program with the features of the workspace, as the tests do: by its package alone it
/// has fewer, and DataFusion would be compiled again.
fn start(root: &Path, command: &str, arguments: &[&str]) -> Outcome {
    let mut build = cargo::cargo(root);
    build.args(["build", "--release", "--quiet", "--workspace", "--bin", PROGRAM]);
    let built = cargo::run(build);
    if !built.ok {
        return built;
    }
    let mut program = Command::new(subdirectory(root, "release").join(PROGRAM));
    program.current_dir(root).arg(command).args(arguments);
    cargo::run(program)
}
