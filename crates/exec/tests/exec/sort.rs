//! The paged sort against DataFusion's.

use std::sync::Arc;
use std::task::Poll;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringViewArray, UInt64Array};
use datafusion::arrow::compute::{SortOptions, concat_batches};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::col;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream_partitioned};
use datafusion::prelude::SessionConfig;
use futures::{StreamExt, poll};
use terrace_exec::merge::PagedMergeExec;
use terrace_exec::sort::{Adaptivity, PagedSortExec, SortSizes};
use terrace_exec::{FixedMemory, QueryExtension};
use terrace_pool::Pool;
use terrace_testkit::{Rng, soak_rounds, with_seed};
use tokio::task::coop::unconstrained;

use crate::common::{array, assert_freed, comes_to_be_empty, memory, pool, types};

const KIB: u64 = 1 << 10;

/// Returns partitions of random rows; column `id` is unique.
fn input(rng: &mut Rng, data_types: &[DataType]) -> Vec<Vec<RecordBatch>> {
    let (nulls, distinct) = ([0, 3, 50][rng.index(3)], [3, 40, 1_000_000][rng.index(3)]);
    let mut id = 0;
    let partitions = 1 + rng.index(3);
    let batches = rng.index(9);
    let all = (0..partitions).map(|_| {
        let batches = (0..=batches).map(|_| {
            let rows = if rng.one_in(5) { rng.index(3) } else { rng.index(120) };
            let extra = rng.index(4);
            let ids = UInt64Array::from_iter_values((0..rows as u64).map(|row| id + row));
            id += rows as u64;
            let mut columns: Vec<(String, ArrayRef)> = vec![("id".to_owned(), Arc::new(ids))];
            for (index, data_type) in data_types.iter().enumerate() {
                // Sliced, so that offsets are not always zero.
                let column = array(rng, data_type, rows + extra, nulls, distinct);
                columns.push((format!("c{index}"), column.slice(extra, rows)));
            }
            let columns = columns.into_iter().map(|(name, it)| (name, it, true));
            RecordBatch::try_from_iter_with_nullable(columns).unwrap()
        });
        batches.collect()
    });
    all.collect()
}

fn order(rng: &mut Rng, schema: &SchemaRef, keys: usize) -> LexOrdering {
    let keys = (0..keys).map(|index| {
        let options = SortOptions { descending: rng.one_in(2), nulls_first: rng.one_in(2) };
        PhysicalSortExpr::new(col(&format!("c{index}"), schema).unwrap(), options)
    });
    LexOrdering::new(keys).unwrap()
}

fn context(memory: &FixedMemory, batch_rows: usize) -> Arc<TaskContext> {
    let memory = QueryExtension(Arc::new(memory.clone()));
    let config = SessionConfig::new().with_batch_size(batch_rows).with_extension(Arc::new(memory));
    Arc::new(TaskContext::default().with_session_config(config))
}

async fn run(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Vec<RecordBatch> {
    let schema = plan.schema();
    let mut results = Vec::new();
    for mut stream in execute_stream_partitioned(plan, context).unwrap() {
        let mut batches = Vec::new();
        while let Some(batch) = stream.next().await {
            batches.push(batch.unwrap());
        }
        results.push(concat_batches(&schema, &batches).unwrap());
    }
    results
}

/// Returns the rows of some columns as comparable bytes.
fn rows(batch: &RecordBatch, options: impl Fn(usize) -> Option<SortOptions>) -> Vec<OwnedRow> {
    let wanted = (0..batch.num_columns()).filter_map(|column| Some((column, options(column)?)));
    let (columns, fields): (Vec<ArrayRef>, Vec<SortField>) = wanted
        .map(|(column, options)| {
            let array = batch.column(column).clone();
            let field = SortField::new_with_options(array.data_type().clone(), options);
            (array, field)
        })
        .unzip();
    let rows = RowConverter::new(fields).unwrap().convert_columns(&columns).unwrap();
    rows.iter().map(|row| row.owned()).collect()
}

/// Asserts that `found` is as correct as `expected`: rows of equal keys may be swapped, and the
/// last rows of a limit may be others with the same key.
///
/// DataFusion orders nested values in one way when it sorts a batch and in another when it merges
/// batches; for these only the order itself is checked.
fn assert_as_good(
    found: &RecordBatch,
    expected: &RecordBatch,
    order: &LexOrdering,
    input: &RecordBatch,
) {
    let option = |column: usize| order.get(column.checked_sub(1)?).map(|key| key.options);
    let in_order = rows(found, option);
    assert!(in_order.is_sorted(), "not in order");
    assert_eq!(found.num_rows(), expected.num_rows());
    let schema = found.schema();
    let keys = &schema.fields()[1..=order.len()];
    if !keys.iter().any(|key| key.data_type().is_nested()) {
        let expected = rows(expected, option);
        let differ = in_order.iter().zip(&expected).position(|(a, b)| a != b);
        assert_eq!(differ, None, "other keys; {order}, {schema}");
    }
    let all = |_| Some(SortOptions::default());
    let mut of_input = rows(input, all);
    of_input.sort();
    let mut of_found = rows(found, all);
    of_found.sort();
    of_found.windows(2).for_each(|pair| assert!(pair[0] < pair[1], "a row twice"));
    for row in &of_found {
        assert!(of_input.binary_search(row).is_ok(), "a row that did not come in");
    }
}

fn sizes(rng: &mut Rng) -> SortSizes {
    let piece_bytes = [600, 5_000, 2 << 20][rng.index(3)];
    SortSizes { piece_bytes, block_bytes: [500, 4096, 256 << 10][rng.index(3)] }
}

/// Sorts a random input, and compares; returns the bytes unpinned.
async fn check(rng: &mut Rng, pool: &Pool, limit_bytes: u64) -> u64 {
    let all = types();
    let count = 1 + rng.index(4);
    let data_types: Vec<_> = (0..count).map(|_| all[rng.index(all.len())].clone()).collect();
    let keys = 1 + rng.index(count.min(3));
    let partitions = input(rng, &data_types);
    let schema = partitions[0][0].schema();
    let source = MemorySourceConfig::try_new_exec(&partitions, schema.clone(), None).unwrap();
    let fetch = rng.one_in(3).then(|| 1 + rng.index(200));
    let order = order(rng, &schema, keys);
    let stock = || {
        let sort = SortExec::new(order.clone(), source.clone() as Arc<dyn ExecutionPlan>);
        Arc::new(sort.with_preserve_partitioning(true).with_fetch(fetch))
    };
    let memory = FixedMemory::new(pool.create_space("query", None).unwrap(), limit_bytes);
    let context = context(&memory, 1 + rng.index(100));
    let expected = run(stock(), Arc::clone(&context)).await;
    let paged = PagedSortExec::new(stock()).with_sizes(sizes(rng));
    let paged = match rng.one_in(8) && limit_bytes > 16 << 20 {
        true => paged.with_adaptivity(Adaptivity::Oblivious),
        false => paged,
    };
    let found = run(Arc::new(paged), context).await;
    let input = concat_batches(&schema, partitions.iter().flatten()).unwrap();
    for (found, expected) in found.iter().zip(&expected).filter(|_| fetch.is_none()) {
        assert_as_good(found, expected, &order, &input);
    }
    // Partitions share the boundary of a limit, so a single one may lack rows that no merge wants.
    // DataFusion's filter treats zeros of both signs as equal, which its sort does not, so the sort
    // without a limit is the reference.
    let all = |batches: &[RecordBatch]| {
        let all = concat_batches(&schema, batches).unwrap();
        let source = MemorySourceConfig::try_new_exec(&[vec![all]], schema.clone(), None).unwrap();
        Arc::new(SortExec::new(order.clone(), source as Arc<dyn ExecutionPlan>))
    };
    let plain = Arc::new(TaskContext::default());
    let found = run(all(&found), Arc::clone(&plain)).await.remove(0);
    let expected = run(all(std::slice::from_ref(&input)), plain).await.remove(0);
    let wanted = fetch.unwrap_or(usize::MAX).min(expected.num_rows());
    let found = found.slice(0, wanted.min(found.num_rows()));
    assert_as_good(&found, &expected.slice(0, wanted), &order, &input);
    assert_freed(&memory, "");
    memory.spilled_bytes()
}

#[test]
fn sorts_as_datafusion_does() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    with_seed(|seed| {
        let mut rng = Rng::new(seed);
        let pools = [(64 << 20, 64 << 20), (4 << 20, 64 * KIB), (2 << 20, 0)];
        let pools = pools.map(|(dram, limit)| (pool(dram), limit));
        let (rounds, mut spilled) = (soak_rounds(5_000), 0);
        for _ in 0..rounds {
            let (pool, limit) = &pools[[0, 1, 1, 2, 2, 2][rng.index(6)]];
            spilled += u64::from(runtime.block_on(check(&mut rng, pool, *limit)) > 0);
        }
        assert!(spilled * 3 > rounds, "{spilled} of {rounds} spilled");
        pools.iter().for_each(|(pool, _)| comes_to_be_empty(pool));
    });
}

/// Returns `rows` rows with an unsorted key, a number and a text each.
fn large(rows: usize) -> (Vec<RecordBatch>, SchemaRef) {
    let mut rng = Rng::new(3);
    let batches: Vec<_> = (0..rows / 1000)
        .map(|_| {
            let columns = [
                ("id", array(&mut rng, &DataType::Int64, 1000, 0, 1 << 40)),
                ("c0", array(&mut rng, &DataType::Int64, 1000, 9, 1 << 40)),
                ("c1", array(&mut rng, &DataType::Utf8View, 1000, 9, 1 << 40)),
            ];
            let columns = columns.map(|(name, it)| (name, it, true));
            RecordBatch::try_from_iter_with_nullable(columns).unwrap()
        })
        .collect();
    let schema = batches[0].schema();
    (batches, schema)
}

fn large_plan(rows: usize) -> Arc<PagedSortExec> {
    let (batches, schema) = large(rows);
    let order = order(&mut Rng::new(1), &schema, 1);
    let source = MemorySourceConfig::try_new_exec(&[batches], schema, None).unwrap();
    Arc::new(PagedSortExec::new(Arc::new(SortExec::new(order, source))))
}

#[tokio::test]
async fn memory_that_shrinks_and_suspensions_change_nothing() {
    let plan = large_plan(100_000);
    let (space, memory) = memory(8 << 20, 6 << 20);
    let expected = run(Arc::new(plan.stock().clone()), context(&memory, 700)).await;
    let mut stream = plan.execute(0, context(&memory, 700)).unwrap();
    let stopped = |seconds: f64| tokio::time::sleep(std::time::Duration::from_secs_f64(seconds));
    let mut batches = Vec::new();
    for round in 0.. {
        memory.suspend();
        tokio::select! {
            biased;
            item = stream.next() => {
                let Some(item) = item else { break };
                batches.push(item.unwrap());
            }
            () = stopped(0.002) => {
                assert_eq!(memory.held_bytes(), 0, "pins of a suspended query");
            }
        }
        memory.set_limit([6 << 20, 300 * KIB, 3 << 20][round % 3]);
        memory.resume();
        if round > 0 {
            let Some(item) = stream.next().await else { break };
            batches.push(item.unwrap());
        }
    }
    drop(stream);
    let found = concat_batches(&plan.schema(), &batches).unwrap();
    let is_key = |column| (column == 1).then(SortOptions::default);
    assert_eq!(rows(&found, is_key), rows(&expected[0], is_key));
    assert!(memory.spilled_bytes() > 0);
    assert_eq!(memory.held_bytes(), 0);
    comes_to_be_empty(space.pool_handle());
}

/// Also in the middle of merging pieces: nothing more is written, and the rest is merged
/// afterwards.
#[tokio::test]
async fn a_suspended_sort_stops_within_a_block() {
    let plan = large_plan(200_000);
    let (_space, memory) = memory(64 << 20, 4 << 20);
    let expected = run(Arc::new(plan.stock().clone()), context(&memory, 8192)).await;
    let mut stream = plan.execute(0, context(&memory, 8192)).unwrap();
    let (mut batches, mut stops) = (Vec::new(), 0);
    'rows: for step in 0.. {
        let is_stop = step % 7 == 0;
        if is_stop {
            memory.suspend();
        }
        // Polls until it yields, waits or emits a batch. The loop does not return to the runtime,
        // which would give it a new budget.
        for _ in 0..2 {
            match poll!(unconstrained(stream.next())) {
                Poll::Ready(None) => break 'rows,
                Poll::Ready(Some(batch)) => batches.push(batch.unwrap()),
                Poll::Pending => {}
            }
        }
        if is_stop {
            stops += 1;
            assert_eq!(memory.held_bytes(), 0, "after {} batches", batches.len());
            memory.resume();
        }
    }
    assert!(stops > 20, "{stops}");
    let found = concat_batches(&plan.schema(), &batches).unwrap();
    let is_key = |column| (column == 1).then(SortOptions::default);
    assert_eq!(rows(&found, is_key), rows(&expected[0], is_key));
}

/// A merge asks one sort after the other; those that it does not ask unpin as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_sorts_below_a_suspended_merge_unpin() {
    let parts: Vec<_> = (0..3).map(|_| large(60_000).0).collect();
    let schema = large(1000).1;
    let order = order(&mut Rng::new(1), &schema, 1);
    let source = MemorySourceConfig::try_new_exec(&parts, schema, None).unwrap();
    let sort = SortExec::new(order.clone(), source).with_preserve_partitioning(true);
    let sort: Arc<dyn ExecutionPlan> = Arc::new(PagedSortExec::new(Arc::new(sort)));
    let merge = PagedMergeExec::new(Arc::new(SortPreservingMergeExec::new(order, sort)));
    let (space, memory) = memory(32 << 20, 4 << 20);
    let mut stream = merge.execute(0, context(&memory, 100)).unwrap();
    let mut rows = 0;
    for _ in 0..5 {
        for _ in 0..50 {
            rows += stream.next().await.unwrap().unwrap().num_rows();
        }
        assert!(memory.held_bytes() > 1 << 20, "the heads of the runs are pinned");
        memory.suspend();
        let wait = std::time::Duration::from_millis(200);
        while let Ok(batch) = tokio::time::timeout(wait, stream.next()).await {
            rows += batch.unwrap().unwrap().num_rows();
        }
        let held = memory.held_bytes();
        assert!(held < 200 * KIB, "{held} bytes, more than the batches of the merge");
        memory.resume();
    }
    while let Some(batch) = stream.next().await {
        rows += batch.unwrap().num_rows();
    }
    assert_eq!(rows, 180_000);
    drop(stream);
    comes_to_be_empty(space.pool_handle());
}

#[tokio::test]
async fn small_memory_stays_small() {
    let plan = large_plan(200_000);
    let (_space, memory) = memory(16 << 20, 4 << 20);
    let found = run(plan, context(&memory, 8192)).await;
    assert_eq!(found[0].num_rows(), 200_000);
    assert!(memory.spilled_bytes() > 4 << 20, "{} spilled", memory.spilled_bytes());
    // A merge cannot go on without a block or two beyond the grant.
    assert!(memory.peak_bytes() <= 6 << 20, "{} at the peak", memory.peak_bytes());
}

/// A text that is a key is written once, in the encoded key: the sort spills no more than one of
/// the same rows by a number.
#[tokio::test]
async fn texts_that_are_keys_are_spilled_once() {
    const ROWS: usize = 100_000;
    let texts = |rows: std::ops::Range<usize>| -> StringViewArray {
        rows.map(|row| Some(format!("{:032}", row * 7919 % ROWS))).collect()
    };
    let batches: Vec<_> = (0..ROWS / 1000)
        .map(|batch| {
            let rows = batch * 1000..(batch + 1) * 1000;
            let numbers = rows.clone().map(|row| (row * 6101 % ROWS) as u64);
            let numbers = Arc::new(UInt64Array::from_iter_values(numbers));
            let columns: [(&str, ArrayRef, bool); 2] =
                [("number", numbers, true), ("text", Arc::new(texts(rows)), true)];
            RecordBatch::try_from_iter_with_nullable(columns).unwrap()
        })
        .collect();
    let schema = batches[0].schema();
    let mut spilled = Vec::new();
    for key in ["number", "text"] {
        let key = PhysicalSortExpr::new_default(col(key, &schema).unwrap());
        let input = std::slice::from_ref(&batches);
        let source = MemorySourceConfig::try_new_exec(input, schema.clone(), None).unwrap();
        let plan = SortExec::new(LexOrdering::from([key]), source);
        let (_space, memory) = memory(16 << 20, 1 << 20);
        let plan = Arc::new(PagedSortExec::new(Arc::new(plan)));
        let found = run(plan, context(&memory, 8192)).await;
        assert_eq!(found[0].num_rows(), ROWS);
        spilled.push(memory.spilled_bytes());
    }
    assert!(spilled[1] * 10 < spilled[0] * 12, "{spilled:?} bytes");
}

#[tokio::test]
async fn cancelled_at_any_batch_it_gives_everything_back() {
    let plan = large_plan(30_000);
    let (space, memory) = memory(4 << 20, 1 << 20);
    for batches in 0..6 {
        let mut stream = plan.clone().execute(0, context(&memory, 1000)).unwrap();
        for _ in 0..batches {
            stream.next().await.unwrap().unwrap();
        }
        drop(stream);
        assert_eq!(memory.held_bytes(), 0);
        comes_to_be_empty(space.pool_handle());
    }
}

#[tokio::test]
async fn merges_what_it_is_refused_memory_for() {
    let (batches, schema) = large(20_000);
    let order = order(&mut Rng::new(1), &schema, 1);
    let halves: Vec<_> = batches.chunks(10).map(<[_]>::to_vec).collect();
    let source = MemorySourceConfig::try_new_exec(&halves, schema, None).unwrap();
    let sort = SortExec::new(order.clone(), source).with_preserve_partitioning(true);
    let sort: Arc<dyn ExecutionPlan> = Arc::new(PagedSortExec::new(Arc::new(sort)));
    for fetch in [None, Some(7)] {
        let stock = SortPreservingMergeExec::new(order.clone(), Arc::clone(&sort));
        let stock = Arc::new(stock.with_fetch(fetch));
        let (space, memory) = memory(8 << 20, 0);
        let expected = run(stock.clone(), context(&memory, 700)).await;
        let found = run(Arc::new(PagedMergeExec::new(stock)), context(&memory, 700)).await;
        let is_key = |column| (column == 1).then(SortOptions::default);
        assert_eq!(rows(&found[0], is_key), rows(&expected[0], is_key));
        assert_eq!(memory.held_bytes(), 0);
        comes_to_be_empty(space.pool_handle());
    }
}
