//! Statements that DataFusion refuses or answers wrongly, with the rows that PostgreSQL 15 returns.

use terrace_sql::Session;

use crate::common::{MIB, check, engine, show};

const DRAM: u64 = 64 * MIB;

async fn tables(session: &Session) {
    let tables = "CREATE TABLE g (k BIGINT, v BIGINT);
        INSERT INTO g VALUES (1, 10), (2, -20), (2, 5), (3, NULL), (NULL, 7);
        CREATE TABLE h (k BIGINT, x DOUBLE PRECISION, n VARCHAR);
        INSERT INTO h VALUES (1, 0.5, 'a'), (1, 2.5, 'b'), (2, 10.25, 'c'), (4, NULL, 'd')";
    show(session, tables).await;
}

/// Two IN lists of one value in an aggregate, a window, a key or a condition on groups.
const LISTS: &[(&str, &str)] = &[
    ("SELECT count(*) FILTER (WHERE v IN (5, 10) AND v IN (10, 7)) FROM g", "1"),
    ("SELECT count(*) FILTER (WHERE v NOT IN (5, 10) OR v NOT IN (10, 7)) FROM g", "3"),
    (
        "SELECT count(*) FILTER (WHERE k IN (1, NULL) AND k IN (1, 2)), sum(v) FILTER (WHERE k \
         IN (2, v) AND k IN (2, 3)) FROM g",
        "1 -15",
    ),
    ("SELECT max(CASE WHEN k IN (1, 2) AND k IN (2, 3) THEN v ELSE -1 END) FROM g", "5"),
    (
        "SELECT k FROM g GROUP BY k HAVING sum(v) FILTER (WHERE v IN (5, 10) AND v IN (10, 7)) \
         = 10",
        "1",
    ),
    (
        "SELECT k IN (1, 2) AND k IN (2, 3) AS b, count(*) FROM g GROUP BY k IN (1, 2) AND k IN \
         (2, 3) ORDER BY 2, 1",
        " 1\nfalse 2\ntrue 2",
    ),
    (
        "SELECT k, sum(CASE WHEN v IN (10, 5) AND v IN (5, 7) THEN 1 ELSE 0 END) OVER (ORDER BY \
         v) AS s FROM g ORDER BY v",
        "2 0\n2 1\n 1\n1 1\n3 1",
    ),
    (
        "SELECT string_agg(CASE WHEN k IN (1, 2) AND k IN (2, 5) THEN 'x' ELSE 'y' END, ',' \
         ORDER BY v) FROM g",
        "x,x,y,y,y",
    ),
    (
        "SELECT k FROM g ORDER BY CASE WHEN v IN (5, 10) AND v IN (10, 7) THEN 0 ELSE 1 END, k, \
         v LIMIT 2",
        "1\n2",
    ),
    (
        "SELECT k IN (1, 2) AND k IN (2, 3) AS b, count(*) FROM g GROUP BY GROUPING SETS ((k IN \
         (1, 2) AND k IN (2, 3)), ()) ORDER BY 2, 1",
        " 1\nfalse 2\ntrue 2\n 5",
    ),
    (
        "SELECT k FROM g WHERE 2 IN (SELECT DISTINCT x.k % 5 FROM g x) GROUP BY k ORDER BY 1",
        "1\n2\n3\n",
    ),
];

/// Set operations in parentheses, and VALUES, as values.
const SET_OPERATIONS: &[(&str, &str)] = &[
    ("SELECT v FROM g WHERE v > ALL ((SELECT 1) EXCEPT (SELECT 2)) ORDER BY v", "5\n7\n10"),
    ("SELECT v FROM g WHERE v = ANY ((SELECT 5) UNION (SELECT 7)) ORDER BY v", "5\n7"),
    (
        "SELECT v FROM g WHERE v >= SOME (((SELECT 7) INTERSECT (SELECT 7)) UNION (SELECT 100)) \
         ORDER BY v",
        "7\n10",
    ),
    ("SELECT ((SELECT 1) UNION (SELECT 1)) + 1, (((SELECT 2) LIMIT 1) + 3)", "2 5"),
    ("SELECT v FROM g WHERE v = ANY (VALUES (5), (7)) ORDER BY v", "5\n7"),
    ("SELECT v + (VALUES (3)) FROM g WHERE k = 1", "13"),
    (
        "SELECT k, v FROM g WHERE v >= ALL ((SELECT x.v FROM g x WHERE x.k = g.k) UNION ALL \
         (SELECT -100)) ORDER BY k, v",
        "1 10\n2 5\n 7",
    ),
    ("SELECT v FROM g WHERE v NOT IN ((SELECT 5) UNION (SELECT 7)) ORDER BY v", "-20\n10"),
    ("SELECT CASE WHEN ((SELECT 1) EXCEPT (SELECT 1)) IS NULL THEN 'none' END", "none"),
];

/// Names in expressions of ORDER BY are columns of FROM.
const SORT_KEYS: &[(&str, &str)] = &[
    ("SELECT -v AS v FROM g ORDER BY -v", "-10\n-7\n-5\n20\n"),
    ("SELECT -v AS v FROM g ORDER BY v", "-10\n-7\n-5\n20\n"),
    ("SELECT -v AS v FROM g ORDER BY (v)", "-10\n-7\n-5\n20\n"),
    ("SELECT -v AS v FROM g ORDER BY v + 0", "20\n-5\n-7\n-10\n"),
    ("SELECT k, -v AS v FROM g ORDER BY abs(v), k", "2 -5\n -7\n1 -10\n2 20\n3 "),
    ("SELECT k, -v AS v FROM g ORDER BY k, v * 1 DESC", "1 -10\n2 -5\n2 20\n3 \n -7"),
    ("SELECT k, sum(v) AS v FROM g GROUP BY k ORDER BY sum(v), k", "2 -15\n 7\n1 10\n3 "),
    (
        "SELECT k, sum(v) AS v FROM g GROUP BY k ORDER BY sum(v) + 1 DESC NULLS LAST, k",
        "1 10\n 7\n2 -15\n3 ",
    ),
    ("SELECT DISTINCT -v AS v FROM g ORDER BY -v", "-10\n-7\n-5\n20\n"),
    (
        "SELECT -g.v AS v, h.n FROM g JOIN h ON g.k = h.k ORDER BY v + 1, n || ''",
        "20 c\n-5 c\n-10 a\n-10 b",
    ),
    ("SELECT (SELECT -v AS v FROM g ORDER BY v + 0 LIMIT 1)", "20"),
    (
        "WITH c AS (SELECT k AS a, v AS b FROM g) SELECT -b AS b FROM c ORDER BY b + 0, a",
        "20\n-5\n-7\n-10\n",
    ),
    ("SELECT q.v FROM (SELECT -v AS v FROM g ORDER BY v + 0 LIMIT 2) q ORDER BY 1", "-5\n20"),
    ("SELECT length(n) AS n FROM h ORDER BY upper(n) DESC", "1\n1\n1\n1"),
    (
        "SELECT -v AS v, row_number() OVER (ORDER BY v) AS r FROM g ORDER BY v + 0",
        "20 1\n-5 2\n-7 3\n-10 4\n 5",
    ),
    (
        "SELECT 1 - k AS k, k AS other FROM g WHERE k > 0 ORDER BY CASE WHEN k = 2 THEN 0 ELSE \
         k END, v",
        "-1 2\n-1 2\n0 1\n-2 3",
    ),
    ("SELECT k AS a, -v AS v FROM g ORDER BY (v), k", "1 -10\n -7\n2 -5\n2 20\n3 "),
    ("SELECT k, -v AS v FROM g ORDER BY 1 DESC, v + 0", " -7\n3 \n2 20\n2 -5\n1 -10"),
    (
        "SELECT -v AS v FROM g WHERE v IN (SELECT -v AS v FROM g ORDER BY v + 0 LIMIT 1) OR v > \
         5 ORDER BY g.k, v * 2",
        "-10\n-7",
    ),
    (
        "SELECT k, -x AS x FROM g JOIN h USING (k) ORDER BY x * 2, k + 0, v",
        "1 -0.5\n1 -2.5\n2 -10.25\n2 -10.25",
    ),
    ("SELECT 3 AS v, k FROM g q ORDER BY q.v", "3 2\n3 2\n3 \n3 1\n3 3"),
    (
        "SELECT -q.v AS v, q.k AS v2 FROM g q ORDER BY q.v DESC NULLS LAST LIMIT 3",
        "-10 1\n-7 \n-5 2",
    ),
    ("SELECT q.k AS k, -q.k AS v FROM g q ORDER BY q.k, q.v", "1 -1\n2 -2\n2 -2\n3 -3\n "),
    ("SELECT k, count(*) AS v FROM g GROUP BY k, v ORDER BY g.v", "2 1\n2 1\n 1\n1 1\n3 1"),
];

/// Columns of one name, and repeated keys.
const NAMES: &[(&str, &str)] = &[
    (
        "SELECT s.n, count(*) AS n FROM (SELECT k AS n, v FROM g) s GROUP BY s.n ORDER BY 2, 1",
        "1 1\n3 1\n 1\n2 2",
    ),
    (
        "SELECT s.n, max(s.v) AS n FROM (SELECT k AS n, v FROM g) s WHERE s.n > 0 GROUP BY s.n \
         HAVING max(s.v) > 0 ORDER BY 1",
        "1 10\n2 5",
    ),
    (
        "SELECT s.n, max(s.n) AS n FROM (SELECT k AS n FROM g) s GROUP BY GROUPING SETS ((s.n), \
         ()) ORDER BY 1, 2",
        "1 1\n2 2\n3 3\n 3\n ",
    ),
    (
        "WITH c AS (SELECT k AS n, v AS m FROM g) SELECT a.n, b.m AS n, b.n AS m FROM c a JOIN \
         c b ON a.n = b.n ORDER BY a.n, b.m",
        "1 10 1\n2 -20 2\n2 -20 2\n2 5 2\n2 5 2\n3  3",
    ),
    ("SELECT count(*) FROM (SELECT k AS a, v AS a FROM g) s", "5"),
    ("SELECT count(*) FROM g WHERE EXISTS (SELECT k AS a, v AS a FROM g x WHERE x.k = g.k)", "4"),
    (
        "SELECT k, v AS k, (SELECT count(*) FROM g x WHERE x.k = g.k) AS k FROM g ORDER BY v",
        "2 -20 2\n2 5 2\n 7 0\n1 10 1\n3  1",
    ),
    (
        "SELECT q.k FROM (SELECT g.k, h.k AS j, h.n AS j FROM g JOIN h ON g.k = h.k) q JOIN \
         (SELECT 1 AS j) w ON w.j = q.k ORDER BY 1",
        "1\n1",
    ),
    (
        "SELECT n, x AS n, row_number() OVER (ORDER BY n) AS n FROM h ORDER BY 3",
        "a 0.5 1\nb 2.5 2\nc 10.25 3\nd  4",
    ),
    ("SELECT DISTINCT ON (k, k) k, v FROM g ORDER BY k, k, v", "1 10\n2 -20\n3 \n 7"),
    (
        "SELECT DISTINCT ON (k, k, v) k, v FROM g WHERE k > 1 ORDER BY k, k, v DESC",
        "2 5\n2 -20\n3 ",
    ),
    ("SELECT k, count(*) FROM g GROUP BY k, v, k ORDER BY 1, 2", "1 1\n2 1\n2 1\n3 1\n 1"),
    (
        "SELECT DISTINCT CAST(k AS INT), 2.5 AS c, k FROM g ORDER BY 3",
        "1 2.5 1\n2 2.5 2\n3 2.5 3\n 2.5 ",
    ),
];

/// Values of subqueries that return no row.
const MISSING_ROWS: &[(&str, &str)] = &[
    ("SELECT (SELECT 1 WHERE false) IS NULL, (SELECT 1) IS NULL", "true false"),
    ("SELECT CASE WHEN (SELECT 1 FROM g WHERE k > 100) IS NULL THEN 'none' END", "none"),
    (
        "SELECT coalesce((SELECT 1 FROM g WHERE k > 100), 7), (SELECT 1 FROM g WHERE k > 100) + \
         1",
        "7 ",
    ),
    ("SELECT k FROM g WHERE (SELECT 1 WHERE false) IS NULL AND v > 5 ORDER BY k", "1\n"),
    (
        "SELECT k, count(*) FROM g GROUP BY k HAVING (SELECT true WHERE false) IS NOT TRUE \
         ORDER BY k",
        "1 1\n2 2\n3 1\n 1",
    ),
    ("SELECT ((SELECT 1) EXCEPT (SELECT 1)) IS NULL", "true"),
    (
        "SELECT (SELECT count(*) FROM g WHERE false) IS NULL, (SELECT count(*) FROM g WHERE \
         false HAVING false) IS NULL",
        "false true",
    ),
];

/// Outer rows that may differ each time they are evaluated.
const ONCE: &[(&str, &str)] = &[
    (
        "SELECT q.k, (SELECT count(*) FROM g x WHERE x.v < q.v) FROM (SELECT DISTINCT ON (k) k, \
         v FROM g ORDER BY k, v DESC NULLS LAST) q ORDER BY 1",
        "1 3\n2 1\n3 0\n 2",
    ),
    (
        "SELECT q.k, (SELECT max(x.v) FROM g x WHERE x.v < q.v), (SELECT min(x.k) FROM g x \
         WHERE x.k > q.k OR x.v > q.v) FROM (SELECT DISTINCT ON (k) k, v FROM g ORDER BY k, v \
         DESC NULLS LAST) q ORDER BY 1",
        "1 7 2\n2 -20 1\n3  \n 5 1",
    ),
    (
        "SELECT q.k FROM (SELECT DISTINCT ON (k) k, v FROM g ORDER BY k, v DESC NULLS LAST) q \
         WHERE EXISTS (SELECT 1 FROM g x WHERE x.v > q.v OFFSET 1) ORDER BY 1",
        "2",
    ),
    (
        "SELECT q.k FROM (SELECT DISTINCT ON (k) k, v FROM g ORDER BY k, v DESC NULLS LAST) q \
         WHERE q.k NOT IN (SELECT x.k FROM g x WHERE x.v > q.v AND x.k IS NOT NULL LIMIT 5) \
         ORDER BY 1",
        "1\n2\n3",
    ),
    (
        "SELECT q.k, l.n, l.m FROM (SELECT DISTINCT ON (k) k, v FROM g ORDER BY k, v DESC NULLS \
         LAST) q, LATERAL (SELECT count(*) AS n, sum(x.v + q.k) AS m FROM g x WHERE x.v >= q.v) \
         l ORDER BY 1",
        "1 1 11\n2 3 28\n3 0 \n 2 ",
    ),
    (
        "SELECT q.s, (SELECT count(*) FROM g x WHERE x.v < q.s) FROM (SELECT sum(v) AS s FROM \
         (SELECT v FROM g ORDER BY v LIMIT 3) l) q",
        "-8 1",
    ),
    (
        "SELECT q.n, (SELECT count(*) FROM g x WHERE x.k < q.n) FROM (SELECT k, row_number() \
         OVER (ORDER BY v) AS n FROM g) q ORDER BY 1",
        "1 0\n2 1\n3 3\n4 4\n5 4",
    ),
    (
        "SELECT q.n, (SELECT count(*) FROM g x WHERE x.k < length(q.n)) FROM (SELECT k, \
         string_agg(n, ',' ORDER BY n) AS n FROM h GROUP BY k) q ORDER BY 1",
        "a,b 3\nc 0\nd 0",
    ),
    (
        "SELECT q.s, (SELECT count(*) FROM g x WHERE x.v > q.s) FROM (SELECT sum(x) + 0.25 AS s \
         FROM h GROUP BY k) q ORDER BY 1",
        "3.25 3\n10.5 0\n 0",
    ),
    (
        "SELECT q.f, (SELECT count(*) FROM g x WHERE x.v < q.f) FROM (SELECT k, first_value(v) \
         OVER (PARTITION BY k ORDER BY v) AS f FROM g) q ORDER BY 1, 2",
        "-20 0\n-20 0\n7 2\n10 3\n 0",
    ),
    (
        "SELECT count(*) FROM (SELECT (SELECT count(*) FROM g x WHERE x.k + 0 * q.r > 2) AS n \
         FROM (SELECT random() AS r FROM g) q) w WHERE n = 1",
        "5",
    ),
    (
        "SELECT count(*) FROM (SELECT q.r, (SELECT min(q.r + x.k) FROM g x WHERE x.k > q.r) AS \
         m FROM (SELECT random() AS r FROM g, h) q) w WHERE m = r + 1",
        "20",
    ),
    (
        "SELECT a.k, (SELECT count(*) FROM (SELECT DISTINCT ON (k) k, v FROM g ORDER BY k, v \
         DESC NULLS LAST) b WHERE b.v > a.v AND (SELECT count(*) FROM g x WHERE x.v > b.v) < 3) \
         FROM (SELECT DISTINCT ON (k) k, v FROM g ORDER BY k, v DESC NULLS LAST) a ORDER BY 1",
        "1 0\n2 2\n3 0\n 1",
    ),
    (
        "SELECT q.k FROM (SELECT DISTINCT ON (k) k, v FROM g ORDER BY k, v DESC NULLS LAST) q \
         JOIN h ON q.k = h.k AND (SELECT count(*) FROM g x WHERE x.v > q.v) > 0 ORDER BY 1",
        "2",
    ),
    (
        "SELECT q.k, count(*) FROM (SELECT DISTINCT ON (k) k, v FROM g ORDER BY k, v DESC NULLS \
         LAST) q GROUP BY q.k, (SELECT count(*) FROM g x WHERE x.v > q.v) ORDER BY (SELECT \
         count(*) FROM g x WHERE x.k > q.k), 1",
        "3 1\n 1\n2 1\n1 1",
    ),
    (
        "SELECT q.k FROM (SELECT DISTINCT ON (k) k, v FROM g ORDER BY k, v DESC NULLS LAST) q \
         WHERE (SELECT count(*) FROM g x WHERE x.v > q.v) > 0 AND random() < 2 ORDER BY 1",
        "2\n",
    ),
    (
        "SELECT (SELECT count(*) FROM g x WHERE x.v < q.v) FROM (SELECT DISTINCT ON (k) k, v \
         FROM g WHERE k > 100 ORDER BY k, v) q",
        "",
    ),
    (
        "SELECT q.k, (SELECT string_agg(y.k::TEXT, ',' ORDER BY y.k) FROM (SELECT DISTINCT ON \
         (v) k, v FROM g ORDER BY v) y WHERE y.k >= q.k AND (SELECT count(*) FROM h WHERE h.k < \
         y.k) > 0) FROM (SELECT DISTINCT ON (k) k, v FROM g ORDER BY k, v DESC NULLS LAST) q \
         ORDER BY 1",
        "1 2,2,3\n2 2,2,3\n3 3\n ",
    ),
    (
        "SELECT (SELECT count(*) FROM g x WHERE x.v > q.v AND x.v > w.v) FROM (SELECT DISTINCT \
         ON (k) k, v FROM g ORDER BY k, v DESC NULLS LAST) q, (SELECT v FROM g ORDER BY v LIMIT \
         2) w ORDER BY 1",
        "0\n0\n0\n0\n1\n1\n2\n2",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_of_one_value_keep_the_names_of_columns() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    check(&session, LISTS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn set_operations_in_parentheses_are_values() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    check(&session, SET_OPERATIONS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expressions_of_order_by_name_columns_of_from() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    check(&session, SORT_KEYS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_of_one_name_and_repeated_keys() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    check(&session, NAMES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outer_rows_are_evaluated_once() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    check(&session, ONCE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_without_a_row_are_null() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    check(&session, MISSING_ROWS).await;
}
