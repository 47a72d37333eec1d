//! Queries that other sessions suspend, resume and cancel.

use std::time::Duration;

use datafusion::arrow::util::display::array_value_to_string;
use futures::StreamExt;
use terrace_sql::query::QueryState;
use terrace_sql::{Engine, EngineConfig, QueryHandle, Session};

use crate::common::show;

const ROWS: usize = 400_000;

fn engine() -> Engine {
    let config = EngineConfig { threads: 2, ..EngineConfig::new(64 << 20) };
    Engine::open(&config).expect("opens")
}

/// A session with a table, and a running query over it that has returned its first batch.
async fn begun(engine: &Engine) -> (Session, QueryHandle, usize) {
    let session = engine.session().expect("session");
    let source = format!("SELECT value AS i FROM generate_series(1, {ROWS})");
    session.sql(&format!("CREATE TABLE t AS {source}")).await.expect("made");
    let statement = session.parse("SELECT i FROM t").expect("parses").remove(0);
    let mut handle = session.execute(statement).await.expect("starts");
    let first = handle.stream.next().await.expect("a batch").expect("no error");
    (session, handle, first.num_rows())
}

async fn states(session: &Session, id: u64) -> Vec<String> {
    let text = format!("SELECT state FROM terrace.queries WHERE id = {id}");
    let outputs = session.sql(&text).await.expect("runs");
    let batches = outputs[0].batches.iter().filter(|batch| batch.num_rows() > 0);
    let cell = |batch| datafusion::arrow::util::pretty::pretty_format_batches(&[batch]);
    batches.map(|batch| cell(batch.clone()).expect("text").to_string()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_query_waits_and_goes_on_where_it_stopped() {
    let engine = engine();
    let (_session, mut handle, first) = begun(&engine).await;
    let other = engine.session().expect("session");
    other.sql(&format!("SUSPEND QUERY {}", handle.id)).await.expect("suspends");
    assert_eq!(handle.query().state(), QueryState::Suspended);
    assert!(states(&other, handle.id).await[0].contains("suspended"));
    let waited = tokio::time::timeout(Duration::from_millis(200), handle.stream.next()).await;
    assert!(waited.is_err(), "a suspended query returned {waited:?}");
    other.sql(&format!("resume query {}", handle.id)).await.expect("resumes");
    let mut rows = first;
    while let Some(batch) = handle.stream.next().await {
        rows += batch.expect("no error").num_rows();
    }
    assert_eq!(rows, ROWS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_query_ends_with_an_error_even_when_suspended() {
    let engine = engine();
    let (_session, mut handle, _) = begun(&engine).await;
    let other = engine.session().expect("session");
    let id = handle.id;
    other.sql(&format!("SUSPEND QUERY {id}; CANCEL QUERY {id}")).await.expect("cancels");
    let error = loop {
        match handle.stream.next().await.expect("an error before the end") {
            Ok(_) => {}
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains(&format!("query {id} was cancelled")), "{error}");
    drop(handle);
    assert!(states(&other, id).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_waits_hears_of_the_end() {
    let engine = engine();
    let (session, first, _) = begun(&engine).await;
    drop(first);
    for endless in [
        "SELECT sum(a.i * b.i) FROM t a CROSS JOIN t b WHERE (a.i + b.i) % 3 = 0",
        // One batch of the probe side has a billion pairs, none of which produces a row.
        "SELECT count(*) FROM t a WHERE EXISTS \
         (SELECT 1 FROM t b WHERE a.i % 2 = b.i % 2 AND a.i + b.i < 0)",
    ] {
        let statement = session.parse(endless).expect("parses").remove(0);
        let handle = session.execute(statement).await.expect("starts");
        let query = handle.query().clone();
        let reader = tokio::spawn(handle.collect());
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(!reader.is_finished(), "the query must take long");
        query.cancel();
        let ended = tokio::time::timeout(Duration::from_secs(10), reader).await.expect("woken");
        let error = ended.expect("no panic").expect_err("cancelled").to_string();
        assert!(error.contains("was cancelled"), "{error}");
        drop(query);
        // Its tasks end at their next await; they are the last owners of its consumer.
        let is_there = || {
            let consumers = engine.ledger().consumers();
            consumers.into_iter().any(|consumer| consumer.name.starts_with("query"))
        };
        let ended = async {
            while is_there() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(10), ended).await;
        assert!(ended.is_ok(), "everything comes back: {endless}");
    }
}

/// The whole plan runs inside the stream with one thread.
#[tokio::test]
async fn a_suspended_query_of_one_thread_lets_go_of_its_pages() {
    let config = EngineConfig { threads: 1, ..EngineConfig::new(64 << 20) };
    let engine = Engine::open(&config).expect("opens");
    let (session, first, _) = begun(&engine).await;
    drop(first);
    let statement = session.parse("SELECT i FROM t ORDER BY i DESC").expect("parses").remove(0);
    let mut handle = session.execute(statement).await.expect("starts");
    let mut rows = handle.stream.next().await.expect("a batch").expect("no error").num_rows();
    let query = handle.query().clone();
    assert!(query.memory().pinned_bytes() > 0, "the sort holds its runs");
    query.suspend();
    let waited = tokio::time::timeout(Duration::from_millis(300), handle.stream.next()).await;
    assert!(waited.is_err(), "a suspended query returned {waited:?}");
    assert_eq!(query.memory().pinned_bytes(), 0);
    query.resume();
    while let Some(batch) = handle.stream.next().await {
        rows += batch.expect("no error").num_rows();
    }
    assert_eq!(rows, ROWS);
}

/// The sort of each partition unpins, also those that the merge above does not read at the moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_sorts_of_a_suspended_query_unpin() {
    let engine = engine();
    let (session, first, _) = begun(&engine).await;
    drop(first);
    let text = "SELECT i, row_number() OVER (ORDER BY i % 1000, i) FROM t";
    let statement = session.parse(text).expect("parses").remove(0);
    let mut handle = session.execute(statement).await.expect("starts");
    let query = handle.query().clone();
    let reader = tokio::spawn(async move {
        let mut rows = 0;
        while let Some(batch) = handle.stream.next().await {
            rows += batch.expect("no error").num_rows();
        }
        rows
    });
    for pause in 1..8 {
        tokio::time::sleep(Duration::from_millis(10 * pause)).await;
        query.suspend();
        let pinned_by_sorts = || -> u64 {
            let operators = query.memory().operators().into_iter();
            let sorts = operators.filter(|operator| operator.name.starts_with("PagedSort"));
            sorts.map(|operator| operator.reserved_bytes).sum()
        };
        for _ in 0..100 {
            if pinned_by_sorts() == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(pinned_by_sorts(), 0, "after pause {pause}");
        query.resume();
    }
    assert_eq!(reader.await.expect("ends"), ROWS);
}

#[tokio::test]
async fn queries_that_do_not_run_and_half_statements_are_named() {
    let engine = engine();
    let session = engine.session().expect("session");
    let error = session.sql("SUSPEND QUERY 4711").await.expect_err("none").to_string();
    assert!(error.contains("4711") && error.contains("terrace.queries"), "{error}");
    for (text, wanted) in [
        ("SUSPEND 7", "QUERY and the number"),
        ("RESUME QUERY x", "literal int"),
        ("CANCEL QUERY 7 SELECT 1", "end of statement"),
        ("SELECT 1 SELECT 2", "end of statement"),
    ] {
        let error = session.sql(text).await.expect_err(text).to_string();
        assert!(error.contains(wanted), "{text}: {error}");
    }
}

/// A statement whose planning takes seconds: chains of joins.
fn joined(queries: usize, relations: usize) -> String {
    let joins = (1..relations).map(|k| format!("JOIN t t{k} ON t{k}.i = t{}.i", k - 1));
    let query = format!("SELECT t0.i FROM t t0 {}", joins.collect::<Vec<_>>().join(" "));
    vec![query; queries].join(" UNION ALL ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_is_being_planned_is_cancelled() {
    let engine = engine();
    let session = engine.session().expect("session");
    session.sql("CREATE TABLE t AS SELECT 1 AS i").await.expect("made");
    let other = engine.session().expect("session");
    let statement = session.parse(&joined(70, 100)).expect("parses").remove(0);
    let planning = tokio::spawn(async move { session.execute(statement).await.map(drop) });
    let find = "SELECT id FROM terrace.queries WHERE statement LIKE '% t99 ON t99.i = %' AND \
                statement NOT LIKE '%terrace.queries%'";
    let id = loop {
        let found = other.sql(find).await.expect("runs").remove(0).batches;
        if let Some(batch) = found.iter().find(|batch| batch.num_rows() > 0) {
            break array_value_to_string(batch.column(0), 0).expect("text");
        }
        assert!(!planning.is_finished(), "its planning must take long");
    };
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!planning.is_finished(), "its planning must take long");
    other.sql(&format!("CANCEL QUERY {id}")).await.expect("cancels");
    let ended = tokio::time::timeout(Duration::from_secs(2), planning).await.expect("soon");
    let error = ended.expect("no panic").expect_err("cancelled").to_string();
    assert!(error.contains(&format!("query {id} was cancelled")), "{error}");
    assert!(states(&other, id.parse().expect("a number")).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_relations_are_joined_by_their_keys() {
    let engine = engine();
    let session = engine.session().expect("session");
    let table = "CREATE TABLE t AS SELECT value AS i, value % 3 AS g FROM generate_series(1, 20)";
    session.sql(table).await.expect("made");
    // A chain whose conditions are in WHERE, and in another order than the relations.
    let from = (0..60).map(|k| format!("t t{k}")).collect::<Vec<_>>().join(", ");
    let keys = (1..60).rev().map(|k| format!("t{k}.i = t{}.i", k - 1)).collect::<Vec<_>>();
    let keys = keys.join(" AND ");
    // One without a key, one with two, one that is no equality, and one that is of one relation.
    let more = "t59.i + 1 = u.i AND u.g = t3.g AND t7.i < 15 AND t7.i + t9.i > 8 AND v.i = 4";
    let text = format!("SELECT count(*), sum(t30.i) FROM {from}, t u, t v WHERE {keys} AND {more}");
    let plain = "SELECT count(*), sum(a.i) FROM t a, t u WHERE a.i + 1 = u.i AND u.g = a.g AND \
                 a.i < 15 AND a.i * 2 > 8";
    let outer = "SELECT count(*), sum(a.i) FROM t a WHERE a.i < 15 AND a.i * 2 > 8";
    for (changed, plain) in [("u.g = t3.g", plain), ("u.g <> t3.g", outer)] {
        let text = text.replace("u.g = t3.g", changed);
        assert_eq!(show(&session, &text).await, show(&session, plain).await, "{changed}");
    }
    let plan = show(&session, &format!("EXPLAIN (FORMAT INDENT) {text}")).await;
    assert_eq!(plan.matches("CrossJoin").count(), 1, "{plan}");
}
