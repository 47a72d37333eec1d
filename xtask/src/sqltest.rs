//! The checks of SQL against others: the sqllogictest suite and the fuzzer.

use std::path::Path;

use crate::cargo::{self, Outcome};

const PACKAGE: &str = "terrace-sqltest";

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

fn start(root: &Path, command: &str, arguments: &[&str]) -> Outcome {
    let mut cargo = cargo::cargo(root);
    cargo.args(["run", "--release", "--quiet", "--package", PACKAGE, "--", command]);
    cargo.args(arguments);
    cargo::run(cargo)
}
