//! Speed of the paged sort and of DataFusion's, all in DRAM, one thread, alternated.
//!
//! `cargo run --release -p terrace-exec --example sort_speed [rounds] [million rows]`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::array::{
    ArrayRef, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use datafusion::arrow::compute::SortOptions;
use datafusion::common::Result;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::col;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionConfig;
use futures::StreamExt;
use terrace_exec::sort::{Adaptivity, PagedSortExec};
use terrace_exec::{FixedMemory, QueryExtension};
use terrace_ledger::Ledger;
use terrace_pool::{Pool, PoolConfig};
use terrace_testkit::Rng;

const BATCH_ROWS: usize = 8192;

fn below(rng: &mut Rng, bound: u64) -> i64 {
    rng.below(bound).cast_signed()
}

fn batch(rng: &mut Rng, rows: usize) -> Result<RecordBatch> {
    let key: Int64Array = (0..rows).map(|_| below(rng, 1 << 40)).collect();
    let name: StringArray =
        (0..rows).map(|_| Some(format!("Customer#{:06}", below(rng, 50_000)))).collect();
    let price: Decimal128Array =
        (0..rows).map(|_| Some(i128::from(below(rng, 10_000_000)))).collect();
    let day: Int32Array = (0..rows).map(|_| i32::try_from(below(rng, 2500)).ok()).collect();
    let amount: Float64Array = (0..rows).map(|_| below(rng, 1000) as f64 / 7.0).collect();
    let columns: [(&str, ArrayRef); 5] = [
        ("key", Arc::new(key)),
        ("name", Arc::new(name)),
        ("price", Arc::new(price.with_precision_and_scale(15, 2)?)),
        ("day", Arc::new(day)),
        ("amount", Arc::new(amount)),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

struct Case {
    name: &'static str,
    keys: &'static [(&'static str, bool)],
    fetch: Option<usize>,
    columns: &'static [usize],
}

const CASES: &[Case] = &[
    Case {
        name: "int64, 4 more columns",
        keys: &[("key", false)],
        fetch: None,
        columns: &[0, 2, 3, 4],
    },
    Case {
        name: "int64, string and 3 more",
        keys: &[("key", false)],
        fetch: None,
        columns: &[0, 1, 2, 3, 4],
    },
    Case {
        name: "string, decimal desc",
        keys: &[("name", false), ("price", true)],
        fetch: None,
        columns: &[0, 1, 2, 3, 4],
    },
    Case {
        name: "int32, string",
        keys: &[("day", false), ("name", true)],
        fetch: None,
        columns: &[0, 1, 2, 3, 4],
    },
    Case {
        name: "int64, first 100",
        keys: &[("key", true)],
        fetch: Some(100),
        columns: &[0, 1, 2, 3, 4],
    },
    Case {
        name: "string, decimal, first 100",
        keys: &[("name", false), ("price", true)],
        fetch: Some(100),
        columns: &[0, 1, 2, 3, 4],
    },
    Case {
        name: "int64, first 100,000",
        keys: &[("key", true)],
        fetch: Some(100_000),
        columns: &[0, 1, 2, 3, 4],
    },
];

async fn rows(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<usize> {
    let mut stream = execute_stream(plan, context)?;
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        rows += batch?.num_rows();
    }
    Ok(rows)
}

fn plan(case: &Case, batches: &[RecordBatch]) -> Result<Arc<SortExec>> {
    let batches: Vec<_> =
        batches.iter().map(|it| it.project(case.columns)).collect::<Result<_, _>>()?;
    let schema = batches[0].schema();
    let keys = case.keys.iter().map(|(name, descending)| {
        let options = SortOptions { descending: *descending, nulls_first: false };
        Ok(PhysicalSortExpr::new(col(name, &schema)?, options))
    });
    let keys = keys.collect::<Result<Vec<_>>>()?;
    let input = MemorySourceConfig::try_new_exec(&[batches], Arc::clone(&schema), None)?;
    let order = LexOrdering::new(keys)
        .ok_or_else(|| datafusion::common::DataFusionError::Internal("no keys".to_owned()))?;
    Ok(Arc::new(SortExec::new(order, input).with_fetch(case.fetch)))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let rounds: usize = arguments.next().map_or(Ok(5), |it| it.parse())?;
    let million: usize = arguments.next().map_or(Ok(6), |it| it.parse())?;
    let pool = Pool::new(PoolConfig::new("speed", Ledger::new(8 << 30)))?;
    let memory = FixedMemory::new(pool.create_space("sort", None)?, 6 << 30);
    let config = SessionConfig::new()
        .with_batch_size(BATCH_ROWS)
        .with_extension(Arc::new(QueryExtension(Arc::new(memory))));
    let context = Arc::new(TaskContext::default().with_session_config(config));
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut rng = Rng::new(7);
    let batches: Vec<_> = (0..million * 1_000_000 / BATCH_ROWS)
        .map(|_| batch(&mut rng, BATCH_ROWS))
        .collect::<Result<_>>()?;
    for case in CASES {
        let mut best = [f64::MAX; 3];
        for round in 0..rounds {
            for turn in 0..3 {
                let which = (turn + round) % 3;
                // A fresh node each time: the filter of a limit keeps its state.
                let stock = plan(case, &batches)?;
                let node: Arc<dyn ExecutionPlan> = match which {
                    0 => stock,
                    1 => Arc::new(PagedSortExec::new(stock)),
                    _ => Arc::new(PagedSortExec::new(stock).with_adaptivity(Adaptivity::Oblivious)),
                };
                let start = Instant::now();
                runtime.block_on(rows(node, Arc::clone(&context)))?;
                best[which] = best[which].min(start.elapsed().as_secs_f64());
            }
        }
        let [stock, paged, oblivious] = best;
        println!(
            "{}: DataFusion {:.0} ms, paged {:.0} ms ({:.2}), oblivious {:.0} ms",
            case.name,
            stock * 1e3,
            paged * 1e3,
            paged / stock,
            oblivious * 1e3
        );
    }
    Ok(())
}
