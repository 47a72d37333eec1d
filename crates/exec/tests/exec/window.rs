//! The paged window functions against DataFusion's.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use terrace_exec::window::PagedWindowExec;
use terrace_exec::{FixedMemory, QueryExtension};
use terrace_pool::Pool;
use terrace_testkit::{Rng, soak_rounds, with_seed};

use crate::common::{array, assert_freed, comes_to_be_empty, pool};

/// Number of cases that are run with one plan.
const CASES_A_PLAN: u64 = 25;

/// Functions, some of which can be computed in passes.
const FUNCTIONS: &[&str] = &[
    "sum(x) over (partition by p)",
    "count(*) over (partition by p)",
    "min(s) over (partition by p)",
    "avg(x) over ()",
    "max(x) filter (where x > 3) over (partition by p)",
    "ntile(3) over (partition by p order by o, id)",
    "ntile(100) over (order by o, id)",
    "percent_rank() over (partition by p order by o)",
    "cume_dist() over (partition by p order by o)",
    "percent_rank() over (partition by p, q order by o desc)",
    "last_value(x) over (partition by p order by o, id rows between unbounded preceding \
     and unbounded following)",
    "first_value(s) over (partition by p)",
    "first_value(x) ignore nulls over (partition by p)",
    "last_value(s) ignore nulls over (partition by p)",
    "first_value(x) over (partition by p order by o, id rows between unbounded preceding \
     and 1 following)",
    "last_value(s) over (partition by p order by o, id rows between current row and \
     unbounded following)",
    "first_value(s) ignore nulls over (partition by p order by o, id rows between unbounded \
     preceding and current row)",
    "sum(x) over (partition by p order by o, id rows between current row and \
     unbounded following)",
    "row_number() over (partition by p order by o, id)",
    "rank() over (partition by p order by o)",
    "dense_rank() over (partition by p order by o)",
    "lag(x, 2) over (partition by p order by o, id)",
];

fn batches(rng: &mut Rng) -> Vec<RecordBatch> {
    use datafusion::arrow::datatypes::DataType as T;
    let partitions = [1, 4, 300][rng.index(3)];
    let mut id = 0;
    let mut batch = |rng: &mut Rng| {
        let rows = 1 + rng.index(25);
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(id..id + rows as i64));
        id += rows as i64;
        let columns = [
            ("id", ids),
            ("p", array(rng, &T::Int64, rows, 10, partitions)),
            ("q", array(rng, &T::Utf8View, rows, 3, 3)),
            ("o", array(rng, &T::Int32, rows, 6, 20)),
            ("x", array(rng, &T::Int64, rows, 5, 1000)),
            ("s", array(rng, &T::Utf8, rows, 5, 1000)),
        ];
        let columns = columns.map(|(name, it)| (name, it, true));
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    };
    let count = 1 + rng.index(6);
    (0..count).map(|_| batch(rng)).collect()
}

/// Returns the plan over other rows.
fn over(plan: &Arc<dyn ExecutionPlan>, batches: &[RecordBatch]) -> Arc<dyn ExecutionPlan> {
    if plan.children().is_empty() {
        let partitions = &[batches.to_vec()];
        return MemorySourceConfig::try_new_exec(partitions, plan.schema(), None).unwrap();
    }
    let children = plan.children().into_iter().map(|child| over(child, batches)).collect();
    let plan = Arc::clone(plan).reset_state().unwrap();
    datafusion::physical_plan::replace_children_if_necessary(plan, children).unwrap()
}

/// Replaces the windows of a plan and counts them.
fn paged(plan: Arc<dyn ExecutionPlan>, count: &mut usize) -> Arc<dyn ExecutionPlan> {
    let children = plan.children().into_iter().cloned().collect::<Vec<_>>();
    let children = children.into_iter().map(|child| paged(child, count)).collect();
    let plan = datafusion::physical_plan::replace_children_if_necessary(plan, children).unwrap();
    let any: Arc<dyn std::any::Any + Send + Sync> = plan.clone();
    match any.downcast::<WindowAggExec>() {
        Ok(window) => {
            *count += 1;
            Arc::new(PagedWindowExec::new(window))
        }
        Err(_) => plan,
    }
}

fn with_memory(context: &TaskContext, memory: &FixedMemory) -> Arc<TaskContext> {
    let memory = Arc::new(QueryExtension(Arc::new(memory.clone())));
    let config = context.session_config().clone().with_extension(memory);
    Arc::new(TaskContext::default().with_session_config(config))
}

async fn text(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> String {
    let schema = plan.schema();
    let batches = collect(plan, context).await.unwrap();
    let all = concat_batches(&schema, &batches).unwrap();
    let mut lines: Vec<_> =
        pretty_format_batches(&[all]).unwrap().to_string().lines().map(str::to_owned).collect();
    lines.sort();
    lines.join("\n")
}

/// Plans a random query; planning takes longer than running.
async fn plan(rng: &mut Rng) -> (String, Arc<dyn ExecutionPlan>) {
    let config = SessionConfig::new().with_target_partitions(1 + rng.index(2));
    let context = SessionContext::new_with_config(config);
    let table = batches(rng);
    let table = MemTable::try_new(table[0].schema(), vec![table]).unwrap();
    context.register_table("t", Arc::new(table)).unwrap();
    let mut functions = String::new();
    for index in 0..=rng.index(3) {
        functions += &format!(", {} as f{index}", FUNCTIONS[rng.index(FUNCTIONS.len())]);
    }
    let query = format!("select *{functions} from t");
    let plan = context.sql(&query).await.unwrap().create_physical_plan().await.unwrap();
    (query, plan)
}

/// Returns the number of windows replaced, and the bytes unpinned.
async fn check(
    rng: &mut Rng,
    query: &str,
    plan: &Arc<dyn ExecutionPlan>,
    pool: &Pool,
    limit_bytes: u64,
) -> (usize, u64) {
    // Concatenated views have the buffers of all batches, and so has every slice of them: windows
    // on windows multiply them by the batches, which with one row each comes to tens of GiB.
    let config = SessionConfig::new().with_batch_size(8 + rng.index(200));
    let context = Arc::new(TaskContext::default().with_session_config(config));
    let batches = batches(rng);
    let mut count = 0;
    let replaced = paged(over(plan, &batches), &mut count);
    let memory = FixedMemory::new(pool.create_space("query", None).unwrap(), limit_bytes);
    let expected = text(over(plan, &batches), Arc::clone(&context)).await;
    let found = text(replaced, with_memory(&context, &memory)).await;
    assert!(found == expected, "{query}\n{found}\n{expected}");
    assert_freed(&memory, query);
    (count, memory.spilled_bytes())
}

#[test]
fn computes_as_datafusion_does() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    with_seed(|seed| {
        let mut rng = Rng::new(seed);
        let (pool, rounds) = (pool(16 << 20), soak_rounds(10_000));
        let (mut windows, mut spilled) = (0, 0);
        for _ in 0..rounds.div_ceil(CASES_A_PLAN) {
            let (query, plan) = runtime.block_on(plan(&mut rng));
            for _ in 0..CASES_A_PLAN {
                let limit = [16 << 20, 20 << 10, 0][rng.index(3)];
                let case = check(&mut rng, &query, &plan, &pool, limit);
                let (count, bytes) = runtime.block_on(case);
                windows += count;
                spilled += u64::from(bytes > 0);
            }
        }
        assert!(windows > 0);
        assert!(spilled * 4 > rounds, "{spilled} of {rounds} spilled");
        comes_to_be_empty(&pool);
    });
}

/// The first and the last value of a partition of 24 MB, with a megabyte of memory.
#[test]
fn edges_of_a_large_partition_stay_in_memory() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let config = SessionConfig::new().with_target_partitions(1);
        let context = SessionContext::new_with_config(config);
        let text = |row: i64| format!("{row} is the number of this row. ").repeat(8);
        let batches = (0..20).map(|batch| {
            let ids = batch * 5000..(batch + 1) * 5000;
            let texts = StringViewArray::from_iter_values(ids.clone().map(text));
            let texts: ArrayRef = Arc::new(texts);
            let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
            RecordBatch::try_from_iter([("id", ids), ("s", texts)]).unwrap()
        });
        let batches: Vec<_> = batches.collect();
        let table = MemTable::try_new(batches[0].schema(), vec![batches]).unwrap();
        context.register_table("t", Arc::new(table)).unwrap();
        let query = "select first_value(s) over w as f, last_value(id) over w as l, s from t \
                     window w as (order by id rows between unbounded preceding and \
                     unbounded following)";
        let plan = context.sql(query).await.unwrap().create_physical_plan().await.unwrap();
        let (pool, mut count) = (pool(64 << 20), 0);
        let plan = paged(plan, &mut count);
        assert_eq!(count, 1);
        let memory = FixedMemory::new(pool.create_space("query", None).unwrap(), 1 << 20);
        let mut stream = plan.execute(0, with_memory(&context.task_ctx(), &memory)).unwrap();
        let mut rows = 0;
        while let Some(batch) = stream.next().await {
            let batch = batch.unwrap();
            assert_eq!(batch.column(0).as_string_view().value(0), text(0));
            assert_eq!(batch.column(1).as_primitive::<Int64Type>().value(0), 99_999);
            rows += batch.num_rows();
        }
        assert_eq!(rows, 100_000);
        let peak = memory.peak_bytes();
        assert!(peak < 6 << 20, "{peak} bytes at a time");
    });
}
