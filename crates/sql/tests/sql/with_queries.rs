//! WITH queries that are evaluated once, and select lists with side effects, as in PostgreSQL 15.

use terrace_sql::Session;

use crate::common::{MIB, check, engine, show};

const DRAM: u64 = 64 * MIB;

async fn with_rows(session: &Session) {
    show(session, "CREATE TABLE t AS SELECT value AS i FROM generate_series(1, 1000)").await;
    show(session, "CREATE SEQUENCE s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_several_places_name_is_evaluated_once() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    with_rows(&session).await;
    let cases = [
        (
            "WITH c AS (SELECT i, random() AS r FROM t) \
             SELECT count(*) FROM c a JOIN c b ON a.i = b.i WHERE a.r = b.r",
            "1000",
        ),
        ("WITH c AS (SELECT random() AS r) SELECT (SELECT r FROM c) = (SELECT r FROM c)", "true"),
        (
            "WITH c AS (SELECT nextval('s') AS n FROM t WHERE i < 4) \
             SELECT (SELECT max(n) FROM c), (SELECT count(*) FROM c), (SELECT min(n) FROM c)",
            "3 3 1",
        ),
        ("SELECT nextval('s')", "4"),
        // Through another query, and in a part of a set operation.
        (
            "WITH c AS (SELECT random() AS r), d AS (SELECT r FROM c) \
             SELECT count(*) FROM (SELECT r FROM c UNION SELECT r FROM d) q",
            "1",
        ),
        (
            "WITH d AS (WITH c AS (SELECT random() AS r) SELECT a.r - b.r AS z FROM c a, c b) \
             SELECT z FROM d",
            "0.0",
        ),
        // Of rows in no order, a limit returns any.
        (
            "WITH c(n) AS (SELECT i FROM t LIMIT 5) \
             SELECT count(*) FROM c WHERE n IN (SELECT n FROM c)",
            "5",
        ),
        (
            "WITH RECURSIVE c(n, r) AS (SELECT 1, random() UNION ALL \
             SELECT n + 1, random() FROM c WHERE n < 10) \
             SELECT count(*) FROM c a JOIN c b ON a.r = b.r AND a.n = b.n",
            "10",
        ),
        (
            "WITH c AS MATERIALIZED (SELECT i FROM t WHERE i > 990) \
             SELECT count(*), max(i) FROM c WHERE i < 995",
            "4 994",
        ),
        (
            "WITH c AS NOT MATERIALIZED (SELECT i, random() AS r FROM t) \
             SELECT count(*) FROM c a JOIN c b USING (i) WHERE a.r = b.r",
            "1000",
        ),
        (
            "WITH c(n) AS MATERIALIZED (SELECT i FROM t), \
             d AS MATERIALIZED ((SELECT 1 AS m) UNION (SELECT 2)) \
             SELECT max(n), max(m) FROM c, d",
            "1000 2",
        ),
        (
            "WITH RECURSIVE c(n) AS MATERIALIZED (SELECT 1 UNION ALL \
             SELECT n + 1 FROM c WHERE n < 3) SELECT sum(n) FROM c",
            "6",
        ),
        ("SELECT * FROM (VALUES (7)) AS materialized (a)", "7"),
        // A name that hides a table is counted, and not what it hides.
        ("WITH t AS (SELECT i, random() AS r FROM t) SELECT count(*) FROM t", "1000"),
    ];
    check(&session, &cases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rows_of_a_query_may_exceed_the_memory() {
    let engine = engine(48 * MIB);
    let session = engine.session().expect("session");
    let query = "WITH c AS (SELECT value AS i, random() AS r, \
                 lpad(CAST(value AS VARCHAR), 100, 'x') AS x FROM generate_series(1, 1000000)) \
                 SELECT (SELECT max(r) FROM c) = (SELECT r FROM c ORDER BY r DESC LIMIT 1), \
                 (SELECT count(*) FROM c WHERE length(x) = 100)";
    assert_eq!(show(&session, query).await, "true 1000000");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_use_of_a_view_has_its_own_rows() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    with_rows(&session).await;
    let view = "CREATE VIEW v AS WITH c AS (SELECT random() AS r) \
                SELECT a.r, a.r = b.r AS same FROM c a, c b";
    show(&session, view).await;
    let cases = [
        ("SELECT same FROM v", "true"),
        ("SELECT a.same, b.same, a.r = b.r FROM v a, v b", "true true false"),
        ("SELECT a.r = b.r FROM (SELECT * FROM v) a, v b", "false"),
    ];
    check(&session, &cases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_that_nothing_reads_take_their_numbers() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    with_rows(&session).await;
    let cases = [
        ("SELECT count(*) FROM (SELECT nextval('s') FROM t WHERE i < 4) q", "3"),
        ("SELECT nextval('s')", "4"),
        ("SELECT i FROM (SELECT i, nextval('s') AS n FROM t WHERE i < 3) q ORDER BY i", "1\n2"),
        ("SELECT nextval('s')", "7"),
        // Only of the rows that the subquery returns.
        ("SELECT i FROM (SELECT i, nextval('s') AS n FROM t) q WHERE i = 7", "7"),
        ("SELECT nextval('s')", "9"),
        (
            "SELECT CASE WHEN i > 1 THEN n END \
             FROM (SELECT i, nextval('s') AS n FROM t WHERE i < 3) q ORDER BY i",
            "\n11",
        ),
        ("SELECT count(*) FROM (SELECT nextval('s') FROM t LIMIT 2) q", "2"),
        ("SELECT nextval('s')", "14"),
        ("SELECT 1 FROM (SELECT nextval('s') FROM t LIMIT 0) q", ""),
        ("SELECT nextval('s') FROM t LIMIT 0", ""),
        ("SELECT EXISTS (SELECT nextval('s') FROM t)", "true"),
        ("SELECT count(*) FROM t WHERE EXISTS (SELECT nextval('s'))", "1000"),
        ("SELECT nextval('s')", "15"),
        ("WITH c AS (SELECT nextval('s') AS n) SELECT 1", "1"),
        ("WITH c AS (SELECT nextval('s') AS n) SELECT 1 FROM c", "1"),
        ("SELECT nextval('s')", "17"),
    ];
    check(&session, &cases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volatile_query_that_one_place_names_is_evaluated_as_written() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    with_rows(&session).await;
    let cases = [
        // No condition is pushed into it.
        (
            "WITH c AS (SELECT i, nextval('s') AS n FROM t WHERE i < 11) \
             SELECT count(*) FROM c WHERE i <= 2",
            "2",
        ),
        ("SELECT nextval('s')", "11"),
        // Its rows are computed as far as they are read.
        ("WITH c AS (SELECT nextval('s') AS n FROM t) SELECT n FROM c LIMIT 3", "12\n13\n14"),
        ("SELECT nextval('s')", "15"),
        ("WITH c AS (SELECT random() AS r FROM t) SELECT count(*) FROM c WHERE r = r", "1000"),
        (
            "WITH RECURSIVE c AS (SELECT random() AS r UNION ALL SELECT random() FROM c) \
             SELECT count(*) FROM (SELECT r FROM c LIMIT 4) q",
            "4",
        ),
        // The places inside of a query are no places that read its rows.
        (
            "WITH t AS (SELECT i, nextval('s') AS n FROM t WHERE i < 5) \
             SELECT count(*) FROM t WHERE i = 1",
            "1",
        ),
        ("SELECT nextval('s')", "20"),
    ];
    check(&session, &cases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subquery_that_is_compared_with_is_evaluated_once() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    with_rows(&session).await;
    let restart = ("SELECT setval('s', 1, false)", "1");
    let subquery = "(SELECT nextval('s') FROM t WHERE i <= 3)";
    let in_list = format!("SELECT i IN {subquery} FROM t WHERE i < 5 ORDER BY i");
    let any = format!("SELECT i = ANY {subquery} FROM t WHERE i < 5 ORDER BY i");
    let all = format!("SELECT count(*) FROM t WHERE i > ALL {subquery}");
    let not_in = format!("SELECT count(*) FROM t WHERE i NOT IN {subquery}");
    let cases = [
        (in_list.as_str(), "true\ntrue\ntrue\nfalse"),
        ("SELECT nextval('s')", "4"),
        restart,
        (any.as_str(), "true\ntrue\ntrue\nfalse"),
        ("SELECT nextval('s')", "4"),
        restart,
        (all.as_str(), "997"),
        ("SELECT nextval('s')", "4"),
        restart,
        (not_in.as_str(), "997"),
        ("SELECT nextval('s')", "4"),
        // Of rows in no order, a limit returns any.
        (
            "SELECT count(*) FROM (SELECT i IN (SELECT i FROM t LIMIT 5) AS is_in FROM t) q \
             WHERE is_in",
            "5",
        ),
    ];
    check(&session, &cases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_take_numbers_in_their_order_and_up_to_their_limit() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let many = "CREATE TABLE t AS SELECT value AS i FROM generate_series(1, 100000)";
    show(&session, many).await;
    show(&session, "CREATE SEQUENCE s").await;
    let cases = [
        ("SELECT nextval('s') FROM t LIMIT 5", "1\n2\n3\n4\n5"),
        ("SELECT count(*) FROM (SELECT nextval('s') FROM t WHERE i % 7 = 0 LIMIT 4) q", "4"),
        ("SELECT nextval('s')", "10"),
        ("SELECT i, nextval('s') FROM t ORDER BY i DESC LIMIT 2", "100000 11\n99999 12"),
        ("SELECT i, nextval('s') + i FROM t WHERE i < 3 ORDER BY i DESC", "2 15\n1 15"),
        ("SELECT nextval('s') AS n FROM t WHERE i < 4 ORDER BY n DESC", "17\n16\n15"),
        // Rows that are skipped take theirs.
        ("SELECT nextval('s') FROM t ORDER BY i LIMIT 1 OFFSET 2", "20"),
        ("SELECT nextval('s') FROM t LIMIT 1 OFFSET 3", "24"),
        ("SELECT nextval('s')", "25"),
        (
            "SELECT i FROM (SELECT i, nextval('s') FROM t ORDER BY -i LIMIT 2) q ORDER BY i",
            "99999\n100000",
        ),
        ("SELECT nextval('s')", "28"),
        ("SELECT setval('s', 1, false)", "1"),
    ];
    check(&session, &cases).await;
    let sums = show(&session, "SELECT i + nextval('s') FROM t ORDER BY i DESC").await;
    assert_eq!(sums.lines().filter(|sum| *sum == "100001").count(), 100_000);
}
