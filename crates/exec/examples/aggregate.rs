//! Speed of paged aggregation and of DataFusion's, in ample memory, alternated in one run. Seconds
//! are the thread's time on a processor.
//!
//! `cargo run --release -p terrace-exec --example aggregate [ROUNDS] [NAME]`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch};
use datafusion::arrow::array::{StringArray, StringViewArray};
use datafusion::common::{DataFusionError, Result};
use datafusion::config::ConfigOptions;
use datafusion::datasource::MemTable;
use datafusion::execution::TaskContext;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use terrace_exec::{ExecError, FixedMemory, PagedOperators, QueryExtension};
use terrace_ledger::Ledger;
use terrace_pool::{Pool, PoolConfig};

// The allocator of the program `terrace`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const ROWS: usize = 6_000_000;
const BATCH: usize = 8192;

/// A name, a query, and the key columns of its table.
type Case = (&'static str, &'static str, fn(usize, usize) -> Vec<(&'static str, ArrayRef)>);

const CASES: &[Case] = &[
    (
        "q1: 2 chars, 4 groups, 8 aggregates",
        "select a, b, sum(p), sum(q), sum(r), sum(s), avg(p), avg(q), avg(r), count(*) \
         from t group by a, b",
        chars,
    ),
    ("int64, 1.5 M groups, sum and count", "select k, sum(p), count(*) from t group by k", one),
    ("2 int64, 3 M groups, sum", "select k, l, sum(p) from t group by k, l", two),
    ("string view, 500 k groups, sum", "select s0, sum(p) from t group by s0", views),
    (
        "string, 500 k groups, min, max, avg",
        "select s0, min(p), max(p), avg(p) from t group by s0",
        strings,
    ),
    ("int64, 1000 groups, sum and count", "select k, sum(p), count(*) from t group by k", few),
    ("int64, 4 groups, sum", "select k, sum(p) from t group by k", tiny),
    ("int64, 4 groups, min, max, avg", "select k, min(p), max(p), avg(p) from t group by k", tiny),
    ("int64, 5 M groups, no aggregate", "select distinct k from t", unique),
    ("string view, 4 groups, count", "select a, count(*) from t group by a", chars),
    (
        "int64 and string, 500 k groups, sum",
        "select k, s0, sum(p) from t group by k, s0",
        |from, len| [one(from, len), views(from, len)].concat(),
    ),
    ("int64, 1000 groups, count distinct", "select k, count(distinct l) from t group by k", pair),
    (
        "int64, 100 k groups, distinct and sum",
        "select l, count(distinct k), sum(p) from t group by l",
        pair,
    ),
    ("2 int64, 4000 groups, max", "select k, j, max(p) from t group by k, j", |from, len| {
        vec![("k", integers(from, len, 1000)), ("j", integers(from + 7, len, 4))]
    }),
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let rounds = arguments.next().and_then(|rounds| rounds.parse().ok()).unwrap_or(5);
    let name = arguments.next().unwrap_or_default();
    let cases = CASES.iter().filter(|case| case.0.contains(&name));
    let mut ratios = Vec::new();
    for (name, query, keys) in cases {
        ratios.push(case(name, query, *keys, rounds).await?);
    }
    let mean = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64;
    println!("geometric mean {:.3}", mean.exp());
    Ok(())
}

/// Returns the seconds that this thread was on a processor: preemption by other threads does not
/// count.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|text| text.parse::<f64>().ok());
    nanoseconds.unwrap_or_default() / 1e9
}

async fn case(
    name: &str,
    query: &str,
    keys: fn(usize, usize) -> Vec<(&'static str, ArrayRef)>,
    rounds: usize,
) -> Result<f64> {
    let pool =
        Pool::new(PoolConfig::new("example", Ledger::new(4 << 30))).map_err(ExecError::from)?;
    let space = pool.create_space("aggregate", None).map_err(ExecError::from)?;
    let memory = FixedMemory::new(space, 4 << 30);
    let config = SessionConfig::new()
        .with_target_partitions(1)
        .with_extension(Arc::new(QueryExtension(Arc::new(memory.clone()))));
    let context = SessionContext::new_with_config(config);
    context.register_table("t", Arc::new(table(keys)?))?;
    let stock = context.sql(query).await?.create_physical_plan().await?;
    let paged = PagedOperators.optimize(Arc::clone(&stock), &ConfigOptions::new())?;
    let mut times = [Vec::new(), Vec::new()];
    let mut groups = [0, 0];
    for _ in 0..rounds {
        for (n, plan) in [&stock, &paged].into_iter().enumerate() {
            let start = cpu_seconds();
            groups[n] = run(plan, context.task_ctx()).await?;
            times[n].push(cpu_seconds() - start);
        }
    }
    let [stock, paged] = times.map(median);
    println!(
        "{name}: DataFusion {stock:.3} s, paged {paged:.3} s, ratio {:.2}; {} and {} groups, \
         {} MiB at most",
        paged / stock,
        groups[0],
        groups[1],
        memory.peak_bytes() >> 20,
    );
    Ok(paged / stock)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

async fn run(plan: &Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<usize> {
    let plan = Arc::clone(plan).reset_state()?;
    let mut stream = plan.execute(0, context)?;
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        rows += batch?.num_rows();
    }
    Ok(rows)
}

fn table(keys: fn(usize, usize) -> Vec<(&'static str, ArrayRef)>) -> Result<MemTable> {
    let mut batches = Vec::new();
    for from in (0..ROWS).step_by(BATCH) {
        let len = BATCH.min(ROWS - from);
        let mut columns = keys(from, len);
        for (index, name) in ["p", "q", "r", "s"].into_iter().enumerate() {
            let value = |n| i128::from(mix(n * 4 + index as u64) % 10_000_000);
            let values = Decimal128Array::from_iter_values(numbers(from, len).map(value));
            let values: ArrayRef = Arc::new(values.with_precision_and_scale(15, 2)?);
            columns.push((name, values));
        }
        batches.push(RecordBatch::try_from_iter(columns)?);
    }
    let schema = batches.first().map(RecordBatch::schema);
    let schema = schema.ok_or_else(|| DataFusionError::Internal("no rows".into()))?;
    MemTable::try_new(schema, vec![batches])
}

fn numbers(from: usize, len: usize) -> impl Iterator<Item = u64> {
    (from as u64..).take(len)
}

/// Returns a pseudo-random number of 32 bits.
fn mix(n: u64) -> u64 {
    let n = (n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (n ^ (n >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32
}

fn integers(from: usize, len: usize, groups: u64) -> ArrayRef {
    let values = numbers(from, len).map(|n| (mix(n) % groups) as i64);
    Arc::new(Int64Array::from_iter_values(values))
}

fn one(from: usize, len: usize) -> Vec<(&'static str, ArrayRef)> {
    vec![("k", integers(from, len, 1_500_000))]
}

fn few(from: usize, len: usize) -> Vec<(&'static str, ArrayRef)> {
    vec![("k", integers(from, len, 1000))]
}

fn tiny(from: usize, len: usize) -> Vec<(&'static str, ArrayRef)> {
    vec![("k", integers(from, len, 4))]
}

fn unique(from: usize, len: usize) -> Vec<(&'static str, ArrayRef)> {
    vec![("k", integers(from, len, 30_000_000))]
}

fn pair(from: usize, len: usize) -> Vec<(&'static str, ArrayRef)> {
    vec![("k", integers(from, len, 1000)), ("l", integers(from + 5, len, 100_000))]
}

fn two(from: usize, len: usize) -> Vec<(&'static str, ArrayRef)> {
    let group = |n| mix(n) % 3_000_000;
    let k = numbers(from, len).map(|n| (group(n) / 4) as i64);
    let l = numbers(from, len).map(|n| (group(n) % 4) as i64);
    let k: ArrayRef = Arc::new(Int64Array::from_iter_values(k));
    vec![("k", k), ("l", Arc::new(Int64Array::from_iter_values(l)))]
}

fn chars(from: usize, len: usize) -> Vec<(&'static str, ArrayRef)> {
    let a = numbers(from, len).map(|n| ["A", "N", "R", "N"][(mix(n) % 4) as usize]);
    let b = numbers(from, len).map(|n| ["F", "F", "F", "O"][(mix(n) % 4) as usize]);
    let a: ArrayRef = Arc::new(StringViewArray::from_iter_values(a));
    vec![("a", a), ("b", Arc::new(StringViewArray::from_iter_values(b)))]
}

fn name(n: u64) -> String {
    format!("Customer#{:09}", mix(n) % 500_000)
}

fn views(from: usize, len: usize) -> Vec<(&'static str, ArrayRef)> {
    vec![("s0", Arc::new(StringViewArray::from_iter_values(numbers(from, len).map(name))))]
}

fn strings(from: usize, len: usize) -> Vec<(&'static str, ArrayRef)> {
    vec![("s0", Arc::new(StringArray::from_iter_values(numbers(from, len).map(name))))]
}
