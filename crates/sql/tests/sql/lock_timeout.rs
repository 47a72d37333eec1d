//! Waits for locks of tables that end at `terrace.lock_timeout`.

use std::time::{Duration, Instant};

use terrace_sql::{Engine, EngineConfig, LockTimeout, Session, TransactionStatus};
use terrace_store::MemoryBlocks;

use crate::common::{MIB, config, engine, error, show, try_show};

const WORDS: &str = "canceling statement due to lock timeout: table public.t ";

/// Runs a statement that must fail at its limit of 100 ms.
async fn late(session: &Session, text: &str) {
    let began = Instant::now();
    let late = error(session, text).await;
    assert!(late.contains(WORDS), "{text}: {late}");
    let waited = began.elapsed();
    assert!(waited >= Duration::from_millis(100), "{text}: {waited:?}");
    assert!(waited < Duration::from_secs(30), "{text}: {waited:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_wait_no_longer_than_their_limit() {
    let engine = engine(64 * MIB);
    let (one, other) = (engine.session().expect("session"), engine.session().expect("session"));
    show(&one, "CREATE TABLE t AS SELECT 1 AS k; CREATE TABLE u AS SELECT 1 AS k").await;
    show(&one, "BEGIN; UPDATE t SET k = 2").await;
    show(&other, "SET terrace.lock_timeout = '100ms'").await;
    assert_eq!(other.lock_timeout(), LockTimeout::new(Duration::from_millis(100)));
    for text in [
        "UPDATE t SET k = 3",
        "DELETE FROM t WHERE k = 1",
        "TRUNCATE t",
        "INSERT OVERWRITE t VALUES (4)",
        "CREATE OR REPLACE TABLE t AS SELECT k + 1 AS k FROM t",
        "DROP TABLE t",
        "DROP SCHEMA public CASCADE",
    ] {
        late(&other, text).await;
    }
    // The session goes on, and what needs no lock does not wait.
    assert_eq!(show(&other, "SELECT k FROM t; UPDATE u SET k = 5; SELECT k FROM u").await, "5");
    show(&other, "INSERT INTO t VALUES (7)").await;
    let statement = other.parse("UPDATE t SET k = k + 1").expect("parsed").pop().expect("one");
    let prepared = other.prepare(statement, &[]).await.expect("prepared");
    let run = other.execute_prepared(&prepared, vec![]).await.expect("begun").collect().await;
    let late = run.expect_err("locked").to_string();
    assert!(late.contains(WORDS), "{late}");
    show(&one, "COMMIT").await;
    assert_eq!(show(&other, "SELECT k FROM t ORDER BY k").await, "2\n7");
    show(&other, "UPDATE t SET k = 3 WHERE k = 2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_statement_fails_its_transaction() {
    let engine = engine(64 * MIB);
    let (one, other) = (engine.session().expect("session"), engine.session().expect("session"));
    show(&one, "CREATE TABLE t AS SELECT 1 AS k; CREATE TABLE u AS SELECT 1 AS k").await;
    show(&one, "BEGIN; DELETE FROM t").await;
    show(&other, "SET terrace.lock_timeout = 100; BEGIN; UPDATE u SET k = 2; SAVEPOINT s").await;
    late(&other, "UPDATE t SET k = 3").await;
    assert_eq!(other.transaction_status(), TransactionStatus::Failed);
    show(&other, "ROLLBACK TO s").await;
    late(&other, "DROP TABLE t").await;
    show(&other, "ROLLBACK TO s; COMMIT").await;
    assert_eq!(show(&one, "ROLLBACK; SELECT t.k, u.k FROM t, u").await, "1 2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_released_within_the_limit_is_granted() {
    let engine = engine(64 * MIB);
    let (one, other) = (engine.session().expect("session"), engine.session().expect("session"));
    show(&one, "CREATE TABLE t AS SELECT 1 AS k").await;
    for limit in ["60s", "0"] {
        show(&one, "BEGIN; UPDATE t SET k = k + 1").await;
        show(&other, &format!("SET terrace.lock_timeout = '{limit}'")).await;
        let commit = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            show(&one, "COMMIT").await
        };
        tokio::join!(show(&other, "UPDATE t SET k = k + 1"), commit);
    }
    assert_eq!(show(&one, "SELECT k FROM t").await, "5");
}

/// Waits until a query has this result.
async fn comes_to(session: &Session, query: &str, wanted: &str) {
    let began = Instant::now();
    loop {
        let now = show(session, query).await;
        if now == wanted {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{query}: {now}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// An UPDATE that is a transaction by itself holds the writer of its table to its end, for which a
/// COMMIT of rows of that table waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_waits_no_longer_than_its_limit() {
    let engine = engine(64 * MIB);
    let [one, other, long] = [(); 3].map(|()| engine.session().expect("session"));
    show(&one, "CREATE TABLE t AS SELECT 1::bigint AS k").await;
    show(&other, "SET terrace.lock_timeout = '100ms'; BEGIN; INSERT INTO t VALUES (2)").await;
    let endless = "UPDATE t SET k = s.n FROM (SELECT count(*) AS n FROM \
                   generate_series(1, 1000000) AS a(x), generate_series(1, 1000000) AS b(y) \
                   WHERE x * y % 7 = 1) AS s";
    let held = tokio::spawn(async move { long.sql(endless).await.map(drop) });
    show(&one, "SET terrace.lock_timeout = '20ms'").await;
    let began = Instant::now();
    while try_show(&one, "UPDATE t SET k = 1").await.is_ok() {
        assert!(began.elapsed() < Duration::from_secs(30), "it takes no lock");
    }
    show(&other, "SET terrace.lock_timeout = '3s'").await;
    let waits = "SELECT count(*) FROM terrace.sessions WHERE wait_reason = 'lock' AND state = \
                 'running'";
    tokio::join!(late(&other, "COMMIT"), comes_to(&one, waits, "1"));
    assert_eq!(other.transaction_status(), TransactionStatus::Idle);
    let running = "SELECT id FROM terrace.queries WHERE statement LIKE 'UPDATE t %'";
    let id = show(&one, running).await;
    show(&one, &format!("CANCEL QUERY {id}")).await;
    held.await.expect("joined").expect_err("cancelled");
    assert_eq!(show(&other, "SELECT k FROM t").await, "1", "nothing of it is committed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waits_for_locks_are_shown() {
    let engine = engine(64 * MIB);
    let (one, watcher) = (engine.session().expect("session"), engine.session().expect("session"));
    show(&one, "CREATE TABLE t AS SELECT 1 AS k").await;
    for (begins, text) in [
        ("", "UPDATE t SET k = 3"),
        ("BEGIN", "DELETE FROM t WHERE k = 0"),
        ("", "CREATE OR REPLACE TABLE t AS SELECT 1 AS k"),
        ("BEGIN", "DROP TABLE t"),
    ] {
        show(&one, "BEGIN; UPDATE t SET k = k + 1").await;
        let other = engine.session().expect("session");
        show(&other, begins).await;
        let waiting = tokio::spawn(async move { other.sql(text).await.map(drop) });
        let query = "SELECT q.wait_reason, s.wait_reason FROM terrace.queries q JOIN \
                     terrace.sessions s ON q.session = s.id WHERE q.statement NOT LIKE 'SELECT%'";
        comes_to(&watcher, query, "lock lock").await;
        show(&one, "ROLLBACK").await;
        waiting.await.expect("joined").unwrap_or_else(|error| panic!("{text}: {error}"));
        comes_to(&watcher, query, "").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_are_settings_of_a_session() {
    let initial = vec![("terrace.lock_timeout".to_owned(), "2s".to_owned())];
    let config = EngineConfig { settings: initial, ..config(64 * MIB) };
    let blocks = || std::sync::Arc::new(MemoryBlocks::new(64 << 20));
    let engine = Engine::over_blocks(&config, blocks(), 64 << 20).expect("engine");
    let session = engine.session().expect("session");
    let limit = |millis| LockTimeout::new(Duration::from_millis(millis));
    assert_eq!(session.lock_timeout(), limit(2000));
    for (text, millis) in [("'1.5s'", 1500), ("250", 250), ("'1 min'", 60_000), ("'0'", 0)] {
        show(&session, &format!("SET terrace.lock_timeout = {text}")).await;
        assert_eq!(session.lock_timeout(), limit(millis), "{text}");
    }
    show(&session, "SET terrace.lock_timeout = '1d'").await;
    assert!(show(&session, "SHOW terrace.lock_timeout").await.contains("1d"));
    for text in ["'soon'", "''", "'5 weeks'", "2147483648"] {
        let refused = error(&session, &format!("SET terrace.lock_timeout = {text}")).await;
        assert!(refused.contains("at most 24 days"), "{text}: {refused}");
    }
    assert_eq!(session.lock_timeout(), limit(86_400_000));
    show(&session, "RESET terrace.lock_timeout").await;
    assert_eq!(session.lock_timeout(), LockTimeout::NONE);
    session.reset_settings();
    assert_eq!(session.lock_timeout(), limit(2000));
    let wrong = vec![("terrace.lock_timeout".to_owned(), "soon".to_owned())];
    let config = EngineConfig { settings: wrong, ..config };
    assert!(Engine::over_blocks(&config, blocks(), 64 << 20).is_err());
}
