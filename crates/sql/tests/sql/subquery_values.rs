//! Values of correlated subqueries in every clause, with the rows that PostgreSQL 15 returns.

use terrace_sql::Session;

use crate::common::{MIB, check, engine, error, show};

pub const DRAM: u64 = 64 * MIB;

/// Creates the tables of these tests: nulls in all columns, and rows that occur twice.
pub async fn tables(session: &Session) {
    let tables = "CREATE TABLE r (a BIGINT, b BIGINT, n VARCHAR);
        INSERT INTO r VALUES (1, 10, 'x'), (2, 20, 'y'), (2, 25, 'y'), (3, 30, NULL),
            (NULL, 40, 'z'), (5, NULL, 'x');
        CREATE TABLE s (x BIGINT, y BIGINT);
        INSERT INTO s VALUES (1, 10), (1, 11), (2, NULL), (2, 20), (3, 31), (NULL, 5), (4, 10);
        CREATE TABLE t (k BIGINT, v BIGINT);
        INSERT INTO t VALUES (10, 1), (10, 2), (20, 2), (31, NULL), (NULL, 3), (5, 5);
        CREATE TABLE e (x BIGINT, y BIGINT)";
    show(session, tables).await;
}

/// Scalar subqueries whose conditions DataFusion cannot move into a join.
const VALUES_OF_SUBQUERIES: &[(&str, &str)] = &[
    (
        "SELECT a, (SELECT count(*) FROM s WHERE s.x < r.a) FROM r ORDER BY a, b",
        "1 0\n2 2\n2 2\n3 4\n5 6\n 0",
    ),
    (
        "SELECT a, (SELECT sum(y) FROM s WHERE s.x < r.a OR s.y = r.b) FROM r ORDER BY a, b",
        "1 20\n2 41\n2 21\n3 41\n5 82\n ",
    ),
    (
        "SELECT a, (SELECT count(y) + 1 FROM s WHERE s.x <> r.a) FROM r ORDER BY a, b",
        "1 4\n2 5\n2 5\n3 5\n5 6\n 1",
    ),
    (
        "SELECT a, (SELECT y FROM s WHERE s.x = r.a ORDER BY y DESC NULLS LAST LIMIT 1) FROM r \
         ORDER BY a, b",
        "1 11\n2 20\n2 20\n3 31\n5 \n ",
    ),
    (
        "SELECT a, (SELECT y FROM s WHERE s.x <= r.a ORDER BY y NULLS LAST LIMIT 1 OFFSET 1) \
         FROM r ORDER BY a, b",
        "1 11\n2 11\n2 11\n3 11\n5 10\n ",
    ),
    (
        "SELECT b, (SELECT s.x FROM s WHERE s.y = r.b ORDER BY s.x + r.a, s.x LIMIT 1) FROM r \
         ORDER BY b, a",
        "10 1\n20 2\n25 \n30 \n40 \n ",
    ),
    (
        "SELECT a, (SELECT max(u) FROM (SELECT x AS u FROM s WHERE s.x < r.a UNION ALL SELECT \
         r.b) q) FROM r ORDER BY a, b",
        "1 10\n2 20\n2 25\n3 30\n5 4\n 40",
    ),
    (
        "SELECT a, (SELECT count(*) FROM (SELECT y FROM s WHERE s.x <= r.a UNION SELECT v FROM \
         t WHERE t.k > r.b) q) FROM r ORDER BY a, b",
        "1 4\n2 4\n2 4\n3 5\n5 5\n 0",
    ),
    (
        "SELECT a, (SELECT count(DISTINCT x) FROM s WHERE s.y >= r.b) FROM r ORDER BY a, b",
        "1 4\n2 2\n2 1\n3 1\n5 0\n 0",
    ),
    (
        "SELECT a, (SELECT count(*) FROM (SELECT DISTINCT x FROM s WHERE s.x <= r.a) q) FROM r \
         ORDER BY a, b",
        "1 1\n2 2\n2 2\n3 3\n5 4\n 0",
    ),
    (
        "SELECT a, (SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY y) AS n FROM s WHERE \
         s.x = r.a) q) FROM r ORDER BY a, b",
        "1 2\n2 2\n2 2\n3 1\n5 \n ",
    ),
    (
        "SELECT a, (SELECT sum(n) FROM (SELECT sum(y) OVER (PARTITION BY x ORDER BY y) + r.b AS \
         n FROM s WHERE s.x <= r.a) q) FROM r ORDER BY a, b",
        "1 51\n2 151\n2 171\n3 252\n5 \n ",
    ),
    (
        "SELECT a, (SELECT count(*) FROM t LEFT JOIN (SELECT * FROM s WHERE s.x = r.a) q ON q.y \
         = t.k) FROM r ORDER BY a, b",
        "1 6\n2 6\n2 6\n3 6\n5 6\n 6",
    ),
    (
        "SELECT a, (SELECT count(q.y) FROM t LEFT JOIN (SELECT * FROM s WHERE s.x = r.a) q ON \
         q.y = t.k) FROM r ORDER BY a, b",
        "1 2\n2 1\n2 1\n3 1\n5 0\n 0",
    ),
    (
        "SELECT a, (SELECT count(*) FROM t LEFT JOIN s ON s.y = t.k AND s.x = r.a) FROM r ORDER \
         BY a, b",
        "1 6\n2 6\n2 6\n3 6\n5 6\n 6",
    ),
    (
        "SELECT a, (SELECT count(*) FROM (SELECT * FROM s WHERE s.x = r.a) q RIGHT JOIN t ON \
         q.y = t.k) FROM r ORDER BY a, b",
        "1 6\n2 6\n2 6\n3 6\n5 6\n 6",
    ),
    (
        "SELECT a, (SELECT count(*) FROM (SELECT * FROM s WHERE s.x = r.a) q FULL JOIN (SELECT \
         * FROM t WHERE t.k <= r.b) p ON q.y = p.k) FROM r ORDER BY a, b",
        "1 4\n2 5\n2 5\n3 5\n5 0\n 5",
    ),
    (
        "SELECT a, (SELECT sum(q.y + p.v) FROM (SELECT * FROM s WHERE s.x <= r.a) q JOIN \
         (SELECT * FROM t WHERE t.k >= r.b) p ON q.y = p.k) FROM r ORDER BY a, b",
        "1 23\n2 22\n2 \n3 \n5 \n ",
    ),
    (
        "SELECT a, (SELECT count(*) FROM (SELECT sum(y) FROM s WHERE s.x = r.a) q) FROM r ORDER \
         BY a, b",
        "1 1\n2 1\n2 1\n3 1\n5 1\n 1",
    ),
    (
        "SELECT a, (SELECT count(*) FROM (SELECT x, sum(y) FROM s WHERE s.x < r.a GROUP BY x) \
         q) FROM r ORDER BY a, b",
        "1 0\n2 1\n2 1\n3 2\n5 4\n 0",
    ),
    (
        "SELECT a, (SELECT count(*) FROM s WHERE s.x = r.a HAVING max(y) > 15 OR count(*) = 0) \
         FROM r ORDER BY a, b",
        "1 \n2 2\n2 2\n3 1\n5 0\n 0",
    ),
    (
        "SELECT a, (SELECT max(y) FROM s WHERE s.x = r.a GROUP BY x) FROM r ORDER BY a, b",
        "1 11\n2 20\n2 20\n3 31\n5 \n ",
    ),
    (
        "SELECT a, (SELECT sum(m) FROM (SELECT max(y) AS m FROM s WHERE s.x <= r.a GROUP BY x, \
         r.b) q) FROM r ORDER BY a, b",
        "1 11\n2 31\n2 31\n3 62\n5 72\n ",
    ),
    ("SELECT a, (SELECT r.a + r.b) FROM r ORDER BY a, b", "1 11\n2 22\n2 27\n3 33\n5 \n "),
    (
        "SELECT a, (SELECT max(column1) FROM (VALUES (r.a), (r.b / 10), (2)) v) FROM r ORDER BY \
         a, b",
        "1 2\n2 2\n2 2\n3 3\n5 5\n 4",
    ),
    (
        "SELECT a, (SELECT sum(coalesce(x, 0)) FROM (SELECT x FROM s WHERE s.x <= r.a EXCEPT \
         SELECT v FROM t WHERE t.k <= r.b) q) FROM r ORDER BY a, b",
        "1 \n2 \n2 \n3 3\n5 10\n ",
    ),
    (
        "SELECT a, (SELECT count(*) FROM (SELECT x FROM s WHERE s.x <= r.a INTERSECT SELECT v \
         FROM t) q) FROM r ORDER BY a, b",
        "1 1\n2 2\n2 2\n3 3\n5 3\n 0",
    ),
    (
        "SELECT a, (SELECT count(*) FROM (SELECT x FROM s WHERE s.x <= r.a EXCEPT ALL SELECT v \
         FROM t WHERE t.k > r.b) q) FROM r ORDER BY a, b",
        "1 2\n2 4\n2 4\n3 5\n5 6\n 0",
    ),
    (
        "SELECT a, (SELECT count(*) FROM (SELECT x, count(*) FROM s WHERE s.x < r.a GROUP BY \
         ROLLUP (x)) q) FROM r ORDER BY a, b",
        "1 1\n2 2\n2 2\n3 3\n5 5\n 1",
    ),
    (
        "SELECT a, (SELECT count(*) FROM e WHERE e.x < r.a) FROM r ORDER BY a, b",
        "1 0\n2 0\n2 0\n3 0\n5 0\n 0",
    ),
    (
        "SELECT a, (SELECT max(x) FROM e WHERE e.x < r.a) FROM r ORDER BY a, b",
        "1 \n2 \n2 \n3 \n5 \n ",
    ),
    ("SELECT (SELECT count(*) FROM s WHERE s.x < e.x) FROM e", ""),
    (
        "SELECT n, (SELECT count(*) FROM s WHERE s.x < r.a AND r.n = 'x') FROM r ORDER BY n, b",
        "x 0\nx 6\ny 0\ny 0\nz 0\n 0",
    ),
    (
        "SELECT a, (SELECT max(y) FROM (SELECT DISTINCT ON (x) x, y FROM s WHERE s.x <= r.a \
         ORDER BY x, y NULLS LAST) q) FROM r ORDER BY a, b",
        "1 10\n2 20\n2 20\n3 31\n5 31\n ",
    ),
    (
        "SELECT a, (SELECT sum(y) FROM (SELECT y FROM s WHERE s.x <= r.a ORDER BY y NULLS LAST \
         LIMIT 2) q) FROM r ORDER BY a, b",
        "1 21\n2 21\n2 21\n3 21\n5 20\n ",
    ),
];

/// Correlated subqueries in every clause of a query.
const SUBQUERIES_STAND_ANYWHERE: &[(&str, &str)] = &[
    (
        "SELECT a, CASE WHEN a > 1 THEN (SELECT count(*) FROM s WHERE s.x < r.a) ELSE -1 END \
         FROM r ORDER BY a, b",
        "1 -1\n2 2\n2 2\n3 4\n5 6\n -1",
    ),
    (
        "SELECT a, b FROM r ORDER BY (SELECT count(*) FROM s WHERE s.x < r.a), a, b",
        "1 10\n 40\n2 20\n2 25\n3 30\n5 ",
    ),
    (
        "SELECT b FROM r ORDER BY (SELECT count(*) FROM s WHERE s.x < r.a) DESC, b",
        "\n30\n20\n25\n10\n40",
    ),
    (
        "SELECT a, (SELECT count(*) FROM s WHERE s.x < r.a) AS c FROM r ORDER BY c DESC, b \
         LIMIT 3",
        "5 6\n3 4\n2 2",
    ),
    (
        "SELECT a, count(*) FROM r GROUP BY a HAVING count(*) <= (SELECT count(*) FROM s WHERE \
         s.x < r.a) ORDER BY a",
        "2 2\n3 1\n5 1",
    ),
    (
        "SELECT a, sum(b), (SELECT count(*) FROM s WHERE s.x < r.a) FROM r GROUP BY a ORDER BY \
         a",
        "1 10 0\n2 45 2\n3 30 4\n5  6\n 40 0",
    ),
    ("SELECT sum((SELECT count(*) FROM s WHERE s.x < r.a)) FROM r", "14"),
    (
        "SELECT n, max((SELECT y FROM s WHERE s.x = r.a ORDER BY y LIMIT 1)) FROM r GROUP BY n \
         ORDER BY n",
        "x 10\ny 20\nz \n 31",
    ),
    ("SELECT count(*) FILTER (WHERE (SELECT count(*) FROM s WHERE s.x < r.a) > 1) FROM r", "4"),
    (
        "SELECT (SELECT count(*) FROM s WHERE s.x < r.a) AS c, count(*) FROM r GROUP BY (SELECT \
         count(*) FROM s WHERE s.x < r.a) ORDER BY c",
        "0 2\n2 2\n4 1\n6 1",
    ),
    (
        "SELECT a, sum((SELECT count(*) FROM s WHERE s.x < r.a)) OVER (ORDER BY b) FROM r ORDER \
         BY b",
        "1 0\n2 2\n2 4\n3 8\n 8\n5 14",
    ),
    (
        "SELECT a, row_number() OVER (ORDER BY (SELECT count(*) FROM s WHERE s.x < r.a), b) \
         FROM r ORDER BY b",
        "1 1\n2 3\n2 4\n3 5\n 2\n5 6",
    ),
    (
        "SELECT r.a, t.v FROM r JOIN t ON t.v = (SELECT count(*) FROM s WHERE s.x < r.a) ORDER \
         BY 1, 2, r.b, t.k",
        "2 2\n2 2\n2 2\n2 2",
    ),
    (
        "SELECT r.a, t.v FROM r LEFT JOIN t ON t.v = (SELECT count(*) FROM s WHERE s.x < r.a) \
         ORDER BY 1, 2, r.b, t.k",
        "1 \n2 2\n2 2\n2 2\n2 2\n3 \n5 \n ",
    ),
    (
        "SELECT r.a, t.v FROM r LEFT JOIN t ON r.a = t.v AND (SELECT count(*) FROM s WHERE s.y \
         < t.k) > 0 ORDER BY 1, 2, r.b, t.k",
        "1 1\n2 2\n2 2\n2 2\n2 2\n3 \n5 \n ",
    ),
    (
        "SELECT r.a, t.v FROM r JOIN t ON (SELECT count(*) FROM s WHERE s.x < r.a AND s.y >= \
         t.k) = 1 ORDER BY 1, 2, r.b, t.k",
        "3 2\n5 ",
    ),
    (
        "SELECT r.a, t.v FROM r, t WHERE r.a = t.v AND r.b > (SELECT min(y) FROM s WHERE s.x < \
         r.a + t.v) ORDER BY 1, 2, r.b, t.k",
        "2 2\n2 2\n2 2\n2 2\n3 3",
    ),
    (
        "SELECT a, b FROM r WHERE b > (SELECT y FROM s WHERE s.x = r.a ORDER BY y LIMIT 1) \
         ORDER BY a, b",
        "2 25",
    ),
    (
        "SELECT a, b FROM r WHERE (SELECT count(*) FROM s WHERE s.x < r.a) + (SELECT count(*) \
         FROM t WHERE t.k > r.b) > 2 ORDER BY a, b",
        "2 20\n2 25\n3 30\n5 ",
    ),
    (
        "SELECT DISTINCT (SELECT count(*) FROM s WHERE s.x < r.a) AS c FROM r ORDER BY c",
        "0\n2\n4\n6",
    ),
    (
        "SELECT DISTINCT ON (c) c, b FROM (SELECT (SELECT count(*) FROM s WHERE s.x < r.a) AS \
         c, b FROM r) q ORDER BY c, b",
        "0 10\n2 20\n4 30\n6 ",
    ),
    (
        "SELECT a, coalesce((SELECT max(y) FROM s WHERE s.x < r.a), 0) FROM r ORDER BY a, b",
        "1 0\n2 11\n2 11\n3 20\n5 31\n 0",
    ),
    (
        "SELECT column1, (SELECT count(*) FROM s WHERE s.x < column1) FROM (VALUES (1), (3), \
         (NULL)) v ORDER BY 1",
        "1 0\n3 4\n 0",
    ),
    (
        "SELECT a, (SELECT count(*) FROM s WHERE s.x < q.a) FROM (SELECT a FROM r WHERE a IS \
         NOT NULL ORDER BY b LIMIT 3) q ORDER BY a",
        "1 0\n2 2\n2 2",
    ),
    (
        "SELECT a, m, (SELECT count(*) FROM s WHERE s.y < q.m) FROM (SELECT a, max(b) AS m FROM \
         r GROUP BY a) q ORDER BY a",
        "1 10 1\n2 25 5\n3 30 5\n5  0\n 40 6",
    ),
    (
        "SELECT c, (SELECT count(*) FROM s WHERE s.x < q.c) FROM (SELECT row_number() OVER \
         (ORDER BY b) AS c FROM r) q ORDER BY c",
        "1 0\n2 2\n3 4\n4 5\n5 6\n6 6",
    ),
    (
        "WITH q AS (SELECT a, b FROM r WHERE b > 10) SELECT a, (SELECT count(*) FROM q p WHERE \
         p.a < q.a OR p.b > q.b) FROM q ORDER BY a, b",
        "2 3\n2 2\n3 3\n 0",
    ),
    (
        "SELECT a FROM r WHERE a < 3 UNION ALL SELECT (SELECT count(*) FROM s WHERE s.x < r.a) \
         FROM r ORDER BY 1",
        "0\n0\n1\n2\n2\n2\n2\n4\n6",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_of_correlated_subqueries() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    check(&session, VALUES_OF_SUBQUERIES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn correlated_subqueries_stand_in_every_clause() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    check(&session, SUBQUERIES_STAND_ANYWHERE).await;
}

/// A subquery that returns several rows for an outer row is an error where its value is needed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_is_of_one_row() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    for query in [
        "SELECT a, (SELECT y FROM s WHERE s.x = r.a) FROM r",
        "SELECT a FROM r WHERE b > (SELECT y FROM s WHERE s.x < r.a)",
        "SELECT a FROM r ORDER BY (SELECT y FROM s WHERE s.x < r.a LIMIT 2)",
    ] {
        let several = error(&session, query).await;
        let expected = "more than one row returned by a subquery used as an expression";
        assert!(several.contains(expected), "{query}: {several}");
    }
    let of_one = "SELECT CASE WHEN a = 3 THEN (SELECT y FROM s WHERE s.x = r.a) END AS v FROM r \
                  ORDER BY v";
    assert_eq!(show(&session, of_one).await, "31\n\n\n\n\n");
}

/// The construct for which there is no plan is named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_name_the_construct() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    let cases = [
        (
            "SELECT (WITH RECURSIVE q AS (SELECT r.a AS n UNION ALL SELECT n + 1 FROM q WHERE \
             n < 5) SELECT count(*) FROM q) FROM r",
            "WITH RECURSIVE",
        ),
        (
            "SELECT (SELECT max((SELECT count(*) FROM s WHERE s.x < q.c)) FROM (SELECT random() * \
             r.a AS c) q) FROM r",
            "a volatile function",
        ),
        (
            "SELECT count(*) FROM r LEFT JOIN t ON (SELECT count(*) FROM s WHERE s.x < r.a AND \
             s.y = t.k) > 0",
            "names columns of both sides",
        ),
        ("SELECT (SELECT count(*) FROM s WHERE s.x < r.b) FROM r GROUP BY r.a", "r.b"),
    ];
    for (query, construct) in cases {
        let refused = error(&session, query).await;
        assert!(refused.contains(construct), "{query}: {refused}");
    }
}

/// DataFusion adds a column to the groups of grouping sets, between those of the statement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_over_grouping_sets_have_their_own_values() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let tables = "CREATE TABLE o (x BIGINT, y BIGINT);
        INSERT INTO o VALUES (1, 5), (1, 6), (2, 7), (3, 8), (NULL, 9);
        CREATE TABLE s (x BIGINT, y BIGINT);
        INSERT INTO s VALUES (0, 1), (1, 2), (2, 9), (NULL, 4)";
    show(&session, tables).await;
    let cases = [
        (
            "SELECT x, count(*) AS n, row_number() OVER (ORDER BY (SELECT count(*) FROM s WHERE \
             s.x < o.x) DESC, count(*)) AS r FROM o GROUP BY ROLLUP (x) ORDER BY r",
            "3 1 1\n2 1 2\n1 2 3\n 1 4\n 5 5",
        ),
        (
            "SELECT x, sum(count(*)) OVER (PARTITION BY (SELECT max(s.y) FROM s WHERE s.x <> \
             o.x)) AS r, count(*) FROM o GROUP BY ROLLUP (x) ORDER BY x, r, 3",
            "1 3 2\n2 1 1\n3 3 1\n 6 1\n 6 5",
        ),
        (
            "SELECT (SELECT string_agg(v, ',') FROM (SELECT CAST(sum(count(*)) OVER () AS \
             VARCHAR) AS v FROM s WHERE s.x < o.x GROUP BY ROLLUP (s.y)) q) FROM o WHERE x = 2",
            "4,4,4",
        ),
    ];
    check(&session, &cases).await;
}
