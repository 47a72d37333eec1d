//! The paged window functions against DataFusion's.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use terrace_exec::window::PagedWindowExec;
use terrace_exec::{FixedMemory, QueryExtension};
use terrace_testkit::{Rng, soak_rounds, with_seed};

use crate::common::{array, comes_to_be_empty, memory};

/// Functions that are known in passes, and functions that are not.
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
    "sum(x) over (partition by p order by o, id rows between current row and \
     unbounded following)",
    "row_number() over (partition by p order by o, id)",
    "rank() over (partition by p order by o)",
    "dense_rank() over (partition by p order by o)",
    "lag(x, 2) over (partition by p order by o, id)",
];

fn table(rng: &mut Rng) -> MemTable {
    use datafusion::arrow::datatypes::DataType as T;
    let partitions = [1, 4, 300][rng.index(3)];
    let mut id = 0;
    let mut batch = |rng: &mut Rng| {
        let rows = 1 + rng.index(150);
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
    let count = 1 + rng.index(8);
    let batches: Vec<_> = (0..count).map(|_| batch(rng)).collect();
    MemTable::try_new(batches[0].schema(), vec![batches]).unwrap()
}

/// The plan with the windows replaced, and how many there were.
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

fn with_memory(context: &SessionContext, memory: &FixedMemory) -> Arc<TaskContext> {
    let memory = Arc::new(QueryExtension(Arc::new(memory.clone())));
    let task = context.task_ctx();
    let config = task.session_config().clone().with_extension(memory);
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

async fn check(rng: &mut Rng, limit_bytes: u64) -> usize {
    let config = SessionConfig::new()
        .with_batch_size(1 + rng.index(200))
        .with_target_partitions(1 + rng.index(2));
    let context = SessionContext::new_with_config(config);
    context.register_table("t", Arc::new(table(rng))).unwrap();
    let mut functions = String::new();
    for index in 0..=rng.index(3) {
        functions += &format!(", {} as f{index}", FUNCTIONS[rng.index(FUNCTIONS.len())]);
    }
    let query = format!("select *{functions} from t");
    // A plan can be run once, so there are two.
    let plan = async || context.sql(&query).await.unwrap().create_physical_plan().await.unwrap();
    let mut count = 0;
    let replaced = paged(plan().await, &mut count);
    let (space, memory) = memory(16 << 20, limit_bytes);
    let expected = text(plan().await, context.task_ctx()).await;
    let found = text(replaced, with_memory(&context, &memory)).await;
    assert!(found == expected, "{query}\n{found}\n{expected}");
    assert_eq!(memory.held_bytes(), 0);
    comes_to_be_empty(space.pool_handle());
    count
}

#[test]
fn computes_as_datafusion_does() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    with_seed(|seed| {
        let mut rng = Rng::new(seed);
        let mut windows = 0;
        for _ in 0..soak_rounds(200) {
            let limit = [16 << 20, 20 << 10, 0][rng.index(3)];
            windows += runtime.block_on(check(&mut rng, limit));
        }
        assert!(windows > 0);
    });
}
