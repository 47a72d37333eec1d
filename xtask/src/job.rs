//! The main job of the README at a small scale: all answers must be right, within the budget.

use std::{fs, path::Path};

use serde_json::Value;

use crate::{cargo, loom::subdirectory};

/// Memory budget in MiB.
const DRAM_MIB: u64 = 64;
/// Memory in MiB that the process may hold in addition to its budget: code, planner, batches in
/// flight.
const BESIDE_MIB: u64 = 200;

/// Runs TPC-H at scale 0.01 and checks the report.
pub fn run(root: &Path) -> Result<(), String> {
    let directory = subdirectory(root, "job");
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let report = directory.join("tpch.json");
    let _ = fs::remove_file(&report);
    let mut command = cargo::cargo(root);
    command
        .args(["run", "--release", "--", "tpch", "--scale", "0.01"])
        // DataFusion needs no external package.
        .args(["--answers", "datafusion"])
        .arg("--dram")
        .arg(format!("{DRAM_MIB}MiB"))
        .arg("--json")
        .arg(&report);
    cargo::run(command).result("the main job")?;
    let text = fs::read_to_string(&report)
        .map_err(|error| format!("the main job left no report in {}: {error}", report.display()))?;
    let verdict = check(&text)?;
    println!("main job: {verdict}");
    Ok(())
}

/// Checks a report: returns a summary if all queries are correct, otherwise the error.
fn check(text: &str) -> Result<String, String> {
    let report: Value =
        serde_json::from_str(text).map_err(|error| format!("the report is not JSON: {error}"))?;
    let number = |key: &str| {
        report["summary"][key].as_u64().ok_or_else(|| format!("the report has no summary.{key}"))
    };
    let (correct, total, failed) = (number("correct")?, number("total")?, number("failed")?);
    if total != 22 || correct != total || failed != 0 {
        return Err(format!("{correct} of {total} queries correct, {failed} failed; want all 22"));
    }
    let peak = number("peak_rss_bytes")? >> 20;
    if peak > DRAM_MIB + BESIDE_MIB {
        return Err(format!("{peak} MiB resident; want {DRAM_MIB} and {BESIDE_MIB} at most"));
    }
    Ok(format!("{correct} of {total} queries correct, {peak} MiB resident at most"))
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
        assert!(check(&report(22, 22, 100)).is_ok_and(|verdict| verdict.contains("100 MiB")));
        assert!(check(&report(21, 22, 100)).is_err());
        assert!(check(&report(0, 0, 100)).is_err());
        assert!(check(&report(22, 22, 265)).is_err());
        assert!(check("{}").is_err());
        assert!(check("").is_err());
    }
}
