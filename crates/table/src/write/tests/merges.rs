//! Tests of merges of small chunks: the order and contents that they preserve, and the statements
//! that they yield to.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use tempfile::TempDir;
use terrace_store::MemoryBlocks;

use crate::error::SqlError;
use crate::failpoint::Point;
use crate::table::Table;
use crate::test_support::{Database, collect, int_schema, ints, memory, rows_of, stream_of};
use crate::write::Merged;

fn database() -> (TempDir, Arc<MemoryBlocks>, Database) {
    let directory = tempfile::tempdir().expect("tempdir");
    let blocks = Arc::new(MemoryBlocks::new(1 << 30));
    let database = Database::open(&directory.path().join("catalog.redb"), blocks.clone());
    (directory, blocks, database.expect("open"))
}

async fn append(table: &Arc<Table>, values: impl IntoIterator<Item = i64>) {
    let rows = stream_of(&int_schema(), vec![ints(values)]);
    table.append(rows, &memory()).await.expect("append");
}

async fn merge(table: &Arc<Table>) -> Merged {
    table.merge_some(&memory(), || false).await.expect("merge")
}

/// Returns the integers of a table in the order of a scan.
async fn in_order(table: &Table) -> Vec<i64> {
    let batches = collect(table).await.expect("read");
    let values = batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values());
    values.copied().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_changes_no_row_and_no_order() {
    let (directory, blocks, database) = database();
    let table = database.table("t", &int_schema()).await;
    append(&table, 0..65_536).await;
    for i in 0..20 {
        append(&table, [1_000_000 - i]).await;
    }
    let expected: Vec<i64> = (0..65_536).chain((0..20).map(|i| 1_000_000 - i)).collect();
    let (before, used) = (table.snapshot(), database.used_bytes());
    let statistics = before.statistics();
    assert_eq!(merge(&table).await, Merged::Done);
    assert_eq!(merge(&table).await, Merged::Nothing);
    let after = table.snapshot();
    assert_eq!((after.chunks.len(), after.number), (2, before.number));
    assert!(Arc::ptr_eq(&before.chunks[0], &after.chunks[0]), "a full chunk stays");
    assert_eq!(*after.statistics(), *statistics);
    assert_eq!(in_order(&table).await, expected);
    // Readers of the previous version keep its chunks, whose space is freed after them.
    assert!(database.used_bytes() > used);
    drop((before, after));
    database.assert_no_leak();
    assert!(database.used_bytes() < used - 19 * 2 * 4096 + 1, "two extents for forty");
    let written = table.snapshot().chunks[1].id;
    append(&table, [7]).await;
    assert!(table.snapshot().chunks[2].id > written, "numbers are not used twice");
    drop((table, database));
    let database = Database::open(&directory.path().join("catalog.redb"), blocks).expect("open");
    let table = database.find("t").expect("t");
    assert_eq!(in_order(&table).await, [expected, vec![7]].concat(), "the order is kept");
    database.assert_no_leak();
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_between_full_chunks_keep_their_place() {
    let (directory, blocks, database) = database();
    let table = database.table("t", &int_schema()).await;
    append(&table, [3, 1]).await;
    append(&table, [2]).await;
    append(&table, 10..10 + 65_536).await;
    append(&table, [5]).await;
    let expected: Vec<i64> = [3, 1, 2].into_iter().chain(10..10 + 65_536).chain([5]).collect();
    assert_eq!(merge(&table).await, Merged::Done, "nothing joins them any more");
    assert_eq!(table.snapshot().chunks.len(), 3);
    assert_eq!(in_order(&table).await, expected);
    drop((table, database));
    let database = Database::open(&directory.path().join("catalog.redb"), blocks).expect("open");
    assert_eq!(in_order(&database.find("t").expect("t")).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_merge_gives_way_to_statements_that_remove_its_chunks() {
    let (_directory, _, database) = database();
    let table = database.table("t", &int_schema()).await;
    for i in 0..10 {
        append(&table, [i]).await;
    }
    // The merge waits for the lock behind a statement that empties the table.
    let lock = table.lock_writer().await;
    let writer = Arc::clone(&table);
    let emptied = tokio::spawn(async move { writer.truncate().await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let merger = Arc::clone(&table);
    let merged = tokio::spawn(async move { merge(&merger).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop(lock);
    assert_eq!(emptied.await.expect("runs").expect("truncate"), 10);
    assert_eq!(merged.await.expect("runs"), Merged::Conflict);
    assert_eq!(rows_of(&table).await, [] as [i64; 0]);
    database.assert_no_leak();
    assert_eq!(database.used_bytes(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rows_that_come_during_a_merge_stay() {
    let (_directory, _, database) = database();
    let table = database.table("t", &int_schema()).await;
    for i in 0..10 {
        append(&table, [i]).await;
    }
    let lock = table.lock_writer().await;
    let writer = Arc::clone(&table);
    let appended = tokio::spawn(async move { append(&writer, [10, 11]).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let merger = Arc::clone(&table);
    let merged = tokio::spawn(async move { merge(&merger).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop(lock);
    appended.await.expect("runs");
    assert_eq!(merged.await.expect("runs"), Merged::Done);
    assert_eq!(in_order(&table).await, (0..12).collect::<Vec<_>>());
    database.assert_no_leak();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_that_fails_or_is_stopped_leaves_nothing() {
    let (_directory, _, database) = database();
    let table = database.table("t", &int_schema()).await;
    for i in 0..9 {
        append(&table, [i]).await;
    }
    let stopped = table.merge_some(&memory(), || true).await.expect("no error");
    assert_eq!(stopped, Merged::Stopped);
    for failing in [Point::Persist, Point::Persisted, Point::Sync, Point::Commit] {
        database.catalog.set_failpoint(Some(Arc::new(move |point| match point == failing {
            true => Err(SqlError::Task("stopped".to_owned())),
            false => Ok(()),
        })));
        let error = table.merge_some(&memory(), || false).await.expect_err("fails");
        assert!(error.to_string().contains("stopped"), "{error}");
        database.catalog.set_failpoint(None);
        assert_eq!(table.snapshot().chunks.len(), 9, "{failing:?}");
        database.assert_no_leak();
    }
    assert!(database.catalog.drop_table("public", "t").await.expect("dropped"));
    let error = table.merge_some(&memory(), || false).await.expect_err("dropped");
    assert!(matches!(error, SqlError::Dropped { .. }), "{error}");
    database.assert_no_leak();
}
