//! Continuous integration: all checks of a change; those that report failures earliest run first.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use crate::{
    cargo::{self, Outcome},
    clients,
    counts::Counts,
    features, job, lab, loom, miri, soak, sqltest, tidy,
};

/// Time limit of the tests, twice their duration on two slow processors.
const TESTS_LIMIT: Duration = Duration::from_mins(25);

/// A named check.
struct Step {
    name: &'static str,
    run: fn(&Path) -> Outcome,
}

const STEPS: &[Step] = &[
    Step { name: "format", run: format },
    Step { name: "tidy", run: |root| passed(tidy::run(root)) },
    Step { name: "features", run: |root| passed(features::run(root)) },
    Step { name: "build", run: build },
    Step { name: "loom", run: loom::run },
    Step { name: "miri", run: miri::run_if_installed },
    Step { name: "main job", run: |root| passed(job::run(root)) },
    Step { name: "tests", run: tests },
    Step { name: "documentation", run: documentation },
    Step { name: "queries over mapped", run: mapped_queries },
    Step { name: "churn", run: soak::churn },
    Step { name: "clients", run: clients::all },
    Step { name: "sqllogictest", run: sqltest::tenth },
    Step { name: "fuzz", run: sqltest::fuzz },
    Step { name: "lab", run: lab::run_if_possible },
    Step { name: "lint", run: lint },
];

/// Runs every step, even after a failure, and ends with one line of counts.
pub fn run(root: &Path) -> Result<(), String> {
    let mut report = Vec::new();
    for step in STEPS {
        println!("\n== {}", step.name);
        let start = Instant::now();
        let outcome = (step.run)(root);
        report.push((step.name, outcome, start.elapsed()));
    }
    println!("\n== summary");
    for (name, outcome, took) in &report {
        println!("{}", line(name, *outcome, *took));
    }
    let counts = total(report.iter().map(|(_, outcome, _)| *outcome));
    println!("{counts}");
    if counts.failed > 0 { Err("a check failed".to_owned()) } else { Ok(()) }
}

/// Adds up all tests; a step that failed without a failing test counts as one.
fn total(outcomes: impl Iterator<Item = Outcome>) -> Counts {
    let mut sum = Counts::default();
    for outcome in outcomes {
        sum += outcome.counts;
        if !outcome.ok && outcome.counts.failed == 0 {
            sum.failed += 1;
        }
    }
    sum
}

fn line(name: &str, outcome: Outcome, took: Duration) -> String {
    let verdict = if outcome.ok { "ok" } else { "FAILED" };
    let mut line = format!("{name:<20} {verdict:<7} {:>5} s", took.as_secs());
    if outcome.counts != Counts::default() {
        line.push_str(&format!("  {}", outcome.counts));
    }
    line
}

fn passed(result: Result<(), String>) -> Outcome {
    if let Err(message) = &result {
        eprintln!("{message}");
    }
    Outcome { ok: result.is_ok(), ..Outcome::default() }
}

fn format(root: &Path) -> Outcome {
    let mut command = cargo::cargo(root);
    command.args(["fmt", "--all", "--", "--check"]);
    cargo::run(command)
}

/// Checks that Clippy has no warnings. Under `.ci/cargo.toml` it compiles this workspace in every
/// step, and cargo repeats the warnings of what is up to date: only examples and benchmarks are
/// left. `cargo clippy` would check all dependencies once more.
fn lint(root: &Path) -> Outcome {
    let mut command = cargo::cargo(root);
    // Behind the name of the command it would replace the file of `cargo::cargo`.
    command.args(["--config", "build.rustc-workspace-wrapper = 'clippy-driver'"]).args([
        "build",
        "--release",
        "--workspace",
        "--all-targets",
    ]);
    cargo::run_without_warnings(command)
}

/// Selection of all tests. Examples are not selected: they have no tests, and the lint compiles
/// them.
const TESTS: &[&str] =
    &["--release", "--workspace", "--no-fail-fast", "--lib", "--bins", "--tests"];

/// Builds the programs and all tests in one cargo run: the last crates of the programs compile one
/// after the other, and in parallel cargo compiles the tests of the crates below them.
fn build(root: &Path) -> Outcome {
    let mut command = cargo::cargo(root);
    command.args(["test", "--no-run"]).args(TESTS);
    cargo::run(command)
}

fn tests(root: &Path) -> Outcome {
    cargo::test_within(TESTS_LIMIT, root, TESTS, &[])
}

/// Writes the pages of all libraries, with warnings as errors, and runs the examples in them.
fn documentation(root: &Path) -> Outcome {
    let mut command = cargo::cargo(root);
    command
        .args(["test", "--release", "--workspace", "--no-fail-fast", "--doc"])
        .env("RUSTDOC", root.join(".ci/rustdoc"));
    cargo::run(command)
}

/// Repeats tests over mapped pages that otherwise run over framed pages.
fn mapped_queries(root: &Path) -> Outcome {
    let mut args = vec!["--release", "--workspace", "--no-fail-fast", "--test", "sql", "--"];
    args.extend(["query_flows", "query_scan", "query_spill", "change_flows"]);
    cargo::test_within(TESTS_LIMIT, root, &args, &[("TERRACE_TEST_PLACEMENT", "mapped")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_is_never_counted_as_none() {
        let counts = Counts { passed: 5, failed: 0, ignored: 0 };
        let good = Outcome { ok: true, counts, ..Outcome::default() };
        let broken = Outcome { ok: false, counts, ..Outcome::default() };
        assert_eq!(total([good, good].into_iter()).failed, 0);
        assert_eq!(total([good, broken].into_iter()).failed, 1);
        let failed =
            Outcome { ok: false, counts: Counts { failed: 3, ..counts }, ..Outcome::default() };
        assert_eq!(total([failed].into_iter()).failed, 3);
    }
}
