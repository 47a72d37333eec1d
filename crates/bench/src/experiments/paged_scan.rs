//! Terrace over its tables against DataFusion over its own in-memory tables, with ample DRAM.
//!
//! Both hold the same rows, Terrace's in Arrow's layout unless another encoding is given, and the
//! planner has the same statistics for both ([`TwinTable`]). The engines differ in more than the
//! scans: Terrace has paged operators, optimizer rules for join sides, and row filters that joins
//! push into scans. So the ratio compares engines, not scans.

mod memory_table;

use std::sync::Arc;

use datafusion::prelude::{SessionConfig, SessionContext};
use terrace_sql::{Encoding, Engine, Session};
use terrace_sys::size::format_bytes;

use crate::error::{BenchError, Result};
use crate::experiment::{Common, Experiment};
use crate::report::Report;
use crate::setting::{Conditions, Finding, Setting};
use crate::suite::feed::Generator;
use crate::suite::load::{load, refused};
use crate::suite::reference::partitioned;
use crate::suite::table::Generated;
use crate::suite::timing::{ours, theirs};
use crate::tpch::ab_run::{Duel, Row, Way, failures};
use crate::tpch::check::Precision;
use crate::tpch::query::Query;
use crate::tpch::table::Table;
use memory_table::TwinTable;

/// Note below the ratio: it compares engines, and not scans alone.
const ENGINES: &str = "terrace runs with its own operators, optimiser rules and filters of joins \
     at scans; DataFusion as it comes, with the statistics of terrace's tables";

const WAYS: [Way; 2] =
    [Way { field: "ours", name: "terrace" }, Way { field: "theirs", name: "DataFusion in memory" }];
const DUEL: Duel = Duel(WAYS, Precision::Digits);

/// Experiment `paged-scan`: Terrace over its tables, and DataFusion over in-memory tables.
pub(crate) struct PagedScan;

impl Experiment for PagedScan {
    const NAME: &'static str = "paged-scan";
    const QUESTION: &'static str =
        "with ample DRAM, are our tables as fast as DataFusion's in-memory ones?";
    const COMMON: &'static [Common] = &Common::ALL;
    type Options = ();

    /// Runs the experiment.
    ///
    /// # Errors
    /// Fails if the tables cannot be loaded. A failed query is a row of the report.
    async fn run(setting: &Setting, (): &(), observe: &mut dyn FnMut(&str)) -> Result<Finding> {
        let engine_config = setting.ample_engine();
        let engine = Engine::open(&engine_config).map_err(refused)?;
        let generator = setting.generator();
        let loading = |table: Table| observe(&format!("loading {table}"));
        // Plain tables have Arrow's layout, as DataFusion's tables do.
        let encoding = setting.encoding.unwrap_or(Encoding::Plain);
        let loaded = load(&engine, &generator, encoding, loading).await?;
        let config = setting.conditions(&engine_config, &loaded.encoding);
        let session = engine.session().map_err(refused)?;
        let context = peer(&session, &generator, observe).await?;
        let mut rows = Vec::new();
        for number in &setting.queries {
            observe(&format!("query {number}"));
            let query = Query::of(*number)?;
            let mut run = async |way: usize, text: &str| match way {
                0 => ours(&session, text).await,
                _ => theirs(&context, text).await,
            };
            rows.push(
                DUEL.compare(query, &query.text(setting.scale), setting.rounds, &mut run).await,
            );
        }
        finding(&config, &rows)
    }
}

/// Creates a DataFusion session over in-memory tables with the statistics of Terrace's tables.
async fn peer(
    session: &Session,
    generator: &Generator,
    observe: &mut dyn FnMut(&str),
) -> Result<SessionContext> {
    let mut config = SessionConfig::new().with_target_partitions(generator.threads.get());
    // Literals with a point are decimals on both sides.
    config.options_mut().sql_parser.parse_float_as_decimal = true;
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

fn finding(config: &Conditions, rows: &[Row]) -> Result<Finding> {
    let sum = DUEL.sum(rows);
    let mut notes = failures(rows);
    let budget = format_bytes(config.dram_bytes);
    notes.push(format!(
        "{}; medians of {} rounds, {} tables, {} threads, budget {budget}",
        sum.in_words(),
        config.rounds,
        config.encoding,
        config.threads
    ));
    notes.push(ENGINES.to_owned());
    let title = format!("TPC-H scale {}, {} tables in DRAM", config.scale, config.encoding);
    Ok(Finding {
        failed: sum.failed,
        more: Vec::new(),
        grid: DUEL.grid(rows),
        notes,
        picture: DUEL.picture(rows, title),
        report: Report::new(PagedScan::NAME, config, rows, &sum)?,
    })
}
