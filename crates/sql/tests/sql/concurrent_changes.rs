//! Concurrent changes of a table: no acknowledged change is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::{MIB, engine, show, try_show};

const DRAM: u64 = 64 * MIB;

/// Inserts single rows while `replacing`, which reads and replaces the table, runs repeatedly, and
/// checks that no acknowledged row is lost.
async fn nothing_is_lost_beside(replacing: &'static str) {
    let engine = Arc::new(engine(DRAM));
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t (a BIGINT)").await;
    let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let inserter = {
        let (engine, stop, acknowledged) = (engine.clone(), stop.clone(), acknowledged.clone());
        tokio::spawn(async move {
            let session = engine.session().expect("session");
            while !stop.load(Ordering::Relaxed) {
                if try_show(&session, "INSERT INTO t VALUES (1)").await.is_ok() {
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                }
            }
        })
    };
    let mut replaced = 0;
    while replaced < 40 || acknowledged.load(Ordering::Relaxed) < 40 {
        replaced += u64::from(try_show(&session, replacing).await.is_ok());
    }
    stop.store(true, Ordering::Relaxed);
    inserter.await.expect("the inserter ends");
    let rows: u64 = show(&session, "SELECT count(*) FROM t").await.parse().expect("a number");
    assert_eq!(rows, acknowledged.load(Ordering::Relaxed), "beside {replaced} of {replacing}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inserts_survive_the_replacement_of_a_table_by_its_rows() {
    nothing_is_lost_beside("CREATE OR REPLACE TABLE t AS SELECT * FROM t WHERE a = 1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inserts_survive_an_overwrite_by_the_rows_of_the_table() {
    nothing_is_lost_beside("INSERT OVERWRITE t SELECT * FROM t").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inserts_survive_changes_by_subqueries() {
    nothing_is_lost_beside("UPDATE t SET a = (SELECT min(a) FROM t) WHERE a IN (SELECT a FROM t)")
        .await;
    nothing_is_lost_beside("DELETE FROM t WHERE a > (SELECT max(a) FROM t)").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_changed_by_subqueries_and_other_tables() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(
        &session,
        "CREATE TABLE t AS SELECT value AS id, value % 10 AS d, 'n' || value AS n \
                    FROM generate_series(1, 200000)",
    )
    .await;
    show(&session, "CREATE TABLE u AS SELECT * FROM (VALUES (3, 300), (5, 500), (5, 500)) v(d, x)")
        .await;
    let count = async |text: &str| show(&session, text).await;
    assert_eq!(count("DELETE FROM t WHERE d IN (SELECT d FROM u WHERE d = 3)").await, "20000");
    assert_eq!(count("SELECT count(*), sum(id) FROM t").await, "180000 18000140000");
    assert_eq!(count("UPDATE t SET id = -x FROM u WHERE t.d = u.d").await, "20000");
    assert_eq!(count("SELECT count(*), min(d), max(d) FROM t WHERE id = -500").await, "20000 5 5");
    // The mean is now 88834.1, and the digits above it are all but 3 and 5.
    let update = "UPDATE t AS v SET n = 'big', d = d + 1 WHERE v.id > (SELECT avg(id) FROM t)";
    assert_eq!(count(update).await, "88933");
    assert_eq!(count("SELECT count(*) FROM t WHERE n = 'big'").await, "88933");
    assert_eq!(count("DELETE FROM t USING u WHERE t.d = u.d AND u.x = 500").await, "31116");
    assert_eq!(count("SELECT count(*) FROM t WHERE d = 5").await, "0");
    let delete = "DELETE FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.d = t.d)";
    assert_eq!(count(delete).await, "137768");
    assert_eq!(count("SELECT count(*), min(d), max(d) FROM t").await, "11116 3 3");
    assert_eq!(count("DELETE FROM t LIMIT 16").await, "16");
    assert_eq!(count("SELECT count(*) FROM t").await, "11100");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_sees_all_tables_as_of_one_commit() {
    let engine = Arc::new(engine(DRAM));
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE x (a BIGINT); CREATE TABLE y (a BIGINT)").await;
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (engine, stop) = (engine.clone(), stop.clone());
        tokio::spawn(async move {
            let session = engine.session().expect("session");
            while !stop.load(Ordering::Relaxed) {
                show(&session, "INSERT INTO x VALUES (1); INSERT INTO y VALUES (1)").await;
            }
        })
    };
    for _ in 0..300 {
        let both = "SELECT (SELECT count(*) FROM x) - (SELECT count(*) FROM y)";
        let ahead: i64 = show(&session, both).await.parse().expect("a number");
        assert!((0..=1).contains(&ahead), "x is {ahead} rows ahead of y");
    }
    stop.store(true, Ordering::Relaxed);
    writer.await.expect("the writer ends");
}
