//! Checks of SQL against other engines: the sqllogictest suite, calls of functions, scripts, the
//! fuzzer.

use std::{path::Path, process::Command};

use crate::{
    cargo::{self, Outcome},
    loom::subdirectory,
};

const PROGRAM: &str = "terrace-sqltest";

/// Duration in seconds of each of the two runs of the fuzzer in `cargo x ci`.
const FUZZ_SECONDS: &str = "60";
/// Fixed seed of the first of these runs; the second has a fresh seed.
const FUZZ_SEED: &str = "1";
/// Sampling rate in `cargo x ci`: one in this many queries of a tenth of the suite.
const SLT_SAMPLE: &str = "4";

/// Runs the program with a command and its arguments.
pub fn run(root: &Path, command: &str, arguments: &[String]) -> Result<(), String> {
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    start(root, command, &arguments).result(command)
}

/// Runs the part of the sqllogictest suite that `cargo x ci` checks.
pub fn tenth(root: &Path) -> Outcome {
    start(root, "slt", &["--tenth", "--sample", SLT_SAMPLE])
}

/// Runs the fuzzer with the fixed seed, which decides the result, and with a fresh one, which is
/// printed: a failure of the latter may be older than the change, and is only reported.
pub fn fuzz(root: &Path) -> Outcome {
    let fixed = start(root, "fuzz", &["--seconds", FUZZ_SECONDS, "--seed", FUZZ_SEED]);
    let fresh = start(root, "fuzz", &["--seconds", FUZZ_SECONDS]);
    if !fresh.ok {
        eprintln!("the fuzzer with a fresh seed has found what is printed above; it needs a test");
    }
    fixed
}

/// Builds the program with the features of the whole workspace, as the tests do, and runs it. Built
/// alone, the package would have fewer features, and DataFusion would be compiled again.
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
