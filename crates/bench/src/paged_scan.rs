//! With ample DRAM, our tables against DataFusion's own in-memory tables.
//!
//! Both hold the same batches, and the planner has the same statistics for both ([`TwinTable`]).
//! Each query runs on one and then on the other, round after round, and the order within a pair
//! changes from round to round; medians are compared.

use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::prelude::{SessionConfig, SessionContext};
use serde::Serialize;
use terrace_sql::{Encoding, Engine, Session};
use terrace_sys::size::{GIB, format_bytes};

use crate::chart::{Bars, Series};
use crate::error::{BenchError, Result};
use crate::experiment::{Finding, Setting};
use crate::grid::Grid;
use crate::report::Report;
use crate::statistic::{geometric_mean, median};
use crate::suite::feed::Generator;
use crate::suite::load::{load, refused};
use crate::suite::reference::partitioned;
use crate::suite::table::Generated;
use crate::timing::{Timed, ours, theirs};
use crate::tpch::query::Query;
use crate::tpch::table::Table;
use crate::twin::TwinTable;

/// Budget per unit of scale: the tables are about 1.7 GiB in Arrow's layout, and all of them are to
/// stay in DRAM beside the working memory of any query.
const DRAM_BYTES_PER_SCALE: u64 = 5 * GIB;

#[derive(Clone, Debug, Serialize)]
struct Row {
    query: u32,
    ours_seconds: Option<f64>,
    theirs_seconds: Option<f64>,
    ratio: Option<f64>,
    error: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Config {
    scale: f64,
    dram_bytes: u64,
    threads: usize,
    rounds: usize,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    geometric_mean: Option<f64>,
    worst: Option<f64>,
    ours_seconds: f64,
    theirs_seconds: f64,
    failed: usize,
}

/// Runs the experiment.
///
/// # Errors
/// When the tables cannot be loaded; a query that fails is a row.
pub async fn run(setting: &Setting, observe: &mut dyn FnMut(&str)) -> Result<Finding> {
    let mut engine_config = setting.engine.clone();
    if !setting.dram_is_named {
        engine_config.dram_bytes = ample_dram(setting.scale);
    }
    let config = Config {
        scale: setting.scale,
        dram_bytes: engine_config.dram_bytes,
        threads: engine_config.threads,
        rounds: setting.rounds.get(),
    };
    let threads = NonZeroUsize::new(engine_config.threads).unwrap_or(NonZeroUsize::MIN);
    let engine = Engine::open(&engine_config).map_err(refused)?;
    let generator = Generator { program: setting.program.clone(), scale: setting.scale, threads };
    let loading = |table: Table| observe(&format!("loading {table}"));
    // Scans and operators are compared, and not how fast segments are decoded.
    load(&engine, &generator, Encoding::Plain, loading).await?;
    let session = engine.session().map_err(refused)?;
    let context = peer(&session, &generator, observe).await?;
    let mut rows = Vec::new();
    for number in &setting.queries {
        observe(&format!("query {number}"));
        rows.push(compare(&session, &context, Query::of(*number)?, setting).await);
    }
    finding(&config, &rows)
}

/// The budget that this scale is to have, in bytes.
pub(crate) fn ample_dram(scale: f64) -> u64 {
    let units = scale.max(1.0).ceil();
    (1..=100_000_u32)
        .find(|count| f64::from(*count) >= units)
        .map_or(DRAM_BYTES_PER_SCALE, |count| DRAM_BYTES_PER_SCALE.saturating_mul(u64::from(count)))
}

/// A plain session over in-memory tables with the statistics of ours.
async fn peer(
    session: &Session,
    generator: &Generator,
    observe: &mut dyn FnMut(&str),
) -> Result<SessionContext> {
    let config = SessionConfig::new().with_target_partitions(generator.threads.get());
    let context = SessionContext::new_with_config(config);
    let (feed, tables) = generator.start(&Table::ALL)?;
    for (table, mut incoming) in Table::ALL.into_iter().zip(tables) {
        observe(&format!("loading {table} for DataFusion"));
        let mut batches = Vec::new();
        while let Some(batch) = incoming.recv().await {
            batches.push(batch?);
        }
        let ours = session.context().table_provider(table.name()).await?;
        let statistics = ours.statistics().ok_or_else(|| {
            BenchError::Engine(format!("table {table} has no statistics to compare with"))
        })?;
        let partitions = partitioned(batches, generator.threads);
        let twin = TwinTable::new(ours.schema(), partitions, statistics)?;
        context.register_table(table.name(), Arc::new(twin))?;
    }
    feed.finish()?;
    Ok(context)
}

/// Runs a query on both, in turns. Either side's first error ends it.
async fn compare(
    session: &Session,
    context: &SessionContext,
    query: Query,
    setting: &Setting,
) -> Row {
    let text = query.text(setting.scale);
    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    let mut error = None;
    for round in 0..setting.rounds.get() {
        match pair(session, context, &text, round % 2 == 0).await {
            Ok((our, their)) => {
                our_times.push(our.seconds);
                their_times.push(their.seconds);
                if let Err(difference) = our.compare(&query, &their) {
                    error = Some(format!("not DataFusion's answer: {difference}"));
                }
            }
            Err(failure) => error = Some(failure.to_string()),
        }
    }
    let valid = |times: &[f64]| median(times).filter(|_| error.is_none());
    let (ours_seconds, theirs_seconds) = (valid(&our_times), valid(&their_times));
    let ratio = ours_seconds.zip(theirs_seconds).map(|(ours, theirs)| ours / theirs);
    Row { query: query.number, ours_seconds, theirs_seconds, ratio, error }
}

async fn pair(
    session: &Session,
    context: &SessionContext,
    text: &str,
    ours_first: bool,
) -> Result<(Timed, Timed)> {
    if ours_first {
        let our = ours(session, text).await?;
        return Ok((our, theirs(context, text).await?));
    }
    let their = theirs(context, text).await?;
    Ok((ours(session, text).await?, their))
}

fn finding(config: &Config, rows: &[Row]) -> Result<Finding> {
    let ratios: Vec<f64> = rows.iter().filter_map(|row| row.ratio).collect();
    let summary = Summary {
        geometric_mean: geometric_mean(&ratios),
        worst: ratios.iter().copied().max_by(f64::total_cmp),
        ours_seconds: rows.iter().filter_map(|row| row.ours_seconds).sum(),
        theirs_seconds: rows.iter().filter_map(|row| row.theirs_seconds).sum(),
        failed: rows.iter().filter(|row| row.error.is_some()).count(),
    };
    Ok(Finding {
        failed: summary.failed,
        more: Vec::new(),
        grid: grid(rows),
        notes: notes(config, rows, &summary),
        picture: picture(config, rows),
        report: Report::new("paged-scan", config, rows, &summary)?,
    })
}

fn grid(rows: &[Row]) -> Grid {
    let mut grid = Grid::new(["query", "terrace s", "DataFusion s", "ratio"]);
    let number = |value: Option<f64>| value.map_or("-".to_string(), |value| format!("{value:.3}"));
    for row in rows {
        let query = row.query.to_string();
        let times = [row.ours_seconds, row.theirs_seconds, row.ratio].map(number);
        grid.push(std::iter::once(query).chain(times));
    }
    grid
}

fn notes(config: &Config, rows: &[Row], summary: &Summary) -> Vec<String> {
    let mut notes: Vec<String> = rows
        .iter()
        .filter_map(|row| Some(format!("query {}: {}", row.query, row.error.as_ref()?)))
        .collect();
    notes.push(format!(
        "{:.3} s against {:.3} s; ratio: geometric mean {:.3}, worst {:.3}; medians of {} rounds, \
         budget {}",
        summary.ours_seconds,
        summary.theirs_seconds,
        summary.geometric_mean.unwrap_or(f64::NAN),
        summary.worst.unwrap_or(f64::NAN),
        config.rounds,
        format_bytes(config.dram_bytes)
    ));
    notes
}

fn picture(config: &Config, rows: &[Row]) -> Bars {
    let series = |name: &str, value: fn(&Row) -> Option<f64>| Series {
        name: name.to_string(),
        values: rows.iter().map(value).collect(),
    };
    Bars {
        title: format!("TPC-H scale {}, everything in DRAM", config.scale),
        unit: "seconds".into(),
        categories: rows.iter().map(|row| format!("Q{}", row.query)).collect(),
        series: vec![
            series("terrace", |row| row.ours_seconds),
            series("DataFusion in memory", |row| row.theirs_seconds),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(query: u32, ours: f64, theirs: f64) -> Row {
        Row {
            query,
            ours_seconds: Some(ours),
            theirs_seconds: Some(theirs),
            ratio: Some(ours / theirs),
            error: None,
        }
    }

    #[test]
    fn failed_queries_are_named_and_left_out_of_the_mean() {
        let config = Config { scale: 1.0, dram_bytes: GIB, threads: 2, rounds: 3 };
        let failed = Row {
            query: 9,
            ours_seconds: None,
            theirs_seconds: None,
            ratio: None,
            error: Some("no memory".into()),
        };
        let finding =
            finding(&config, &[row(1, 1.0, 2.0), row(2, 2.0, 1.0), failed]).expect("finding");
        assert_eq!(finding.report.summary["failed"], 1);
        let mean = finding.report.summary["geometric_mean"].as_f64().expect("mean");
        assert!((mean - 1.0).abs() < 1e-9);
        assert!(finding.notes[0].contains("query 9: no memory"));
        assert!(finding.grid.to_string().contains("0.500"));
    }

    #[test]
    fn the_budget_grows_with_the_scale() {
        assert_eq!(ample_dram(0.01), 5 * GIB);
        assert_eq!(ample_dram(1.0), 5 * GIB);
        assert_eq!(ample_dram(2.5), 15 * GIB);
    }
}
