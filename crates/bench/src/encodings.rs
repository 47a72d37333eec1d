//! With ample DRAM, compact tables against plain ones: what decoding costs, and what it saves.
//!
//! Both hold the same rows in the same order, each in an engine of its own. Each query runs on one
//! and then on the other, round after round, and the order within a pair changes from round to
//! round; medians are compared. The bytes of every table are those of its segments.

use std::num::NonZeroUsize;

use serde::Serialize;
use terrace_sql::{Encoding, Engine, EngineConfig, Session};
use terrace_sys::size::format_bytes;

use crate::chart::{Bars, Series};
use crate::error::Result;
use crate::experiment::{Finding, Setting};
use crate::grid::Grid;
use crate::paged_scan::ample_dram;
use crate::report::Report;
use crate::statistic::{geometric_mean, median};
use crate::suite::feed::Generator;
use crate::suite::load::{load, refused};
use crate::suite::table::Generated;
use crate::timing::{Timed, ours};
use crate::tpch::query::Query;
use crate::tpch::table::Table;

#[derive(Clone, Debug, Serialize)]
struct Row {
    query: u32,
    compact_seconds: Option<f64>,
    plain_seconds: Option<f64>,
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

/// The segments of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct TableBytes {
    table: String,
    compact_bytes: u64,
    plain_bytes: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    /// Sum of the times over compact tables by that over plain ones.
    ratio_of_sums: f64,
    geometric_mean: Option<f64>,
    worst: Option<f64>,
    compact_seconds: f64,
    plain_seconds: f64,
    failed: usize,
    compact_load_seconds: f64,
    plain_load_seconds: f64,
    compact_bytes: u64,
    plain_bytes: u64,
    tables: Vec<TableBytes>,
}

/// Tables of one encoding.
struct Side {
    engine: Engine,
    session: Session,
    load_seconds: f64,
}

/// Runs the experiment.
///
/// # Errors
/// When the tables cannot be loaded; a query that fails is a row.
pub async fn run(setting: &Setting, observe: &mut dyn FnMut(&str)) -> Result<Finding> {
    let mut engine = setting.engine.clone();
    if !setting.dram_is_named {
        engine.dram_bytes = ample_dram(setting.scale);
    }
    let config = Config {
        scale: setting.scale,
        dram_bytes: engine.dram_bytes,
        threads: engine.threads,
        rounds: setting.rounds.get(),
    };
    let compact = Side::prepare(&engine, setting, Encoding::Compact, observe).await?;
    let plain = Side::prepare(&engine, setting, Encoding::Plain, observe).await?;
    let mut rows = Vec::new();
    for number in &setting.queries {
        observe(&format!("query {number}"));
        rows.push(compare(&compact, &plain, Query::of(*number)?, setting).await);
    }
    finding(&config, &rows, &compact, &plain)
}

impl Side {
    async fn prepare(
        engine: &EngineConfig,
        setting: &Setting,
        encoding: Encoding,
        observe: &mut dyn FnMut(&str),
    ) -> Result<Side> {
        let data_dir = engine.data_dir.as_ref().map(|dir| dir.join(encoding.to_string()));
        let engine = EngineConfig { data_dir, ..engine.clone() };
        let threads = NonZeroUsize::new(engine.threads).unwrap_or(NonZeroUsize::MIN);
        let (program, scale) = (setting.program.clone(), setting.scale);
        let generator = Generator { program, scale, threads };
        let engine = Engine::open(&engine).map_err(refused)?;
        let loading = |table: Table| observe(&format!("loading {table} {encoding}"));
        let loaded = load(&engine, &generator, encoding, loading).await?;
        let session = engine.session().map_err(refused)?;
        Ok(Side { engine, session, load_seconds: loaded.seconds })
    }

    /// Bytes of the segments of a table.
    fn bytes(&self, table: Table) -> u64 {
        let mut tables = self.engine.catalog().schemas().into_iter();
        let found = tables.find_map(|schema| self.engine.catalog().table(&schema, table.name()));
        let chunks = found.map(|table| table.snapshot().chunks.clone()).unwrap_or_default();
        let segments = chunks.iter().flat_map(|chunk| &chunk.columns);
        segments.map(|segment| segment.len_bytes).sum()
    }
}

/// Runs a query on both, in turns. Either side's first error ends it.
async fn compare(compact: &Side, plain: &Side, query: Query, setting: &Setting) -> Row {
    let text = query.text(setting.scale);
    let (mut compact_times, mut plain_times) = (Vec::new(), Vec::new());
    let mut error = None;
    for round in 0..setting.rounds.get() {
        match pair(compact, plain, &text, round % 2 == 0).await {
            Ok((one, other)) => {
                compact_times.push(one.seconds);
                plain_times.push(other.seconds);
                if let Err(difference) = one.compare(&query, &other) {
                    error = Some(format!("not the answer of plain tables: {difference}"));
                }
            }
            Err(failure) => error = Some(failure.to_string()),
        }
    }
    let valid = |times: &[f64]| median(times).filter(|_| error.is_none());
    let (compact_seconds, plain_seconds) = (valid(&compact_times), valid(&plain_times));
    let ratio = compact_seconds.zip(plain_seconds).map(|(compact, plain)| compact / plain);
    Row { query: query.number, compact_seconds, plain_seconds, ratio, error }
}

async fn pair(
    compact: &Side,
    plain: &Side,
    text: &str,
    compact_first: bool,
) -> Result<(Timed, Timed)> {
    if compact_first {
        let one = ours(&compact.session, text).await?;
        return Ok((one, ours(&plain.session, text).await?));
    }
    let other = ours(&plain.session, text).await?;
    Ok((ours(&compact.session, text).await?, other))
}

fn finding(config: &Config, rows: &[Row], compact: &Side, plain: &Side) -> Result<Finding> {
    let tables = Table::ALL.into_iter().map(|table| TableBytes {
        table: table.name().to_owned(),
        compact_bytes: compact.bytes(table),
        plain_bytes: plain.bytes(table),
    });
    let load_seconds = [compact.load_seconds, plain.load_seconds];
    let summary = summarise(rows, tables.collect(), load_seconds);
    Ok(Finding {
        failed: summary.failed,
        more: Vec::new(),
        grid: grid(rows),
        notes: notes(config, rows, &summary),
        picture: picture(config, rows),
        report: Report::new("encodings", config, rows, &summary)?,
    })
}

fn summarise(rows: &[Row], tables: Vec<TableBytes>, load_seconds: [f64; 2]) -> Summary {
    let ratios: Vec<f64> = rows.iter().filter_map(|row| row.ratio).collect();
    let compact_seconds = rows.iter().filter_map(|row| row.compact_seconds).sum::<f64>();
    let plain_seconds = rows.iter().filter_map(|row| row.plain_seconds).sum::<f64>();
    let [compact_load_seconds, plain_load_seconds] = load_seconds;
    Summary {
        ratio_of_sums: compact_seconds / plain_seconds,
        geometric_mean: geometric_mean(&ratios),
        worst: ratios.iter().copied().max_by(f64::total_cmp),
        compact_seconds,
        plain_seconds,
        failed: rows.iter().filter(|row| row.error.is_some()).count(),
        compact_load_seconds,
        plain_load_seconds,
        compact_bytes: tables.iter().map(|table| table.compact_bytes).sum(),
        plain_bytes: tables.iter().map(|table| table.plain_bytes).sum(),
        tables,
    }
}

fn grid(rows: &[Row]) -> Grid {
    let mut grid = Grid::new(["query", "compact s", "plain s", "ratio"]);
    let number = |value: Option<f64>| value.map_or("-".to_string(), |value| format!("{value:.3}"));
    for row in rows {
        let query = row.query.to_string();
        let times = [row.compact_seconds, row.plain_seconds, row.ratio].map(number);
        grid.push(std::iter::once(query).chain(times));
    }
    grid
}

fn notes(config: &Config, rows: &[Row], summary: &Summary) -> Vec<String> {
    let mut notes: Vec<String> = rows
        .iter()
        .filter_map(|row| Some(format!("query {}: {}", row.query, row.error.as_ref()?)))
        .collect();
    notes.extend(summary.tables.iter().map(|table| {
        let (compact, plain) = (table.compact_bytes, table.plain_bytes);
        format!("{}: {} compact, {} plain", table.table, format_bytes(compact), format_bytes(plain))
    }));
    notes.push(format!(
        "all tables: {} compact, {} plain; loaded in {:.1} s and {:.1} s",
        format_bytes(summary.compact_bytes),
        format_bytes(summary.plain_bytes),
        summary.compact_load_seconds,
        summary.plain_load_seconds,
    ));
    notes.push(format!(
        "{:.3} s against {:.3} s, {:.3} of it; ratio: geometric mean {:.3}, worst {:.3}; medians \
         of {} rounds, budget {} each",
        summary.compact_seconds,
        summary.plain_seconds,
        summary.ratio_of_sums,
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
            series("compact", |row| row.compact_seconds),
            series("plain", |row| row.plain_seconds),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_leave_failed_queries_out_and_name_them() {
        let row = |query, compact, plain| Row {
            query,
            compact_seconds: Some(compact),
            plain_seconds: Some(plain),
            ratio: Some(compact / plain),
            error: None,
        };
        let failed = Row {
            query: 9,
            compact_seconds: None,
            plain_seconds: None,
            ratio: None,
            error: Some("no memory".into()),
        };
        let rows = [row(1, 1.0, 2.0), row(2, 2.0, 1.0), failed];
        let table = "lineitem".to_owned();
        let tables = vec![TableBytes { table, compact_bytes: 1 << 20, plain_bytes: 4 << 20 }];
        let summary = summarise(&rows, tables, [2.0, 1.0]);
        assert!((summary.ratio_of_sums - 1.0).abs() < 1e-9);
        assert_eq!((summary.failed, summary.compact_bytes), (1, 1 << 20));
        let config = Config { scale: 1.0, dram_bytes: 1 << 30, threads: 2, rounds: 3 };
        let notes = notes(&config, &rows, &summary);
        assert!(notes[0].contains("query 9: no memory"), "{notes:?}");
        assert!(notes[1].contains("lineitem: 1MiB compact, 4MiB plain"), "{notes:?}");
        assert!(grid(&rows).to_string().contains("0.500"));
    }
}
