//! Paged aggregation against DataFusion's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use datafusion::arrow::array::{Array, ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::TaskContext;
use datafusion::functions_aggregate as functions;
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{col, lit};
use datafusion::physical_expr::{LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{
    AggregateExec, AggregateMode, LimitOptions, PhysicalGroupBy,
};
use datafusion::physical_plan::displayable;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::prelude::SessionConfig;
use futures::StreamExt;
use terrace_exec::{AggregateOptions, FixedMemory, PagedAggregateExec, QueryExtension};
use terrace_pool::Pool;
use terrace_testkit::{Rng, soak_rounds, with_seed};

use crate::common::{array, assert_freed, comes_to_be_empty, pool, types};

const MIB: u64 = 1 << 20;

/// Returns the columns of the input after its keys.
fn value_fields() -> Vec<(&'static str, DataType)> {
    vec![
        ("i", DataType::Int64),
        ("f", DataType::Float64),
        ("d", DataType::Decimal128(20, 3)),
        ("e", DataType::Decimal64(12, 2)),
        ("t", DataType::Date32),
        ("s", DataType::Utf8View),
        ("b", DataType::Boolean),
        ("n", DataType::Int32),
        ("h", DataType::Float32),
    ]
}

/// Returns aggregates and the columns that they can take.
fn functions() -> Vec<(Arc<AggregateUDF>, &'static [&'static str])> {
    vec![
        (functions::count::count_udaf(), &["i", "s", "b", "1"]),
        (functions::sum::sum_udaf(), &["i", "f", "d", "e"]),
        (functions::average::avg_udaf(), &["f", "d", "e"]),
        (functions::min_max::min_udaf(), &["i", "d", "t", "s", "n", "b"]),
        (functions::min_max::max_udaf(), &["i", "e", "t", "s", "n"]),
        (own("sum"), &["i", "f", "d", "e"]),
        (own("avg"), &["f", "d", "e"]),
        (own("min"), &["i", "f", "d", "t", "s", "h"]),
        (own("max"), &["i", "f", "e", "t", "s", "h"]),
        (own("array_agg"), &["i", "s"]),
        (functions::bool_and_or::bool_and_udaf(), &["b"]),
        (functions::bool_and_or::bool_or_udaf(), &["b"]),
        (functions::bit_and_or_xor::bit_and_udaf(), &["i", "n"]),
        (functions::bit_and_or_xor::bit_or_udaf(), &["i", "n"]),
        (functions::bit_and_or_xor::bit_xor_udaf(), &["i", "n"]),
        (functions::median::median_udaf(), &["i", "d"]),
        (functions::percentile_cont::percentile_cont_udaf(), &["f"]),
        (functions::array_agg::array_agg_udaf(), &["i", "s"]),
        (functions::stddev::stddev_udaf(), &["f"]),
        (functions::approx_distinct::approx_distinct_udaf(), &["i", "s"]),
        (functions::first_last::first_value_udaf(), &["i", "s"]),
    ]
}

/// Returns a function that replaces one of DataFusion's; both nodes make their states with it.
fn own(name: &str) -> Arc<AggregateUDF> {
    let own = terrace_exec::functions::aggregates();
    own.into_iter().find(|own| own.name() == name).unwrap()
}

fn distinct_functions() -> Vec<(Arc<AggregateUDF>, &'static [&'static str])> {
    vec![
        (functions::count::count_udaf(), &["i", "s", "d"]),
        (functions::sum::sum_udaf(), &["i", "d"]),
        (functions::min_max::min_udaf(), &["i"]),
        (own("count"), &["i", "s", "h"]),
        (own("sum"), &["i", "d"]),
        (functions::average::avg_udaf(), &["f", "d"]),
        (functions::median::median_udaf(), &["i", "e"]),
        (functions::percentile_cont::percentile_cont_udaf(), &["f"]),
    ]
}

/// A random computation and its input.
struct Case {
    batches: Vec<RecordBatch>,
    group_by: PhysicalGroupBy,
    aggregates: Vec<Arc<AggregateFunctionExpr>>,
    filters: Vec<Option<Arc<dyn PhysicalExpr>>>,
    mode: AggregateMode,
}

impl Case {
    fn random(rng: &mut Rng, rows: usize) -> Self {
        let all = types();
        let keys = if rng.one_in(8) { 0 } else { 1 + rng.index(3) };
        let keys: Vec<DataType> = (0..keys).map(|_| all[rng.index(all.len())].clone()).collect();
        let (nulls, distinct) = (rng.below(4), [2, 30, 5000][rng.index(3)]);
        let batches = batches(rng, &keys, rows, nulls, distinct);
        let schema = batches[0].schema();
        let group_by = group_by(rng, &schema, keys.len());
        let least = usize::from(keys.is_empty());
        let aggregates: Vec<_> =
            (0..least + rng.index(5)).map(|n| aggregate(rng, &schema, n)).collect();
        let filter = |_: &_| rng.one_in(5).then(|| col("b", &schema).unwrap());
        let filters = aggregates.iter().map(filter).collect();
        let mode = match rng.below(3) {
            0 => AggregateMode::Final,
            1 if keys.is_empty() => AggregateMode::Final,
            1 => AggregateMode::FinalPartitioned,
            _ => AggregateMode::Single,
        };
        Self { batches, group_by, aggregates, filters, mode }
    }

    fn node(
        &self,
        mode: AggregateMode,
        group_by: PhysicalGroupBy,
        input: Arc<dyn ExecutionPlan>,
    ) -> Arc<AggregateExec> {
        let (aggregates, filters) = (self.aggregates.clone(), self.filters.clone());
        let schema = self.batches[0].schema();
        let node = AggregateExec::try_new(mode, group_by, aggregates, filters, input, schema);
        Arc::new(node.unwrap())
    }

    /// Returns DataFusion's node.
    fn stock(&self) -> Arc<AggregateExec> {
        let schema = self.batches[0].schema();
        let batches = self.batches.clone();
        let source = MemorySourceConfig::try_new_exec(&[batches], schema, None).unwrap();
        if self.mode == AggregateMode::Single {
            return self.node(AggregateMode::Single, self.group_by.clone(), source);
        }
        let partial = self.node(AggregateMode::Partial, self.group_by.clone(), source);
        let group_by = partial.group_expr().as_final();
        if self.mode == AggregateMode::Final {
            return self.node(AggregateMode::Final, group_by, partial);
        }
        let exchange = Partitioning::Hash(partial.output_group_expr(), 3);
        let exchange = RepartitionExec::try_new(partial, exchange).unwrap();
        self.node(AggregateMode::FinalPartitioned, group_by, Arc::new(exchange))
    }
}

fn batches(
    rng: &mut Rng,
    keys: &[DataType],
    rows: usize,
    nulls: u64,
    distinct: u64,
) -> Vec<RecordBatch> {
    let mut fields = Vec::new();
    for (n, key) in keys.iter().enumerate() {
        fields.push(Field::new(format!("k{n}"), key.clone(), true));
    }
    for (name, data_type) in value_fields() {
        fields.push(Field::new(name, data_type, true));
    }
    let schema = Arc::new(Schema::new(fields));
    let mut batches = Vec::new();
    let (mut left, most) = (rows, [30, 500][rng.index(2)]);
    loop {
        let len = if left == 0 { 0 } else { 1 + rng.index(left.min(most)) };
        left -= len;
        let columns = schema.fields().iter().enumerate().map(|(n, field)| {
            let distinct = if n < keys.len() { distinct } else { 1000 };
            let values = array(rng, field.data_type(), len, nulls, distinct);
            if field.name() == "f" { without_nan(&values) } else { values }
        });
        batches.push(RecordBatch::try_new(Arc::clone(&schema), columns.collect()).unwrap());
        if left == 0 {
            return batches;
        }
    }
}

/// Replaces NaN: a minimum of NaN and other values depends on the order of rows.
fn without_nan(values: &ArrayRef) -> ArrayRef {
    use datafusion::arrow::array::{AsArray, Float64Array};
    use datafusion::arrow::datatypes::Float64Type;
    let values = values.as_primitive::<Float64Type>();
    let values = values.iter().map(|v| v.map(|v| if v.is_nan() { 7.5 } else { v }));
    Arc::new(Float64Array::from_iter(values))
}

fn group_by(rng: &mut Rng, schema: &SchemaRef, keys: usize) -> PhysicalGroupBy {
    let names: Vec<String> = (0..keys).map(|n| format!("k{n}")).collect();
    let keys: Vec<_> =
        names.iter().map(|name| (col(name, schema).unwrap(), name.clone())).collect();
    if !rng.one_in(4) || keys.is_empty() {
        return PhysicalGroupBy::new_single(keys);
    }
    let null = |name: &String| {
        let data_type = schema.field_with_name(name).unwrap().data_type();
        (lit(ScalarValue::try_from(data_type).unwrap()), name.clone())
    };
    let nulls = names.iter().map(null).collect();
    let sets = 1 + rng.index(4);
    let sets = (0..sets).map(|_| names.iter().map(|_| rng.one_in(2)).collect()).collect();
    PhysicalGroupBy::new(keys, nulls, sets, true)
}

fn aggregate(rng: &mut Rng, schema: &SchemaRef, n: usize) -> Arc<AggregateFunctionExpr> {
    let distinct = rng.one_in(6);
    let all = if distinct { distinct_functions() } else { functions() };
    let (function, columns) = &all[rng.index(all.len())];
    let argument = match columns[rng.index(columns.len())] {
        "1" => lit(1_i64),
        column => col(column, schema).unwrap(),
    };
    let mut arguments = vec![argument];
    if **function == *functions::percentile_cont::percentile_cont_udaf() {
        arguments.push(lit([0.0, 0.25, 0.3, 0.5, 1.0][rng.index(5)]));
    }
    let builder = AggregateExprBuilder::new(Arc::clone(function), arguments)
        .schema(Arc::clone(schema))
        .alias(format!("a{n}"))
        .with_distinct(distinct);
    Arc::new(builder.build().unwrap())
}

fn context(memory: &FixedMemory, batch_rows: usize) -> Arc<TaskContext> {
    context_with(memory, SessionConfig::new().with_batch_size(batch_rows))
}

fn context_with(memory: &FixedMemory, config: SessionConfig) -> Arc<TaskContext> {
    let config = config.with_extension(Arc::new(QueryExtension(Arc::new(memory.clone()))));
    Arc::new(TaskContext::default().with_session_config(config))
}

async fn collect(plan: Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Result<RecordBatch> {
    let partitions = plan.properties().partitioning.partition_count();
    let mut batches = Vec::new();
    for partition in 0..partitions {
        let mut stream = plan.execute(partition, Arc::clone(context))?;
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            assert!(batch.num_rows() <= context.session_config().batch_size());
            assert_eq!(batch.schema(), plan.schema());
            batches.push(batch);
        }
    }
    Ok(concat_batches(&plan.schema(), &batches)?)
}

/// Rows as text, sorted; numbers to nine digits, for sums in another order. The elements of a set
/// have no order.
fn rows(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("null");
    let format = |column: &ArrayRef| {
        let formatter = ArrayFormatter::try_new(column, &options).unwrap();
        let text = |row| {
            let text = formatter.value(row).to_string();
            match text.parse::<f64>() {
                // The minimum of two zeros depends on DataFusion's choice of accumulator.
                Ok(0.0) => "0".to_owned(),
                Ok(number) if column.data_type().is_floating() => format!("{number:.9e}"),
                _ => text,
            }
        };
        (0..column.len()).map(text).collect::<Vec<_>>()
    };
    let columns: Vec<_> = batch.columns().iter().map(format).collect();
    let row = |row: usize| columns.iter().map(|c| c[row].clone()).collect::<Vec<_>>().join("|");
    let mut rows: Vec<String> = (0..batch.num_rows()).map(row).collect();
    rows.sort();
    rows
}

async fn compare(rng: &mut Rng, pool: &Pool, rows_max: usize, spilled: &AtomicU64) {
    let rows_in = rng.index(rows_max);
    let case = Case::random(rng, rows_in);
    let stock = case.stock();
    let options = AggregateOptions {
        oblivious: false,
        let_go_bytes_min: [64 << 10, 1 << 10, 0][rng.index(3)],
        piece_bytes: [256 << 10, 100, 0][rng.index(3)],
    };
    let paged = paged_all(stock.clone(), options);
    let has_keys = !stock.group_expr().is_true_no_grouping();
    let text = displayable(paged.as_ref()).indent(true).to_string();
    assert!(paged.is::<PagedAggregateExec>() || !has_keys, "not replaced: {text}");
    let space = pool.create_space("query", None).unwrap();
    let limit = [MIB << 10, 200 << 10, 20 << 10, 0][rng.index(4)];
    let memory = FixedMemory::new(space, limit);
    let mut config = SessionConfig::new().with_batch_size([3, 64, 8192][rng.index(3)]);
    let stock_context = context_with(&memory, config.clone());
    // Number of rows after which a partial aggregation may pass rows through. DataFusion's panics
    // then if there are percentiles.
    let judged = [100_000, 20][rng.index(2)];
    config.options_mut().execution.skip_partial_aggregation_probe_rows_threshold = judged;
    let context = context_with(&memory, config);
    let expected = collect(case.stock(), &stock_context).await.unwrap();
    if rng.one_in(20) {
        cancel(Arc::clone(&paged), &context, rng).await;
    } else {
        let found = collect(Arc::clone(&paged), &context).await;
        let found = found.unwrap_or_else(|error| panic!("{error} in {text}"));
        let (found, expected) = (rows(&found), rows(&expected));
        assert!(found == expected, "{text} limit {limit}\n{found:#?}\n{expected:#?}");
    }
    drop(paged);
    spilled.fetch_add(u64::from(memory.spilled_bytes() > 0), Ordering::Relaxed);
    assert_freed(&memory, &text);
}

/// Replaces every aggregation of the plan that can be replaced.
fn paged_all(plan: Arc<dyn ExecutionPlan>, options: AggregateOptions) -> Arc<dyn ExecutionPlan> {
    let children = plan.children().into_iter().map(|it| paged_all(Arc::clone(it), options));
    let plan = replace_children_if_necessary(Arc::clone(&plan), children.collect()).unwrap();
    let paged = plan.downcast_ref::<AggregateExec>();
    let paged = paged.map(|it| PagedAggregateExec::with_options(&Arc::new(it.clone()), options));
    paged.flatten().map_or(plan, |paged| Arc::new(paged))
}

/// Drops the streams after a random number of batches.
async fn cancel(plan: Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>, rng: &mut Rng) {
    let mut stream = plan.execute(0, Arc::clone(context)).unwrap();
    for _ in 0..rng.index(3) {
        if stream.next().await.is_none() {
            break;
        }
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

#[test]
fn random_aggregations_are_those_of_datafusion() {
    let pool = pool(32 * MIB);
    let spilled = AtomicU64::new(0);
    with_seed(|seed| {
        let mut rng = Rng::new(seed);
        block_on(async {
            for _ in 0..soak_rounds(5_000) {
                let rows_max = if rng.one_in(40) { 3000 } else { 150 };
                compare(&mut rng, &pool, rows_max, &spilled).await;
            }
        });
    });
    let spilled = spilled.into_inner();
    assert!(spilled * 25 > soak_rounds(5_000), "{spilled} cases spilled");
    comes_to_be_empty(&pool);
}

/// Rows of two keys and a number, most groups twice.
fn pairs(rows: usize) -> Case {
    let mut rng = Rng::new(7);
    let distinct = rows as u64 / 2;
    let batches = batches(&mut rng, &[DataType::Int64, DataType::Utf8], rows, 0, distinct);
    let schema = batches[0].schema();
    let keys = ["k0", "k1"].map(|name| (col(name, &schema).unwrap(), name.to_owned()));
    let aggregate = |function: Arc<AggregateUDF>, column: &str, name: &str, distinct| {
        let builder = AggregateExprBuilder::new(function, vec![col(column, &schema).unwrap()]);
        let builder = builder.schema(Arc::clone(&schema)).alias(name).with_distinct(distinct);
        Arc::new(builder.build().unwrap())
    };
    let aggregates = vec![
        aggregate(functions::sum::sum_udaf(), "d", "sum", false),
        aggregate(functions::count::count_udaf(), "i", "distinct", true),
        aggregate(functions::median::median_udaf(), "i", "median", false),
    ];
    let filters = vec![None; aggregates.len()];
    let group_by = PhysicalGroupBy::new_single(keys.to_vec());
    Case { batches, group_by, aggregates, filters, mode: AggregateMode::Single }
}

fn paged(case: &Case, options: AggregateOptions) -> Arc<dyn ExecutionPlan> {
    Arc::new(PagedAggregateExec::with_options(&case.stock(), options).unwrap())
}

#[test]
fn many_groups_pass_through_little_memory() {
    let pool = pool(32 * MIB);
    let memory = FixedMemory::new(pool.create_space("query", None).unwrap(), MIB);
    let (case, context) = (pairs(60_000), context(&memory, 1024));
    block_on(async {
        let expected = collect(case.stock(), &context).await.unwrap();
        let found = collect(paged(&case, AggregateOptions::default()), &context).await.unwrap();
        assert!(rows(&found) == rows(&expected));
    });
    assert!(memory.spilled_bytes() > 4 * MIB, "{} spilled", memory.spilled_bytes());
    assert!(memory.peak_bytes() < 6 * MIB, "{} at most", memory.peak_bytes());
    assert_eq!(memory.held_bytes(), 0);
}

/// One batch of groups, which alone would need several times the available memory.
#[test]
fn a_large_batch_is_taken_in_by_pieces() {
    let pool = pool(32 * MIB);
    let memory = FixedMemory::new(pool.create_space("query", None).unwrap(), MIB);
    let (mut case, context) = (pairs(100_000), context(&memory, 1024));
    // A sum has its state in the row; the heap of other aggregates is not measured here.
    (case.aggregates, case.filters) = (case.aggregates[..1].to_vec(), vec![None]);
    case.batches = vec![concat_batches(&case.batches[0].schema(), &case.batches).unwrap()];
    block_on(async {
        let expected = collect(case.stock(), &context).await.unwrap();
        let found = collect(paged(&case, AggregateOptions::default()), &context).await.unwrap();
        assert!(rows(&found) == rows(&expected));
    });
    assert!(memory.spilled_bytes() > 4 * MIB, "{} spilled", memory.spilled_bytes());
    assert!(memory.peak_bytes() < 3 * MIB, "{} at most", memory.peak_bytes());
}

#[test]
fn groups_on_their_way_out_are_not_pinned() {
    let pool = pool(64 * MIB);
    let memory = FixedMemory::new(pool.create_space("query", None).unwrap(), 64 * MIB);
    let (mut case, context) = (pairs(100_000), context(&memory, 1024));
    (case.aggregates, case.filters) = (case.aggregates[..1].to_vec(), vec![None]);
    block_on(async {
        let expected = collect(case.stock(), &context).await.unwrap();
        let plan = paged(&case, AggregateOptions::default());
        let mut stream = plan.execute(0, Arc::clone(&context)).unwrap();
        let mut batches = vec![stream.next().await.unwrap().unwrap()];
        assert!(memory.peak_bytes() > 4 * MIB, "{} at most", memory.peak_bytes());
        assert!(memory.held_bytes() < 64 << 10, "{} held", memory.held_bytes());
        while let Some(batch) = stream.next().await {
            batches.push(batch.unwrap());
        }
        let found = concat_batches(&plan.schema(), &batches).unwrap();
        assert!(rows(&found) == rows(&expected));
    });
    assert_eq!(memory.held_bytes(), 0);
}

#[test]
fn an_oblivious_node_neither_asks_nor_unpins() {
    let pool = pool(64 * MIB);
    let memory = FixedMemory::new(pool.create_space("query", None).unwrap(), MIB);
    let (case, context) = (pairs(20_000), context(&memory, 1024));
    block_on(async {
        let expected = collect(case.stock(), &context).await.unwrap();
        let options = AggregateOptions { oblivious: true, ..Default::default() };
        let found = collect(paged(&case, options), &context).await.unwrap();
        assert!(rows(&found) == rows(&expected));
    });
    assert!(memory.peak_bytes() > 2 * MIB, "{} at most", memory.peak_bytes());
    assert_eq!(memory.spilled_bytes(), 0);
}

#[test]
fn a_suspended_aggregation_lets_go_and_goes_on() {
    let pool = pool(32 * MIB);
    let memory = FixedMemory::new(pool.create_space("query", None).unwrap(), 64 * MIB);
    let (case, context) = (pairs(5_000), context(&memory, 512));
    block_on(async {
        let expected = collect(case.stock(), &context).await.unwrap();
        let plan = paged(&case, AggregateOptions::default());
        let mut stream = plan.execute(0, Arc::clone(&context)).unwrap();
        let mut batches = Vec::new();
        let wait = Duration::from_millis(20);
        for _ in 0..3 {
            memory.suspend();
            while let Ok(batch) = tokio::time::timeout(wait, stream.next()).await {
                batches.push(batch.unwrap().unwrap());
            }
            assert!(memory.held_bytes() < 64 << 10, "{} held", memory.held_bytes());
            memory.resume();
            batches.push(stream.next().await.unwrap().unwrap());
        }
        while let Some(batch) = stream.next().await {
            batches.push(batch.unwrap());
        }
        let found = concat_batches(&plan.schema(), &batches).unwrap();
        assert!(rows(&found) == rows(&expected));
    });
    assert_eq!(memory.held_bytes(), 0);
}

/// Returns a case with one key, `key(row)`, and a sum, in two steps.
fn in_two_steps(rows: i64, key: impl Fn(i64) -> i64) -> Case {
    let schema =
        Schema::new(["k", "i"].map(|name| Field::new(name, DataType::Int64, false)).to_vec());
    let schema = Arc::new(schema);
    let batches = (0..rows).step_by(8192).map(|from| {
        let numbers = from..rows.min(from + 8192);
        let keys = Int64Array::from_iter_values(numbers.clone().map(&key));
        let columns =
            vec![Arc::new(keys) as ArrayRef, Arc::new(Int64Array::from_iter_values(numbers))];
        RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
    });
    let sum =
        AggregateExprBuilder::new(functions::sum::sum_udaf(), vec![col("i", &schema).unwrap()]);
    let sum = sum.schema(Arc::clone(&schema)).alias("sum").build().unwrap();
    Case {
        batches: batches.collect(),
        group_by: PhysicalGroupBy::new_single(vec![(col("k", &schema).unwrap(), "k".to_owned())]),
        aggregates: vec![Arc::new(sum)],
        filters: vec![None],
        mode: AggregateMode::Final,
    }
}

/// Compares the whole result, then returns the peak bytes that the partial aggregation of a case
/// pinned, and the rows that it passed through.
fn partial(case: &Case) -> (usize, usize) {
    let pool = pool(128 * MIB);
    let memory = FixedMemory::new(pool.create_space("query", None).unwrap(), 128 * MIB);
    let context = context(&memory, 8192);
    let plan = paged_all(case.stock(), AggregateOptions::default());
    block_on(async {
        let expected = collect(case.stock(), &context).await.unwrap();
        let found = collect(Arc::clone(&plan), &context).await.unwrap();
        assert!(rows(&found) == rows(&expected));
    });
    assert_eq!(memory.held_bytes(), 0);
    let partial = plan.children()[0];
    assert!(partial.is::<PagedAggregateExec>());
    let metrics = partial.metrics().unwrap();
    let metric = |name: &str| metrics.sum_by_name(name).map_or(0, |value| value.as_usize());
    (metric("peak_pinned_bytes"), metric("skipped_aggregation_rows"))
}

#[test]
fn groups_whose_rows_come_together_are_handed_on_early() {
    let (peak, through) = partial(&in_two_steps(400_000, |row| row / 4));
    assert!(peak < 2 << 20, "{peak} bytes for 100,000 groups");
    assert_eq!(through, 0);
    // Groups whose rows are in random order are kept.
    let (peak, through) = partial(&in_two_steps(400_000, |row| {
        Rng::new(row.cast_unsigned()).below(100_000).cast_signed()
    }));
    assert!(peak > 4 << 20, "{peak} bytes for 100,000 groups");
    assert_eq!(through, 0);
}

#[test]
fn rows_that_are_groups_go_through_partial_aggregation() {
    let (peak, through) = partial(&in_two_steps(400_000, |row| row));
    assert!(peak < 16 << 20, "{peak} bytes for 400,000 groups");
    // DataFusion judges after 100,000 rows.
    assert_eq!(through, 400_000 - 13 * 8192);
}

/// The expressions that a function is ordered by are a part of its state.
#[test]
fn rows_go_through_with_what_their_functions_are_ordered_by() {
    let mut case = in_two_steps(200_000, |row| row);
    let schema = case.batches[0].schema();
    let column = |name: &str| col(name, &schema).unwrap();
    let first = functions::first_last::first_value_udaf();
    let first = AggregateExprBuilder::new(first, vec![column("i")]);
    let first = first.order_by(vec![PhysicalSortExpr::new_default(column("k"))]);
    let first = first.schema(Arc::clone(&schema)).alias("first").build().unwrap();
    case.aggregates.push(Arc::new(first));
    case.filters.push(None);
    let (_, through) = partial(&case);
    assert_eq!(through, 200_000 - 13 * 8192);
}

#[test]
fn what_streams_or_is_bounded_stays() {
    let mut case = pairs(10);
    let growing = case.aggregates.split_off(1);
    case.filters.truncate(1);
    let schema = case.batches[0].schema();
    let source = || {
        let batches = case.batches.clone();
        MemorySourceConfig::try_new_exec(&[batches], Arc::clone(&schema), None).unwrap()
    };
    let stays = |node: Arc<AggregateExec>| assert!(PagedAggregateExec::replace(&node).is_none());
    stays(case.node(AggregateMode::Single, PhysicalGroupBy::default(), source()));
    stays(case.node(AggregateMode::Partial, PhysicalGroupBy::default(), source()));
    let sort = PhysicalSortExpr::new_default(col("k0", &schema).unwrap());
    let sorted = SortExec::new(LexOrdering::new([sort]).unwrap(), source());
    stays(case.node(AggregateMode::Single, case.group_by.clone(), Arc::new(sorted)));
    let node = case.node(AggregateMode::Single, case.group_by.clone(), source());
    let limited = node.as_ref().clone().with_limit_options(Some(LimitOptions::new(3)));
    stays(Arc::new(limited));
    assert!(PagedAggregateExec::replace(&node).is_some());
    // States that grow with their group are long however few groups there are.
    (case.aggregates, case.filters) = (growing, vec![None; 2]);
    let node = case.node(AggregateMode::Single, PhysicalGroupBy::default(), source());
    assert!(PagedAggregateExec::replace(&node).is_some());
}
