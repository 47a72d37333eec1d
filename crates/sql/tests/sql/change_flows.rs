//! DELETE and UPDATE through a session: the rows that they change, and those that they do not.

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{Int64Type, UInt64Type};
use terrace_sql::{Engine, EngineConfig, Session};
use terrace_store::MemoryBlocks;

const STORE_BYTES: u64 = 1 << 30;

fn session() -> (Engine, Session) {
    session_with(64 << 20)
}

fn session_with(dram_bytes: u64) -> (Engine, Session) {
    let config = EngineConfig { threads: 2, ..EngineConfig::new(dram_bytes) };
    let blocks = Arc::new(MemoryBlocks::new(STORE_BYTES));
    let engine = Engine::over_blocks(&config, blocks, STORE_BYTES).expect("engine");
    let session = engine.session().expect("session");
    (engine, session)
}

async fn run(session: &Session, text: &str) {
    session.sql(text).await.unwrap_or_else(|error| panic!("{text}\n{error}"));
}

async fn fails(session: &Session, text: &str) -> String {
    match session.sql(text).await {
        Ok(_) => panic!("{text}\nmust fail"),
        Err(error) => error.to_string(),
    }
}

/// The number of changed rows that a statement returns.
async fn changed(session: &Session, text: &str) -> u64 {
    let outputs = session.sql(text).await.unwrap_or_else(|error| panic!("{text}\n{error}"));
    outputs[0].batches[0].column(0).as_primitive::<UInt64Type>().value(0)
}

async fn numbers(session: &Session) -> Vec<i64> {
    let outputs = session.sql("SELECT i FROM t ORDER BY i").await.expect("select");
    let batches = outputs.iter().flat_map(|output| &output.batches);
    batches.flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_condition_that_nothing_satisfies_takes_nothing() {
    let (_engine, session) = session();
    run(&session, "CREATE TABLE t (i BIGINT NOT NULL, s VARCHAR)").await;
    run(&session, "INSERT INTO t VALUES (1, 'a'), (2, NULL), (3, 'c')").await;
    for condition in ["1 = 0", "i IS NULL", "i > 1 AND false", "NULL"] {
        assert_eq!(changed(&session, &format!("DELETE FROM t WHERE {condition}")).await, 0);
        assert_eq!(changed(&session, &format!("UPDATE t SET i = 0 WHERE {condition}")).await, 0);
    }
    run(&session, "PREPARE nothing AS DELETE FROM t WHERE i IS NULL").await;
    run(&session, "EXECUTE nothing").await;
    let raw = "EXPLAIN (ANALYZE, FORMAT INDENT) DELETE FROM t WHERE i IS NULL";
    let refusal = fails(&session, raw).await;
    assert!(refusal.contains("say EXPLAIN"), "{refusal}");
    run(&session, "EXPLAIN ANALYZE DELETE FROM t WHERE i IS NULL").await;
    run(&session, "EXPLAIN DELETE FROM t WHERE i = 1").await;
    assert_eq!(numbers(&session).await, [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_changed_by_their_own_values() {
    let (_engine, session) = session();
    run(&session, "CREATE TABLE t (i BIGINT NOT NULL)").await;
    run(&session, "INSERT INTO t SELECT value FROM generate_series(1, 20000)").await;
    assert_eq!(changed(&session, "DELETE FROM t WHERE i > 5 AND i % 2 = 0").await, 9_998);
    assert_eq!(changed(&session, "UPDATE t SET i = -i WHERE i BETWEEN 3 AND 5").await, 3);
    assert_eq!(changed(&session, "DELETE FROM t WHERE i > 6").await, 9_997);
    assert_eq!(numbers(&session).await, [-5, -4, -3, 1, 2]);
    let own = "DELETE FROM t WHERE i IN (SELECT max(i) FROM t)";
    assert_eq!(changed(&session, own).await, 1);
    run(&session, "INSERT INTO t VALUES (2)").await;
    let refusal = fails(&session, "UPDATE t SET i = NULL WHERE i = 1").await;
    assert!(refusal.contains("NOT NULL") || refusal.contains("null"), "{refusal}");
    assert_eq!(changed(&session, "DELETE FROM t").await, 5);
    assert_eq!(numbers(&session).await, [] as [i64; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_as_large_as_the_budget_is_changed_block_by_block() {
    const COLUMNS: i64 = 64;
    let (engine, session) = session_with(32 << 20);
    let columns = (0..COLUMNS).map(|n| format!("value * {} AS c{n}", n + 1));
    let columns = columns.collect::<Vec<_>>().join(", ");
    run(
        &session,
        &format!(
            "CREATE TABLE t AS SELECT value AS i, {columns} \
                            FROM generate_series(1, 100000)"
        ),
    )
    .await;
    let limit = engine.pins().limit_bytes();
    let last = COLUMNS - 1;
    assert_eq!(changed(&session, "DELETE FROM t WHERE c0 = 1").await, 1);
    assert_eq!(changed(&session, &format!("UPDATE t SET c{last} = 0 WHERE i <= 11")).await, 10);
    assert_eq!(changed(&session, &format!("DELETE FROM t WHERE c{last} = 0 AND i < 6")).await, 4);
    let outputs = session.sql(&format!("SELECT sum(i), sum(c{last}), sum(c7) FROM t")).await;
    let outputs = outputs.expect("select");
    let sums: Vec<i64> = (0..3)
        .map(|sum| outputs[0].batches[0].column(sum).as_primitive::<Int64Type>().value(0))
        .collect();
    let all: i64 = (1..=100_000).sum();
    let expected = [all - 15, (all - (1..=11).sum::<i64>()) * COLUMNS, (all - 15) * 8];
    assert_eq!(sums, expected);
    assert!(engine.pins().pinned_bytes() <= limit);
    assert_eq!(engine.pins().copied_bytes(), 0);
}
