//! Statements and expressions in the forms of PostgreSQL 15, with its answers.

use terrace_sql::Session;

use crate::common::{MIB, check, engine, error, show};

const DRAM: u64 = 64 * MIB;

async fn session() -> Session {
    let session = engine(DRAM).session().expect("session");
    show(
        &session,
        "CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 10), (2, 20), (3, 30);
         CREATE TABLE u (k INT, v INT); INSERT INTO u VALUES (1, 7), (2, 8)",
    )
    .await;
    session
}

#[tokio::test]
async fn changes_follow_a_with() {
    let session = session().await;
    for (change, rows) in [
        ("WITH q AS (SELECT 4 AS a, 40 AS b) INSERT INTO t SELECT * FROM q RETURNING *", "4 40"),
        (
            "WITH q AS (SELECT 5 AS a) INSERT INTO t (b, a) \
             WITH r AS (SELECT 50 AS b) SELECT b, a FROM r, q RETURNING a, b",
            "5 50",
        ),
        (
            "WITH q(x) AS (SELECT 6) INSERT INTO t VALUES ((SELECT x FROM q), DEFAULT) RETURNING *",
            "6 ",
        ),
        (
            "WITH q AS (SELECT k, v FROM u), r AS (SELECT k, v + 1 AS v FROM q WHERE k > 1) \
             UPDATE t SET b = r.v FROM r WHERE a = r.k RETURNING a, b",
            "2 9",
        ),
        (
            "WITH q AS (SELECT k FROM u) UPDATE t SET b = (SELECT max(k) FROM q) \
             WHERE a IN (SELECT k + 4 FROM q) RETURNING a, b",
            "5 2\n6 2",
        ),
        ("WITH q AS (SELECT 4 AS k) DELETE FROM t USING q AS x WHERE a = x.k RETURNING a", "4"),
        ("WITH q AS (SELECT 5 AS k) DELETE FROM t USING q WHERE a = q.k", "1"),
        ("WITH q AS (SELECT 6 AS k) DELETE FROM t WHERE a IN (SELECT k FROM q)", "1"),
        (
            "WITH RECURSIVE q(n) AS (SELECT 7 UNION ALL SELECT n + 1 FROM q WHERE n < 9) \
             INSERT INTO t SELECT n, n FROM q",
            "3",
        ),
        (
            "WITH q AS (SELECT 3 AS a, 33 AS b UNION ALL SELECT 10, 100) \
             MERGE INTO t USING q ON t.a = q.a WHEN MATCHED THEN UPDATE SET b = q.b \
             WHEN NOT MATCHED THEN INSERT VALUES (q.a, q.b)",
            "2",
        ),
        (
            "SELECT string_agg(a || ':' || b, ' ' ORDER BY a) FROM t",
            "1:10 2:9 3:33 7:7 8:8 9:9 10:100",
        ),
        // The table is that of the database, also if a query has its name.
        ("WITH u AS (SELECT 1 AS k) DELETE FROM u WHERE k = 2", "1"),
        ("EXPLAIN WITH q AS (SELECT 1 AS k) DELETE FROM t WHERE a IN (SELECT k FROM q)", ""),
        ("PREPARE p AS WITH q AS (SELECT 9 AS k) DELETE FROM t WHERE a IN (SELECT k FROM q)", ""),
        ("EXECUTE p", "1"),
        ("SELECT count(*) FROM t", "6"),
    ] {
        let shown = show(&session, change).await;
        if !change.starts_with("EXPLAIN") {
            assert_eq!(shown, rows, "{change}");
        }
    }
    let twice = "WITH q AS (SELECT 1) INSERT INTO t WITH q AS (SELECT 2) SELECT *, 1 FROM q";
    assert!(error(&session, twice).await.contains("another name"));
}

#[tokio::test]
async fn rows_are_assigned() {
    let session = session().await;
    for (change, rows) in [
        ("UPDATE t SET (a, b) = (SELECT 5, 6) WHERE a = 1 RETURNING *", "5 6"),
        (
            "UPDATE t SET (b, a) = (SELECT v, k + 10 FROM u WHERE k = a) WHERE a = 2 RETURNING *",
            "12 8",
        ),
        (
            "UPDATE t SET (a, b) = (SELECT * FROM u ORDER BY 2 DESC LIMIT 1) WHERE a = 3 \
             RETURNING *",
            "2 8",
        ),
        ("UPDATE t SET (a, b) = (SELECT k, v FROM u WHERE k > 99) WHERE a = 5 RETURNING *", " "),
        ("UPDATE t SET (a, b) = (SELECT max(k), sum(v) FROM u) WHERE a = 2 RETURNING *", "2 15"),
        ("UPDATE t SET (a, b) = ROW(3, b + 1) WHERE a = 2 RETURNING *", "3 16"),
    ] {
        assert_eq!(show(&session, change).await, rows, "{change}");
    }
    for change in [
        "UPDATE t SET (a, b) = (SELECT 1)",
        "UPDATE t SET (a, b) = (SELECT 1, 2, 3)",
        "UPDATE t SET (a, b) = (SELECT k, v FROM u)",
        "UPDATE t SET (a, b) = ROW(1)",
        "UPDATE t SET (a, b) = 5",
    ] {
        error(&session, change).await;
    }
}

#[tokio::test]
async fn tables_of_queries_are_filled_or_empty() {
    let session = session().await;
    show(&session, "CREATE TABLE c AS SELECT a, b AS data FROM t WITH DATA").await;
    show(&session, "CREATE TABLE d AS SELECT a, b AS data FROM t LIMIT 2 WITH NO DATA").await;
    show(&session, "INSERT INTO d VALUES (7, 8)").await;
    check(&session, &[("SELECT count(data) FROM c", "3"), ("SELECT a, data FROM d", "7 8")]).await;
}

/// Functions of FROM with the number of each row.
const ORDINALITY: &[(&str, &str)] = &[
    ("SELECT * FROM unnest(ARRAY[7, 5]) WITH ORDINALITY", "7 1\n5 2"),
    ("SELECT x, n FROM unnest(ARRAY['b', 'a']) WITH ORDINALITY AS u(x, n) ORDER BY n", "b 1\na 2"),
    ("SELECT u, ordinality FROM unnest(ARRAY[4]) WITH ORDINALITY AS u", "4 1"),
    ("SELECT x, ordinality FROM unnest(ARRAY[4]) WITH ORDINALITY AS u(x)", "4 1"),
    ("SELECT * FROM generate_series(3, 5) WITH ORDINALITY", "3 1\n4 2\n5 3"),
    ("SELECT v * o FROM generate_series(3, 4) WITH ORDINALITY AS g(v, o)", "3\n8"),
    (
        "SELECT count(*) FROM generate_series(1, 100000) WITH ORDINALITY AS g(v, o) WHERE v <> o",
        "0",
    ),
    (
        "SELECT a, x, n FROM (VALUES (1, ARRAY[7, 8]), (2, ARRAY[9])) q(a, l), \
         unnest(q.l) WITH ORDINALITY AS u(x, n) ORDER BY a, n",
        "1 7 1\n1 8 2\n2 9 1",
    ),
    (
        "SELECT a, o FROM t, generate_series(1, t.a) WITH ORDINALITY AS g(v, o) \
         WHERE a < 3 ORDER BY a, o",
        "1 1\n2 1\n2 2",
    ),
];

/// Subqueries in VALUES.
const VALUES: &[(&str, &str)] = &[
    ("VALUES ((SELECT 6))", "6"),
    ("SELECT sum(x) FROM (VALUES ((SELECT max(a) FROM t)), (7), (NULL)) q(x)", "10"),
    (
        "CREATE TABLE v (a INT, b TEXT DEFAULT 'd'); \
      INSERT INTO v VALUES ((SELECT 1), DEFAULT), (2, (SELECT 'x')) RETURNING *",
        "1 d\n2 x",
    ),
    ("INSERT INTO v (a) VALUES ((SELECT max(a) + 1 FROM v)); SELECT max(a) FROM v", "3"),
    (
        "SELECT a, (SELECT max(x) FROM (VALUES (t.a), ((SELECT 2))) q(x)) FROM t ORDER BY a",
        "1 2\n2 2\n3 3",
    ),
];

/// Columns of outer queries in WITH and FROM of a subquery.
const OUTER: &[(&str, &str)] = &[
    ("SELECT (WITH w AS (SELECT t.a) SELECT w.a + 1 FROM w) FROM t ORDER BY 1", "2\n3\n4"),
    ("SELECT (SELECT w.a * w.k FROM (SELECT t.a, k FROM u WHERE k = 1) w) FROM t WHERE a = 3", "3"),
    ("SELECT q.a FROM t, LATERAL (SELECT t.a, t.a AS c) q WHERE c = 2", "2"),
];

/// Joins that have an alias together.
const JOINS: &[(&str, &str)] = &[
    ("SELECT * FROM (q JOIN r USING (k)) AS j", "1 2 3"),
    ("SELECT x, y, z FROM (q JOIN r USING (k)) AS j(x, y, z)", "1 2 3"),
    ("SELECT j.k + j.c FROM (q NATURAL JOIN r) AS j WHERE j.b = 2", "4"),
    ("SELECT j.*, u.v FROM (q LEFT JOIN r USING (k)) AS j JOIN u ON u.k = j.k", "1 2 3 7"),
    ("SELECT count(*) FROM (q JOIN r ON q.k = r.k) AS j(x, y, z, w) WHERE x = z", "1"),
    // The alias names the first columns.
    ("SELECT x, j.b, j.c FROM (q JOIN r USING (k)) AS j(x)", "1 2 3"),
    ("SELECT x, u.v FROM u AS u(x) WHERE u.x = 1", "1 7"),
    ("SELECT * FROM (SELECT 1 AS a, 2 AS b, 3 AS c) AS s(x, y) WHERE y + c = 5", "1 2 3"),
];

/// Rows of keys in grouping sets.
const GROUPS: &[(&str, &str)] = &[
    ("SELECT a, b, count(*) FROM t WHERE a < 2 GROUP BY ROLLUP ((a, b)) ORDER BY 1", "1 10 1\n  1"),
    (
        "SELECT a, b, k FROM t, u WHERE a = 1 AND k = 1 GROUP BY ROLLUP ((a, b), k) \
         ORDER BY a, b, k",
        "1 10 1\n1 10 \n  ",
    ),
    ("SELECT count(*) FROM (SELECT a FROM t, u GROUP BY CUBE ((a, b), k)) q", "12"),
];

/// Operators on bits, and signs.
const OPERATORS: &[(&str, &str)] = &[
    ("SELECT ~5, ~ -1, ~0", "-6 0 -1"),
    ("SELECT ~1 + 2", "-4"),
    ("SELECT arrow_typeof(~a), arrow_typeof(~1::SMALLINT) FROM t LIMIT 1", "Int32 Int16"),
    ("SELECT 5 # 3, 12 # 5 + 1", "6 10"),
    ("SELECT (~NULL::INT) IS NULL, (5 # NULL) IS NULL", "true true"),
    ("SELECT ~a, a # b FROM t ORDER BY a LIMIT 1", "-2 11"),
    ("SELECT + NULL IS NULL, 1 + (+ NULL) IS NULL, + (- NULL) IS NULL", "true true true"),
    ("SELECT coalesce(+ NULL, 5), 3 - + NULLIF(NULL, 1) IS NULL", "5 true"),
    ("SELECT + CASE WHEN 1 > 2 THEN NULL END IS NULL, + coalesce(NULL, NULL) IS NULL", "true true"),
    ("SELECT + '1.5' * 2", "3.0"),
    ("SELECT + a FROM t ORDER BY + a DESC LIMIT 1", "3"),
];

/// Periods and intervals.
const PERIODS: &[(&str, &str)] = &[
    (
        "SELECT (DATE '2001-02-16', DATE '2001-12-21') OVERLAPS \
         (DATE '2001-10-30', DATE '2002-10-30')",
        "true",
    ),
    (
        "SELECT (DATE '2001-02-16', INTERVAL '100 days') OVERLAPS \
         (DATE '2001-10-30', DATE '2002-10-30')",
        "false",
    ),
    (
        "SELECT (DATE '2001-10-29', DATE '2001-10-30') OVERLAPS \
         (DATE '2001-10-30', DATE '2001-10-31')",
        "false",
    ),
    (
        "SELECT (DATE '2001-10-30', DATE '2001-10-30') OVERLAPS \
         (DATE '2001-10-30', DATE '2001-10-31')",
        "true",
    ),
    (
        "SELECT (DATE '2002-01-01', DATE '2001-01-01') OVERLAPS \
         (DATE '2001-06-01', DATE '2001-07-01')",
        "true",
    ),
    (
        "SELECT ((DATE '2001-01-01', NULL) OVERLAPS (DATE '2001-06-01', DATE '2001-07-01')) \
         IS NULL",
        "true",
    ),
    ("SELECT (DATE '2001-06-15', NULL) OVERLAPS (DATE '2001-06-01', DATE '2001-07-01')", "true"),
    (
        "SELECT (TIMESTAMP '2001-01-01 10:00', INTERVAL '1 hour') OVERLAPS \
         (TIMESTAMP '2001-01-01 10:59', INTERVAL '1 hour')",
        "true",
    ),
    ("SELECT make_interval(days => 3) = INTERVAL '3 days'", "true"),
    ("SELECT make_interval(1, mins => 2) = INTERVAL '1 year 2 minutes'", "true"),
    ("SELECT make_interval(secs := 1.5) = INTERVAL '1.5 seconds'", "true"),
];

#[tokio::test]
async fn forms_have_the_answers_of_postgresql() {
    let session = session().await;
    let tables = "CREATE TABLE q AS SELECT 1 AS k, 2 AS b; CREATE TABLE r AS SELECT 1 AS k, 3 AS c";
    show(&session, tables).await;
    for cases in [ORDINALITY, VALUES, OUTER, JOINS, GROUPS, OPERATORS, PERIODS] {
        check(&session, cases).await;
    }
    for text in [
        "SELECT (1, 2) OVERLAPS (3, 4, 5)",
        "SELECT make_interval(day => 3)",
        "SELECT make_interval(1, years => 3)",
        "SELECT + 'a'",
    ] {
        error(&session, text).await;
    }
}

/// A period of PostgreSQL's operators matches a line break.
#[tokio::test]
async fn patterns_have_boundaries_of_words() {
    let session = engine(64 * MIB).session().expect("session");
    let cases = [
        (r"SELECT 'a cat' ~ '\mcat', 'concat' ~ '\mcat', 'cats' ~ 'cat\M'", "true false false"),
        (r"SELECT 'a cat' ~ '\ycat\y', 'cats' !~ 'cat\Y', 'CAT' ~* '\mcat\M'", "true false true"),
        (r"SELECT E'a\nb' ~ 'a.b', E'a\nb' ~ 'a[.]b', 'a.b' ~ 'a\.b'", "true false true"),
        (r"SELECT regexp_replace('a cat, concat', '\mcat\M', 'dog')", "a dog, concat"),
        (r"SELECT regexp_count('cat cats', '\ycat\y'), '\ ' ~ '^\\ $'", "1 true"),
        (r"SELECT count(*) FROM (VALUES ('x1'), ('xy')) t(s) WHERE s ~ '^.\d\Z'", "1"),
    ];
    check(&session, &cases).await;
}
