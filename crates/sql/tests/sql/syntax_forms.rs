//! Syntax forms of DuckDB, with the rows that DuckDB 2.0 returns.

use terrace_sql::Session;

use crate::common::{MIB, check, engine, error, show};

async fn tables() -> Session {
    let session = engine(64 * MIB).session().expect("session");
    show(
        &session,
        "CREATE TABLE g (a BIGINT, b1 BIGINT, b2 BIGINT);
         INSERT INTO g VALUES (2, 5, 7), (1, 6, NULL), (1, 4, 8);
         CREATE TABLE t (id BIGINT, s STRUCT(x BIGINT, y VARCHAR));
         INSERT INTO t VALUES (1, {'x': 10, 'y': 'a'}), (2, {'x': 20, 'y': NULL}), (3, NULL)",
    )
    .await;
    session
}

/// Comprehensions and slices of lists.
const LISTS: &[(&str, &str)] = &[
    ("SELECT [x + i FOR x, i IN [10, 20, 30]]", "[11, 22, 33]"),
    ("SELECT [x + i FOR x, i IN [10, 20, 30] IF x > 10]", "[22, 33]"),
    ("SELECT [x + i FOR x, i IN [10, 20, 30] IF i <> 2]", "[11, 33]"),
    ("SELECT [i FOR x, i IN [5, 6, 7] IF x > 5]", "[2, 3]"),
    ("SELECT [x FOR x, i IN [1, NULL, 3] IF x > 0]", "[1, 3]"),
    ("SELECT [x FOR x, i IN NULL::int[] IF x > 0] IS NULL", "true"),
    ("SELECT [1,2,3][2:]", "[2, 3]"),
    ("SELECT [1,2,3][:2]", "[1, 2]"),
    ("SELECT [1,2,3,4,5][1:5:2]", "[1, 3, 5]"),
    ("SELECT [1,2,3,4,5][2:4:2]", "[2, 4]"),
    ("SELECT [1,2,3][:]", "[1, 2, 3]"),
    ("SELECT [1,2,3][5:]", "[]"),
    ("SELECT [1,2,3][-2:]", "[2, 3]"),
    ("SELECT [1,2,3][:-2]", "[1, 2]"),
    ("SELECT ([]::int[])[1:]", "[]"),
    ("SELECT (NULL::int[])[2:] IS NULL", "true"),
    ("SELECT [1,2,3,4,5][5:1:-1]", "[5, 4, 3, 2, 1]"),
    ("SELECT [3,1,2][7:1:-1], [3,1,2][3:0:-2], [3,1,2][9:-3:-1]", "[2, 1, 3] [2, 3] [2, 1, 3]"),
    ("SELECT [3,1,2][3:7:-1], [3,1,2][7:7:-1], [3,1,2][0:1:-1]", "[] [] []"),
    (
        "SELECT l[f:t:s] FROM (VALUES (1, [3, 1, 2], 7, 1, -1), (2, [3, 1], 2, 7, -3), \
         (3, [3, 1, 2], 1, 3, 2), (4, NULL, 1, 3, -1), (5, [1, 2], NULL, 1, -1)) v(i, l, f, t, s) \
         ORDER BY i",
        "[2, 1, 3]\n[]\n[3, 2]\n\n",
    ),
    ("SELECT [[1,2],[3,4]][2:][1][:1]", "[3]"),
    ("SELECT [1,2,3][NULL:2] IS NULL, [1,2,3][2:NULL] IS NULL", "true true"),
    ("SELECT [1,2,3][0:2], [1,2,3][:9]", "[1, 2] [1, 2, 3]"),
    ("SELECT len(l[2:]) FROM (VALUES ([1, 2, 3]), ([1]), (NULL)) q(l)", "2\n0\n"),
];

/// Queries that begin with FROM.
const FROM_FIRST: &[(&str, &str)] = &[
    ("FROM g WHERE a > 1", "2 5 7"),
    ("FROM g SELECT b1 WHERE a = 1 ORDER BY 1", "4\n6"),
    ("FROM g SELECT a, count(*) GROUP BY a ORDER BY a", "1 2\n2 1"),
    ("FROM g ORDER BY ALL", "1 4 8\n1 6 \n2 5 7"),
    ("FROM (FROM g WHERE a = 1) q SELECT sum(b1)", "10"),
    ("WITH q AS (FROM g WHERE a = 1) FROM q ORDER BY b1", "1 4 8\n1 6 "),
    ("FROM g WHERE a = 1 UNION ALL FROM g WHERE a = 2 ORDER BY b1", "1 4 8\n2 5 7\n1 6 "),
    ("FROM g g1 JOIN g g2 USING (a) SELECT count(*)", "5"),
    ("SELECT (FROM g SELECT max(a))", "2"),
    ("FROM g LIMIT 0", ""),
    ("FROM g WHERE a IN (FROM g SELECT a WHERE b2 = 7)", "2 5 7"),
    ("CREATE TABLE copied AS FROM g WHERE a = 2; FROM copied", "2 5 7"),
    ("INSERT INTO copied FROM g WHERE b1 = 4; FROM copied ORDER BY a", "1 4 8\n2 5 7"),
];

/// Stars, COLUMNS, and the order of all columns.
const STARS: &[(&str, &str)] = &[
    ("SELECT COLUMNS(lambda c: c LIKE 'b%') FROM g ORDER BY ALL", "4 8\n5 7\n6 "),
    ("SELECT COLUMNS(c -> c LIKE 'b%') FROM g ORDER BY ALL", "4 8\n5 7\n6 "),
    ("SELECT COLUMNS(lambda c: len(c) = 2) + 1 FROM g ORDER BY ALL", "5 9\n6 8\n7 "),
    ("SELECT max(COLUMNS(lambda c: c <> 'a')) FROM g", "6 8"),
    ("SELECT a FROM g WHERE COLUMNS(lambda c: c LIKE 'b%') > 4", "2"),
    ("SELECT s.* FROM t ORDER BY ALL", "10 a\n20 \n "),
    ("SELECT id, s.* FROM t ORDER BY id", "1 10 a\n2 20 \n3  "),
    ("SELECT t.s.* FROM t ORDER BY id", "10 a\n20 \n "),
    ("SELECT (s).* FROM t ORDER BY id", "10 a\n20 \n "),
    ("SELECT s.* EXCLUDE (y) FROM t ORDER BY ALL", "10\n20\n"),
    ("SELECT x.* FROM (SELECT s AS x FROM t) q ORDER BY ALL", "10 a\n20 \n "),
    ("SELECT count(*) FROM (SELECT s.* FROM t s) q", "3"),
    ("SELECT q.*, s.x FROM t q WHERE id = 1", "1 {x: 10, y: a} 10"),
    ("SELECT * REPLACE (-a AS a) FROM g ORDER BY ALL", "-2 5 7\n-1 4 8\n-1 6 "),
    ("SELECT * REPLACE (-a AS a) FROM g ORDER BY ALL DESC NULLS LAST", "-1 6 \n-1 4 8\n-2 5 7"),
    ("SELECT * RENAME (b1 AS a1) FROM g ORDER BY ALL", "1 4 8\n1 6 \n2 5 7"),
    ("SELECT * EXCLUDE (a) FROM g ORDER BY ALL", "4 8\n5 7\n6 "),
    ("SELECT COLUMNS(*) FROM g ORDER BY ALL LIMIT 2", "1 4 8\n1 6 "),
    ("SELECT COLUMNS('b.*') FROM g ORDER BY ALL DESC", "6 \n5 7\n4 8"),
];

/// DuckDB's functions about the database.
const METADATA: &[(&str, &str)] = &[
    ("SELECT table_name, column_count FROM duckdb_tables() ORDER BY 1", "g 3\nt 2"),
    (
        "SELECT column_name, column_index, is_nullable FROM duckdb_columns() WHERE table_name = \
         'g' ORDER BY 2",
        "a 1 true\nb1 2 true\nb2 3 true",
    ),
    (
        "SELECT c.column_name FROM duckdb_columns() c WHERE table_name = 't' ORDER BY column_index",
        "id\ns",
    ),
    ("SELECT count(*) > 10 FROM duckdb_settings()", "true"),
    (
        "SELECT DISTINCT function_type FROM duckdb_functions() WHERE function_name = 'sum'",
        "aggregate",
    ),
    ("SELECT internal FROM duckdb_schemas() WHERE schema_name = 'public'", "false"),
    ("SELECT count(*) FROM duckdb_views()", "0"),
    ("SELECT duckdb_tables.table_name FROM duckdb_tables() ORDER BY 1", "g\nt"),
];

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_sliced_and_transformed() {
    check(&tables().await, LISTS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_begin_with_from() {
    check(&tables().await, FROM_FIRST).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stars_are_written_out() {
    let session = tables().await;
    check(&session, STARS).await;
    show(&session, "CREATE VIEW v AS SELECT id, s.* FROM t").await;
    assert_eq!(show(&session, "SELECT y FROM v WHERE id = 1").await, "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_list_the_database() {
    check(&tables().await, METADATA).await;
}

/// Terrace's own words.
#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_meaning_is_refused() {
    let session = tables().await;
    for (statement, words) in [
        ("INSTALL httpfs", "there are no extensions"),
        ("LOAD httpfs", "there are no extensions"),
        ("SELECT COLUMNS(lambda c, d: true) FROM g", "one variable"),
        ("SELECT COLUMNS(lambda c: c LIKE 'z%') FROM g", "no column matches"),
        ("SELECT COLUMNS(lambda c: nosuch(c)) FROM g", "nosuch"),
        ("SELECT nosuch.* FROM g", "nosuch"),
        ("SELECT a.* FROM g", "a"),
        ("SELECT s.* RENAME (x AS z) FROM t", "name the fields"),
        ("SELECT * FROM duckdb_tables(1)", "duckdb_tables with arguments"),
        ("SET memory_limit = 'much'", "much"),
        ("SET memory_limit = '100TB'", "it was set up for"),
        ("FROM nosuch WHERE a = 1", "nosuch"),
        ("SELECT [1, 2][1:2:0]", "0"),
    ] {
        let error = error(&session, statement).await;
        assert!(error.contains(words), "{statement}\n{error}");
    }
}
