//! JSON reports of experiments.

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::Machine;
use crate::error::{BenchError, Result};

/// Report of an experiment, as it is written to a file.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the experiment.
    pub experiment: String,
    /// Machine that it ran on.
    pub machine: Machine,
    /// Parameters of the experiment.
    pub config: Value,
    /// Measurements, one object each.
    pub rows: Vec<Value>,
    /// Summary of the measurements.
    pub summary: Value,
}

impl Report {
    /// Creates a report from typed parts.
    ///
    /// # Errors
    /// [`BenchError::Input`] if a part has no JSON form, which is a defect of the part's type.
    pub fn new(
        experiment: &str,
        config: &impl Serialize,
        rows: &[impl Serialize],
        summary: &impl Serialize,
    ) -> Result<Report> {
        Ok(Report {
            experiment: experiment.to_string(),
            machine: Machine::detect(),
            config: value(config)?,
            rows: rows.iter().map(value).collect::<Result<_>>()?,
            summary: value(summary)?,
        })
    }

    /// Checks that a report, or its samples, can be written to a file, before the measurements
    /// start. The file is not changed.
    ///
    /// # Errors
    /// As [`Report::write`].
    pub fn fits(path: &Path) -> Result<()> {
        let failed = |source| BenchError::file("write", path, source);
        let was_there = path.exists();
        fs::OpenOptions::new().append(true).create(true).open(path).map_err(failed)?;
        if was_there { Ok(()) } else { fs::remove_file(path).map_err(failed) }
    }

    /// Writes the report to a file, indented.
    ///
    /// # Errors
    /// [`BenchError::File`] if the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut text = serde_json::to_string_pretty(self).map_err(shapeless)?;
        text.push('\n');
        fs::write(path, text).map_err(|source| BenchError::file("write", path, source))
    }
}

fn value(part: &impl Serialize) -> Result<Value> {
    serde_json::to_value(part).map_err(shapeless)
}

fn shapeless(error: serde_json::Error) -> BenchError {
    BenchError::input(format!("the report has no JSON form: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_has_the_five_parts() {
        let rows = [json!({"query": 1})];
        let report = Report::new("tpch", &json!({"scale": 1}), &rows, &json!({})).expect("report");
        let file = std::env::temp_dir().join(format!("report-{}.json", std::process::id()));
        report.write(&file).expect("written");
        let text = fs::read_to_string(&file).expect("read");
        fs::remove_file(&file).expect("removed");
        let value: Value = serde_json::from_str(&text).expect("json");
        let mut keys: Vec<&String> = value.as_object().expect("object").keys().collect();
        keys.sort();
        assert_eq!(keys, ["config", "experiment", "machine", "rows", "summary"]);
        assert!(value["machine"]["cpus"].as_u64().is_some_and(|cpus| cpus > 0));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let rows: [Value; 0] = [];
        let report = Report::new("x", &json!({}), &rows, &json!({})).expect("report");
        let error = report.write(Path::new("/no/such/dir/x.json")).expect_err("refused");
        assert!(error.to_string().contains("/no/such/dir/x.json"), "{error}");
    }
}
