//! Queries with paged operators against the same queries with DataFusion's operators, with ample
//! DRAM.
//!
//! Repeats the experiment of Otaki et al. ("Resource-Adaptive Query Execution with Paged Memory
//! Management", CIDR 2025, figure 5): the cost of keeping the state of operators in pages if memory
//! suffices for all of it. Both kinds of operators run in one engine over the same tables, with one
//! thread unless the user gives another number. One session has the paged operators switched on,
//! the other off.

use serde::Serialize;
use terrace_sql::{Encoding, Engine, Session};
use terrace_sys::size::format_bytes;

use crate::error::Result;
use crate::experiment::{Common, Experiment};
use crate::report::Report;
use crate::setting::{Conditions, Finding, Setting};
use crate::suite::load::{self, load, refused};
use crate::suite::timing::ours;
use crate::tpch::ab_run::{Duel, Row, Sum, Way, failures};
use crate::tpch::check::Precision;
use crate::tpch::query::Query;
use crate::tpch::table::Table;

/// Settings that select the operators.
const SWITCHES: [&str; 7] = [
    "paged_sort",
    "paged_aggregate",
    "paged_hash_join",
    "paged_loop_join",
    "paged_window",
    "paged_repartition",
    "paged_recursion",
];
/// Ratio beyond which a query counts as slow, as in the paper.
const SLOW: f64 = 1.5;
/// Number of queries slower than [`SLOW`], of 22, that the paper's figure 5b reports for its own
/// system.
const PUBLISHED_SLOW: usize = 7;

const WAYS: [Way; 2] =
    [Way { field: "paged", name: "paged" }, Way { field: "stock", name: "DataFusion's operators" }];
const DUEL: Duel = Duel(WAYS, Precision::Exact);

#[derive(Clone, Debug, Serialize)]
struct Summary {
    #[serde(flatten)]
    sum: Sum,
    /// Number of queries that took more than 1.5 times as long with paged operators.
    slow: usize,
    /// The same number in the paper.
    published_slow: usize,
}

/// Experiment `paged-operators`: run time of paged operators and of DataFusion's.
pub(crate) struct PagedOperators;

impl Experiment for PagedOperators {
    const NAME: &'static str = "paged-operators";
    const QUESTION: &'static str =
        "with ample DRAM, what do operators in pages cost over DataFusion's?";
    const COMMON: &'static [Common] = &Common::ALL;
    type Options = ();

    /// Runs the experiment.
    ///
    /// # Errors
    /// Fails if the tables cannot be loaded. A failed query is a row of the report.
    async fn run(setting: &Setting, (): &(), observe: &mut dyn FnMut(&str)) -> Result<Finding> {
        let mut engine_config = setting.ample_engine();
        if !setting.threads_is_named {
            engine_config.threads = 1;
        }
        let engine = Engine::open(&engine_config).map_err(refused)?;
        let generator = setting.generator();
        let loading = |table: Table| observe(&format!("loading {table}"));
        let encoding = setting.encoding.unwrap_or(Encoding::Plain);
        let loaded = load(&engine, &generator, encoding, loading).await?;
        let config = setting.conditions(&engine_config, &loaded.encoding);
        let sessions = [session(&engine, true).await?, session(&engine, false).await?];
        let mut rows = Vec::new();
        for number in &setting.queries {
            observe(&format!("query {number}"));
            let query = Query::of(*number)?;
            let mut run = async |way: usize, text: &str| ours(&sessions[way], text).await;
            rows.push(
                DUEL.compare(query, &query.text(setting.scale), setting.rounds, &mut run).await,
            );
        }
        finding(&config, &rows)
    }
}

async fn session(engine: &Engine, paged: bool) -> Result<Session> {
    let session = engine.session().map_err(refused)?;
    for switch in SWITCHES {
        load::run(&session, &format!("SET terrace.{switch} = {paged}")).await?;
    }
    Ok(session)
}

fn finding(config: &Conditions, rows: &[Row]) -> Result<Finding> {
    let slow = rows.iter().filter(|row| row.ratio.is_some_and(|ratio| ratio > SLOW)).count();
    let summary = Summary { sum: DUEL.sum(rows), slow, published_slow: PUBLISHED_SLOW };
    let mut notes = failures(rows);
    notes.push(format!(
        "{slow} of {} queries over {SLOW} times as long in pages; published: {PUBLISHED_SLOW} of \
         22",
        rows.len()
    ));
    notes.push(format!(
        "{}; medians of {} rounds, {} tables, threads {}, budget {}",
        summary.sum.in_words(),
        config.rounds,
        config.encoding,
        config.threads,
        format_bytes(config.dram_bytes)
    ));
    let title = format!(
        "TPC-H scale {}, {} tables in DRAM, {} thread(s)",
        config.scale, config.encoding, config.threads
    );
    Ok(Finding {
        failed: summary.sum.failed,
        more: Vec::new(),
        grid: DUEL.grid(rows),
        notes,
        picture: DUEL.picture(rows, title),
        report: Report::new(PagedOperators::NAME, config, rows, &summary)?,
    })
}
