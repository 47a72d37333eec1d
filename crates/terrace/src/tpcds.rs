//! `terrace tpcds`: generate, load, run and check TPC-DS.

use terrace_bench::suite::run::{Step, run as run_queries};
use terrace_bench::tpcds::QUERY_COUNT;
use terrace_bench::tpcds::judge::TpcdsJudge;
use terrace_bench::tpcds::table::Table;
use tokio::runtime::Runtime;

use crate::args::TpcdsArgs;
use crate::error::Result;
use crate::settings::Settings;
use crate::suite;

/// Runs the command.
///
/// # Errors
/// As [`suite::run`]; also if the texts of the queries cannot be found.
pub fn run(runtime: &Runtime, settings: &Settings, args: &TpcdsArgs) -> Result<()> {
    let queries = match args.queries.is_empty() {
        true => (1..=QUERY_COUNT).collect(),
        false => args.queries.clone(),
    };
    let source = (args.queries_dir.clone(), args.answers.into());
    let common = (runtime, settings, &args.suite);
    suite::run(common, "tpcds", queries, async |engine, plan, mut observe| {
        let source = (source.0.as_deref(), source.1);
        let preparing = |what| observe(Step::Prepare(what));
        let judge = TpcdsJudge::prepare(&plan.generator, source, &plan.queries, preparing).await?;
        run_queries::<Table>(engine, &plan, &judge, observe).await
    })
}
