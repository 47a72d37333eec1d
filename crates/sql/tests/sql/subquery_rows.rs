//! Comparisons with correlated subqueries, correlation over several queries, LATERAL, and changes
//! of rows, with the rows that PostgreSQL 15 returns.

use crate::common::{check, engine, show};
use crate::subquery_values::{DRAM, tables};

/// IN, ANY, ALL and EXISTS, as conditions and as values.
const COMPARISONS_AND_EXISTENCE: &[(&str, &str)] = &[
    (
        "SELECT a, b FROM r WHERE b IN (SELECT y FROM s WHERE s.x <= r.a ORDER BY y LIMIT 2) \
         ORDER BY a, b",
        "1 10",
    ),
    (
        "SELECT a, b FROM r WHERE b NOT IN (SELECT y FROM s WHERE s.x <= r.a ORDER BY y LIMIT \
         2) ORDER BY a, b",
        "2 20\n2 25\n3 30\n 40",
    ),
    (
        "SELECT a, b FROM r WHERE b NOT IN (SELECT y FROM s WHERE s.x <= r.a ORDER BY y NULLS \
         FIRST LIMIT 3) ORDER BY a, b",
        " 40",
    ),
    (
        "SELECT a, b FROM r WHERE b IN (SELECT y FROM s WHERE s.x <= r.a UNION SELECT k FROM t \
         WHERE t.v = r.a) ORDER BY a, b",
        "1 10\n2 20",
    ),
    (
        "SELECT a, b FROM r WHERE b NOT IN (SELECT y FROM s WHERE s.x = r.a UNION ALL SELECT k \
         FROM t WHERE t.v > r.a) ORDER BY a, b",
        "3 30\n5 \n 40",
    ),
    ("SELECT a, b FROM r WHERE b IN (SELECT y + r.a - r.a FROM s) ORDER BY a, b", "1 10\n2 20"),
    (
        "SELECT a, b FROM r WHERE b NOT IN (SELECT r.b + y FROM s WHERE y > 11) ORDER BY a, b",
        "1 10\n2 20\n2 25\n3 30\n 40",
    ),
    (
        "SELECT a, b FROM r WHERE b IN (SELECT y FROM s WHERE s.x < r.a LIMIT 5) OR a = 3 ORDER \
         BY a, b",
        "3 30",
    ),
    (
        "SELECT a, b FROM r WHERE NOT (b IN (SELECT y FROM s WHERE s.x <= r.a LIMIT 9) AND a > \
         0) ORDER BY a, b",
        " 40",
    ),
    (
        "SELECT a, (b IN (SELECT y FROM s WHERE s.x <= r.a LIMIT 9))::text FROM r ORDER BY a, b",
        "1 true\n2 true\n2 \n3 \n5 \n false",
    ),
    (
        "SELECT a, (b NOT IN (SELECT y FROM s WHERE s.x = r.a UNION SELECT v FROM t WHERE t.k = \
         r.b))::text FROM r ORDER BY a, b",
        "1 false\n2 false\n2 \n3 true\n5 true\n true",
    ),
    (
        "SELECT a, (b > ANY (SELECT y FROM s WHERE s.x < r.a))::text FROM r ORDER BY a, b",
        "1 false\n2 true\n2 true\n3 true\n5 \n false",
    ),
    (
        "SELECT a, (b <= ALL (SELECT y FROM s WHERE s.x = r.a OFFSET 0))::text FROM r ORDER BY \
         a, b",
        "1 true\n2 \n2 false\n3 true\n5 true\n true",
    ),
    (
        "SELECT a, b FROM r WHERE b > ALL (SELECT y FROM s WHERE s.x < r.a AND y IS NOT NULL) \
         ORDER BY a, b",
        "1 10\n2 20\n2 25\n3 30\n 40",
    ),
    (
        "SELECT a, b FROM r WHERE b < ANY (SELECT y FROM s WHERE s.x <= r.a ORDER BY y DESC \
         NULLS LAST LIMIT 1) ORDER BY a, b",
        "1 10\n3 30",
    ),
    (
        "SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM (SELECT y FROM s WHERE s.x = r.a ORDER \
         BY y LIMIT 1) q WHERE q.y > 15) ORDER BY a, b",
        "2 20\n2 25\n3 30",
    ),
    (
        "SELECT a, b FROM r WHERE NOT EXISTS (SELECT 1 FROM (SELECT y FROM s WHERE s.x = r.a \
         ORDER BY y LIMIT 1) q WHERE q.y > 15) ORDER BY a, b",
        "1 10\n5 \n 40",
    ),
    (
        "SELECT a, b FROM r WHERE EXISTS (SELECT y FROM s WHERE s.x = r.a UNION ALL SELECT k \
         FROM t WHERE t.k = r.b) ORDER BY a, b",
        "1 10\n2 20\n2 25\n3 30",
    ),
    (
        "SELECT a, b FROM r WHERE NOT EXISTS (SELECT y FROM s WHERE s.x = r.a EXCEPT SELECT k \
         FROM t WHERE t.v <= r.a) ORDER BY a, b",
        "5 \n 40",
    ),
    (
        "SELECT a, b FROM r WHERE EXISTS (SELECT x FROM s WHERE s.x <= r.a GROUP BY x HAVING \
         count(*) > 1) ORDER BY a, b",
        "1 10\n2 20\n2 25\n3 30\n5 ",
    ),
    (
        "SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM s LEFT JOIN (SELECT * FROM t WHERE t.k \
         = r.b) q ON q.k = s.y WHERE q.k IS NULL AND s.x = r.a) ORDER BY a, b",
        "1 10\n2 20\n2 25\n3 30",
    ),
    (
        "SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.x = r.a OFFSET 1) OR b = 40 \
         ORDER BY a, b",
        "1 10\n2 20\n2 25\n 40",
    ),
    (
        "SELECT a, EXISTS (SELECT 1 FROM s WHERE s.x < r.a AND s.y > r.b)::text FROM r ORDER BY \
         a, b",
        "1 false\n2 false\n2 false\n3 false\n5 false\n false",
    ),
    (
        "SELECT a, b FROM r WHERE (a, b) IN (SELECT x, y FROM s WHERE s.x <= r.a) ORDER BY a, b",
        "1 10\n2 20",
    ),
    (
        "SELECT a, b FROM r WHERE (a, b) NOT IN (SELECT x, y FROM s WHERE s.x <= r.a AND s.y > \
         5) ORDER BY a, b",
        "2 25\n3 30\n5 \n 40",
    ),
    (
        "SELECT a FROM r WHERE 5 NOT IN (SELECT y FROM s WHERE s.x = r.a GROUP BY ROLLUP (y)) \
         ORDER BY a, b",
        "",
    ),
    (
        "SELECT a FROM r WHERE EXISTS (SELECT y FROM s WHERE s.x = r.a GROUP BY CUBE (y)) ORDER \
         BY a, b",
        "1\n2\n2\n3\n5\n",
    ),
    (
        "SELECT a FROM r WHERE 0 IN (SELECT count(*) FROM s WHERE s.x = r.a GROUP BY GROUPING \
         SETS ((y), ())) ORDER BY a, b",
        "5\n",
    ),
    (
        "SELECT a, (SELECT sum(g) FROM (SELECT grouping(y) AS g FROM s WHERE s.x = r.a GROUP BY \
         ROLLUP (y)) q) FROM r ORDER BY a, b",
        "1 1\n2 1\n2 1\n3 1\n5 1\n 1",
    ),
];

/// Correlation over two and three levels.
const SUBQUERIES_NAME_COLUMNS_OF_TWO_QUERIES: &[(&str, &str)] = &[
    (
        "SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.x = r.a AND EXISTS (SELECT 1 \
         FROM t WHERE t.k = s.y AND t.v <= r.a)) ORDER BY a, b",
        "1 10\n2 20\n2 25",
    ),
    (
        "SELECT a, b FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.x = r.a AND NOT EXISTS \
         (SELECT 1 FROM t WHERE t.k = s.y AND t.v = r.a)) ORDER BY a, b",
        "5 \n 40",
    ),
    (
        "SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM s WHERE EXISTS (SELECT 1 FROM t WHERE \
         t.k = s.y AND t.v = r.a)) ORDER BY a, b",
        "1 10\n2 20\n2 25\n5 ",
    ),
    (
        "SELECT a, (SELECT sum((SELECT count(*) FROM t WHERE t.k >= s.y AND t.v <= r.a)) FROM s \
         WHERE s.x <= r.a) FROM r ORDER BY a, b",
        "1 1\n2 5\n2 5\n3 5\n5 8\n ",
    ),
    (
        "SELECT a, (SELECT count(*) FROM s WHERE s.x < (SELECT max(v) FROM t WHERE t.k > r.b OR \
         t.k = s.y)) FROM r ORDER BY a, b",
        "1 2\n2 1\n2 1\n3 1\n5 1\n 1",
    ),
    (
        "SELECT a, (SELECT (SELECT count(*) FROM t WHERE t.v < r.a) + count(*) FROM s WHERE s.x \
         = r.a) FROM r ORDER BY a, b",
        "1 2\n2 3\n2 3\n3 4\n5 4\n 0",
    ),
    (
        "SELECT a, (SELECT max((SELECT r.a + s.x)) FROM s WHERE s.y > r.b) FROM r ORDER BY a, b",
        "1 4\n2 5\n2 5\n3 6\n5 \n ",
    ),
    (
        "SELECT a, b FROM r WHERE b IN (SELECT y FROM s WHERE s.x IN (SELECT v FROM t WHERE t.k \
         <= r.b AND t.v <= s.x)) ORDER BY a, b",
        "1 10\n2 20",
    ),
    (
        "SELECT a, b FROM r WHERE b NOT IN (SELECT y FROM s WHERE s.y > ALL (SELECT v FROM t \
         WHERE t.v < r.a AND t.k <> s.y)) ORDER BY a, b",
        "",
    ),
    (
        "SELECT a, (SELECT count(*) FROM s WHERE s.x = r.a AND s.y > (SELECT min(k) FROM t \
         WHERE t.v < s.x + 2)) FROM r ORDER BY a, b",
        "1 1\n2 1\n2 1\n3 1\n5 0\n 0",
    ),
    (
        "SELECT a, (SELECT count(*) FROM s WHERE s.x = (SELECT max(v) FROM t WHERE t.k = \
         (SELECT min(q.y) FROM s q WHERE q.x = r.a AND q.y <= t.k))) FROM r ORDER BY a, b",
        "1 2\n2 2\n2 2\n3 0\n5 0\n 0",
    ),
    (
        "SELECT a, (SELECT y FROM s WHERE s.x <= (SELECT count(*) FROM t WHERE t.v < r.a AND \
         t.k >= s.y) ORDER BY y LIMIT 1) FROM r ORDER BY a, b",
        "1 \n2 10\n2 10\n3 10\n5 10\n ",
    ),
];

/// LATERAL with LIMIT, aggregates, conditions, and one after another.
const LATERAL_SUBQUERIES: &[(&str, &str)] = &[
    (
        "SELECT r.a, q.y FROM r, LATERAL (SELECT y FROM s WHERE s.x <= r.a ORDER BY y LIMIT 2) \
         q ORDER BY 1, r.b, 2",
        "1 10\n1 11\n2 10\n2 11\n2 10\n2 11\n3 10\n3 11\n5 10\n5 10",
    ),
    (
        "SELECT r.a, q.y FROM r LEFT JOIN LATERAL (SELECT y FROM s WHERE s.x = r.a ORDER BY y \
         LIMIT 1) q ON true ORDER BY 1, r.b, 2",
        "1 10\n2 20\n2 20\n3 31\n5 \n ",
    ),
    (
        "SELECT r.a, q.y FROM r LEFT JOIN LATERAL (SELECT y FROM s WHERE s.x < r.a) q ON q.y > \
         r.b ORDER BY 1, r.b, 2",
        "1 \n2 \n2 \n3 \n5 \n ",
    ),
    (
        "SELECT r.a, q.c FROM r CROSS JOIN LATERAL (SELECT count(*) AS c FROM s WHERE s.x < \
         r.a) q ORDER BY 1, r.b",
        "1 0\n2 2\n2 2\n3 4\n5 6\n 0",
    ),
    (
        "SELECT r.a, q.c FROM r JOIN LATERAL (SELECT count(*) AS c FROM s WHERE s.x = r.a) q ON \
         q.c > 0 ORDER BY 1, r.b",
        "1 2\n2 2\n2 2\n3 1",
    ),
    (
        "SELECT r.a, q.c FROM r LEFT JOIN LATERAL (SELECT count(*) AS c FROM s WHERE s.x = r.a \
         HAVING count(*) > 1) q ON true ORDER BY 1, r.b",
        "1 2\n2 2\n2 2\n3 \n5 \n ",
    ),
    (
        "SELECT r.a, q.x, q.m FROM r, LATERAL (SELECT x, max(y) AS m FROM s WHERE s.x <= r.a \
         GROUP BY x) q ORDER BY 1, r.b, 2",
        "1 1 11\n2 1 11\n2 2 20\n2 1 11\n2 2 20\n3 1 11\n3 2 20\n3 3 31\n5 1 11\n5 2 20\n\
         5 3 31\n5 4 10",
    ),
    (
        "SELECT r.a, q.u FROM r, LATERAL (SELECT r.a * 2 AS u) q ORDER BY 1, r.b",
        "1 2\n2 4\n2 4\n3 6\n5 10\n ",
    ),
    (
        "SELECT r.a, q.u FROM r, LATERAL (VALUES (r.a), (r.b)) q(u) ORDER BY 1, r.b, 2",
        "1 1\n1 10\n2 2\n2 20\n2 2\n2 25\n3 3\n3 30\n5 5\n5 \n 40\n ",
    ),
    (
        "SELECT r.a, q.u, p.v FROM r, LATERAL (SELECT r.a + 1 AS u) q, LATERAL (SELECT v FROM t \
         WHERE t.v < q.u ORDER BY v LIMIT 1) p ORDER BY 1, r.b, 2",
        "1 2 1\n2 3 1\n2 3 1\n3 4 1\n5 6 1",
    ),
    (
        "SELECT r.a, q.y, p.k FROM r JOIN LATERAL (SELECT y FROM s WHERE s.x = r.a) q ON true \
         LEFT JOIN LATERAL (SELECT k FROM t WHERE t.k = q.y AND t.v <= r.a) p ON true ORDER BY \
         1, r.b, 2, 3",
        "1 10 10\n1 11 \n2 20 20\n2  \n2 20 20\n2  \n3 31 ",
    ),
    (
        "SELECT a, (SELECT sum(q.v) FROM s, LATERAL (SELECT v FROM t WHERE t.k = s.y AND t.v <= \
         r.a) q WHERE s.x <= r.a) FROM r ORDER BY a, b",
        "1 1\n2 5\n2 5\n3 5\n5 8\n ",
    ),
    (
        "SELECT r.a, q.u FROM r, LATERAL (SELECT y AS u FROM s WHERE s.x = r.a UNION ALL SELECT \
         v FROM t WHERE t.k = r.b) q ORDER BY 1, r.b, 2",
        "1 1\n1 2\n1 10\n1 11\n2 2\n2 20\n2 \n2 20\n2 \n3 31",
    ),
    (
        "SELECT r.a, q.y FROM r, LATERAL (SELECT y FROM s WHERE s.x = r.a) q WHERE q.y > \
         (SELECT min(k) FROM t WHERE t.v <= q.y - r.b + 10) ORDER BY 1, r.b, 2",
        "1 10\n1 11\n2 20\n2 20\n3 31",
    ),
    (
        "SELECT r.a, q.u FROM r, LATERAL (SELECT q.y, row_number() OVER (ORDER BY y DESC NULLS \
         LAST) AS u FROM s q WHERE q.x = r.a) q WHERE q.u = 1 ORDER BY 1, r.b",
        "1 1\n2 1\n2 1\n3 1",
    ),
];

/// Series whose bounds are columns of outer rows.
const SERIES_OF_COLUMNS: &[(&str, &str)] = &[
    (
        "SELECT r.a, g.value FROM r, LATERAL generate_series(1, r.a) g(value) WHERE r.a < 4 \
         ORDER BY 1, r.b, 2",
        "1 1\n2 1\n2 2\n2 1\n2 2\n3 1\n3 2\n3 3",
    ),
    (
        "SELECT a, (SELECT count(*) FROM generate_series(r.a, r.b) g(i)) FROM r ORDER BY a, b",
        "1 10\n2 19\n2 24\n3 28\n5 0\n 0",
    ),
    (
        "SELECT a, (SELECT sum(i) FROM generate_series(r.a, r.b, 5) g(i) JOIN s ON s.x = i) \
         FROM r ORDER BY a, b",
        "1 2\n2 4\n2 4\n3 3\n5 \n ",
    ),
    (
        "SELECT r.a, u.i FROM r, unnest(make_array(r.a, r.b)) u(i) ORDER BY 1, r.b, 2",
        "1 1\n1 10\n2 2\n2 20\n2 2\n2 25\n3 3\n3 30\n5 5\n5 \n 40\n ",
    ),
];

/// Statements that change `r`, and its rows then.
const CHANGES: &[(&str, &str)] = &[
    ("UPDATE r SET b = (SELECT count(*) FROM s WHERE s.x < r.a)", "1 0\n2 2\n2 2\n3 4\n5 6\n 0"),
    (
        "UPDATE r SET b = (SELECT y FROM s WHERE s.x = r.a ORDER BY y LIMIT 1) WHERE a > 1",
        "1 10\n2 20\n2 20\n3 31\n5 \n 40",
    ),
    (
        "UPDATE r SET b = b + 1 WHERE b > (SELECT min(y) FROM s WHERE s.x < r.a)",
        "1 10\n2 21\n2 26\n3 31\n5 \n 40",
    ),
    ("DELETE FROM r WHERE (SELECT count(*) FROM s WHERE s.x < r.a) > 2", "1 10\n2 20\n2 25\n 40"),
    (
        "DELETE FROM r WHERE b NOT IN (SELECT y FROM s WHERE s.x <= r.a ORDER BY y LIMIT 2)",
        "1 10\n5 ",
    ),
    (
        "DELETE FROM r WHERE EXISTS (SELECT 1 FROM r q WHERE q.b < r.b AND q.a = r.a)",
        "1 10\n2 20\n3 30\n5 \n 40",
    ),
    (
        "DELETE FROM r WHERE a < (SELECT max(a) FROM r q WHERE q.b <= r.b + 5)",
        "1 10\n2 20\n3 30\n5 \n 40",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn comparisons_with_correlated_subqueries() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    check(&session, COMPARISONS_AND_EXISTENCE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subqueries_name_columns_of_several_queries() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    check(&session, SUBQUERIES_NAME_COLUMNS_OF_TWO_QUERIES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lateral_subqueries() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    check(&session, LATERAL_SUBQUERIES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn series_of_columns() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    check(&session, SERIES_OF_COLUMNS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_rows_by_correlated_subqueries() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    for (change, rows) in CHANGES {
        show(&session, "BEGIN").await;
        show(&session, change).await;
        assert_eq!(show(&session, "SELECT a, b FROM r ORDER BY a, b").await, *rows, "{change}");
        show(&session, "ROLLBACK").await;
    }
}

/// A subquery by an inequality is evaluated once per value of the outer column, in joins that
/// leave memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outer_rows_of_equal_values_share_a_subquery() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let tables = "CREATE TABLE l AS SELECT value AS id, value % 100 AS a FROM \
                  generate_series(1, 200000);
                  CREATE TABLE m AS SELECT value AS x FROM generate_series(1, 1000)";
    show(&session, tables).await;
    let query = "SELECT sum((SELECT count(*) FROM m WHERE m.x <= l.a)) FROM l";
    // Pair by pair it would be 200 million.
    assert_eq!(show(&session, query).await, "9900000");
}
