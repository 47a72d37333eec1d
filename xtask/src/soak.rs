//! Long versions of the tests.
//!
//! A test that finds more with time reads its limits from the environment: `TERRACE_SOAK_SECONDS`
//! for tests limited by time, `TERRACE_SOAK_ROUNDS` for tests limited by rounds (kill -9, churn),
//! and `TERRACE_SOAK_SEED` to repeat a run. Without them it runs for about a second, so that no
//! test is ever ignored.

use std::path::Path;

use crate::{
    cargo::{self, Outcome},
    sqltest,
};

/// Test programs that read the variables, by their names in the workspace: selecting a package
/// would build it, and all its dependencies, again with other features.
const PROGRAMS: &[&[&str]] = &[
    &["--test", "stress"],
    &["--test", "framed", "churn"],
    &["--test", "mapped", "churn"],
    &["--test", "framed", "races"],
    &["--test", "mapped", "races"],
    &["--test", "races"],
    &["--test", "threads"],
    &["--test", "linear"],
    &["--test", "fuzz", "the_store_is_a_map"],
    &["--test", "model"],
    &["--lib", "power_tests"],
    &["--test", "tree_threads"],
    &["--test", "sql", "merges"],
    &["--test", "sql", "transaction_histories"],
    &["--test", "kill_rounds"],
    &["--test", "merge_kills"],
    &["--test", "power_loss"],
    &["--test", "cli", "durability"],
    &["--test", "cli", "histories"],
    &["--test", "hostile"],
];

/// Limits of the tests.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    seconds: u64,
    rounds: u64,
    seed: Option<u64>,
}

/// Runs the long tests one after the other.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let plan = parse(arguments)?;
    for program in PROGRAMS {
        let mut command = cargo::cargo(root);
        command
            .args(["test", "--release", "--workspace"])
            .args(*program)
            .args(["--", "--nocapture", "--test-threads=1"])
            .env("TERRACE_SOAK_SECONDS", plan.seconds.to_string())
            .env("TERRACE_SOAK_ROUNDS", plan.rounds.to_string());
        if let Some(seed) = plan.seed {
            command.env("TERRACE_SOAK_SEED", seed.to_string());
        }
        let outcome = cargo::run(command);
        let name = program.join(" ");
        if outcome.ok && outcome.counts.passed == 0 {
            return Err(format!("soak of {name}: no test ran"));
        }
        outcome.result(&format!("soak of {name}"))?;
    }
    let mut fuzz = vec!["--seconds".to_owned(), plan.seconds.to_string()];
    if let Some(seed) = plan.seed {
        fuzz.extend(["--seed".to_owned(), seed.to_string()]);
    }
    sqltest::run(root, "fuzz", &fuzz)?;
    sqltest::run(root, "functions", &[])?;
    sqltest::run(root, "statements", &[])
}

/// Churn tests that `cargo x ci` runs: the test program, the test, and its duration in seconds.
const CHURNS: &[(&str, &str, u64)] = &[
    ("framed", "churn_over_tiers", 20),
    ("mapped", "churn_over_tiers", 20),
    ("threads", "objects_of_many_threads", 30),
];

/// Runs the churn tests of pool, heaps and objects for the durations of `cargo x ci`.
pub fn churn(root: &Path) -> Outcome {
    let mut all = Outcome { ok: true, ..Outcome::default() };
    for (program, test, seconds) in CHURNS {
        let mut command = cargo::cargo(root);
        command
            .args(["test", "--release", "--workspace", "--test", program, test])
            .env("TERRACE_SOAK_SECONDS", seconds.to_string());
        let outcome = cargo::run(command);
        if outcome.ok && outcome.counts.passed == 0 {
            eprintln!("churn: no test of {program} ran");
            all.ok = false;
        }
        all = all.and(outcome);
    }
    all
}

fn parse(arguments: &[String]) -> Result<Plan, String> {
    let mut plan = Plan { seconds: 60, rounds: 200, seed: None };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("`{word}` wants a number"))?;
        let number = value.parse().map_err(|_| format!("`{word} {value}`: not a number"))?;
        match word.as_str() {
            "--seconds" => plan.seconds = number,
            "--rounds" => plan.rounds = number,
            "--seed" => plan.seed = Some(number),
            other => return Err(format!("`{other}`: soak takes --seconds, --rounds and --seed")),
        }
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_its_arguments() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let plan = Plan { seconds: 60, rounds: 7, seed: Some(3) };
        assert_eq!(parse(&words("--rounds 7 --seed 3")), Ok(plan));
        assert!(parse(&words("--rounds")).is_err());
        assert!(parse(&words("--rounds many")).is_err());
        assert!(parse(&words("--minutes 3")).is_err());
    }
}
