//! Pictures of runs, and their samples as CSV files.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use terrace_workload::driver::{Report, Sample, write_csv};

use crate::error::{BenchError, Result};
use crate::report::{Line, Lines, Panel};

/// Draws the throughput and the resident bytes of named runs over time, from their samples of each
/// second.
pub(super) fn by_second(runs: &[(String, &Report)]) -> Lines {
    let line = |name: &str, report: &Report, value: &dyn Fn(&Sample) -> f64| Line {
        name: name.to_owned(),
        points: report.samples.iter().map(|sample| (sample.end_seconds, value(sample))).collect(),
    };
    let throughput =
        runs.iter().map(|(name, report)| line(name, report, &Sample::per_second)).collect();
    let resident = runs.iter().flat_map(|(name, report)| {
        report.total.tiers.iter().enumerate().map(move |(tier, of)| {
            line(&format!("{name}, {}", of.name), report, &|sample| {
                sample.tiers[tier].resident_bytes as f64 / f64::from(1 << 20)
            })
        })
    });
    Lines {
        panels: vec![
            Panel {
                title: "Throughput".into(),
                x: "seconds".into(),
                y: "operations a second".into(),
                lines: throughput,
            },
            Panel {
                title: "Pages in memory".into(),
                x: "seconds".into(),
                y: "MiB".into(),
                lines: resident.collect(),
            },
        ],
    }
}

/// Writes the samples of a run as CSV to the file `path`, or if `name` is given to a file next to
/// it whose name includes `name`.
///
/// # Errors
/// [`BenchError::File`].
pub(super) fn write_samples(path: &Path, name: Option<&str>, report: &Report) -> Result<()> {
    let path = match name {
        Some(name) => path.with_extension(format!("{name}.csv")),
        None => path.to_path_buf(),
    };
    let file = File::create(&path).map_err(|source| BenchError::file("create", &path, source))?;
    let written = write_csv(report, &mut BufWriter::new(file));
    written.map_err(|source| BenchError::file("write", &path, source))
}

#[cfg(test)]
mod tests {
    use terrace_pool::Placement;
    use terrace_sys::size::MIB;

    use super::*;
    use crate::experiments::pages::{Case, Load};
    use crate::measure::Scratch;

    #[test]
    fn samples_become_lines_and_files() {
        let home = Scratch::of(None, "plot").expect("a directory");
        let case = Case {
            load: Load::RandomRead { tuples: 10_000, batch: 1 },
            dram_bytes: 8 * MIB,
            tiers: vec![],
            store: None,
            placement: Placement::Framed,
            policy: terrace_pool::Policy::Score,
            threads: 1,
            warm_up_seconds: 0.0,
            seconds: 0.1,
        };
        let measured = case.run(home.path(), &mut |_| {}).expect("measured");
        let lines = by_second(&[("a run".into(), &measured.report)]);
        let points = |panel: usize| lines.panels[panel].lines[0].points.len();
        assert_eq!((points(0), points(1)), (measured.report.samples.len(), points(0)));
        let file = home.path().join("samples.csv");
        write_samples(&file, None, &measured.report).expect("written");
        write_samples(&file, Some("0-1"), &measured.report).expect("written");
        let text = std::fs::read_to_string(home.path().join("samples.0-1.csv")).expect("there");
        assert_eq!(text, std::fs::read_to_string(file).expect("there"));
        assert!(text.starts_with("end_seconds,seconds,operations,per_second"), "{text}");
        let nowhere = write_samples(&home.path().join("no/such"), None, &measured.report);
        assert!(nowhere.expect_err("no directory").to_string().contains("no/such"));
    }
}
