//! The main job of the README (TPC-H) and TPC-DS at a small scale: all answers must be right, and
//! the memory of the process within its limit.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use crate::{cargo, loom::subdirectory};

/// Memory budget in MiB.
const DRAM_MIB: u64 = 64;
/// Memory in MiB that the process may hold in addition to its budget: code, planner, batches in
/// flight.
const BESIDE_MIB: u64 = 220;

/// Queries over the tables of a benchmark.
struct Suite {
    command: &'static str,
    /// Engine whose answers are taken as correct.
    answers: &'static str,
    /// Number of the queries of the benchmark.
    queries: u64,
    /// Number of a query that is not run.
    left_out: Option<u64>,
}

/// DataFusion needs no external package.
const TPCH: Suite = Suite { command: "tpch", answers: "datafusion", queries: 22, left_out: None };
/// The texts of the queries come with DuckDB's package. At this scale query 12 divides by the sales
/// of a class that has none, which fails as in PostgreSQL; DuckDB returns null.
const TPCDS: Suite = Suite { command: "tpcds", answers: "duckdb", queries: 99, left_out: Some(12) };

/// Runs TPC-H and TPC-DS at scale 0.01 and checks the reports.
pub fn run(root: &Path) -> Result<(), String> {
    TPCH.run(root)?;
    if !has_python() {
        println!("skipped: TPC-DS, whose queries come from a Python package; install python3-venv");
        return Ok(());
    }
    TPCDS.run(root)
}

fn has_python() -> bool {
    let mut python = Command::new("python3");
    python.args(["-c", "import ensurepip, venv"]).output().is_ok_and(|it| it.status.success())
}

impl Suite {
    fn run(&self, root: &Path) -> Result<(), String> {
        let directory = subdirectory(root, "job");
        fs::create_dir_all(&directory)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        let report = directory.join(format!("{}.json", self.command));
        let _ = fs::remove_file(&report);
        let queries = (1..=self.queries).filter(|number| Some(*number) != self.left_out);
        let queries: Vec<String> = queries.map(|number| number.to_string()).collect();
        let mut command = cargo::cargo(root);
        command
            .args(["run", "--release", "--", self.command, "--scale", "0.01"])
            .args(["--answers", self.answers, "--queries", &queries.join(",")])
            .arg("--dram")
            .arg(format!("{DRAM_MIB}MiB"))
            .arg("--json")
            .arg(&report);
        cargo::run(command).result(self.command)?;
        let text = fs::read_to_string(&report)
            .map_err(|error| format!("{} left no report: {error}", self.command))?;
        println!("{}: {}", self.command, self.check(&text)?);
        Ok(())
    }

    /// Checks a report: returns a summary if all queries are correct, otherwise the error.
    fn check(&self, text: &str) -> Result<String, String> {
        let report: Value = serde_json::from_str(text)
            .map_err(|error| format!("the report is not JSON: {error}"))?;
        let number = |key: &str| {
            let value = report["summary"][key].as_u64();
            value.ok_or_else(|| format!("the report has no summary.{key}"))
        };
        let (correct, total, failed) = (number("correct")?, number("total")?, number("failed")?);
        let wanted = self.queries - u64::from(self.left_out.is_some());
        if total != wanted || correct != total || failed != 0 {
            return Err(format!(
                "{correct} of {total} queries correct, {failed} failed; want all {wanted}"
            ));
        }
        let peak = number("peak_rss_bytes")? >> 20;
        if peak > DRAM_MIB + BESIDE_MIB {
            return Err(format!("{peak} MiB resident; want {DRAM_MIB} and {BESIDE_MIB} at most"));
        }
        Ok(format!("{correct} of {total} queries correct, {peak} MiB resident at most"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(correct: u64, total: u64, peak_mib: u64) -> String {
        let peak = peak_mib << 20;
        format!(
            r#"{{"summary": {{"correct": {correct}, "total": {total}, "failed": 0,
                "peak_rss_bytes": {peak}}}}}"#
        )
    }

    #[test]
    fn wants_every_answer_inside_the_budget() {
        assert!(TPCH.check(&report(22, 22, 100)).is_ok_and(|verdict| verdict.contains("100 MiB")));
        assert!(TPCH.check(&report(21, 22, 100)).is_err());
        assert!(TPCH.check(&report(0, 0, 100)).is_err());
        assert!(TPCH.check(&report(22, 22, 285)).is_err());
        assert!(TPCDS.check(&report(98, 98, 100)).is_ok());
        assert!(TPCDS.check(&report(22, 22, 100)).is_err());
        assert!(TPCH.check("{}").is_err());
        assert!(TPCH.check("").is_err());
    }
}
