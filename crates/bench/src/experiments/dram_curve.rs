//! Run time of TPC-H under memory budgets that are halved step by step.
//!
//! One database is opened under one budget after the other, from one that holds everything down to
//! 32 MiB. Every visit runs the queries once to warm the cache up and once to measure them; the
//! order of the budgets changes from round to round. The sums of the medians make a curve over the
//! budget. It must have no cliff: the cache of the pool and the pinned memory of operators shrink
//! gradually with the budget.

use serde::Serialize;
use terrace_sql::{Engine, EngineConfig};
use terrace_sys::size::{GIB, MIB, format_bytes};

use crate::error::Result;
use crate::experiment::{Common, Experiment};
use crate::measure::{Scratch, median};
use crate::report::{Bars, Grid, Line, Lines, Panel, Picture, Report, Series};
use crate::setting::{Finding, Setting};
use crate::suite::load::{load, refused};
use crate::suite::timing::ours;
use crate::tpch::query::Query;
use crate::tpch::table::Table;

/// The smallest budget.
const LEAST_DRAM_BYTES: u64 = 32 * MIB;
/// Budget under which the tables are loaded.
const LOAD_DRAM_BYTES: u64 = GIB;
/// Ratio of the run time under half of a budget to that under the budget, above which the step
/// counts as a cliff.
const CLIFF: f64 = 1.5;

#[derive(Clone, Debug, Serialize)]
struct Row {
    dram_bytes: u64,
    query: u32,
    seconds: Option<f64>,
    error: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Config {
    scale: f64,
    threads: usize,
    rounds: usize,
    encoding: String,
}

/// Sum of the run times of all queries under one budget.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Point {
    dram_bytes: u64,
    seconds: f64,
    failed: usize,
    /// Run time relative to that with twice the budget, over the queries that succeeded under both.
    step: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    /// Points from the largest budget to the smallest.
    points: Vec<Point>,
    worst_step: Option<f64>,
    /// Number of steps of more than 1.5.
    cliffs: usize,
}

/// Experiment `dram-curve`: run time over the memory budget.
pub(crate) struct DramCurve;

impl Experiment for DramCurve {
    const NAME: &'static str = "dram-curve";
    const QUESTION: &'static str = "what does each halving of DRAM cost?";
    const COMMON: &'static [Common] = &Common::ALL;
    type Options = ();

    /// Runs the experiment.
    ///
    /// # Errors
    /// Fails if the tables cannot be loaded. A failed query is a row of the report.
    async fn run(setting: &Setting, (): &(), observe: &mut dyn FnMut(&str)) -> Result<Finding> {
        let encoding = setting.encoding.unwrap_or_default();
        let mut config = Config {
            scale: setting.scale,
            threads: setting.engine.threads,
            rounds: setting.rounds.get(),
            encoding: String::new(),
        };
        let home = Scratch::of(setting.engine.data_dir.as_deref(), "dram-curve")?;
        let open = |dram_bytes: u64| {
            let data_dir = Some(home.path().join("data"));
            let config = EngineConfig { dram_bytes, data_dir, ..setting.engine.clone() };
            Engine::open(&config).map_err(refused)
        };
        let engine = open(LOAD_DRAM_BYTES)?;
        let generator = setting.generator();
        let loading = |table: Table| observe(&format!("loading {table}"));
        config.encoding = load(&engine, &generator, encoding, loading).await?.encoding;
        engine.close().map_err(refused)?;
        let most = setting.ample_engine().dram_bytes;
        let budgets = budgets(most);
        let mut visits: Vec<Visit> = budgets.iter().map(|_| Visit::new(setting)).collect();
        for round in 0..setting.rounds.get() {
            for turn in 0..budgets.len() {
                let index = if round % 2 == 0 { turn } else { budgets.len() - 1 - turn };
                let engine = open(budgets[index])?;
                for measured in [false, true] {
                    let pass = if measured { "measured" } else { "warming up" };
                    let budget = format_bytes(budgets[index]);
                    observe(&format!("{budget}, round {}, {pass}", round + 1));
                    visits[index].pass(&engine, setting, measured).await?;
                }
                engine.close().map_err(refused)?;
            }
        }
        let rows: Vec<Row> = budgets.into_iter().zip(visits).flat_map(|(b, v)| v.rows(b)).collect();
        finding(&config, &rows)
    }
}

/// Returns the budgets from `most` down to [`LEAST_DRAM_BYTES`], each half of the one before.
fn budgets(most: u64) -> Vec<u64> {
    let halves = std::iter::successors(Some(most.max(LEAST_DRAM_BYTES)), |budget| Some(budget / 2));
    let mut budgets: Vec<u64> = halves.take_while(|bytes| *bytes > LEAST_DRAM_BYTES).collect();
    budgets.push(LEAST_DRAM_BYTES);
    budgets
}

/// Measurements of the queries under one budget.
struct Visit {
    queries: Vec<(u32, Vec<f64>, Option<String>)>,
}

impl Visit {
    fn new(setting: &Setting) -> Self {
        let queries = setting.queries.iter().map(|number| (*number, Vec::new(), None));
        Self { queries: queries.collect() }
    }

    async fn pass(&mut self, engine: &Engine, setting: &Setting, measured: bool) -> Result<()> {
        let session = engine.session().map_err(refused)?;
        for (number, times, error) in &mut self.queries {
            match ours(&session, &Query::of(*number)?.text(setting.scale)).await {
                Ok(timed) if measured => times.push(timed.seconds),
                Ok(_) => {}
                Err(failure) => *error = Some(failure.to_string()),
            }
        }
        Ok(())
    }

    fn rows(self, dram_bytes: u64) -> impl Iterator<Item = Row> {
        self.queries.into_iter().map(move |(query, times, error)| {
            let seconds = median(&times).filter(|_| error.is_none());
            Row { dram_bytes, query, seconds, error }
        })
    }
}

fn summarise(rows: &[Row]) -> Summary {
    let mut points: Vec<Point> = Vec::new();
    let of = |dram_bytes: u64| rows.iter().filter(move |row| row.dram_bytes == dram_bytes);
    for row in rows {
        if points.last().is_some_and(|point| point.dram_bytes == row.dram_bytes) {
            continue;
        }
        let seconds = of(row.dram_bytes).filter_map(|row| row.seconds).sum();
        let failed = of(row.dram_bytes).filter(|row| row.error.is_some()).count();
        let step = points.last().and_then(|above| {
            let pairs = of(above.dram_bytes).zip(of(row.dram_bytes));
            let pairs = pairs.filter_map(|(above, below)| above.seconds.zip(below.seconds));
            let (above, below) = pairs.fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y));
            (above > 0.0).then(|| below / above)
        });
        points.push(Point { dram_bytes: row.dram_bytes, seconds, failed, step });
    }
    let steps = || points.iter().filter_map(|point| point.step);
    let (worst_step, cliffs) =
        (steps().max_by(f64::total_cmp), steps().filter(|step| *step > CLIFF).count());
    Summary { points, worst_step, cliffs }
}

fn finding(config: &Config, rows: &[Row]) -> Result<Finding> {
    let summary = summarise(rows);
    let mut grid = Grid::new(["DRAM", "seconds", "failed", "over twice the DRAM"]);
    for point in &summary.points {
        grid.push([
            format_bytes(point.dram_bytes),
            format!("{:.3}", point.seconds),
            point.failed.to_string(),
            point.step.map_or("-".to_owned(), |step| format!("{step:.3}")),
        ]);
    }
    let failed = rows.iter().filter_map(|row| {
        let dram = format_bytes(row.dram_bytes);
        Some(format!("query {} in {dram}: {}", row.query, row.error.as_ref()?))
    });
    let worst = summary.worst_step.unwrap_or(f64::NAN);
    let last = format!(
        "worst step {worst:.3}, {} of more than {CLIFF}; medians of {} rounds, {} tables",
        summary.cliffs, config.rounds, config.encoding
    );
    Ok(Finding {
        failed: rows.iter().filter(|row| row.error.is_some()).count(),
        more: vec![Picture::new("curve", curve(config, &summary))],
        grid,
        notes: failed.chain([last]).collect(),
        picture: bars(config, &summary),
        report: Report::new(DramCurve::NAME, config, rows, &summary)?,
    })
}

fn title(config: &Config) -> String {
    format!("TPC-H scale {}, {} tables, seconds over DRAM", config.scale, config.encoding)
}

fn bars(config: &Config, summary: &Summary) -> Bars {
    let upwards = || summary.points.iter().rev();
    Bars {
        title: title(config),
        unit: "seconds, sum of the queries".into(),
        categories: upwards().map(|point| format_bytes(point.dram_bytes)).collect(),
        series: vec![Series {
            name: "terrace".into(),
            values: upwards().map(|point| Some(point.seconds)).collect(),
        }],
    }
}

fn curve(config: &Config, summary: &Summary) -> Lines {
    let halvings = |bytes: u64| f64::from(bytes.max(1).ilog2()) - f64::from(MIB.ilog2());
    let points = summary.points.iter().rev();
    let points = points.map(|point| (halvings(point.dram_bytes), point.seconds)).collect();
    Lines {
        panels: vec![Panel {
            title: title(config),
            x: "DRAM, log2 of MiB".into(),
            y: "seconds, sum of the queries".into(),
            lines: vec![Line { name: "terrace".into(), points }],
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_halve_down_to_the_least() {
        assert_eq!(budgets(256 * MIB), [256 * MIB, 128 * MIB, 64 * MIB, 32 * MIB]);
        assert_eq!(budgets(5 * MIB), [32 * MIB]);
        assert_eq!(budgets(100 * MIB), [100 * MIB, 50 * MIB, 32 * MIB]);
    }

    #[test]
    fn a_step_is_of_the_queries_that_both_ran() {
        let row = |dram_bytes, query, seconds: Option<f64>| Row {
            dram_bytes,
            query,
            seconds,
            error: seconds.is_none().then(|| "no memory".to_owned()),
        };
        let rows = [
            row(128 * MIB, 1, Some(1.0)),
            row(128 * MIB, 2, Some(5.0)),
            row(64 * MIB, 1, Some(2.0)),
            row(64 * MIB, 2, None),
            row(32 * MIB, 1, Some(2.2)),
            row(32 * MIB, 2, Some(9.0)),
        ];
        let summary = summarise(&rows);
        let steps: Vec<_> = summary.points.iter().map(|point| point.step).collect();
        assert_eq!(steps, [None, Some(2.0), Some(2.2 / 2.0)]);
        assert_eq!((summary.worst_step, summary.cliffs), (Some(2.0), 1));
        let encoding = "compact".to_owned();
        let config = Config { scale: 1.0, threads: 2, rounds: 3, encoding };
        let finding = finding(&config, &rows).expect("finding");
        assert_eq!(finding.failed, 1);
        assert!(finding.notes[0].contains("query 2 in 64MiB: no memory"), "{:?}", finding.notes);
    }
}
