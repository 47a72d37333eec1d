//! Recursive queries without an end, or with a working table larger than memory.

use std::time::Duration;

use crate::common::{MIB, engine, error, eventually, show};
use terrace_sql::Session;

/// Each iteration doubles the number of rows, to 2^22 in the last.
const DOUBLING: &str = "WITH RECURSIVE t AS (SELECT 1 AS n, 'a text of twenty-odd bytes' AS s \
     UNION ALL SELECT n + 1, s FROM t, (VALUES (1), (2)) AS v(x) WHERE n < 23) \
     SELECT count(*), max(n), sum(n), min(s), max(s) FROM t";

const ENDLESS: &str =
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t";

async fn stock(session: &Session, is_stock: bool) {
    let text = format!("SET terrace.paged_recursion = {}", !is_stock);
    session.sql(&text).await.expect("set");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_working_table_may_be_larger_than_memory() {
    let session = engine(64 * MIB).session().expect("session");
    let found = show(&session, DOUBLING).await;
    let text = "a text of twenty-odd bytes";
    assert_eq!(found, format!("8388607 23 184549377 {text} {text}"));
    stock(&session, true).await;
    assert!(error(&session, DOUBLING).await.contains("DRAM budget"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recursion_without_an_end_is_cancelled_and_holds_little() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    let statement = session.parse(ENDLESS).expect("parses").remove(0);
    let handle = session.execute(statement).await.expect("starts");
    let query = handle.query().clone();
    let reader = tokio::spawn(handle.collect());
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!reader.is_finished(), "it has no end");
    query.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(1), reader).await.expect("in a second");
    let error = ended.expect("no panic").expect_err("cancelled").to_string();
    assert!(error.contains("was cancelled"), "{error}");
    let peak = query.memory().peak_bytes();
    assert!(peak < 8 * MIB, "{peak} bytes for working tables of one row");
    eventually("everything comes back", || query.memory().held_bytes() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recursion_by_union_without_an_end_ends_with_one_error() {
    let session = engine(64 * MIB).session().expect("session");
    let text = "WITH RECURSIVE t AS (SELECT 1 AS n UNION \
                SELECT (n * 2 + x) % 1000000007 FROM t, (VALUES (0), (1)) AS v(x)) \
                SELECT count(*) FROM t";
    let error = error(&session, text).await;
    assert!(error.contains("DRAM budget") && error.contains("RecursiveQuery"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_datafusion() {
    let session = engine(64 * MIB).session().expect("session");
    let tables = "CREATE TABLE edges AS SELECT value AS a, value * 7 % 1000 AS b, value % 3 AS w \
                  FROM generate_series(1, 1000)";
    session.sql(tables).await.expect("made");
    let queries = [
        // A join per iteration, and unused columns.
        "WITH RECURSIVE p AS (SELECT a, b, 1 AS steps, w AS cost FROM edges WHERE a < 20 \
         UNION ALL SELECT p.a, e.b, steps + 1, cost + e.w FROM p JOIN edges e ON p.b = e.a \
         WHERE steps < 6) SELECT steps, count(*), sum(cost), min(b) FROM p GROUP BY 1 ORDER BY 1",
        // Reordered columns, and arithmetic over the working table.
        "WITH RECURSIVE f(x, y) AS (SELECT 0, 1 UNION ALL SELECT y, x + y FROM f WHERE y < 1000) \
         SELECT * FROM f ORDER BY y, x",
        // A recursion within the base of another, and a name used twice.
        "WITH RECURSIVE o AS (SELECT n FROM (WITH RECURSIVE i AS (SELECT 1 AS n UNION ALL \
         SELECT n + 1 FROM i WHERE n < 5) SELECT n FROM i) AS base UNION ALL \
         SELECT n * 10 FROM o WHERE n < 100) SELECT n FROM o ORDER BY n",
        // No rows at all, and none after the first iteration.
        "WITH RECURSIVE t AS (SELECT 1 AS n WHERE false UNION ALL SELECT n + 1 FROM t) \
         SELECT count(*) FROM t",
        "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n FROM t WHERE false) SELECT n FROM t",
    ];
    for text in queries {
        stock(&session, true).await;
        let expected = show(&session, text).await;
        stock(&session, false).await;
        assert_eq!(show(&session, text).await, expected, "{text}");
        let plan = show(&session, &format!("EXPLAIN (FORMAT INDENT) {text}")).await;
        assert!(plan.contains("PagedRecursionExec"), "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_rows_of_a_recursion_without_an_end_come_at_once() {
    let session = engine(64 * MIB).session().expect("session");
    let text = "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) \
                SELECT n FROM t LIMIT 3";
    let found = tokio::time::timeout(Duration::from_secs(5), show(&session, text)).await;
    assert_eq!(found.expect("ends"), "1\n2\n3");
}
