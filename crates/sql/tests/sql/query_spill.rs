//! Queries that need more memory than the budget.

use std::hash::{DefaultHasher, Hasher as _};

use crate::common::{MIB, engine, eventually, show};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::row::{RowConverter, SortField};
use futures::StreamExt;
use terrace_sql::query::QueryState;
use terrace_sql::{Engine, Session};

const AMPLE: u64 = 1024 * MIB;
const TINY: u64 = 32 * MIB;

/// A million rows of about 100 bytes in pseudo-random order.
const ROWS: &str = "CREATE TABLE t AS SELECT value AS id, (value * 7919) % 1000003 AS key, \
                    (value * 104729) % 900001 AS grp, \
                    'padding that makes a row wider, ' || ((value * 31) % 1000) AS pad \
                    FROM generate_series(1, 1000000)";

async fn filled(dram_bytes: u64) -> (Engine, Session) {
    let engine = engine(dram_bytes);
    let session = engine.session().expect("session");
    show(&session, ROWS).await;
    (engine, session)
}

/// Runs a query and returns a digest of its rows in order, and the bytes it spilled.
async fn digest(session: &Session, text: &str) -> (u64, u64) {
    let statement = session.parse(text).expect("parses").remove(0);
    let mut handle = session.execute(statement).await.expect("starts");
    let query = handle.query().clone();
    let mut digest = DefaultHasher::new();
    while let Some(batch) = handle.stream.next().await {
        add(&mut digest, &batch.unwrap_or_else(|error| panic!("{text}\n{error}")));
    }
    (digest.finish(), query.spilled().bytes())
}

/// Adds the rows of a batch. They are compared in the format of sort keys: texts of a million rows
/// take longer than the query.
fn add(digest: &mut DefaultHasher, batch: &RecordBatch) {
    let fields = batch.columns().iter().map(|it| SortField::new(it.data_type().clone()));
    let converter = RowConverter::new(fields.collect()).expect("types with an order");
    let rows = converter.convert_columns(batch.columns()).expect("rows");
    for row in &rows {
        digest.write(row.as_ref());
    }
}

/// Asserts that no query holds memory, spill pages or pins.
async fn nothing_is_held(engine: &Engine) {
    let queries = || {
        let consumers = engine.ledger().consumers();
        consumers.into_iter().filter(|consumer| consumer.name.starts_with("query")).count()
    };
    eventually("no query is in the ledger", || queries() == 0).await;
    eventually("no scan holds a pin", || engine.pins().pinned_bytes() == 0).await;
    let spaces = || {
        let spaces = engine.pool().spaces();
        spaces.into_iter().filter(|space| space.name.starts_with("query")).count()
    };
    eventually("no spill space is left", || spaces() == 0).await;
    assert!(engine.queries().running().is_empty());
    assert!(engine.ledger().granted() <= engine.ledger().budget());
}

const QUERIES: [&str; 4] = [
    "SELECT key, id, pad FROM t ORDER BY key, id",
    "SELECT grp, count(*), sum(id), min(pad) FROM t GROUP BY grp ORDER BY grp",
    "SELECT key, id, row_number() OVER (ORDER BY key, id) FROM t ORDER BY id",
    "SELECT count(DISTINCT pad || key) FROM t",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_are_the_same_whatever_the_budget() {
    let (ample_engine, ample) = filled(AMPLE).await;
    let (tiny_engine, tiny) = filled(TINY).await;
    let mut spilled_in_all = 0;
    for query in QUERIES {
        let (expected, _) = digest(&ample, query).await;
        let (found, spilled) = digest(&tiny, query).await;
        assert_eq!(found, expected, "{query}");
        spilled_in_all += spilled;
        nothing_is_held(&tiny_engine).await;
    }
    assert!(spilled_in_all > 100 * MIB, "{spilled_in_all} bytes spilled");
    nothing_is_held(&ample_engine).await;
    let peak = tiny_engine.ledger().consumers().iter().map(|c| c.peak_bytes).max();
    assert!(peak.is_some_and(|peak| peak <= TINY), "{peak:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_cannot_fit_says_who_holds_what_and_leaves_nothing() {
    let (engine, session) = filled(TINY).await;
    let join = "SELECT count(*) FROM t a JOIN t b ON a.pad || a.id = b.pad || b.id";
    assert_eq!(show(&session, join).await, "1000000", "joins in pages need not fit");
    nothing_is_held(&engine).await;
    session.sql("SET terrace.paged_hash_join = false").await.expect("a setting");
    let error = crate::common::error(&session, join).await;
    for part in ["HashJoinInput", "of query", "32MiB", "Held by", "--dram"] {
        assert!(error.contains(part), "{part} is not in: {error}");
    }
    nothing_is_held(&engine).await;
    assert_eq!(show(&session, "SELECT count(*) FROM t").await, "1000000");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_a_handle_cancels_and_gives_everything_back() {
    let (engine, session) = filled(TINY).await;
    for query in QUERIES {
        let statement = session.parse(query).expect("parses").remove(0);
        let mut handle = session.execute(statement).await.expect("starts");
        let work = async {
            let query = handle.query().clone();
            tokio::select! {
                _ = handle.stream.next() => {}
                () = tokio::time::sleep(std::time::Duration::from_millis(150)) => {}
            }
            query
        };
        let running = work.await;
        assert_eq!(engine.queries().running().len(), 1);
        drop(handle);
        drop(running);
        nothing_is_held(&engine).await;
    }
}

/// The minimum memory of all queries together exceeds the budget, so some have to wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_queries_than_there_is_room_for_all_end() {
    let (engine, session) = filled(TINY).await;
    let expected = digest(&session, QUERIES[0]).await.0;
    let crowd = (0..12).map(|_| {
        let session = engine.session().expect("session");
        tokio::spawn(async move { digest(&session, QUERIES[0]).await.0 })
    });
    let crowd: Vec<_> = crowd.collect();
    let states = || engine.queries().running().into_iter().map(|query| query.state());
    eventually("one waits", || states().any(|state| state == QueryState::Preempted)).await;
    for query in crowd {
        assert_eq!(query.await.expect("a query"), expected);
    }
    nothing_is_held(&engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_queries_at_once_share_the_budget() {
    let (engine, session) = filled(64 * MIB).await;
    let alone = digest(&session, QUERIES[0]).await.0;
    let runs = (0..4).map(|_| {
        let session = engine.session().expect("session");
        tokio::spawn(async move { digest(&session, QUERIES[0]).await.0 })
    });
    for run in runs.collect::<Vec<_>>() {
        assert_eq!(run.await.expect("a query"), alone);
    }
    nothing_is_held(&engine).await;
}
