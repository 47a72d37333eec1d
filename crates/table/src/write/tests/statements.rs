//! Tests of the results of write statements without failures, and of their refusals.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int32Array, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{DFSchema, ScalarValue, exec_datafusion_err, stats::Precision};
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::{Expr, SessionContext, col, lit};
use futures::{StreamExt as _, stream};
use tempfile::TempDir;
use terrace_store::MemoryBlocks;
use terrace_testkit::{Rng, with_seed};

use crate::catalog::{IfExists, LABEL_BYTES};
use crate::chunk::{BLOCK_ROWS, CHUNK_ROWS};
use crate::error::SqlError;
use crate::statistics::prune;
use crate::table::Chunks;
use crate::test_support::{
    Database, array, batch, collect, int_schema, ints, memory, rows_of, stream_of, types,
};
use crate::write::{Assignment, Changes};

fn database() -> (TempDir, Database) {
    let directory = tempfile::tempdir().expect("tempdir");
    let blocks = Arc::new(MemoryBlocks::new(1 << 30));
    let database = Database::open(&directory.path().join("catalog.redb"), blocks);
    (directory, database.expect("open"))
}

fn physical(schema: &SchemaRef, expr: Expr) -> Arc<dyn PhysicalExpr> {
    let schema = DFSchema::try_from(schema.clone()).expect("schema");
    SessionContext::new().create_physical_expr(expr, &schema).expect("expression")
}

/// The statements of a transaction that add rows take the same time each, however many chunks there
/// are: they do not read the chunks of the versions before.
#[tokio::test]
async fn additions_read_no_chunks() {
    let (_directory, database) = database();
    let table = database.table("t", &int_schema()).await;
    let unread = Chunks::later(|| panic!("the chunks are read"));
    let mut version = Arc::new(table.version(0, 0, unread));
    let mut all = Changes::empty(&int_schema());
    for _ in 0..3 {
        all.then(Changes::empty(&int_schema()), &version);
        let saved = all.clone();
        version = Arc::new(table.version(0, 0, saved.kept_later(&version)));
    }
    assert_eq!(all.rows(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_of_any_size_become_full_blocks() {
    let (_directory, database) = database();
    let table = database.table("t", &int_schema()).await;
    let mut rng = Rng::new(7);
    let (mut batches, mut next) = (Vec::new(), 0);
    while next < 200_000 {
        let len = [1, 3, 100, 4_000, 8_192, 20_000][rng.index(6)];
        batches.push(ints(next..next + len));
        next += len;
    }
    let rows = stream_of(&int_schema(), batches);
    let count = table.append(rows, &memory()).await.expect("append");
    assert_eq!(count, u64::try_from(next).expect("positive"));
    let read = collect(&table).await.expect("read");
    let (last, full) = read.split_last().expect("blocks");
    assert!(full.iter().all(|block| block.num_rows() == BLOCK_ROWS), "blocks are full");
    assert!(last.num_rows() <= BLOCK_ROWS);
    assert!(table.snapshot().chunks.iter().rev().skip(1).all(|chunk| chunk.rows == CHUNK_ROWS));
    assert_eq!(rows_of(&table).await, (0..next).collect::<Vec<_>>());
    let expected = ints(0..next);
    let read = datafusion::arrow::compute::concat_batches(&int_schema(), &read).expect("concat");
    assert_eq!(read, expected);
    database.assert_no_leak();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_type_goes_through_a_table() {
    let (_directory, database) = database();
    let mut rng = Rng::new(11);
    let fields = types().into_iter().zip(0..);
    let fields = fields.map(|(t, i)| Field::new(format!("c{i}"), t, true)).collect::<Vec<_>>();
    let schema = Arc::new(Schema::new(fields));
    let batches: Vec<_> = [5, 9_000, 0, 77]
        .map(|len| {
            let columns = schema.fields().iter().map(|f| array(&mut rng, f.data_type(), len, 3));
            batch(&schema, columns.collect())
        })
        .into();
    let expected = batches.clone();
    let created = database.table_as("t", IfExists::Fail, &schema, batches).await;
    assert_eq!(created.expect("created"), Some(9_082));
    let read = collect(&database.find("t").expect("t")).await.expect("read");
    for column in 0..schema.fields().len() {
        let expected: Vec<_> = expected.iter().flat_map(|b| values(b.column(column))).collect();
        let read: Vec<_> = read.iter().flat_map(|b| values(b.column(column))).collect();
        assert!(expected == read, "{}", schema.field(column).data_type());
    }
    database.assert_no_leak();
}

fn values(array: &ArrayRef) -> Vec<ScalarValue> {
    (0..array.len()).map(|row| ScalarValue::try_from_array(array, row).expect("value")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_of_a_table_are_exact_where_they_say_so() {
    let (_directory, database) = database();
    let table = database.table("t", &int_schema()).await;
    let batches = vec![ints(-5..100_000), ints(50_000..150_000)];
    table.append(stream_of(&int_schema(), batches), &memory()).await.expect("append");
    let statistics = table.snapshot().statistics();
    assert_eq!(statistics.num_rows, Precision::Exact(200_005));
    let [i, s] = statistics.column_statistics.as_slice() else { panic!("two columns") };
    assert_eq!(i.min_value, Precision::Exact(ScalarValue::from(-5_i64)));
    assert_eq!(i.max_value, Precision::Exact(ScalarValue::from(149_999_i64)));
    assert_eq!(i.null_count, Precision::Exact(0));
    let nulls = |range: std::ops::Range<i64>| range.filter(|i| i % 7 == 0).count();
    let nulls = nulls(-5..100_000) + nulls(50_000..150_000);
    assert_eq!(s.null_count, Precision::Exact(nulls));
    let Precision::Inexact(distinct) = i.distinct_count else { panic!("an estimate") };
    assert!(distinct.abs_diff(150_005) < 7_500, "{distinct}");
    table.truncate().await.expect("truncate");
    let statistics = table.snapshot().statistics();
    assert_eq!(statistics.num_rows, Precision::Exact(0));
    assert_eq!(statistics.column_statistics[0].min_value, Precision::Absent);
    assert_eq!(statistics.column_statistics[0].distinct_count, Precision::Inexact(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn wide_values_make_smaller_blocks_and_chunks() {
    let (_directory, database) = database();
    let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8, true)]));
    let lens = [1, 3 << 20, 3 << 20, 10, 15 << 20, 2 << 20, 1 << 20, 5 << 20, 4];
    let texts: Vec<String> = lens.iter().map(|&len| "x".repeat(len)).collect();
    let rows = batch(&schema, vec![Arc::new(StringArray::from_iter_values(&texts))]);
    database.table_as("t", IfExists::Fail, &schema, vec![rows]).await.expect("created");
    let table = database.find("t").expect("t");
    for chunk in &table.snapshot().chunks {
        assert!(chunk.columns[0].len_bytes() <= 8 << 20 || chunk.rows == 1, "{}", chunk.rows);
    }
    let read = collect(&table).await.expect("read");
    let read = read.iter().flat_map(|b| b.column(0).as_string::<i32>().iter().flatten());
    assert!(read.eq(texts.iter().map(String::as_str)), "in order");
    let rows: ArrayRef = Arc::new(StringArray::from_iter_values(["a", &"y".repeat(17 << 20)]));
    let error = database.table_as("u", IfExists::Fail, &schema, vec![batch(&schema, vec![rows])]);
    let error = error.await.expect_err("too large").to_string();
    assert!(error.contains("column s") && error.contains("17."), "{error}");
    assert!(error.contains("16MiB"), "{error}");
    database.assert_no_leak();
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_checked_and_cast() {
    let (_directory, database) = database();
    let table = database.table("t", &int_schema()).await;
    let loose = Arc::new(Schema::new(vec![
        Field::new("a", DataType::Int32, true),
        Field::new("b", DataType::Utf8, true),
    ]));
    let rows = |numbers: Vec<Option<i32>>| {
        let texts = StringArray::from(vec!["text"; numbers.len()]);
        let columns: Vec<ArrayRef> = vec![Arc::new(Int32Array::from(numbers)), Arc::new(texts)];
        stream_of(&loose, vec![batch(&loose, columns)])
    };
    table.append(rows(vec![Some(3), Some(4)]), &memory()).await.expect("cast");
    assert_eq!(rows_of(&table).await, [3, 4]);
    let error = table.append(rows(vec![Some(5), None]), &memory()).await.expect_err("null");
    assert_eq!(
        error.to_string(),
        "table public.t, column i: the column is NOT NULL and a row has no value for it"
    );
    let narrow = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]));
    let one: ArrayRef = Arc::new(datafusion::arrow::array::Int64Array::from(vec![1]));
    let short = stream_of(&narrow, vec![batch(&narrow, vec![one])]);
    let error = table.append(short, &memory()).await.expect_err("columns").to_string();
    assert!(error.contains("takes (i Int64, s Utf8View), not (a Int64)"), "{error}");
    assert_eq!(rows_of(&table).await, [3, 4]);
    database.assert_no_leak();
}

/// Creates a table of integers in four chunks of 65,536, each with its own range.
async fn four_chunks(database: &Database) -> Arc<crate::table::Table> {
    let table = database.table("t", &int_schema()).await;
    let rows = CHUNK_ROWS as i64;
    let batches = (0..4).map(|chunk| ints(chunk * rows..(chunk + 1) * rows)).collect();
    table.append(stream_of(&int_schema(), batches), &memory()).await.expect("append");
    assert_eq!(table.snapshot().chunks.len(), 4);
    table
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_rewrites_the_affected_chunks_alone() {
    let (_directory, database) = database();
    let table = four_chunks(&database).await;
    let before = table.snapshot();
    let rows = CHUNK_ROWS as i64;
    // All of the second chunk, some of the third.
    let filter = col("i").gt_eq(lit(rows)).and(col("i").lt(lit(2 * rows + 100)));
    let deleted = table.delete(Some(physical(&int_schema(), filter)), &memory()).await;
    assert_eq!(deleted.expect("delete"), (CHUNK_ROWS + 100) as u64);
    let after = table.snapshot();
    assert_eq!(after.chunks.len(), 3);
    assert!(Arc::ptr_eq(&before.chunks[0], &after.chunks[0]));
    assert!(Arc::ptr_eq(&before.chunks[3], &after.chunks[1]));
    let expected: Vec<i64> = (0..rows).chain(2 * rows + 100..4 * rows).collect();
    assert_eq!(rows_of(&table).await, expected);
    // The chunks of the old version still exist for its reader, and are freed with it.
    assert!(database.used_bytes() > database.directory_bytes());
    drop(before);
    database.assert_no_leak();
    let none = col("i").eq(lit(-1_i64));
    let deleted = table.delete(Some(physical(&int_schema(), none)), &memory()).await;
    assert_eq!(deleted.expect("delete"), 0);
    assert_eq!(table.snapshot().number, after.number);
    // A row for which the condition is null stays.
    let null = col("s").not_eq(lit("no such string"));
    let deleted = table.delete(Some(physical(&int_schema(), null)), &memory()).await;
    assert_eq!(deleted.expect("delete"), expected.iter().filter(|i| *i % 7 != 0).count() as u64);
    let expected: Vec<i64> = expected.into_iter().filter(|i| i % 7 == 0).collect();
    assert_eq!(rows_of(&table).await, expected);
    let left = table.delete(None, &memory()).await.expect("delete all");
    assert_eq!(left, expected.len() as u64);
    drop(after);
    database.assert_no_leak();
    assert_eq!(database.used_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn updating_changes_the_rows_meant_and_no_others() {
    let (_directory, database) = database();
    let table = four_chunks(&database).await;
    let before = table.snapshot();
    let schema = int_schema();
    let filter = col("i").lt(lit(1_000_i64)).and((col("i") % lit(2_i64)).eq(lit(0_i64)));
    let assignments = vec![
        Assignment { column: 0, value: physical(&schema, -col("i") - lit(1_i64)) },
        Assignment { column: 1, value: physical(&schema, lit("changed")) },
    ];
    let filter = physical(&schema, filter);
    let updated = table.update(assignments, Some(filter.clone()), &memory()).await;
    assert_eq!(updated.expect("update"), 500);
    assert!(
        before.chunks[1..]
            .iter()
            .all(|old| { table.snapshot().chunks.iter().any(|new| Arc::ptr_eq(old, new)) })
    );
    let expected = |i: i64| if i < 1_000 && i % 2 == 0 { -i - 1 } else { i };
    let mut expected: Vec<i64> = (0..4 * CHUNK_ROWS as i64).map(expected).collect();
    expected.sort_unstable();
    assert_eq!(rows_of(&table).await, expected);
    let read = collect(&table).await.expect("read");
    let changed: usize = read
        .iter()
        .map(|b| b.column(1).as_string_view().iter().filter(|s| *s == Some("changed")).count())
        .sum();
    assert_eq!(changed, 500);
    let null = physical(&schema, lit(ScalarValue::Int64(None)));
    let error = table.update(vec![Assignment { column: 0, value: null }], None, &memory()).await;
    assert!(matches!(error, Err(SqlError::NotNull { .. })), "{error:?}");
    assert_eq!(rows_of(&table).await, expected);
    drop(before);
    database.assert_no_leak();
}

#[tokio::test(flavor = "multi_thread")]
async fn overwriting_and_truncating_replace_everything() {
    let (_directory, database) = database();
    let table = four_chunks(&database).await;
    let rows = stream_of(&int_schema(), vec![ints([7, 8])]);
    assert_eq!(table.overwrite(rows, &memory()).await.expect("overwrite"), 2);
    assert_eq!(rows_of(&table).await, [7, 8]);
    database.assert_no_leak();
    assert_eq!(table.truncate().await.expect("truncate"), 2);
    assert_eq!(rows_of(&table).await, [] as [i64; 0]);
    assert_eq!(database.store.stats().extent_bytes, LABEL_BYTES);
}

#[tokio::test(flavor = "multi_thread")]
async fn pruning_keeps_every_chunk_that_has_a_row() {
    let (_directory, database) = database();
    let table = four_chunks(&database).await;
    let version = table.snapshot();
    let rows = CHUNK_ROWS as i64;
    with_seed(|seed| {
        let mut rng = Rng::new(seed);
        for _ in 0..50 {
            let value = i64::try_from(rng.below(5 * CHUNK_ROWS as u64)).expect("small");
            let (filter, holds): (Expr, fn(i64, i64) -> bool) = match rng.index(3) {
                0 => (col("i").lt(lit(value)), |i, v| i < v),
                1 => (col("i").gt_eq(lit(value)), |i, v| i >= v),
                _ => (col("i").eq(lit(value)), |i, v| i == v),
            };
            let kept = prune(&physical(&int_schema(), filter), &int_schema(), &version.chunks);
            let exact = (0..4).map(|chunk| {
                [chunk * rows, value, (chunk + 1) * rows - 1]
                    .into_iter()
                    .any(|i| (chunk * rows..(chunk + 1) * rows).contains(&i) && holds(i, value))
            });
            assert_eq!(kept, exact.collect::<Vec<_>>());
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn many_writers_lose_nothing() {
    let (_directory, database) = database();
    let table = database.table("t", &int_schema()).await;
    let writers = (0..8).map(|writer| {
        let table = table.clone();
        tokio::spawn(async move {
            for round in 0..5 {
                let first = (writer * 5 + round) * 1_000;
                let rows = stream_of(&int_schema(), vec![ints(first..first + 1_000)]);
                table.append(rows, &memory()).await.expect("append");
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("writer");
    }
    assert_eq!(rows_of(&table).await, (0..40_000).collect::<Vec<_>>());
    let third = physical(&int_schema(), (col("i") % lit(3_i64)).eq(lit(0_i64)));
    let deleting = table.clone();
    let deletion = tokio::spawn(async move { deleting.delete(Some(third), &memory()).await });
    let rows = stream_of(&int_schema(), vec![ints([1_000_000])]);
    table.append(rows, &memory()).await.expect("append");
    let deleted = deletion.await.expect("task").expect("delete");
    let left: Vec<i64> = (0..40_000).filter(|i| i % 3 != 0).chain([1_000_000]).collect();
    assert_eq!(deleted + left.len() as u64, 40_001);
    assert_eq!(rows_of(&table).await, left);
    database.assert_no_leak();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_dropped_meanwhile_takes_no_rows() {
    let (_directory, database) = database();
    let table = database.table("t", &int_schema()).await;
    let (sender, receiver) = futures::channel::mpsc::unbounded();
    let rows = RecordBatchStreamAdapter::new(int_schema(), receiver);
    let writing = table.clone();
    let insert = tokio::spawn(async move { writing.append(Box::pin(rows), &memory()).await });
    sender.unbounded_send(Ok(ints(0..70_000))).expect("send");
    assert!(database.catalog.drop_table("public", "t").await.expect("drop"));
    sender.unbounded_send(Ok(ints(0..70_000))).expect("send");
    drop(sender);
    let error = insert.await.expect("task").expect_err("dropped").to_string();
    assert!(error.contains("table public.t was dropped"), "{error}");
    drop(table);
    assert_eq!(database.used_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_and_cancelled_streams_leave_nothing() {
    let (_directory, database) = database();
    let table = database.table("t", &int_schema()).await;
    let good = stream::iter((0..20).map(|i| Ok(ints(i * 10_000..(i + 1) * 10_000))));
    let failing = good.chain(stream::iter([Err(exec_datafusion_err!("no more rows"))]));
    let failing = RecordBatchStreamAdapter::new(int_schema(), failing);
    let error = table.append(Box::pin(failing), &memory()).await.expect_err("fails").to_string();
    assert!(error.contains("no more rows"), "{error}");
    let good = stream::iter((0..20).map(|i| Ok(ints(i * 10_000..(i + 1) * 10_000))));
    let endless = RecordBatchStreamAdapter::new(int_schema(), good.chain(stream::pending()));
    let memory = memory();
    let append = table.append(Box::pin(endless), &memory);
    let patience = std::time::Duration::from_millis(300);
    assert!(tokio::time::timeout(patience, append).await.is_err(), "must still wait");
    // A chunk in flight is freed by the thread that wrote it.
    for _ in 0..1000 {
        let is_done = database.catalog.tasks().wait(std::time::Duration::ZERO);
        if is_done && database.used_bytes() == 0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(rows_of(&table).await, [] as [i64; 0]);
    assert_eq!(memory.reserved(), 0);
    database.assert_no_leak();
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_hold_little_and_go_on_when_there_is_nothing_to_hold() {
    let (_directory, database) = database();
    let table = database.table("t", &int_schema()).await;
    // Less than a block: every block becomes debt, and nothing fails.
    let tight: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1_000));
    let batches = (0..20).map(|i| ints(i * 10_000..(i + 1) * 10_000)).collect();
    table.append(stream_of(&int_schema(), batches), &tight).await.expect("append");
    assert_eq!(tight.reserved(), 0);
    assert_eq!(rows_of(&table).await, (0..200_000).collect::<Vec<_>>());
    database.assert_no_leak();
}

#[tokio::test(flavor = "multi_thread")]
async fn selected_rows_do_not_keep_their_source_alive() {
    // Ten rows of each of many batches with a megabyte of text.
    let mut blocker = super::super::block::Blocker::new("t".to_owned(), int_schema());
    for round in 0..50 {
        let rows = ints(round * 20_000 + 1..(round + 1) * 20_000).slice(5, 10);
        let source = rows.column(1).get_buffer_memory_size();
        assert!(source > 500_000, "{source}");
        assert!(blocker.push(&rows).expect("push").is_empty());
    }
    let blocks = blocker.finish().expect("finish");
    let [block] = blocks.as_slice() else { panic!("one block") };
    assert_eq!(block[0].len(), 500);
    assert!(block[1].get_buffer_memory_size() < 200_000, "{}", block[1].get_buffer_memory_size());
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_do_not_fit_are_refused_and_not_lost() {
    let (_directory, database) = database();
    let columns = |data_type| Arc::new(Schema::new(vec![Field::new("n", data_type, true)]));
    let (narrow, wide) = (columns(DataType::Int8), columns(DataType::Int32));
    let table = database.table("t", &narrow).await;
    let rows = |numbers: Vec<i32>| {
        let numbers: ArrayRef = Arc::new(Int32Array::from(numbers));
        stream_of(&wide, vec![batch(&wide, vec![numbers])])
    };
    assert_eq!(table.append(rows(vec![1, 127]), &memory()).await.expect("they fit"), 2);
    let error = table.append(rows(vec![2, 128]), &memory()).await.expect_err("too large");
    assert!(error.to_string().contains("128"), "{error}");
    table.overwrite(rows(vec![-129]), &memory()).await.expect_err("too small");
    let value = physical(&narrow, lit(300_i32));
    let set = vec![Assignment { column: 0, value }];
    table.update(set, None, &memory()).await.expect_err("too large");
    assert_eq!(table.snapshot().rows(), 2);
    assert_eq!(table.snapshot().statistics().column_statistics[0].null_count, Precision::Exact(0));
    database.assert_no_leak();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_was_dropped_or_replaced_is_not_an_empty_one() {
    let (_directory, database) = database();
    let table = database.table("t", &int_schema()).await;
    let rows = || stream_of(&int_schema(), vec![ints(0..10)]);
    table.append(rows(), &memory()).await.expect("append");
    let made = database.table_as("t", IfExists::Replace, &int_schema(), vec![ints(0..5)]).await;
    assert_eq!(made.expect("replaced"), Some(5));
    let all = || physical(&int_schema(), col("i").gt_eq(lit(0_i64)));
    let refused = |result: Result<u64, SqlError>| match result {
        Err(SqlError::Dropped { .. }) => {}
        other => panic!("{other:?}"),
    };
    refused(table.delete(Some(all()), &memory()).await);
    refused(table.delete(None, &memory()).await);
    refused(table.truncate().await);
    refused(table.append(rows(), &memory()).await);
    refused(table.overwrite(rows(), &memory()).await);
    refused(table.current().map(|_| 0));
    assert_eq!(rows_of(&database.find("t").expect("t")).await, (0..5).collect::<Vec<_>>());
    drop(table);
    database.assert_no_leak();
}
