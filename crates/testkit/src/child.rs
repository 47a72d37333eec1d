//! Child processes for tests that end their process or change it irreversibly.

use std::env;
use std::process::{Command, ExitStatus};

const PART: &str = "TERRACE_TEST_PART";

/// Returns the part of a test that this child process runs; `None` in the parent.
#[must_use]
pub fn part() -> Option<String> {
    env::var(PART).ok()
}

/// Runs `part` of the test with the full name `test` in a child process, in which [`part()`]
/// returns that part. Prints the output of a child that fails.
///
/// # Panics
/// Panics if the process cannot be started.
#[must_use]
pub fn run(test: &str, part: &str) -> ExitStatus {
    let program = env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["--exact", test, "--nocapture"]).env(PART, part);
    let output = command.output().expect("started");
    if !output.status.success() {
        crate::needs::report(&format!(
            "a child of {test} said:\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    output.status
}
