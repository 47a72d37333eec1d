//! Window frames with EXCLUDE, with the rows that PostgreSQL 15 returns.

use terrace_sql::Session;

use crate::common::{MIB, check, engine, error, show};

const DRAM: u64 = 64 * MIB;

/// A frame that is written FULL below.
const FULL: &str = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING";

/// Creates a table with groups, peers, and nulls among keys and values.
async fn table(session: &Session) {
    let table = "CREATE TABLE w (g BIGINT, k BIGINT, x BIGINT, s VARCHAR);
        INSERT INTO w VALUES (1, 1, 10, 'a'), (1, 1, 20, 'b'), (1, 2, NULL, 'c'), (1, 3, 40, 'd'),
            (1, 3, 50, 'e'), (2, NULL, 1, 'f'), (2, NULL, 2, 'g'), (2, 7, 4, NULL)";
    show(session, table).await;
}

/// Functions, windows, and the values of all rows.
const CASES: &[(&str, &str, &str)] = &[
    ("sum(x)", "PARTITION BY g ORDER BY k FULL EXCLUDE CURRENT ROW", "110 100 120 80 70 3 6 5"),
    (
        "sum(x)",
        "ORDER BY k RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW",
        "20 10 30 80 70 120 126 125",
    ),
    (
        "sum(x)",
        "ORDER BY k GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW",
        "20 10 120 54 44 93 6 5",
    ),
    (
        "sum(x)",
        "ORDER BY k RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW",
        "20 10 120 50 40 - 2 1",
    ),
    (
        "sum(x)",
        "ORDER BY g, k, x, s ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING EXCLUDE CURRENT ROW",
        "- - 10 30 20 40 90 54",
    ),
    ("count(*)", "FULL EXCLUDE CURRENT ROW", "7 7 7 7 7 7 7 7"),
    ("sum(x)", "PARTITION BY g ORDER BY k FULL EXCLUDE GROUP", "90 90 120 30 30 3 4 4"),
    (
        "sum(x)",
        "ORDER BY k RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE GROUP",
        "- - 30 30 30 120 124 124",
    ),
    (
        "sum(x)",
        "ORDER BY k GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE GROUP",
        "- - 120 4 4 93 4 4",
    ),
    (
        "sum(x)",
        "ORDER BY k RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE GROUP",
        "- - 120 - - - - -",
    ),
    (
        "sum(x)",
        "ORDER BY g, k, x, s ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING EXCLUDE GROUP",
        "- - 10 30 20 40 90 54",
    ),
    ("count(*)", "FULL EXCLUDE GROUP", "0 0 0 0 0 0 0 0"),
    ("sum(x)", "PARTITION BY g ORDER BY k FULL EXCLUDE TIES", "100 110 120 70 80 7 5 6"),
    (
        "sum(x)",
        "ORDER BY k RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE TIES",
        "10 20 30 70 80 124 125 126",
    ),
    (
        "sum(x)",
        "ORDER BY k GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE TIES",
        "10 20 120 44 54 97 5 6",
    ),
    (
        "sum(x)",
        "ORDER BY k RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE TIES",
        "10 20 120 40 50 4 1 2",
    ),
    (
        "sum(x)",
        "ORDER BY g, k, x, s ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING EXCLUDE TIES",
        "- - 10 30 20 40 90 54",
    ),
    ("count(*)", "FULL EXCLUDE TIES", "1 1 1 1 1 1 1 1"),
    ("sum(x)", "PARTITION BY g ORDER BY k FULL EXCLUDE NO OTHERS", "120 120 120 120 120 7 7 7"),
    (
        "sum(x)",
        "ORDER BY k RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE NO OTHERS",
        "30 30 30 120 120 124 127 127",
    ),
    (
        "sum(x)",
        "ORDER BY k GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE NO OTHERS",
        "30 30 120 94 94 97 7 7",
    ),
    (
        "sum(x)",
        "ORDER BY k RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE NO OTHERS",
        "30 30 120 90 90 4 3 3",
    ),
    (
        "sum(x)",
        "ORDER BY g, k, x, s ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING EXCLUDE NO OTHERS",
        "- - 10 30 20 40 90 54",
    ),
    ("count(*)", "FULL EXCLUDE NO OTHERS", "8 8 8 8 8 8 8 8"),
    ("count(x)", "PARTITION BY g ORDER BY k, s FULL EXCLUDE CURRENT ROW", "3 3 4 3 3 2 2 2"),
    (
        "count(*) FILTER (WHERE x > 10)",
        "PARTITION BY g ORDER BY k, s FULL EXCLUDE CURRENT ROW",
        "3 2 3 2 2 0 0 0",
    ),
    (
        "count(*) FILTER (WHERE x > 10)",
        "PARTITION BY g ORDER BY k, s FULL EXCLUDE TIES",
        "3 3 3 3 3 0 0 0",
    ),
    (
        "sum(x) FILTER (WHERE s <> 'b')",
        "PARTITION BY g ORDER BY k, s FULL EXCLUDE CURRENT ROW",
        "90 100 100 60 50 3 2 1",
    ),
    (
        "sum(x) FILTER (WHERE s <> 'b')",
        "PARTITION BY g ORDER BY k, s FULL EXCLUDE TIES",
        "100 100 100 100 100 3 3 3",
    ),
    ("min(x)", "PARTITION BY g ORDER BY k, s FULL EXCLUDE CURRENT ROW", "20 10 10 10 10 1 2 1"),
    ("max(s)", "PARTITION BY g ORDER BY k, s FULL EXCLUDE CURRENT ROW", "e e e e d g g f"),
    ("max(s)", "PARTITION BY g ORDER BY k, s FULL EXCLUDE TIES", "e e e e e g g g"),
    (
        "string_agg(s, ',')",
        "PARTITION BY g ORDER BY k, s FULL EXCLUDE CURRENT ROW",
        "b,c,d,e a,c,d,e a,b,d,e a,b,c,e a,b,c,d f,g g f",
    ),
    (
        "string_agg(s, ',')",
        "PARTITION BY g ORDER BY k, s FULL EXCLUDE TIES",
        "a,b,c,d,e a,b,c,d,e a,b,c,d,e a,b,c,d,e a,b,c,d,e f,g f,g f,g",
    ),
    ("first_value(s)", "PARTITION BY g ORDER BY k, s FULL EXCLUDE CURRENT ROW", "b a a a a f - -"),
    ("first_value(s)", "PARTITION BY g ORDER BY k, s FULL EXCLUDE TIES", "a a a a a - - -"),
    ("last_value(s)", "PARTITION BY g ORDER BY k, s FULL EXCLUDE CURRENT ROW", "e e e e d g g f"),
    ("last_value(s)", "PARTITION BY g ORDER BY k, s FULL EXCLUDE TIES", "e e e e e g g g"),
    ("nth_value(s, 2)", "PARTITION BY g ORDER BY k, s FULL EXCLUDE CURRENT ROW", "c c b b b g g f"),
    ("nth_value(s, 2)", "PARTITION BY g ORDER BY k, s FULL EXCLUDE TIES", "b b b b b f f f"),
    ("row_number()", "PARTITION BY g ORDER BY k, s FULL EXCLUDE CURRENT ROW", "1 2 3 4 5 1 2 3"),
    ("row_number()", "PARTITION BY g ORDER BY k, s FULL EXCLUDE TIES", "1 2 3 4 5 1 2 3"),
    ("rank()", "PARTITION BY g ORDER BY k, s FULL EXCLUDE CURRENT ROW", "1 2 3 4 5 1 2 3"),
    ("lag(s)", "PARTITION BY g ORDER BY k, s FULL EXCLUDE CURRENT ROW", "- a b c d - - f"),
    (
        "sum(x) FILTER (WHERE false)",
        "PARTITION BY g ORDER BY k, s FULL EXCLUDE CURRENT ROW",
        "- - - - - - - -",
    ),
    (
        "bool_and(x > 5)",
        "PARTITION BY g ORDER BY k, s FULL EXCLUDE CURRENT ROW",
        "true true true true true false false false",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn frames_exclude_rows() {
    let session = engine(DRAM).session().expect("session");
    table(&session).await;
    for (function, window, expected) in CASES {
        let window = window.replace("FULL", FULL);
        let query = format!(
            "SELECT string_agg(coalesce(v::varchar, '-'), ' ' ORDER BY n) FROM (SELECT \
             row_number() OVER (ORDER BY g, k, x, s) AS n, {function} OVER ({window}) AS v FROM w)"
        );
        assert_eq!(show(&session, &query).await, *expected, "{function} {window}");
    }
}

/// Functions with their windows over long frames, and the sum, least and greatest of their values.
const LONG: &[(&str, &str)] = &[
    ("sum(x) OVER (ORDER BY id FULL EXCLUDE CURRENT ROW)", "4529254745 1509247 1510255"),
    ("sum(x) OVER (ORDER BY k FULL EXCLUDE GROUP)", "3883510521 1292568 1296141"),
    (
        "max(x) FILTER (WHERE x % 2 = 0) OVER (ORDER BY k, id FULL EXCLUDE CURRENT ROW)",
        "3024000 1008 1008",
    ),
    ("count(*) OVER (ORDER BY k RANGE UNBOUNDED PRECEDING EXCLUDE TIES)", "3860142 1 2573"),
    (
        "length(string_agg(x::text, '') OVER (ORDER BY id FULL EXCLUDE CURRENT ROW))",
        "26088301 8695 8698",
    ),
];

/// Functions over named windows, the windows, and the sum of their values.
const NAMED: &[(&str, &str, &str)] = &[
    (
        "sum(x) OVER (w ROWS 2 PRECEDING EXCLUDE CURRENT ROW)",
        "w AS (PARTITION BY k ORDER BY id)",
        "3011289",
    ),
    ("sum(x) OVER (w ROWS 2 PRECEDING)", "w AS (PARTITION BY k ORDER BY id)", "4521544"),
    (
        "sum(x) OVER v",
        "w AS (PARTITION BY k), v AS (w ORDER BY id ROWS 2 PRECEDING EXCLUDE TIES)",
        "4521544",
    ),
    ("sum(x) OVER v", "w AS (PARTITION BY k ORDER BY id), v AS (w)", "323904321"),
];

/// Windows that are refused.
const REFUSED: &[(&str, &str)] = &[
    ("(w ORDER BY id) FROM big WINDOW w AS (ORDER BY k)", "ORDER BY in a window that extends w"),
    (
        "(w PARTITION BY k) FROM big WINDOW w AS (ORDER BY k)",
        "PARTITION BY in a window that extends w",
    ),
    ("(w) FROM big WINDOW w AS (ORDER BY k ROWS 1 PRECEDING)", "w has a frame"),
    ("(nosuch ORDER BY k) FROM big", "extends nosuch"),
    ("nosuch FROM big", "the window nosuch, which is not defined"),
    ("(ORDER BY k EXCLUDE TIES) FROM big", "EXCLUDE"),
];

#[tokio::test(flavor = "multi_thread")]
async fn long_frames_and_named_windows() {
    let session = engine(DRAM).session().expect("session");
    show(
        &session,
        "CREATE TABLE big AS SELECT v AS id, v % 7 AS k, v * 31 % 1009 AS x FROM \
         generate_series(1, 3000) t(v)",
    )
    .await;
    for (call, expected) in LONG {
        let call = call.replace("FULL", FULL);
        let query = format!("SELECT sum(c), min(c), max(c) FROM (SELECT {call} AS c FROM big) q");
        assert_eq!(show(&session, &query).await, *expected, "{call}");
    }
    for (call, windows, expected) in NAMED {
        let query = format!("SELECT sum(c) FROM (SELECT {call} AS c FROM big WINDOW {windows}) q");
        assert_eq!(show(&session, &query).await, *expected, "{call} {windows}");
    }
    for (window, words) in REFUSED {
        let error = error(&session, &format!("SELECT sum(x) OVER {window}")).await;
        assert!(error.contains(words), "{window}\n{error}");
    }
    let empty = "SELECT count(*) FROM (SELECT sum(x) OVER (ORDER BY id ROWS 1 PRECEDING EXCLUDE \
        CURRENT ROW) FROM big WHERE false) q";
    assert_eq!(show(&session, empty).await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn views_and_parameters_keep_exclusions() {
    let session = engine(DRAM).session().expect("session");
    table(&session).await;
    show(
        &session,
        "CREATE VIEW v AS SELECT s, sum(x) OVER (PARTITION BY g ORDER BY k ROWS BETWEEN UNBOUNDED \
         PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE GROUP) AS others FROM w",
    )
    .await;
    check(
        &session,
        &[
            ("SELECT * FROM v WHERE s IN ('a', 'c', 'g') ORDER BY s", "a 90\nc 120\ng 4"),
            (
                "SELECT g, sum(sum(x)) OVER (ORDER BY g ROWS BETWEEN UNBOUNDED PRECEDING AND \
                 UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW) FROM w GROUP BY g ORDER BY g",
                "1 7\n2 120",
            ),
            (
                "SELECT DISTINCT first_value(x) IGNORE NULLS OVER (ORDER BY s ROWS BETWEEN 1 \
                 FOLLOWING AND UNBOUNDED FOLLOWING EXCLUDE TIES) FROM w WHERE g = 1 AND s IN \
                 ('b', 'c', 'd') ORDER BY 1",
                "40\n",
            ),
        ],
    )
    .await;
    show(
        &session,
        "PREPARE p AS SELECT s FROM (SELECT s, count(*) OVER (PARTITION BY g ORDER BY k ROWS 9 \
         PRECEDING EXCLUDE CURRENT ROW) AS n FROM w) q WHERE n = $1 AND s <= 'b' ORDER BY s",
    )
    .await;
    assert_eq!(show(&session, "EXECUTE p(0)").await, "a");
}

/// A named window is known outside of the results too, and what it is extended by.
#[tokio::test(flavor = "multi_thread")]
async fn named_windows_of_other_clauses() {
    let session = engine(DRAM).session().expect("session");
    show(
        &session,
        "CREATE TABLE t AS FROM (VALUES (1, 'x', 4), (2, 'y', 3), (3, 'x', 1)) v(a, b, c)",
    )
    .await;
    check(
        &session,
        &[
            ("SELECT a FROM t WINDOW w AS (ORDER BY c) ORDER BY row_number() OVER w", "3\n2\n1"),
            (
                "SELECT a FROM t WINDOW w AS (PARTITION BY b) ORDER BY
                 row_number() OVER (w ORDER BY c), b",
                "3\n2\n1",
            ),
            ("SELECT a FROM t QUALIFY rank() OVER w = 1 WINDOW w AS (ORDER BY c)", "3"),
            (
                "SELECT a FROM t QUALIFY rank() OVER (w ORDER BY c) = 1 WINDOW w AS (PARTITION BY b)
                 ORDER BY a",
                "2\n3",
            ),
            (
                "SELECT DISTINCT ON (count(*) OVER w) a FROM t WINDOW w AS (PARTITION BY b)
                 ORDER BY count(*) OVER w DESC, a",
                "1\n2",
            ),
        ],
    )
    .await;
}
