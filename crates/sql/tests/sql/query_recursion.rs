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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terms_that_postgresql_evaluates_end_with_its_rows() {
    let session = engine(64 * MIB).session().expect("session");
    let cases = [
        ("SELECT 1 UNION ALL SELECT DISTINCT n + 1 FROM t WHERE n < 3", "1\n2\n3"),
        ("SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 3 GROUP BY n", "1\n2\n3"),
        ("SELECT 1 UNION ALL (SELECT n + 1 FROM t WHERE n < 3 ORDER BY n LIMIT 1)", "1\n2\n3"),
        (
            "SELECT 1 UNION ALL SELECT n + row_number() OVER (ORDER BY n)::INT FROM t WHERE n < 3",
            "1\n2\n3",
        ),
        ("SELECT 1 UNION ALL SELECT n + 1 FROM (SELECT * FROM t) q WHERE n < 3", "1\n2\n3"),
        ("SELECT 1 UNION ALL (SELECT n + 1 FROM t WHERE n < 4 EXCEPT SELECT 3)", "1\n2"),
        ("SELECT 1 UNION ALL (SELECT n + 1 FROM t WHERE n < 4 INTERSECT SELECT 2)", "1\n2"),
        (
            "SELECT 1 UNION ALL SELECT n + 1 FROM t LEFT JOIN (VALUES (1)) v(x) ON n = x \
             WHERE n < 3",
            "1\n2\n3",
        ),
        (
            "SELECT 1 UNION ALL SELECT n + 1 FROM (VALUES (1)) v(x) RIGHT JOIN t ON n = x \
             WHERE n < 3",
            "1\n2\n3",
        ),
        (
            "SELECT 1 UNION ALL (WITH x AS (SELECT n FROM t) SELECT n + 1 FROM x WHERE n < 3)",
            "1\n2\n3",
        ),
        // An aggregate over a subquery: it ends because the subquery's last rows are none.
        (
            "SELECT 1 UNION ALL SELECT max(n) + 1 FROM (SELECT n FROM t WHERE n < 3) q \
             HAVING count(*) > 0",
            "1\n2\n3",
        ),
        (
            "SELECT 1 UNION ALL SELECT n + (SELECT count(*)::INT FROM (VALUES (7)) v(x)) FROM t \
          WHERE n < 3",
            "1\n2\n3",
        ),
        // Clauses beside the UNION.
        (
            "WITH x AS (SELECT 1 AS a) SELECT a FROM x \
             UNION ALL SELECT n + a FROM t, x WHERE n < 3",
            "1\n2\n3",
        ),
        ("SELECT 1 UNION ALL SELECT 2 ORDER BY 1 DESC LIMIT 1", "2"),
        ("SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT n + 10 FROM t WHERE n < 10", "1\n2\n11\n12"),
    ];
    for (query, answer) in cases {
        let text = format!("WITH RECURSIVE t(n) AS ({query}) SELECT n FROM t ORDER BY n");
        let found = tokio::time::timeout(Duration::from_secs(20), show(&session, &text)).await;
        assert_eq!(found.expect("ends"), answer, "{query}");
    }
    // A base that is long enough to be balanced keeps the term out of it.
    let base = (1..=40).map(|n| format!("SELECT {n}")).collect::<Vec<_>>().join(" UNION ALL ");
    let text = format!(
        "WITH RECURSIVE t(n) AS ({base} UNION ALL SELECT n + 100 FROM t WHERE n < 100) \
         SELECT count(*), max(n) FROM t"
    );
    assert_eq!(show(&session, &text).await, "80 140");
}

/// Returns the queries of `WITH RECURSIVE t(n) AS (...)` that are refused, with their errors.
fn refused_terms() -> Vec<(&'static str, String)> {
    let within =
        |place: &str| format!("recursive reference to query \"t\" must not appear within {place}");
    let aggregate = "aggregate functions are not allowed in a recursive query's recursive term";
    let form = "recursive query \"t\" does not have the form non-recursive-term UNION [ALL] \
                recursive-term";
    vec![
        ("SELECT 1 UNION ALL SELECT count(*)::INT FROM t", aggregate.to_owned()),
        ("SELECT 1 UNION ALL SELECT n FROM t GROUP BY n HAVING max(n) < 3", aggregate.to_owned()),
        ("SELECT 1 UNION SELECT max(a.n) FROM t a JOIN t2 ON true", aggregate.to_owned()),
        ("SELECT 1 UNION ALL SELECT x FROM t2 LEFT JOIN t ON n = x", within("an outer join")),
        ("SELECT 1 UNION ALL SELECT x FROM t RIGHT JOIN t2 ON n = x", within("an outer join")),
        ("SELECT 1 UNION ALL SELECT x FROM t FULL JOIN t2 ON n = x", within("an outer join")),
        (
            "SELECT 1 UNION ALL SELECT x FROM t2 LEFT JOIN (t2 b JOIN t ON true) ON true",
            within("an outer join"),
        ),
        (
            "SELECT 1 UNION ALL SELECT n FROM t JOIN t2 ON true RIGHT JOIN t2 c ON true",
            within("an outer join"),
        ),
        ("SELECT 1 UNION ALL (SELECT 5 EXCEPT SELECT n FROM t)", within("EXCEPT")),
        ("SELECT 1 UNION ALL (SELECT n FROM t EXCEPT ALL SELECT 5)", within("EXCEPT")),
        ("SELECT 1 UNION ALL (SELECT n FROM t INTERSECT ALL SELECT 5)", within("INTERSECT")),
        (
            "SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < (SELECT max(n) FROM t)",
            within("a subquery"),
        ),
        ("SELECT 1 UNION ALL SELECT (SELECT n FROM t) FROM t2", within("a subquery")),
        ("SELECT 1 UNION ALL SELECT x FROM t2 WHERE x IN (SELECT n FROM t)", within("a subquery")),
        (
            "SELECT 1 UNION ALL SELECT x FROM t2 a JOIN t2 b ON EXISTS (SELECT n FROM t)",
            within("a subquery"),
        ),
        (
            "SELECT 1 UNION ALL SELECT a.n FROM t a, t b",
            "recursive reference to query \"t\" must not appear more than once".to_owned(),
        ),
        (
            "SELECT 1 UNION ALL SELECT n + 1 FROM t UNION ALL SELECT n + 2 FROM t",
            within("its non-recursive term"),
        ),
        ("SELECT n FROM t UNION ALL SELECT 1", within("its non-recursive term")),
        ("SELECT n FROM t", form.to_owned()),
        ("SELECT 1 INTERSECT SELECT n FROM t", form.to_owned()),
        (
            "WITH x AS (SELECT n FROM t) SELECT 1 UNION ALL SELECT n + 1 FROM t",
            within("a subquery"),
        ),
        (
            "SELECT 1 UNION ALL SELECT n + 1 FROM t LIMIT 3",
            "LIMIT or OFFSET in the recursive query \"t\" is not possible; give it to the query \
             that reads the rows"
                .to_owned(),
        ),
        (
            "SELECT 1 UNION ALL SELECT n + 1 FROM t ORDER BY 1",
            "ORDER BY in the recursive query \"t\" is not possible; give it to the query that \
             reads the rows"
                .to_owned(),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terms_that_postgresql_refuses_are_refused() {
    let session = engine(64 * MIB).session().expect("session");
    session.sql("CREATE TABLE t2 AS SELECT 1 AS x").await.expect("made");
    for (query, wanted) in refused_terms() {
        let text = format!("WITH RECURSIVE t(n) AS ({query}) SELECT n FROM t LIMIT 10");
        assert_eq!(error(&session, &text).await, wanted, "{query}");
    }
    let view = "CREATE VIEW v AS WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT max(n) FROM t) \
                SELECT n FROM t";
    let aggregate = "aggregate functions are not allowed in a recursive query's recursive term";
    assert_eq!(error(&session, view).await, aggregate);
}
