//! Forms of INSERT, UPDATE and DELETE: BY NAME of DuckDB 2.0, all others of PostgreSQL 15.

use terrace_sql::Session;

use crate::common::{MIB, check, engine, error, show};

const DRAM: u64 = 64 * MIB;

async fn sorted(session: &Session, text: &str) -> String {
    let shown = show(session, text).await;
    let mut lines: Vec<_> = shown.lines().collect();
    lines.sort_unstable();
    lines.join(";")
}

#[tokio::test]
async fn columns_are_paired_by_name() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t (a INT, b TEXT DEFAULT 'd', \"C d\" INT)").await;
    for (insert, rows) in [
        ("INSERT INTO t BY NAME SELECT 1 AS \"C d\", 2 AS a", "2 d 1"),
        ("INSERT INTO public.t BY NAME (SELECT 'x' AS b)", " x ;2 d 1"),
        ("INSERT INTO t BY POSITION SELECT 5, 'y', 6", " x ;2 d 1;5 y 6"),
        ("INSERT INTO t BY NAME SELECT * FROM t WHERE a = 5", " x ;2 d 1;5 y 6;5 y 6"),
        (
            "INSERT INTO t BY NAME WITH w AS (SELECT 3 AS a, 'w' AS b) SELECT b, a FROM w",
            " x ;2 d 1;3 w ;5 y 6;5 y 6",
        ),
    ] {
        show(&session, insert).await;
        assert_eq!(sorted(&session, "SELECT * FROM t").await, rows, "{insert}");
    }
    assert_eq!(show(&session, "INSERT INTO t BY NAME SELECT 9 AS a RETURNING b, a").await, "d 9");
    for (insert, cause) in [
        ("INSERT INTO t BY NAME SELECT 1 AS z", "z"),
        ("INSERT INTO t BY NAME VALUES (1)", "values without names"),
        ("INSERT INTO t BY NAME SELECT 1 AS a, 2 AS a", "a"),
        ("INSERT INTO t (a) BY NAME SELECT 1 AS a", "BY"),
        ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", "MERGE INTO"),
        ("INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET b = 'x'", "MERGE INTO"),
        ("INSERT OR REPLACE INTO t VALUES (1)", "MERGE INTO"),
    ] {
        let text = error(&session, insert).await;
        assert!(text.contains(cause), "{insert}: {text}");
    }
    check(&session, &[("SELECT count(*) FROM t", "6")]).await;
}

#[tokio::test]
async fn tables_have_aliases() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let tables = "CREATE TABLE t (a INT, b INT DEFAULT 3); INSERT INTO t SELECT value, value * 10 \
                  FROM generate_series(1, 6); CREATE TABLE u (k INT, v TEXT); \
                  INSERT INTO u VALUES (2, 'two'), (3, 'three'), (5, 'five'), (5, 'again')";
    show(&session, tables).await;
    for (change, rows) in [
        ("INSERT INTO t AS x (a) VALUES (0) RETURNING x.a, x.b", "0 3"),
        ("INSERT INTO t (a, b) VALUES (7, DEFAULT), (8, 80) RETURNING *", "7 3;8 80"),
        ("DELETE FROM t AS x WHERE x.a = 7 RETURNING *", "7 3"),
        ("DELETE FROM t x WHERE x.a = 8", "1"),
        ("UPDATE t AS x SET b = x.b + 1 WHERE x.a < 2 RETURNING x.*", "0 4;1 11"),
        ("UPDATE t x SET b = 0 FROM u WHERE x.a = u.k AND u.v = 'two' RETURNING *", "2 0 2 two"),
        (
            "UPDATE t SET b = length(y.v) FROM u y WHERE a = y.k AND y.k < 5 \
             RETURNING y.*, t.b, b + 1",
            "2 two 3 4;3 three 5 6",
        ),
        ("UPDATE t SET (b, a) = (DEFAULT, a) WHERE a = 6 RETURNING *", "6 3"),
        ("UPDATE t x SET b = 60 WHERE a = 6", "1"),
        ("DELETE FROM t x USING u AS y WHERE x.a = y.k AND y.v = 'two'", "1"),
        ("DELETE FROM t x USING u WHERE x.a = u.k AND k < 5 RETURNING *", "3 5 3 three"),
        ("DELETE FROM t USING u y WHERE t.a = y.k AND y.v LIKE 'f%' RETURNING y.v, a", "five 5"),
        (
            "DELETE FROM t x USING u, (VALUES (4)) AS w (q) WHERE x.a = q AND u.k = 2 \
             RETURNING x.a, q, v",
            "4 4 two",
        ),
        ("DELETE FROM t x WHERE EXISTS (SELECT 1 FROM u WHERE u.k = x.a)", "0"),
        ("DELETE FROM t x WHERE x.a IN (SELECT min(a) FROM t)", "1"),
        ("SELECT * FROM t ORDER BY a", "1 11;6 60"),
        ("DELETE FROM t x RETURNING a, a", "1 1;6 6"),
    ] {
        assert_eq!(sorted(&session, change).await, rows, "{change}");
    }
    for (change, cause) in [
        ("UPDATE t x SET b = 1 WHERE t.a = 1", "t.a"),
        ("DELETE FROM t x WHERE t.a = 1", "t.a"),
        ("UPDATE t SET (a, b) = (1, 2, 3)", "number of values"),
        ("UPDATE t SET (a, b) = (SELECT 1)", "number of values"),
        ("UPDATE t SET (a, b) = 5", "several columns"),
        ("UPDATE t SET b = 0 FROM u RETURNING w.*", "w.*"),
        ("DELETE FROM t RETURNING * EXCLUDE (a)", "EXCLUDE"),
    ] {
        let text = error(&session, change).await;
        assert!(text.contains(cause), "{change}: {text}");
    }
}

#[tokio::test]
async fn names_have_characters() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t (a INT)").await;
    for text in [
        "ALTER TABLE t RENAME TO \"\"",
        "ALTER TABLE t RENAME COLUMN a TO \"\"",
        "CREATE TABLE \"\" (a INT)",
        "SELECT 1 AS \"\"",
    ] {
        let refused = error(&session, text).await;
        assert!(refused.contains("zero-length delimited identifier"), "{text}: {refused}");
    }
}

/// The first columns get the values, and all others their defaults.
#[tokio::test]
async fn a_query_may_have_fewer_columns_than_the_table() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let tables = "CREATE TABLE t (a INT, b TEXT DEFAULT 'd', c INT GENERATED ALWAYS AS IDENTITY);
        CREATE TABLE u (id SERIAL, v INT); CREATE TABLE w (k INT, x TEXT);
        INSERT INTO w VALUES (8, 'w')";
    show(&session, tables).await;
    for (insert, row) in [
        ("INSERT INTO t SELECT 1", "1 d 1"),
        ("INSERT INTO t SELECT 2, 'x' RETURNING b", "2 x 2"),
        ("INSERT INTO t WITH q AS (SELECT 3 AS k) SELECT * FROM q", "3 d 3"),
        ("INSERT INTO t SELECT * FROM w", "8 w 4"),
        ("INSERT INTO t SELECT w.* FROM w", "8 w 5"),
        ("INSERT INTO t SELECT k FROM w UNION ALL SELECT k FROM w WHERE false", "8 d 6"),
        ("INSERT INTO t (SELECT 9)", "9 d 7"),
        ("INSERT INTO t VALUES (10)", "10 d 8"),
        ("INSERT INTO t OVERRIDING SYSTEM VALUE SELECT 11", "11 d 9"),
        // The sequence's values instead of those of the statement.
        ("INSERT INTO t OVERRIDING USER VALUE VALUES (12, 'x', 99)", "12 x 10"),
        ("INSERT INTO t (c, a) OVERRIDING USER VALUE SELECT 99, 13", "13 d 11"),
        ("INSERT INTO t OVERRIDING USER VALUE SELECT 14, 'y', 99", "14 y 12"),
        ("INSERT INTO t (a) OVERRIDING USER VALUE VALUES (15)", "15 d 13"),
    ] {
        show(&session, insert).await;
        let last = show(&session, "SELECT * FROM t ORDER BY c DESC LIMIT 1").await;
        assert_eq!(last, row, "{insert}");
    }
    show(&session, "INSERT INTO u SELECT 5; INSERT INTO u VALUES (6)").await;
    check(&session, &[("SELECT id, v FROM u ORDER BY id", "5 \n6 ")]).await;
    for (insert, cause) in [
        ("INSERT INTO t SELECT 1, 'x', 3", "GENERATED ALWAYS"),
        ("INSERT INTO w SELECT 1, 'x', 3", "olumn"),
    ] {
        let text = error(&session, insert).await;
        assert!(text.contains(cause), "{insert}: {text}");
    }
}
