//! Tiers that are resized while queries run.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{MIB, config, error, show};
use terrace_pool::Placement;
use terrace_sql::{Engine, EngineConfig, Session};

/// Names and sizes of the memory tiers.
async fn sizes(session: &Session) -> String {
    show(session, "SELECT tier, capacity_bytes FROM terrace.tiers WHERE kind = 'memory'").await
}

fn engine(placement: Placement) -> Engine {
    let tiers = vec!["emu:64MiB@0ns".parse().expect("a tier")];
    Engine::open(&EngineConfig { tiers, placement, ..config(256 * MIB) }).expect("engine")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn dram_shrinks_to_a_quarter_and_grows_back_while_queries_run() {
    for placement in Placement::ALL {
        let engine = engine(placement);
        let session = engine.session().expect("session");
        let rows = "CREATE TABLE t WITH (encoding = 'plain') AS SELECT value AS id, \
                    (value * 7919) % 1000003 AS key, 'padding of a row ' || value AS pad \
                    FROM generate_series(1, 2000000)";
        show(&session, rows).await;
        let query = "SELECT count(*), sum(key), max(pad) FROM \
                     (SELECT * FROM t ORDER BY key, id LIMIT 1500000)";
        let expected = show(&session, query).await;
        let end = AtomicBool::new(false);
        let other = engine.session().expect("session");
        let reader = async {
            let mut runs = 0;
            while !end.load(Ordering::Relaxed) || runs < 2 {
                assert_eq!(show(&other, query).await, expected, "{placement}");
                runs += 1;
            }
        };
        let changer = async {
            for _ in 0..2 {
                session.sql("ALTER TIER dram SET (size = '64MiB')").await.expect("shrunk");
                assert_eq!(engine.ledger().budget(), 64 * MIB);
                assert!(engine.ledger().granted() <= 64 * MIB);
                assert_eq!(show(&session, query).await, expected, "{placement}");
                session.sql("alter tier DRAM set (size = '256MiB');").await.expect("grown");
                assert_eq!(engine.ledger().budget(), 256 * MIB);
            }
            end.store(true, Ordering::Relaxed);
        };
        tokio::join!(reader, changer);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_memory_tier_has_its_size_changed_by_name() {
    let engine = engine(Placement::Framed);
    let session = engine.session().expect("session");
    assert_eq!(sizes(&session).await, "dram 268435456\nemu 67108864");
    session.sql("ALTER TIER emu SET (size = '128MiB')").await.expect("grown");
    assert_eq!(sizes(&session).await, "dram 268435456\nemu 134217728");
    for (text, problem) in [
        (
            "ALTER TIER floppy SET (size = '1MiB')",
            "floppy is not possible; there is dram, emu".to_owned(),
        ),
        ("ALTER TIER dram SET (size = '1MiB')", "at least 32MiB".to_owned()),
        ("ALTER TIER dram SET (size = '99TiB')", "set up for 1GiB".to_owned()),
        ("ALTER TIER dram SET (size = 'lots')", "lots".to_owned()),
        ("ALTER TIER dram SET (colour = 'red')", "size = '512MiB'".to_owned()),
        ("ALTER TIER dram", "SET (size".to_owned()),
    ] {
        let refusal = error(&session, text).await;
        assert!(refusal.contains(&problem), "{text}: {refusal}");
        assert!(sizes(&session).await.starts_with("dram 268435456\n"), "{text}");
    }
}
