//! Segments placed in heaps, and migrated while queries run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{MIB, config, error, show};
use terrace_sql::{Engine, Session};

const QUERY: &str = "SELECT count(*), sum(key), min(pad), max(pad) FROM t WHERE key % 3 < 2";
const TIERS: &str = "SELECT tier, count(*) FROM terrace.segments WHERE table_name = 't' \
                     GROUP BY tier ORDER BY tier";

async fn table(session: &Session, name: &str, rows: u32) {
    let text = format!(
        "CREATE TABLE {name} WITH (encoding = 'plain') AS SELECT value AS id, \
         (value * 7919) % 1000003 AS key, 'padding of a row ' || value AS pad \
         FROM generate_series(1, {rows})"
    );
    show(session, &text).await;
}

async fn run(session: &Session, text: &str) {
    session.sql(text).await.unwrap_or_else(|error| panic!("{text}: {error}"));
}

async fn engine_with_heaps() -> (Engine, Session) {
    let engine = Engine::open(&config(256 * MIB)).expect("engine");
    let session = engine.session().expect("session");
    run(&session, "CREATE HEAP near WITH (size = '128MiB')").await;
    run(&session, "CREATE HEAP other WITH (memory = 'node:0', size = '128MiB')").await;
    let far = "CREATE HEAP far WITH (memory = 'file', size = '256MiB', dram = '8MiB', \
               block = '64KiB', metadata = 'together', retain = 'off')";
    run(&session, far).await;
    (engine, session)
}

/// Waits for background work of the engine.
async fn until(session: &Session, query: &str, expected: &str) {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let found = show(session, query).await;
        if found == expected {
            return;
        }
        assert!(Instant::now() < end, "{query}: {found}, not {expected}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn tables_move_while_queries_run() {
    let (engine, session) = engine_with_heaps().await;
    table(&session, "t", 1_000_000).await;
    let expected = show(&session, QUERY).await;
    let end = AtomicBool::new(false);
    let other = engine.session().expect("session");
    let reader = async {
        let mut runs = 0;
        while !end.load(Ordering::Relaxed) || runs < 3 {
            assert_eq!(show(&other, QUERY).await, expected);
            runs += 1;
        }
    };
    let mover = async {
        for tier in ["near", "far", "other", "far", "pool", "near", "pool"] {
            run(&session, &format!("ALTER TABLE t SET TIER {tier}")).await;
            if tier != "pool" {
                assert_eq!(show(&session, TIERS).await, format!("{tier} 48"));
            }
        }
        end.store(true, Ordering::Relaxed);
    };
    tokio::join!(reader, mover);
    let left = "SELECT sum(small_bytes + large_bytes) FROM terrace.heaps";
    until(&session, left, "0").await;
    assert!(!show(&session, TIERS).await.contains("near"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heap_over_a_file_keeps_to_its_dram() {
    let (_engine, session) = engine_with_heaps().await;
    table(&session, "t", 1_000_000).await;
    let expected = show(&session, QUERY).await;
    run(&session, "ALTER TABLE t SET TIER far").await;
    for _ in 0..3 {
        assert_eq!(show(&session, QUERY).await, expected);
    }
    let query = "SELECT resident_bytes <= 8388608, large_bytes > 33554432, \
                 written_bytes > 16777216, read_bytes > 33554432, faults > 100 \
                 FROM terrace.heaps WHERE heap = 'far'";
    assert_eq!(show(&session, query).await, "true true true true true");
    // Changed rows are in new chunks, which are then placed like the others.
    run(&session, "UPDATE t SET key = key + 1 WHERE id % 100 = 0").await;
    run(&session, "UPDATE t SET key = key - 1 WHERE id % 100 = 0").await;
    assert_eq!(show(&session, QUERY).await, expected);
    until(&session, TIERS, "far 48").await;
    assert_eq!(show(&session, QUERY).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn emulated_memory_is_as_far_as_was_said() {
    let (_engine, session) = engine_with_heaps().await;
    table(&session, "t", 200_000).await;
    let expected = show(&session, QUERY).await;
    let mut took = Duration::ZERO;
    for memory in ["emu", "emu@1ms"] {
        let text = format!(
            "CREATE HEAP emulated WITH (memory = '{memory}', size = '64MiB', dram = '1MiB', \
             block = '4KiB')"
        );
        run(&session, &text).await;
        run(&session, "ALTER TABLE t SET TIER emulated").await;
        let began = Instant::now();
        assert_eq!(show(&session, QUERY).await, expected);
        took = began.elapsed();
        let query = "SELECT resident_bytes <= 1048576, written_bytes > 4194304, \
                     read_bytes > 4194304 FROM terrace.heaps WHERE heap = 'emulated'";
        assert_eq!(show(&session, query).await, "true true true");
        run(&session, "DROP HEAP emulated").await;
    }
    // More than a thousand blocks are loaded, a few of them at a time.
    assert!(took > Duration::from_millis(250), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_and_chunks_have_homes_of_their_own() {
    let (_engine, session) = engine_with_heaps().await;
    table(&session, "t", 200_000).await;
    let expected = show(&session, QUERY).await;
    run(&session, "ALTER TABLE t COLUMN pad SET TIER far").await;
    run(&session, "ALTER TABLE public.t COLUMN key CHUNK 1 SET TIER near").await;
    let homes = "SELECT column_name, chunk FROM terrace.segments WHERE tier IN ('near', 'far') \
                 ORDER BY column_name, chunk";
    assert_eq!(show(&session, homes).await, "key 1\npad 0\npad 1\npad 2\npad 3");
    assert_eq!(show(&session, QUERY).await, expected);
    // New chunks follow the placement of the column.
    run(&session, "INSERT INTO t SELECT id, key, pad FROM t LIMIT 10").await;
    until(&session, homes, "key 1\npad 0\npad 1\npad 2\npad 3\npad 4").await;
    // The placement of a chunk takes precedence over that of its column.
    run(&session, "ALTER TABLE t COLUMN pad CHUNK 2 SET TIER pool").await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(show(&session, homes).await, "key 1\npad 0\npad 1\npad 3\npad 4");
    run(&session, "DROP HEAP far").await;
    assert_eq!(show(&session, homes).await, "key 1");
    run(&session, "DROP HEAP IF EXISTS far").await;
    assert!(error(&session, "ALTER TABLE t SET TIER far").await.contains("pool, auto, near"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_moves_in_no_part() {
    let (_engine, session) = engine_with_heaps().await;
    table(&session, "t", 1_000_000).await;
    run(&session, "CREATE HEAP small WITH (size = '16MiB')").await;
    let refusal = error(&session, "ALTER TABLE t SET TIER small").await;
    assert!(refusal.contains("heap small: no room for"), "{refusal}");
    assert!(!show(&session, TIERS).await.contains("small"));
    let used = "SELECT small_bytes + large_bytes FROM terrace.heaps WHERE heap = 'small'";
    assert_eq!(show(&session, used).await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_keeps_near_what_is_read_most() {
    let engine = Engine::open(&config(256 * MIB)).expect("engine");
    let session = engine.session().expect("session");
    table(&session, "t", 400_000).await;
    table(&session, "u", 400_000).await;
    // Large enough for one of the two tables, with allocator overhead.
    run(&session, "CREATE HEAP near WITH (size = '32MiB')").await;
    run(&session, "ALTER TABLE t SET TIER auto").await;
    run(&session, "ALTER TABLE u SET TIER auto").await;
    for (hot, count) in [("t", 5), ("u", 60)] {
        let near = format!(
            "SELECT count(*) >= 18 FROM terrace.segments \
             WHERE tier = 'near' AND table_name = '{hot}'"
        );
        let end = Instant::now() + Duration::from_secs(30);
        while show(&session, &near).await != "true" {
            for _ in 0..count {
                show(&session, &format!("SELECT max(pad), sum(key), sum(id) FROM {hot}")).await;
            }
            assert!(Instant::now() < end, "of the 21 segments of {hot}, few are near");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_is_named() {
    let (_engine, session) = engine_with_heaps().await;
    table(&session, "t", 1000).await;
    for (text, problem) in [
        ("CREATE HEAP near WITH (size = '64MiB')", "heap near already exists"),
        ("CREATE HEAP pool WITH (size = '64MiB')", "pool"),
        ("CREATE HEAP dram WITH (size = '64MiB')", "where tiers are named"),
        ("CREATE HEAP x", "size = '1GiB'"),
        ("CREATE HEAP x WITH (memory = 'emu', size = '16000000TiB')", "at most 64TiB"),
        ("CREATE HEAP x WITH (memory = 'file', size = '64TiB', block = '4KiB')", "larger blocks"),
        ("CREATE HEAP x WITH (size = '1MiB')", "8MiB"),
        ("CREATE HEAP x WITH (memory = 'node:77', size = '64MiB')", "node"),
        ("CREATE HEAP x WITH (memory = 'file:/nowhere', size = '64MiB')", "/nowhere"),
        ("CREATE HEAP x WITH (memory = 'emu@soon', size = '64MiB')", "soon"),
        ("DROP HEAP x", "there is no heap x"),
        ("ALTER TABLE t SET TIER x", "there is no heap x; there is pool, auto, far, near, other"),
        ("ALTER TABLE nothing SET TIER near", "nothing"),
        ("ALTER TABLE t COLUMN colour SET TIER near", "colour"),
        ("ALTER TABLE t CHUNK 77 SET TIER near", "chunk 77"),
        ("ALTER TABLE t CHUNK 0 SET TIER auto", "auto is for tables"),
        ("ALTER TABLE t COLUMN SET TIER near", "TIER"),
    ] {
        let refusal = error(&session, text).await;
        assert!(refusal.contains(problem), "{text}: {refusal}");
    }
    run(&session, "CREATE HEAP IF NOT EXISTS near WITH (size = '64MiB')").await;
    assert_eq!(show(&session, "SELECT count(*) FROM terrace.heaps").await, "3");
}

/// Pages cached in the pool do not prevent a heap from getting its part of the budget.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn heaps_get_what_the_pool_can_spare() {
    let engine = Engine::open(&config(64 * MIB)).expect("engine");
    let session = engine.session().expect("session");
    table(&session, "t", 2_000_000).await;
    let expected = show(&session, QUERY).await;
    let held = "SELECT held_bytes > 32000000 FROM terrace.consumers WHERE class = 'pool'";
    assert_eq!(show(&session, held).await, "true", "the pool has nearly all");
    let far = "CREATE HEAP far WITH (memory = 'file', size = '256MiB', dram = '16MiB', \
               block = '4MiB', metadata = 'together')";
    run(&session, far).await;
    run(&session, "ALTER TABLE t SET TIER far").await;
    assert_eq!(show(&session, QUERY).await, expected);
    until(&session, "SELECT resident_bytes FROM terrace.heaps", "16777216").await;
}
