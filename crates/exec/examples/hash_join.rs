//! Speed of the paged hash join and of DataFusion's, all in memory, on shapes like those of TPC-H.
//!
//! `cargo run --release -p terrace-exec --example hash_join`
//!
//! The two alternate; the table shows the median of each and their ratio.

#![allow(clippy::print_stdout, clippy::cast_possible_truncation, reason = "an example")]

use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::array::{
    Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringViewArray,
};
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::col;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::prelude::SessionConfig;
use futures::StreamExt;
use terrace_exec::{FixedMemory, PagedHashJoinExec, QueryExtension};
use terrace_ledger::Ledger;
use terrace_pool::{Pool, PoolConfig};

const ROUNDS: usize = 7;
const BATCH: usize = 8192;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let pool = Pool::new(PoolConfig::new("joins", Ledger::new(4 << 30)));
    let space = pool.and_then(|pool| pool.create_space("joins", None));
    let space = space.map_err(terrace_exec::ExecError::from)?;
    let memory = Arc::new(FixedMemory::new(space, 4 << 30));
    let config = SessionConfig::new()
        .with_batch_size(BATCH)
        .with_extension(Arc::new(QueryExtension(memory)));
    let context = Arc::new(TaskContext::default().with_session_config(config));
    let dense = |n: u64| n;
    let sparse = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8;
    let orders = 1_500_000;
    let shapes: [(&str, ArrayRef, ArrayRef, JoinType); 7] = [
        ("1.5 M dense", ints(orders, dense), ints(6_000_000, |n| n / 4), JoinType::Inner),
        ("1.5 M sparse", ints(orders, sparse), ints(6_000_000, |n| sparse(n / 4)), JoinType::Inner),
        (
            "1.5 M sparse, random",
            ints(orders, sparse),
            ints(6_000_000, |n| sparse(n * 7_368_787 % orders)),
            JoinType::Inner,
        ),
        (
            "10 k sparse",
            ints(10_000, sparse),
            ints(6_000_000, |n| sparse(n % 20_000)),
            JoinType::Inner,
        ),
        ("10 k dense", ints(10_000, dense), ints(6_000_000, |n| n % 20_000), JoinType::Inner),
        (
            "150 k strings",
            strings(150_000, dense),
            strings(1_500_000, |n| n % 200_000),
            JoinType::Inner,
        ),
        (
            "1.5 M sparse semi",
            ints(orders, sparse),
            ints(6_000_000, |n| sparse(n / 4)),
            JoinType::LeftSemi,
        ),
    ];
    for (name, build, probe, join_type) in shapes {
        compare(name, table(build, "b")?, table(probe, "p")?, join_type, &context).await?;
    }
    Ok(())
}

fn ints(rows: u64, key: impl Fn(u64) -> u64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values((0..rows).map(|n| key(n).cast_signed())))
}

fn strings(rows: u64, key: impl Fn(u64) -> u64) -> ArrayRef {
    let text = |n| format!("Customer#{:09}", key(n));
    Arc::new(StringViewArray::from_iter_values((0..rows).map(text)))
}

/// Returns a table of the key and two columns beside it.
fn table(key: ArrayRef, prefix: &str) -> Result<Arc<dyn ExecutionPlan>> {
    let rows = key.len();
    let number: ArrayRef = ints(rows as u64, |n| n * 3);
    let price: ArrayRef = Arc::new(Float64Array::from_iter_values((0..rows).map(|n| n as f64)));
    let field = |name: &str, it: &ArrayRef| {
        Field::new(format!("{prefix}{name}"), it.data_type().clone(), false)
    };
    let schema =
        Arc::new(Schema::new(vec![field("k", &key), field("n", &number), field("p", &price)]));
    let whole = RecordBatch::try_new(Arc::clone(&schema), vec![key, number, price])?;
    let batches: Vec<_> =
        (0..rows).step_by(BATCH).map(|n| whole.slice(n, BATCH.min(rows - n))).collect();
    Ok(MemorySourceConfig::try_new_exec(&[batches], schema, None)?)
}

async fn compare(
    name: &str,
    build: Arc<dyn ExecutionPlan>,
    probe: Arc<dyn ExecutionPlan>,
    join_type: JoinType,
    context: &Arc<TaskContext>,
) -> Result<()> {
    let on = vec![(col("bk", &build.schema())?, col("pk", &probe.schema())?)];
    let equality = NullEquality::NullEqualsNothing;
    let mode = PartitionMode::CollectLeft;
    let join =
        HashJoinExec::try_new(build, probe, on, None, &join_type, None, mode, equality, false)?;
    let stock = Arc::new(join);
    let Some(paged) = PagedHashJoinExec::new(Arc::clone(&stock)) else { return Ok(()) };
    let (stock, paged): (Arc<dyn ExecutionPlan>, Arc<dyn ExecutionPlan>) = (stock, Arc::new(paged));
    let mut times = [Vec::new(), Vec::new()];
    let mut rows = [0, 0];
    for round in 0..2 * ROUNDS {
        let which = round % 2;
        let plan = reset_plan_states(Arc::clone([&stock, &paged][which]))?;
        let start = Instant::now();
        let mut stream = plan.execute(0, Arc::clone(context))?;
        let mut count = 0;
        while let Some(batch) = stream.next().await {
            count += batch?.num_rows();
        }
        times[which].push(start.elapsed().as_secs_f64() * 1e3);
        rows[which] = count;
    }
    assert_eq!(rows[0], rows[1]);
    let median = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    let [stock, paged] = median;
    println!(
        "{name} {join_type}: {} rows, DataFusion {stock:.0} ms, paged {paged:.0} ms, ratio {:.2}",
        rows[0],
        paged / stock
    );
    Ok(())
}
