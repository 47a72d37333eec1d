//! Tests of failures during writes: one clear error each, nothing kept of the statement, the table
//! intact.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;
use terrace_store::MemoryBlocks;
use terrace_testkit::{Fault, FaultyBlocks, Target, When};

use crate::catalog::IfExists;
use crate::error::SqlError;
use crate::failpoint::Point;
use crate::test_support::{Database, collect, int_schema, ints, memory, rows_of, stream_of};

struct Faulty {
    _directory: TempDir,
    blocks: Arc<FaultyBlocks>,
    database: Database,
}

fn faulty(dram_bytes: u64) -> Faulty {
    let directory = tempfile::tempdir().expect("tempdir");
    let blocks = Arc::new(FaultyBlocks::new(Arc::new(MemoryBlocks::new(1 << 30)), 5));
    let path = directory.path().join("catalog.redb");
    let database = Database::open_with(&path, blocks.clone(), dram_bytes).expect("open");
    Faulty { _directory: directory, blocks, database }
}

fn rows() -> datafusion::execution::SendableRecordBatchStream {
    let batches = (0..20).map(|i| ints(i * 10_000..(i + 1) * 10_000)).collect();
    stream_of(&int_schema(), batches)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_at_any_point_before_the_commit_leaves_nothing() {
    let Faulty { database, .. } = &faulty(64 << 20);
    let table = database.table("t", &int_schema()).await;
    table.append(stream_of(&int_schema(), vec![ints([1, 2, 3])]), &memory()).await.expect("rows");
    for failing in [Point::Persist, Point::Persisted, Point::Sync, Point::Commit] {
        for nth in 0..2 {
            let seen = AtomicUsize::new(0);
            database.catalog.set_failpoint(Some(Arc::new(move |point| {
                let fails = point == failing && seen.fetch_add(1, Ordering::Relaxed) == nth;
                let refused = || SqlError::Task(format!("stopped before {point:?}"));
                if fails { Err(refused()) } else { Ok(()) }
            })));
            let appended = table.append(rows(), &memory()).await;
            let schema = int_schema();
            let created = database.table_as("u", IfExists::Fail, &schema, vec![ints(0..9)]).await;
            database.catalog.set_failpoint(None);
            // The first pass of a point is the append's; Sync and Commit are passed once by each
            // statement.
            let shared = matches!(failing, Point::Sync | Point::Commit);
            assert_eq!(appended.is_err(), nth == 0 || !shared, "{failing:?} {nth}");
            assert_eq!(created.is_err(), nth == 1 && shared, "{failing:?} {nth}");
            if created.is_ok() {
                assert!(database.catalog.drop_table("public", "u").await.expect("drop"));
            }
            if appended.is_ok() {
                let keep = stream_of(&int_schema(), vec![ints([1, 2, 3])]);
                table.overwrite(keep, &memory()).await.expect("overwrite");
            }
            assert_eq!(rows_of(&table).await, [1, 2, 3]);
            database.assert_no_leak();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_write_or_sync_is_one_error_and_reads_go_on() {
    for (target, fault) in
        [(Target::Write, Fault::Eio), (Target::Write, Fault::Short), (Target::Sync, Fault::Eio)]
    {
        let Faulty { database, blocks, .. } = &faulty(64 << 20);
        let table = database.table("t", &int_schema()).await;
        table.append(stream_of(&int_schema(), vec![ints([4])]), &memory()).await.expect("rows");
        blocks.inject(target, When::Nth(1), fault);
        let error = table.append(rows(), &memory()).await.expect_err("fails").to_string();
        assert!(error.contains("store test"), "{error}");
        blocks.heal();
        let error = table.append(rows(), &memory()).await.expect_err("latched").to_string();
        assert!(error.contains("takes no more writes since it failed"), "{error}");
        assert_eq!(rows_of(&table).await, [4]);
        database.assert_no_leak();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_is_one_error_and_has_room_again_afterwards() {
    let Faulty { database, blocks, .. } = &faulty(64 << 20);
    let table = database.table("t", &int_schema()).await;
    blocks.inject(Target::Grow, When::Always, Fault::Full);
    let error = table.append(rows(), &memory()).await.expect_err("full").to_string();
    assert!(error.contains("store test is full"), "{error}");
    database.assert_no_leak();
    blocks.heal();
    assert_eq!(table.append(rows(), &memory()).await.expect("room"), 200_000);
    assert_eq!(rows_of(&table).await, (0..200_000).collect::<Vec<_>>());
    database.assert_no_leak();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_is_found_and_the_rest_stays_readable() {
    // Little DRAM, so that written pages are evicted and read again.
    let Faulty { database, blocks, .. } = &faulty(8 << 20);
    let table = database.plain_table("t", &int_schema()).await;
    let other = database.table("u", &int_schema()).await;
    other.append(stream_of(&int_schema(), vec![ints([9])]), &memory()).await.expect("rows");
    blocks.inject(Target::Write, When::Nth(1), Fault::FlippedBit);
    let batches: Vec<_> = (0..60).map(|i| ints(i * 10_000..(i + 1) * 10_000)).collect();
    table.append(stream_of(&int_schema(), batches), &memory()).await.expect("reported as written");
    assert_eq!(blocks.struck(), [(Target::Write, Fault::FlippedBit)]);
    let error = collect(&table).await.expect_err("damaged").to_string();
    assert!(error.contains("are damaged"), "{error}");
    assert_eq!(rows_of(&other).await, [9]);
    assert_eq!(table.truncate().await.expect("truncate"), 600_000);
    table.append(rows(), &memory()).await.expect("append");
    assert_eq!(rows_of(&table).await, (0..200_000).collect::<Vec<_>>());
    database.assert_no_leak();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_in_doubt_says_so_and_keeps_what_it_may_have_named() {
    let Faulty { database, blocks, _directory: directory } = faulty(64 << 20);
    let table = database.table("t", &int_schema()).await;
    database.catalog.set_failpoint(Some(Arc::new(|point| match point {
        Point::Committed => Err(SqlError::Task("the device is gone".to_owned())),
        _ => Ok(()),
    })));
    let error = table.append(rows(), &memory()).await.expect_err("in doubt");
    assert!(matches!(error, SqlError::InDoubt { .. }), "{error:?}");
    let error = error.to_string();
    assert!(error.contains("device is gone") && error.contains("open the database again"));
    drop((table, database));
    let database = Database::open(&directory.path().join("catalog.redb"), blocks).expect("open");
    let table = database.find("t").expect("t");
    assert_eq!(rows_of(&table).await, (0..200_000).collect::<Vec<_>>());
    database.assert_no_leak();
}
