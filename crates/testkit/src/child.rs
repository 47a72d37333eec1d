//! Tests that end their process, or change it for good, in a process of their own.

use std::env;
use std::process::{Command, ExitStatus};

const PART: &str = "TERRACE_TEST_PART";

/// The part of a test that this process is the child for; none in the parent.
#[must_use]
pub fn part() -> Option<String> {
    env::var(PART).ok()
}

/// Runs a part of a test in a process of its own, which finds it by [`part`].
///
/// # Panics
/// When there can be no more processes.
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
