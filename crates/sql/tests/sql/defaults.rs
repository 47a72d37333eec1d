//! Defaults of columns, with the rows that PostgreSQL 15 gives.

use terrace_sql::Session;

use crate::common::{MIB, check, engine, engine_in, error, show};

const DRAM: u64 = 64 * MIB;

async fn rows(session: &Session, table: &str) -> String {
    show(session, &format!("SELECT a, b, c FROM {table} ORDER BY c NULLS LAST, a, b")).await
}

#[tokio::test]
async fn left_out_columns_get_their_defaults() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let made = "CREATE TABLE t (a INT DEFAULT 7, b TEXT DEFAULT upper('x'), c INT);
        INSERT INTO t (c) VALUES (1), (2);
        INSERT INTO t VALUES (DEFAULT, DEFAULT, 3), (1, 'b', default);
        INSERT INTO t DEFAULT VALUES;
        INSERT INTO t VALUES (5);
        INSERT INTO t (c) SELECT c + 10 FROM t WHERE c < 3";
    show(&session, made).await;
    let all = "7 X 1\n7 X 2\n7 X 3\n7 X 11\n7 X 12\n1 b \n5 X \n7 X ";
    assert_eq!(rows(&session, "t").await, all);
    let changes = "UPDATE t SET a = DEFAULT, b = DEFAULT WHERE a = 5 OR a = 1";
    show(&session, changes).await;
    check(&session, &[("SELECT a, b, count(*) FROM t GROUP BY a, b", "7 X 8")]).await;
    let altered = "ALTER TABLE t ALTER COLUMN c SET DEFAULT 2 + 2, ALTER COLUMN a DROP DEFAULT;
        INSERT INTO t DEFAULT VALUES";
    show(&session, altered).await;
    check(&session, &[("SELECT a, b, c FROM t WHERE a IS NULL", " X 4")]).await;
}

#[tokio::test]
async fn volatile_defaults_are_computed_for_each_row() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let made = "CREATE TABLE t (k INT, r DOUBLE DEFAULT random(), at TIMESTAMP DEFAULT now());
        INSERT INTO t (k) SELECT value FROM generate_series(1, 1000);
        INSERT INTO t (k) VALUES (0), (-1)";
    show(&session, made).await;
    let counts = "SELECT count(DISTINCT r) > 990, count(DISTINCT at), count(at) FROM t";
    check(&session, &[(counts, "true 2 1002")]).await;
}

#[tokio::test]
async fn expressions_that_are_no_defaults_are_refused() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    for (column, cause) in [
        ("a INT DEFAULT b, b INT", "a column in the default of column a, b is not possible"),
        ("a INT DEFAULT (SELECT 1)", "a subquery in the default of column a is not possible"),
        ("a INT DEFAULT count(*)", "an aggregate function in the default of column a"),
        ("a INT DEFAULT row_number() OVER ()", "a window function in the default of column a"),
        ("a INT DEFAULT 'x'", "the default 'x' of column a, whose type is INTEGER"),
        ("a INT DEFAULT 1 DEFAULT 2", "a second DEFAULT for column a"),
        ("a INT DEFAULT nothing(1)", "nothing"),
    ] {
        let text = error(&session, &format!("CREATE TABLE bad ({column})")).await;
        assert!(text.contains(cause), "{column}: {text}");
    }
    show(&session, "CREATE TABLE t (a INT)").await;
    let text = error(&session, "ALTER TABLE t ALTER a SET DEFAULT 'y'").await;
    assert!(text.contains("the default 'y' of column a"), "{text}");
    let text = error(&session, "ALTER TABLE t ALTER z SET DEFAULT 1").await;
    assert_eq!(text, "column \"z\" of relation \"t\" does not exist");
}

#[tokio::test]
async fn a_null_that_is_written_is_not_a_default() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let made = "CREATE TABLE t (a INT DEFAULT 7, b INT DEFAULT 8 NOT NULL);
        INSERT INTO t VALUES (NULL, 1);
        INSERT INTO t (b, a) SELECT 2, NULL";
    show(&session, made).await;
    check(&session, &[("SELECT a, b FROM t ORDER BY b", " 1\n 2")]).await;
    let text = error(&session, "INSERT INTO t VALUES (1, NULL)").await;
    assert!(text.contains("NOT NULL"), "{text}");
}

#[tokio::test]
async fn prepared_inserts_use_the_current_default() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t (a INT DEFAULT 1, b INT)").await;
    let insert = session.parse("INSERT INTO t (b) VALUES ($1)").expect("parsed").remove(0);
    let prepared = session.prepare(insert, &[]).await.expect("prepared");
    for (change, value) in [("", 10), ("ALTER TABLE t ALTER a SET DEFAULT 2", 20)] {
        show(&session, change).await;
        let value = datafusion::common::ScalarValue::Int32(Some(value));
        let run = session.execute_prepared(&prepared, vec![value]).await.expect("runs");
        run.collect().await.expect("inserted");
    }
    check(&session, &[("SELECT a, b FROM t ORDER BY b", "1 10\n2 20")]).await;
}

#[tokio::test]
async fn tables_are_made_like_others() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let made = "CREATE TABLE t (a INT DEFAULT 7 NOT NULL, b TEXT);
        CREATE TABLE u (LIKE t); CREATE TABLE v (LIKE t INCLUDING DEFAULTS);
        INSERT INTO v (b) VALUES ('x')";
    show(&session, made).await;
    check(&session, &[("SELECT a, b FROM v", "7 x"), ("SELECT count(*) FROM u", "0")]).await;
    let text = error(&session, "INSERT INTO u (b) VALUES ('x')").await;
    assert!(text.contains("table public.u, column a: the column is NOT NULL"), "{text}");
    let text = error(&session, "CREATE TABLE v (LIKE t)").await;
    assert!(text.contains("public.v already exists"), "{text}");
    let text = error(&session, "CREATE TABLE w (LIKE nothing)").await;
    assert!(text.contains("public.nothing does not exist"), "{text}");
}

#[tokio::test]
async fn defaults_survive_a_restart() {
    let directory = tempfile::tempdir().expect("directory");
    {
        let engine = engine_in(directory.path(), DRAM);
        let session = engine.session().expect("session");
        show(&session, "CREATE TABLE t (\"A b\" INT DEFAULT 1 + 1, c TEXT DEFAULT 'it''s')").await;
        show(&session, "BEGIN; ALTER TABLE t ALTER c SET DEFAULT 'no'; ROLLBACK").await;
        drop(session);
        engine.close().expect("closed");
    }
    let engine = engine_in(directory.path(), DRAM);
    let session = engine.session().expect("session");
    show(&session, "INSERT INTO t DEFAULT VALUES").await;
    check(&session, &[("SELECT * FROM t", "2 it's")]).await;
}

#[tokio::test]
async fn functions_and_macros_are_written_out_in_defaults_and_checks() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let made = "CREATE FUNCTION inc(i int) RETURNS int LANGUAGE SQL IMMUTABLE AS 'SELECT i + 1';
        CREATE MACRO twice(x) AS x * 2;
        CREATE TABLE t (a INT DEFAULT inc(6), b INT DEFAULT twice(4) CHECK (inc(b) > 3),
            c INT GENERATED ALWAYS AS (inc(a)) STORED, CHECK (inc(a) > twice(1)));
        INSERT INTO t DEFAULT VALUES;
        ALTER TABLE t ALTER COLUMN b SET DEFAULT inc(2), ADD COLUMN d INT DEFAULT inc(9);
        INSERT INTO t (a) VALUES (5)";
    show(&session, made).await;
    check(&session, &[("SELECT * FROM t ORDER BY a", "5 3 6 10\n7 8 8 10")]).await;
    for (insert, cause) in [
        ("INSERT INTO t (a) VALUES (1)", "t_a_check"),
        ("INSERT INTO t (b) VALUES (2)", "t_b_check"),
    ] {
        let text = error(&session, insert).await;
        assert!(text.contains(cause), "{insert}: {text}");
    }
    show(&session, "ALTER TABLE t ADD CONSTRAINT small CHECK (twice(d) < 50)").await;
    let text = error(&session, "INSERT INTO t (d) VALUES (25)").await;
    assert!(text.contains("small"), "{text}");
}
