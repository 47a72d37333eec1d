//! Compact tables against plain ones with ample DRAM: the cost of decoding, and the bytes saved.
//!
//! Both hold the same rows in the same order, each in an engine of its own. The size of a table is
//! the sum of its segments.

use serde::Serialize;
use terrace_sql::{Encoding, Engine, EngineConfig, Session};
use terrace_sys::size::format_bytes;

use crate::error::Result;
use crate::experiment::{Common, Experiment};
use crate::report::Report;
use crate::setting::{Conditions, Finding, Setting};
use crate::suite::load::{load, refused};
use crate::suite::table::Generated;
use crate::suite::timing::ours;
use crate::tpch::ab_run::{Duel, Row, Sum, Way, failures};
use crate::tpch::check::Precision;
use crate::tpch::query::Query;
use crate::tpch::table::Table;

const WAYS: [Way; 2] =
    [Way { field: "compact", name: "compact" }, Way { field: "plain", name: "plain" }];
const DUEL: Duel = Duel(WAYS, Precision::Exact);

/// Bytes of the segments of a table, in both encodings.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct TableBytes {
    table: String,
    compact_bytes: u64,
    plain_bytes: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    #[serde(flatten)]
    sum: Sum,
    compact_load_seconds: f64,
    plain_load_seconds: f64,
    compact_bytes: u64,
    plain_bytes: u64,
    tables: Vec<TableBytes>,
}

/// Engine with the tables in one encoding.
struct Side {
    engine: Engine,
    session: Session,
    load_seconds: f64,
}

/// Experiment `encodings`: queries over compact and over plain tables.
pub(crate) struct Encodings;

impl Experiment for Encodings {
    const NAME: &'static str = "encodings";
    const QUESTION: &'static str = "what do compact tables cost in time and save in bytes?";
    const COMMON: &'static [Common] = &[Common::Scale, Common::Rounds, Common::Queries];
    type Options = ();

    /// Runs the experiment.
    ///
    /// # Errors
    /// Fails if the tables cannot be loaded. A failed query is a row of the report.
    async fn run(setting: &Setting, (): &(), observe: &mut dyn FnMut(&str)) -> Result<Finding> {
        let engine = setting.ample_engine();
        let config = setting.conditions(&engine, "compact and plain");
        let compact = Side::prepare(&engine, setting, Encoding::Compact, observe).await?;
        let plain = Side::prepare(&engine, setting, Encoding::Plain, observe).await?;
        let mut rows = Vec::new();
        for number in &setting.queries {
            observe(&format!("query {number}"));
            let query = Query::of(*number)?;
            let sides = [&compact.session, &plain.session];
            let mut run = async |way: usize, text: &str| ours(sides[way], text).await;
            rows.push(
                DUEL.compare(query, &query.text(setting.scale), setting.rounds, &mut run).await,
            );
        }
        finding(&config, &rows, &compact, &plain)
    }
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
        let generator = setting.generator();
        let engine = Engine::open(&engine).map_err(refused)?;
        let loading = |table: Table| observe(&format!("loading {table} {encoding}"));
        let loaded = load(&engine, &generator, encoding, loading).await?;
        let session = engine.session().map_err(refused)?;
        Ok(Side { engine, session, load_seconds: loaded.seconds })
    }

    /// Returns the bytes of the segments of a table.
    fn bytes(&self, table: Table) -> u64 {
        let mut tables = self.engine.catalog().schemas().into_iter();
        let found = tables.find_map(|schema| self.engine.catalog().table(&schema, table.name()));
        let chunks = found.map(|table| table.snapshot().chunks.clone()).unwrap_or_default();
        let segments = chunks.iter().flat_map(|chunk| &chunk.columns);
        segments.map(|segment| segment.len_bytes()).sum()
    }
}

fn finding(config: &Conditions, rows: &[Row], compact: &Side, plain: &Side) -> Result<Finding> {
    let tables = Table::ALL.into_iter().map(|table| TableBytes {
        table: table.name().to_owned(),
        compact_bytes: compact.bytes(table),
        plain_bytes: plain.bytes(table),
    });
    let tables: Vec<_> = tables.collect();
    let summary = Summary {
        sum: DUEL.sum(rows),
        compact_load_seconds: compact.load_seconds,
        plain_load_seconds: plain.load_seconds,
        compact_bytes: tables.iter().map(|table| table.compact_bytes).sum(),
        plain_bytes: tables.iter().map(|table| table.plain_bytes).sum(),
        tables,
    };
    let title = format!("TPC-H scale {}, everything in DRAM", config.scale);
    Ok(Finding {
        failed: summary.sum.failed,
        more: Vec::new(),
        grid: DUEL.grid(rows),
        notes: notes(config, rows, &summary),
        picture: DUEL.picture(rows, title),
        report: Report::new(Encodings::NAME, config, rows, &summary)?,
    })
}

fn notes(config: &Conditions, rows: &[Row], summary: &Summary) -> Vec<String> {
    let mut notes = failures(rows);
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
        "{}; medians of {} rounds, budget {} each",
        summary.sum.in_words(),
        config.rounds,
        format_bytes(config.dram_bytes)
    ));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_named_with_its_bytes() {
        let table = "lineitem".to_owned();
        let summary = Summary {
            sum: DUEL.sum(&[]),
            compact_load_seconds: 2.0,
            plain_load_seconds: 1.0,
            compact_bytes: 1 << 20,
            plain_bytes: 4 << 20,
            tables: vec![TableBytes { table, compact_bytes: 1 << 20, plain_bytes: 4 << 20 }],
        };
        let config = Conditions {
            scale: 1.0,
            dram_bytes: 1 << 30,
            threads: 2,
            rounds: 3,
            encoding: String::new(),
        };
        let notes = notes(&config, &[], &summary);
        assert!(notes[0].contains("lineitem: 1MiB compact, 4MiB plain"), "{notes:?}");
        assert!(notes[1].contains("all tables: 1MiB compact, 4MiB plain"), "{notes:?}");
    }
}
