//! Limits of tenants: sessions, concurrent queries and their queue, time, memory, spilled bytes.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use terrace_sql::query::QueryState;
use terrace_sql::{Engine, Session, SqlError};

use crate::common::{engine, error, eventually, show};

const DRAM: u64 = 64 << 20;
/// A query that returns batches for as long as they are read.
const LONG: &str = "SELECT value FROM generate_series(1, 100000000)";

/// An engine with a tenant `t` with these limits, and a session of the tenant.
async fn with_tenant(limits: &str) -> (Engine, Session) {
    let engine = engine(DRAM);
    let owner = engine.session().expect("a session");
    show(&owner, &format!("CREATE TENANT t WITH ({limits})")).await;
    let session = of_tenant(&engine).await;
    (engine, session)
}

async fn of_tenant(engine: &Engine) -> Session {
    let session = engine.session().expect("a session");
    show(&session, "SET terrace.tenant = 't'").await;
    session
}

async fn begun(session: &Session) -> terrace_sql::QueryHandle {
    let statement = session.parse(LONG).expect("parsed").pop().expect("one");
    let mut handle = session.execute(statement).await.expect("begun");
    handle.stream.next().await.expect("a batch").expect("rows");
    handle
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_wait_for_their_turn() {
    let (engine, first) = with_tenant("max_queries = '1', queue_timeout = '20s'").await;
    let running = begun(&first).await;
    let second = of_tenant(&engine).await;
    let waiting = tokio::spawn(async move { show(&second, "SELECT 1").await });
    let owner = engine.session().expect("a session");
    let queued = || async { show(&owner, "SELECT queued FROM terrace.tenants").await };
    let began = Instant::now();
    while queued().await != "1" {
        assert!(began.elapsed() < Duration::from_secs(10), "it waits");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let states = show(&owner, "SELECT state FROM terrace.queries WHERE tenant = 't'").await;
    assert_eq!(states, "running\nqueued");
    assert_eq!(running.query().state(), QueryState::Running);
    // Other tenants are not affected, and the end of a transaction does not wait.
    show(&owner, "SELECT 1").await;
    let third = of_tenant(&engine).await;
    show(&third, "BEGIN; ROLLBACK").await;
    drop(running);
    assert_eq!(waiting.await.expect("a thread"), "1");
    eventually("its turn is over", || engine.ledger().budget() > 0).await;
    assert_eq!(queued().await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_waits_too_long_or_is_cancelled_has_one_error() {
    let (engine, first) = with_tenant("max_queries = '1', queue_timeout = '200ms'").await;
    let running = begun(&first).await;
    let second = of_tenant(&engine).await;
    let late = error(&second, "SELECT 1").await;
    assert!(late.contains("tenant t runs 1 queries") && late.contains("200ms"), "{late}");
    let owner = engine.session().expect("a session");
    show(&owner, "ALTER TENANT t SET (queue_timeout = '1h')").await;
    let waiting = tokio::spawn(async move { error(&second, "SELECT 1").await });
    let queued = "SELECT max(id) FROM terrace.queries WHERE state = 'queued'";
    let mut id = String::new();
    let began = Instant::now();
    while id.parse::<u64>().is_err() {
        assert!(began.elapsed() < Duration::from_secs(10), "it waits");
        id = show(&owner, queued).await;
    }
    show(&owner, &format!("CANCEL QUERY {id}")).await;
    assert!(waiting.await.expect("a thread").contains("was cancelled"));
    // A higher limit admits waiting queries.
    let third = of_tenant(&engine).await;
    let waiting = tokio::spawn(async move { show(&third, "SELECT 3").await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    show(&owner, "ALTER TENANT t SET (max_queries = '2')").await;
    assert_eq!(waiting.await.expect("a thread"), "3");
    drop(running);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_ends_when_its_time_is_over() {
    let (_engine, session) = with_tenant("query_timeout = '300ms'").await;
    let began = Instant::now();
    let ended = error(&session, "SELECT count(*) FROM generate_series(1, 100000000000)").await;
    assert!(ended.contains("tenant t allows a query 300ms"), "{ended}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    // A query that is not read times out as well.
    let handle = begun(&session).await;
    let query = handle.query().clone();
    eventually("it is cancelled", || query.state() == QueryState::Cancelled).await;
    assert_eq!(show(&session, "SELECT 1").await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_and_spilled_bytes_have_limits() {
    let sort = "SELECT count(*) FROM (SELECT value, value * 7919 % 1000003 AS k \
                FROM generate_series(1, 2000000) ORDER BY k, value LIMIT 1999999)";
    let (engine, session) = with_tenant("max_dram = '8MiB'").await;
    let statement = session.parse(sort).expect("parsed").pop().expect("one");
    let handle = session.execute(statement).await.expect("begun");
    let query = handle.query().clone();
    handle.collect().await.expect("sorted");
    let (peak, spilled) = (query.memory().peak_bytes(), query.spilled().bytes());
    assert!(peak < 24 << 20, "{peak} bytes at most");
    assert!(spilled > 8 << 20, "{spilled} bytes were spilled");
    let owner = engine.session().expect("a session");
    show(&owner, "ALTER TENANT t SET (max_spill = '4MiB')").await;
    let ended = error(&session, sort).await;
    assert!(ended.contains("may spill 4MiB"), "{ended}");
    show(&owner, "ALTER TENANT t SET (max_spill = '', max_dram = '')").await;
    assert_eq!(show(&session, sort).await, "1999999");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_has_as_many_sessions_as_it_may() {
    let engine = engine(DRAM);
    let owner = engine.session().expect("a session");
    show(&owner, "CREATE TENANT t WITH (max_connections = '2')").await;
    show(&owner, "CREATE ROLE admin SUPERUSER LOGIN PASSWORD 'x'").await;
    show(&owner, "CREATE ROLE ada LOGIN TENANT t").await;
    let first = engine.session_of("ada").expect("the first");
    let second = engine.session_of("ada").expect("the second");
    assert!(matches!(engine.session_of("ada"), Err(SqlError::TenantFull { limit: 2, .. })));
    let again = second.renewed().expect("in the same place");
    drop(second);
    assert!(engine.session_of("ada").is_err());
    drop(first);
    let third = engine.session_of("ada").expect("there is room");
    let shown = "SELECT sessions, limits FROM terrace.tenants";
    assert_eq!(show(&owner, shown).await, "2 max_connections 2");
    drop((again, third));
    for (text, part) in [
        ("ALTER TENANT t SET (max_queries = 'many')", "a number from 1 on"),
        ("ALTER TENANT t SET (query_timeout = '5')", "30s"),
        ("ALTER TENANT t SET (max_dram = 'all')", "size"),
        ("ALTER TENANT t SET (max_rows = '5')", "max_spill"),
    ] {
        let refused = error(&owner, text).await;
        assert!(refused.contains(part), "{refused}");
    }
}
