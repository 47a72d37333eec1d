//! The version of a table that a statement reads.

use crate::common::{MIB, engine, error, eventually, lines, show};
use terrace_sql::catalog::LABEL_BYTES;

const DRAM: u64 = 64 * MIB;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepared_statement_sees_the_data_of_now() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t AS SELECT 1 AS a; PREPARE p AS SELECT * FROM t").await;
    show(&session, "PREPARE i AS INSERT INTO t VALUES (7); PREPARE d AS DELETE FROM t").await;
    assert_eq!(show(&session, "EXECUTE p").await, "1");
    show(&session, "CREATE OR REPLACE TABLE t AS SELECT 2 AS a").await;
    assert_eq!(show(&session, "EXECUTE p").await, "2");
    show(&session, "EXECUTE i").await;
    assert_eq!(show(&session, "SELECT sum(a) FROM t").await, "9");
    show(&session, "EXECUTE d").await;
    assert_eq!(show(&session, "EXECUTE p").await, "");
    show(&session, "CREATE OR REPLACE TABLE t AS SELECT 'x' AS other").await;
    let text = error(&session, "EXECUTE p").await;
    assert!(text.contains("cached plan must not change result type"), "{text}");
    assert_eq!(show(&session, "SELECT other FROM t").await, "x");
    show(&session, "EXECUTE d").await;
    assert_eq!(show(&session, "SELECT other FROM t").await, "");
    show(&session, "DROP TABLE t").await;
    let text = error(&session, "EXECUTE p").await;
    assert!(text.contains("not found"), "{text}");
    let store = engine.pool().store().expect("store");
    eventually("it keeps no chunk", || store.stats().used_bytes == LABEL_BYTES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_statement_reads_the_version_of_its_names() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    for change in ["CREATE OR REPLACE TABLE t AS SELECT 2 AS a", "DROP TABLE t"] {
        show(&session, "CREATE TABLE IF NOT EXISTS t AS SELECT 1 AS a").await;
        let before = show(&session, "SELECT a FROM t").await;
        let frame = session.context().sql("SELECT a FROM t").await.expect("planned");
        show(&session, change).await;
        let batches = frame.collect().await.expect("reads");
        let read: Vec<String> = batches.iter().flat_map(lines).collect();
        assert_eq!(read, [before], "{change}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_sees_one_version_of_a_table() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t AS SELECT 0 AS a; CREATE VIEW v AS SELECT a FROM t").await;
    show(&session, "CREATE VIEW w AS SELECT v.a FROM v JOIN t ON v.a = t.a").await;
    show(&session, "PREPARE p AS SELECT (SELECT count(*) FROM v) - (SELECT count(*) FROM t)").await;
    let writer = engine.session().expect("another");
    let writing = tokio::spawn(async move {
        for number in 1..150 {
            show(&writer, &format!("INSERT INTO t VALUES ({number})")).await;
        }
    });
    let mut rounds = 0;
    while !writing.is_finished() {
        let text = "SELECT (SELECT count(*) FROM t) - (SELECT count(*) FROM v) AS v, \
                    (SELECT count(*) FROM t) - (SELECT count(*) FROM w) AS w";
        assert_eq!(show(&session, text).await, "0 0", "round {rounds}");
        assert_eq!(show(&session, "EXECUTE p").await, "0", "round {rounds}");
        rounds += 1;
    }
    writing.await.expect("writes");
}
