//! SLAs, tenants and the market, through SQL.

use std::time::Duration;

use crate::common::{MIB, engine, engine_in, error, eventually, lines, show};
use futures::StreamExt;
use terrace_sql::query::{QueryState, WaitReason};
use terrace_sql::{Engine, QueryHandle, Session};

const STEEP: &str = "SET terrace.sla = 'latency 1ms penalty 100 per 1ms'";
const ROWS: usize = 500_000;

/// An engine with a table `t` of about 50 MiB.
async fn loaded(dram_bytes: u64) -> Engine {
    let engine = engine(dram_bytes);
    let session = engine.session().expect("session");
    let source = format!(
        "SELECT value AS i, repeat('x', 60) || (value * 7919 % {ROWS}) AS s \
         FROM generate_series(1, {ROWS})"
    );
    session.sql(&format!("CREATE TABLE t AS {source}")).await.expect("made");
    engine
}

/// A running sort of the table that has returned its first batch: its state holds all rows.
async fn sorting(session: &Session) -> (QueryHandle, usize) {
    let statement = session.parse("SELECT s, i FROM t ORDER BY s, i").expect("parses").remove(0);
    let mut handle = session.execute(statement).await.expect("starts");
    let first = handle.stream.next().await.expect("a batch").expect("no error");
    (handle, first.num_rows())
}

/// Reads a sort to its end, and checks the order.
async fn finish(mut handle: QueryHandle, first: usize) {
    let (mut rows, mut last) = (first, String::new());
    while let Some(batch) = handle.stream.next().await {
        let batch = batch.expect("no error");
        rows += batch.num_rows();
        for line in lines(&batch) {
            let key = line.split(' ').next().unwrap_or_default().to_owned();
            assert!(last <= key, "{last} before {key}");
            last = key;
        }
    }
    assert_eq!(rows, ROWS);
}

#[tokio::test]
async fn an_sla_is_set_shown_and_refused() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    session.sql("SET terrace.sla = 'latency 50ms penalty 10, priority 2'").await.expect("taken");
    let shown = show(&session, "SHOW terrace.sla").await;
    assert!(shown.contains("latency 50ms penalty 10, priority 2"), "{shown}");
    let own = show(&session, "SELECT sla FROM terrace.queries").await;
    assert_eq!(own, "latency 50ms penalty 10, priority 2");
    for (value, problem) in [("fast", "not `fast`"), ("latency 50 penalty 1", "a time such as")] {
        let refusal = error(&session, &format!("SET terrace.sla = '{value}'")).await;
        assert!(refusal.contains(problem) && refusal.contains("write for example"), "{refusal}");
    }
    assert!(show(&session, "SHOW terrace.sla").await.contains("priority 2"), "as it was");
    session.sql("SET terrace.sla = ''").await.expect("taken back");
    assert_eq!(show(&session, "SELECT count(sla) FROM terrace.queries").await, "0");
}

#[tokio::test]
async fn the_market_is_one_for_all_sessions() {
    let engine = engine(64 * MIB);
    let (one, other) = (engine.session().expect("session"), engine.session().expect("session"));
    assert!(show(&one, "SHOW terrace.market").await.contains("auction"));
    one.sql("SET terrace.market = 'price'").await.expect("taken");
    assert!(show(&other, "SHOW terrace.market").await.contains("price"));
    let refusal = error(&other, "SET terrace.market = 'bazaar'").await;
    assert!(refusal.contains("fair, static, demand, exchange, price and auction"), "{refusal}");
    other.sql("RESET terrace.market").await.expect("taken back");
    assert!(show(&one, "SHOW terrace.market").await.contains("auction"));
}

#[tokio::test]
async fn tenants_are_durable_and_named_when_they_are_missing() {
    let directory = tempfile::tempdir().expect("tempdir");
    {
        let engine = engine_in(directory.path(), 64 * MIB);
        let session = engine.session().expect("session");
        session
            .sql(
                "CREATE TENANT gold WITH (sla = 'latency 50ms penalty 10, priority 1'); \
                 CREATE TENANT IF NOT EXISTS gold; CREATE TENANT Plain; CREATE TENANT gone; \
                 DROP TENANT gone; DROP TENANT IF EXISTS gone",
            )
            .await
            .expect("made");
        drop(session);
        engine.close().expect("closes");
    }
    let engine = engine_in(directory.path(), 64 * MIB);
    let session = engine.session().expect("session");
    let tenants = "SELECT tenant, sla, priority FROM terrace.tenants ORDER BY tenant";
    let listed = show(&session, tenants).await;
    assert_eq!(listed, "gold latency 50ms penalty 10, priority 1 1\nplain  ");
    for (text, problem) in [
        ("SET terrace.tenant = 'silver'", "tenant silver does not exist; CREATE TENANT silver"),
        ("DROP TENANT silver", "tenant silver does not exist"),
        ("ALTER TENANT silver SET (sla = 'none')", "tenant silver does not exist"),
        ("CREATE TENANT gold", "tenant gold already exists; say ALTER TENANT gold"),
        ("CREATE TENANT x WITH (colour = 'red')", "option colour of a tenant"),
        ("CREATE TENANT x WITH (sla = 'soon')", "\"soon\" is not an SLA"),
        ("ALTER TENANT gold", "SET (sla"),
    ] {
        let refusal = error(&session, text).await;
        assert!(refusal.contains(problem), "{text}: {refusal}");
    }
    session.sql("SET terrace.tenant = 'gold'").await.expect("taken");
    let own = "SELECT tenant, sla FROM terrace.queries";
    assert_eq!(show(&session, own).await, "gold latency 50ms penalty 10, priority 1");
    session.sql("ALTER TENANT gold SET (sla = 'none')").await.expect("changed");
    assert_eq!(show(&session, own).await, "gold none");
    session.sql("SET terrace.sla = 'io 9 penalty 1'").await.expect("taken");
    assert_eq!(show(&session, own).await, "gold io 9 penalty 1", "its own comes first");
    session.sql("DROP TENANT gold; SET terrace.sla = ''").await.expect("dropped");
    assert_eq!(show(&session, own).await, "gold ", "it goes on without its SLA");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_moves_between_sessions_and_nothing_fails() {
    let engine = loaded(128 * MIB).await;
    let (calm, steep) = (engine.session().expect("session"), engine.session().expect("session"));
    steep.sql(STEEP).await.expect("taken");
    let (mut first, first_rows) = sorting(&calm).await;
    assert_eq!(first.query().memory().limit(), None, "who is alone has no limit");
    let (second, second_rows) = sorting(&steep).await;
    let limits = || [&first, &second].map(|it| it.query().memory().limit().unwrap_or(u64::MAX));
    eventually("a limit for each", || {
        let [calm, steep] = limits();
        steep < u64::MAX && calm < steep
    })
    .await;
    let seen = show(
        &calm,
        "SELECT count(*) FROM terrace.market WHERE class = 'query' AND target_bytes > 0 \
         AND held_bytes > 0",
    )
    .await;
    assert_eq!(seen, "2");
    // Operators give memory back when they are polled for the next batch; a merging sort keeps the
    // first blocks of four runs, and the merge above two sorts keeps what it has read.
    let mut read = first_rows;
    let is_above = |first: &QueryHandle| {
        let limit = first.query().memory().limit().unwrap_or(u64::MAX);
        first.query().memory().held_bytes() > limit.saturating_add(32 * MIB)
    };
    while is_above(&first) {
        let batch = first.stream.next().await.expect("a batch").expect("no error");
        read += batch.num_rows();
        assert!(read < ROWS / 10, "still {}", first.query().memory().held_bytes());
    }
    finish(second, second_rows).await;
    finish(first, read).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_preempted_query_resumes_with_the_right_answer() {
    let engine = loaded(128 * MIB).await;
    let (low, high) = (engine.session().expect("session"), engine.session().expect("session"));
    high.sql("SET terrace.sla = 'latency 0ms penalty 1, priority 1'").await.expect("taken");
    let (first, first_rows) = sorting(&low).await;
    let query = std::sync::Arc::clone(first.query());
    let second = tokio::spawn(async move {
        let (second, second_rows) = sorting(&high).await;
        finish(second, second_rows).await;
    });
    eventually("the lower one waits", || query.state() == QueryState::Preempted).await;
    second.await.expect("no panic");
    eventually("it goes on", || query.state() == QueryState::Running).await;
    let finished = tokio::time::timeout(Duration::from_secs(60), finish(first, first_rows));
    finished.await.expect("in a minute");
}

/// Pausing takes CPU time from a query, but no memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_query_stands_still_with_what_it_holds() {
    let engine = loaded(128 * MIB).await;
    let (low, high) = (engine.session().expect("session"), engine.session().expect("session"));
    high.sql("SET terrace.sla = 'latency 0ms penalty 1, priority 1'").await.expect("taken");
    let (mut first, mut read) = sorting(&low).await;
    let query = std::sync::Arc::clone(first.query());
    // Needs only the processor, for about two seconds.
    let busy = "SELECT count(*) FROM generate_series(1, 40000000) WHERE value % 7 = 3";
    let second = tokio::spawn(async move { show(&high, busy).await });
    eventually("the lower one waits", || query.state() == QueryState::Preempted).await;
    // Batches that were already produced may still arrive.
    let stands_still = loop {
        match tokio::time::timeout(Duration::from_millis(150), first.stream.next()).await {
            Err(_) => break true,
            Ok(Some(batch)) => read += batch.expect("no error").num_rows(),
            Ok(None) => break false,
        }
    };
    assert!(stands_still && read < ROWS / 10, "it went on for {read} rows");
    assert_eq!(query.state(), QueryState::Preempted);
    assert!(query.memory().pinned_bytes() > MIB, "{}", query.memory().pinned_bytes());
    assert_eq!(second.await.expect("no panic"), "5714286");
    let finished = tokio::time::timeout(Duration::from_secs(60), finish(first, read));
    finished.await.expect("in a minute");
}

/// Neither query has a priority; by their SLAs, delaying the other query costs more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_goes_to_the_query_whose_delay_costs_more() {
    let engine = loaded(128 * MIB).await;
    let (calm, steep) = (engine.session().expect("session"), engine.session().expect("session"));
    steep.sql(STEEP).await.expect("taken");
    let (first, first_rows) = sorting(&calm).await;
    let query = std::sync::Arc::clone(first.query());
    let first = tokio::spawn(finish(first, first_rows));
    let busy = "SELECT count(*) FROM generate_series(1, 40000000) WHERE value % 7 = 3";
    let second = tokio::spawn(async move { show(&steep, busy).await });
    eventually("the calm one waits", || query.wait_reason() == Some(WaitReason::Time)).await;
    assert_eq!(query.state(), QueryState::Preempted);
    assert!(query.memory().pinned_bytes() > MIB, "it keeps what it holds");
    assert_eq!(second.await.expect("no panic"), "5714286");
    let finished = tokio::time::timeout(Duration::from_secs(60), first).await;
    finished.expect("in a minute").expect("no panic");
}

/// Other queries may wait for a change, so it is not paused for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_not_paused_for_the_time_of_others() {
    let engine = loaded(128 * MIB).await;
    let (calm, steep) = (engine.session().expect("session"), engine.session().expect("session"));
    steep.sql(STEEP).await.expect("taken");
    let busy = "SELECT count(*) FROM generate_series(1, 40000000) WHERE value % 7 = 3";
    let second = tokio::spawn(async move { show(&steep, busy).await });
    let change = "UPDATE t SET i = i + 1 WHERE i IN (SELECT i FROM t WHERE i % 2 = 0)";
    let first = tokio::spawn(async move { calm.sql(change).await.map(|_| ()) });
    let mut seen = 0;
    while !first.is_finished() {
        for query in engine.queries().running().iter().filter(|it| it.text().contains("UPDATE")) {
            assert_ne!(query.wait_reason(), Some(WaitReason::Time));
            seen += 1;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(seen > 0, "it was looked at");
    first.await.expect("no panic").expect("changed");
    assert_eq!(second.await.expect("no panic"), "5714286");
}
