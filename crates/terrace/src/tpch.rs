//! `terrace tpch`: generate, load, run and check TPC-H.

use terrace_bench::suite::run::{Step, run as run_queries};
use terrace_bench::tpch::judge::TpchJudge;
use terrace_bench::tpch::query::QUERIES;
use terrace_bench::tpch::table::Table;
use tokio::runtime::Runtime;

use crate::args::TpchArgs;
use crate::error::Result;
use crate::settings::Settings;
use crate::suite;

/// Runs the command.
///
/// # Errors
/// As [`suite::run`].
pub fn run(runtime: &Runtime, settings: &Settings, args: &TpchArgs) -> Result<()> {
    let common = (runtime, settings, &args.suite);
    let oracle = args.answers.into();
    suite::run(common, "tpch", chosen(&args.queries), async |engine, plan, mut observe| {
        let preparing = || observe(Step::Prepare("computing the answers to compare with"));
        let judge = TpchJudge::prepare(&plan.generator, oracle, &plan.queries, preparing);
        let judge = judge.await?;
        run_queries::<Table>(engine, &plan, &judge, observe).await
    })
}

/// Returns the numbers in `list`, or those of all queries if it is empty.
pub fn chosen(list: &[u32]) -> Vec<u32> {
    match list.is_empty() {
        true => QUERIES.iter().map(|query| query.number).collect(),
        false => list.to_vec(),
    }
}
