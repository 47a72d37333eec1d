//! Merges of small chunks in a running engine: concurrent with other sessions, after a restart, and
//! their benefit.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{MIB, engine, engine_in, eventually, show};
use terrace_sql::catalog::LABEL_BYTES;
use terrace_sql::table::Table;
use terrace_sql::{Engine, Session};
use terrace_testkit::soak_time;

/// Maximum number of chunks of a table of single rows: a few of each size.
const CHUNKS_MAX: usize = 32;

fn table(engine: &Engine, name: &str) -> Arc<Table> {
    engine.catalog().table("public", name).expect("a table")
}

fn chunks(engine: &Engine, name: &str) -> usize {
    table(engine, name).snapshot().chunks.len()
}

async fn merged(engine: &Engine, name: &str) {
    eventually("chunks are merged", || chunks(engine, name) <= CHUNKS_MAX).await;
}

async fn insert_singly(session: &Session, name: &str, rows: std::ops::Range<i64>) {
    for i in rows {
        let text = format!("INSERT INTO {name} VALUES ({i}, {}, 'row {i}')", i % 10);
        show(session, &text).await;
    }
}

/// A single partition returns rows in order; several would return theirs as they have some.
const ONE_PARTITION: &str = "SET datafusion.execution.target_partitions = 1";
const COLUMNS: &str = "(i BIGINT NOT NULL, k BIGINT, s VARCHAR)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_rows_become_a_table_like_any_other() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    show(&session, &format!("CREATE TABLE t {COLUMNS}")).await;
    show(&session, ONE_PARTITION).await;
    let rows: i64 = 400;
    insert_singly(&session, "t", 0..rows).await;
    merged(&engine, "t").await;
    let expected = (0..rows).map(|i| i.to_string()).collect::<Vec<_>>().join("\n");
    assert_eq!(show(&session, "SELECT i FROM t").await, expected, "in the order they came");
    let told = show(
        &session,
        "SELECT merges > 0, merged_chunks > 200, written_chunks >= merges, freed_bytes > \
         written_bytes, conflicts, failures FROM terrace.merges WHERE table_name = 't'",
    )
    .await;
    assert_eq!(told, "true true true true 0 0");
    let used = || engine.pool().store().expect("a store").stats().used_bytes;
    let bound = LABEL_BYTES + to_u64(CHUNKS_MAX) * 3 * 4096;
    eventually("the space is given back", || used() <= bound).await;
}

fn to_u64(count: usize) -> u64 {
    u64::try_from(count).expect("small")
}

/// Inserts single rows as writer `w` until the deadline, and occasionally updates and deletes its
/// own rows; returns the values by their keys.
async fn write(session: Session, w: i64, until: Instant) -> BTreeMap<i64, i64> {
    let mut rows = BTreeMap::new();
    for i in 0.. {
        if Instant::now() >= until {
            break;
        }
        show(&session, &format!("INSERT INTO t VALUES ({w}, {i}, {i})")).await;
        rows.insert(i, i);
        if i % 40 == 39 {
            let updated = show(&session, &format!("UPDATE t SET v = v + 1 WHERE w = {w}")).await;
            assert_eq!(updated, rows.len().to_string());
            rows.values_mut().for_each(|v| *v += 1);
        }
        if i % 50 == 49 {
            let text = format!("DELETE FROM t WHERE w = {w} AND i % 5 = 2");
            let before = rows.len();
            rows.retain(|i, _| i % 5 != 2);
            assert_eq!(show(&session, &text).await, (before - rows.len()).to_string());
        }
    }
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merges_lose_nothing_beside_inserts_updates_deletes_and_scans() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t (w BIGINT, i BIGINT, v BIGINT)").await;
    let until = Instant::now() + soak_time();
    let writer = |w| tokio::spawn(write(engine.session().expect("session"), w, until));
    let writers: Vec<_> = (0..3).map(writer).collect();
    let done = Arc::new(AtomicBool::new(false));
    let (reader, ended) = (engine.session().expect("session"), Arc::clone(&done));
    let scans = tokio::spawn(async move {
        let twice = "SELECT count(*) FROM (SELECT w, i FROM t GROUP BY w, i HAVING count(*) > 1)";
        let mut scans = 0;
        while !ended.load(Ordering::Relaxed) {
            assert_eq!(show(&reader, twice).await, "0", "a row is seen once");
            scans += 1;
        }
        scans
    });
    let mut expected = Vec::new();
    for (w, writer) in (0..).zip(writers) {
        let rows = writer.await.expect("a writer");
        expected.extend(rows.into_iter().map(|(i, v)| format!("{w} {i} {v}")));
    }
    done.store(true, Ordering::Relaxed);
    assert!(scans.await.expect("a reader") > 0);
    merged(&engine, "t").await;
    let found = show(&session, "SELECT w, i, v FROM t ORDER BY w, i").await;
    assert_eq!(found, expected.join("\n"));
    let table = table(&engine, "t");
    let named = || table.snapshot().extent_bytes() + LABEL_BYTES;
    let used = || engine.pool().store().expect("a store").stats().used_bytes;
    eventually("nothing leaks", || used() == named()).await;
}

/// Inserts single rows and closes the database before all of them are merged.
async fn leave_small_chunks(path: &Path, rows: i64) {
    let engine = engine_in(path, 64 * MIB);
    let session = engine.session().expect("session");
    show(&session, &format!("CREATE TABLE t {COLUMNS}")).await;
    insert_singly(&session, "t", 0..rows).await;
    drop(session);
    engine.close().expect("closes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_with_small_chunks_is_merged_when_it_is_opened() {
    let directory = tempfile::tempdir().expect("tempdir");
    let path = directory.path().join("data");
    let rows = 60;
    leave_small_chunks(&path, rows).await;
    let engine = engine_in(&path, 64 * MIB);
    eventually("chunks are merged", || chunks(&engine, "t") < 16).await;
    let session = engine.session().expect("session");
    show(&session, ONE_PARTITION).await;
    let expected = (0..rows).map(|i| format!("{i} row {i}")).collect::<Vec<_>>().join("\n");
    assert_eq!(show(&session, "SELECT i, s FROM t").await, expected);
    drop(session);
    engine.close().expect("closes, also with a merge under way");
    let engine = engine_in(&path, 64 * MIB);
    let session = engine.session().expect("session");
    show(&session, ONE_PARTITION).await;
    assert_eq!(show(&session, "SELECT i, s FROM t").await, expected, "the order is kept");
}

/// The minimum time of several scans of a table.
async fn scan_time(session: &Session, name: &str) -> Duration {
    let text = format!("SELECT count(*), sum(i), sum(k), max(s) FROM {name}");
    let mut least = Duration::MAX;
    for _ in 0..5 {
        let began = Instant::now();
        show(session, &text).await;
        least = least.min(began.elapsed());
    }
    least
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_of_single_rows_is_as_fast_as_one_of_a_bulk_load() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    let rows: i64 = 1_000;
    show(&session, &format!("CREATE TABLE singly {COLUMNS}")).await;
    insert_singly(&session, "singly", 0..rows).await;
    let source = format!(
        "SELECT value AS i, value % 10 AS k, concat('row ', value) AS s \
         FROM generate_series(0, {})",
        rows - 1
    );
    show(&session, &format!("CREATE TABLE bulk AS {source}")).await;
    merged(&engine, "singly").await;
    let both = "SELECT count(*) FROM singly JOIN bulk USING (i, k, s)";
    assert_eq!(show(&session, both).await, rows.to_string());
    let (singly, bulk) = (scan_time(&session, "singly").await, scan_time(&session, "bulk").await);
    // Loose, since other tests run concurrently. A thousand chunks took a hundred times as long.
    assert!(singly < 4 * bulk + Duration::from_millis(30), "{singly:?}, bulk {bulk:?}");
}
