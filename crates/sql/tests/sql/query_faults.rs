//! A failing device: each failure is one clear error, and the session stays usable.

use std::sync::Arc;

use crate::common::{MIB, config, error, eventually, show};
use terrace_sql::{Engine, Session};
use terrace_store::MemoryBlocks;
use terrace_testkit::{Fault, FaultyBlocks, Target, When};

const STORE_BYTES: u64 = 1 << 30;
const DRAM: u64 = 32 * MIB;

/// About 60 MiB, so that most of it is not in memory.
const TABLE: &str = "CREATE TABLE t WITH (encoding = 'plain') AS \
                     SELECT value AS id, (value * 7919) % 1000003 AS key, \
                     'padding that makes a row wide enough, ' || value AS pad \
                     FROM generate_series(1, 900000)";
const SUM: &str = "SELECT count(*), sum(key), max(pad) FROM t";
const SORT: &str = "SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY pad) AS n FROM t)";

async fn faulty() -> (Arc<FaultyBlocks>, Engine, Session, String) {
    let blocks = Arc::new(FaultyBlocks::new(Arc::new(MemoryBlocks::new(STORE_BYTES)), 1));
    let device = Arc::clone(&blocks);
    let engine = Engine::over_blocks(&config(DRAM), device, STORE_BYTES).expect("engine");
    let session = engine.session().expect("session");
    show(&session, TABLE).await;
    let sum = show(&session, SUM).await;
    (blocks, engine, session, sum)
}

fn used(engine: &Engine) -> u64 {
    engine.pool().store().expect("store").stats().used_bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_that_fail_or_lie_are_named_and_pass() {
    let (blocks, _engine, session, sum) = faulty().await;
    for (fault, part) in
        [(Fault::Eio, "os error 5"), (Fault::FlippedBit, "checksum"), (Fault::Short, "end")]
    {
        blocks.inject(Target::Read, When::Always, fault);
        let text = error(&session, SUM).await;
        assert!(text.contains(part), "{fault:?}: {text}");
        assert!(text.contains("blocks"), "the store is named: {text}");
        blocks.heal();
        assert_eq!(show(&session, SUM).await, sum, "after {fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_device_ends_the_statement_and_nothing_else() {
    let (blocks, engine, session, sum) = faulty().await;
    let before = used(&engine);
    for target in [Target::Grow, Target::Write] {
        blocks.inject(target, When::Always, Fault::Full);
        for statement in ["CREATE TABLE u AS SELECT * FROM t", "INSERT INTO t SELECT * FROM t"] {
            let text = error(&session, statement).await;
            assert!(text.contains("full") || text.contains("no room"), "{target:?}: {text}");
        }
        blocks.heal();
        assert_eq!(show(&session, SUM).await, sum);
        eventually("what was written is free again", || used(&engine) <= before).await;
    }
    show(&session, "CREATE TABLE u AS SELECT * FROM t").await;
    assert_eq!(show(&session, &SUM.replace("FROM t", "FROM u")).await, sum);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spill_that_finds_no_room_ends_its_query_alone() {
    let (blocks, engine, session, sum) = faulty().await;
    blocks.inject(Target::Write, When::Always, Fault::Full);
    blocks.inject(Target::Grow, When::Always, Fault::Full);
    let text = error(&session, SORT).await;
    assert!(!text.contains("panicked"), "{text}");
    blocks.heal();
    assert_eq!(show(&session, SORT).await, "900000");
    assert_eq!(show(&session, SUM).await, sum);
    eventually("no spill page is left", || {
        engine.pool().spaces().iter().all(|space| !space.name.starts_with("query"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_error_stops_writing_and_not_reading() {
    let (blocks, _engine, session, sum) = faulty().await;
    blocks.inject(Target::Write, When::Nth(3), Fault::Eio);
    let first = error(&session, "CREATE TABLE u AS SELECT * FROM t").await;
    assert!(first.contains("os error 5"), "{first}");
    blocks.heal();
    let again = error(&session, "CREATE TABLE u AS SELECT 1 AS a").await;
    assert!(again.contains("os error 5"), "the first error is named: {again}");
    assert_eq!(show(&session, SUM).await, sum);
    assert_eq!(show(&session, "SHOW TABLES").await.matches(" u ").count(), 0);
}
