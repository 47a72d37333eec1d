//! Generated columns, with the rows that PostgreSQL 15 gives.

use terrace_sql::session::SessionStatement;

use crate::common::{MIB, check, engine, engine_in, error, quoted, show};

const DRAM: u64 = 64 * MIB;

#[tokio::test]
async fn values_are_computed_from_the_row() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let made = "CREATE TABLE t (a INT DEFAULT 3, b INT GENERATED ALWAYS AS (a * 2) STORED,
            c TEXT AS (upper(d) || '!'), d TEXT);
        INSERT INTO t (a, d) VALUES (1, 'x'), (NULL, 'y');
        INSERT INTO t VALUES (5, DEFAULT, DEFAULT, 'z');
        INSERT INTO t (d) SELECT 'w';
        INSERT INTO t DEFAULT VALUES";
    show(&session, made).await;
    let all = "SELECT a, b, c, d FROM t ORDER BY a, d";
    check(&session, &[(all, "1 2 X! x\n3 6 W! w\n3 6  \n5 10 Z! z\n  Y! y")]).await;
    show(&session, "UPDATE t SET a = a + 10, d = 'n' WHERE a = 1").await;
    show(&session, "UPDATE t SET a = 50, b = DEFAULT WHERE d = 'z'").await;
    show(&session, "UPDATE t SET a = u.n FROM (SELECT 7 AS n, 'w' AS k) AS u WHERE d = u.k").await;
    check(
        &session,
        &[
            ("SELECT a, b, c FROM t WHERE d = 'n'", "11 22 N!"),
            ("SELECT a, b FROM t WHERE d = 'z'", "50 100"),
            ("SELECT a, b FROM t WHERE d = 'w'", "7 14"),
            ("INSERT INTO t (a) VALUES (9) RETURNING b", "18"),
            ("UPDATE t SET a = 8 WHERE a = 9 RETURNING b", "16"),
        ],
    )
    .await;
}

#[tokio::test]
async fn other_values_are_refused() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t (a INT, b INT GENERATED ALWAYS AS (a * 2) STORED)").await;
    for text in [
        "INSERT INTO t VALUES (1, 2)",
        "INSERT INTO t (b) VALUES (2)",
        "INSERT INTO t (a, b) SELECT 1, 2",
        "INSERT INTO t VALUES (1, DEFAULT), (2, NULL)",
    ] {
        let found = error(&session, text).await;
        let cause = "cannot insert a non-DEFAULT value into column \"b\"";
        assert!(found.starts_with(cause), "{text}: {found}");
    }
    let found = error(&session, "UPDATE t SET b = 3").await;
    assert_eq!(found, "column \"b\" can only be updated to DEFAULT");
    let found = error(&session, "UPDATE t SET a = nextval('s')").await;
    assert!(found.contains("to a value that differs each time"), "{found}");
    for (column, cause) in [
        ("b INT GENERATED ALWAYS AS (c) STORED, c INT AS (a)", "which is generated too"),
        ("b INT GENERATED ALWAYS AS (random()) STORED", "which is not immutable"),
        ("b INT GENERATED ALWAYS AS (sum(a)) STORED", "an aggregate function in"),
        ("b INT GENERATED ALWAYS AS ((SELECT 1)) STORED", "a subquery in"),
        ("b INT GENERATED ALWAYS AS (nothing + 1) STORED", "nothing"),
        ("b INT DEFAULT 1 GENERATED ALWAYS AS (a) STORED", "say one of them"),
        ("b INT GENERATED ALWAYS AS (a) VIRTUAL", "say STORED"),
    ] {
        let found = error(&session, &format!("CREATE TABLE bad (a INT, {column})")).await;
        assert!(found.contains(cause), "{column}: {found}");
    }
}

#[tokio::test]
async fn errors_and_constraints_apply_to_computed_values() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let made = "CREATE TABLE t (a INT, b INT GENERATED ALWAYS AS (10 / a) STORED NOT NULL,
        CHECK (b < 6))";
    show(&session, made).await;
    show(&session, "INSERT INTO t (a) VALUES (2)").await;
    for (text, cause) in [
        ("INSERT INTO t (a) VALUES (1)", "violates check constraint \"t_b_check\""),
        ("INSERT INTO t (a) VALUES (NULL)", "NOT NULL"),
        ("INSERT INTO t (a) VALUES (0)", "by zero"),
        ("UPDATE t SET a = 1", "violates check constraint \"t_b_check\""),
    ] {
        let found = error(&session, text).await.to_lowercase();
        assert!(found.contains(&cause.to_lowercase()), "{text}: {found}");
    }
    check(&session, &[("SELECT a, b FROM t", "2 5")]).await;
}

#[tokio::test]
async fn tables_with_generated_columns_are_altered() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let made = "CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2);
        ALTER TABLE t ADD COLUMN b INT GENERATED ALWAYS AS (a + 1) STORED;
        ALTER TABLE t RENAME COLUMN a TO \"A b\";
        INSERT INTO t (\"A b\") VALUES (7)";
    show(&session, made).await;
    check(&session, &[("SELECT * FROM t ORDER BY b", "1 2\n2 3\n7 8")]).await;
    for (text, cause) in [
        ("ALTER TABLE t DROP COLUMN \"A b\"", "column b of table t depends on column A b of table"),
        ("ALTER TABLE t ALTER \"A b\" TYPE BIGINT", "generated column b is computed from"),
        ("ALTER TABLE t ALTER b SET DEFAULT 1", "column \"b\" of relation \"t\" is a generated"),
        ("ALTER TABLE t ALTER b TYPE BIGINT", "column \"b\" of relation \"t\" is a generated"),
    ] {
        let found = error(&session, text).await;
        assert!(found.contains(cause), "{text}: {found}");
    }
    show(&session, "ALTER TABLE t DROP COLUMN b; ALTER TABLE t DROP COLUMN IF EXISTS b").await;
    check(&session, &[("SELECT count(*) FROM t", "3")]).await;
}

#[tokio::test]
async fn copies_compute_generated_columns() {
    let directory = tempfile::tempdir().expect("directory");
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t (a INT, b INT AS (a * 2), c INT)").await;
    let (path, file) = quoted(directory.path(), "rows.csv");
    std::fs::write(path, "1,3\n2,4\n").expect("written");
    show(&session, &format!("COPY t FROM {file} (FORMAT csv)")).await;
    check(&session, &[("SELECT * FROM t ORDER BY a", "1 2 3\n2 4 4")]).await;
    let found = error(&session, &format!("COPY t (a, b) FROM {file} (FORMAT csv)")).await;
    assert!(found.contains("column \"b\" is a generated column"), "{found}");
    let Some(SessionStatement::Copy(copy)) =
        session.parse("COPY t TO STDOUT").expect("parsed").pop()
    else {
        panic!("a copy");
    };
    let rows = session.copy_out(&copy).await.expect("runs").collect().await.expect("rows");
    assert_eq!(rows.batches[0].num_columns(), 2);
}

#[tokio::test]
async fn prepared_statements_compute_generated_columns() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t (a INT, b INT AS (a * 2))").await;
    let value = |value| vec![datafusion::common::ScalarValue::Int32(Some(value))];
    for (text, numbers) in
        [("INSERT INTO t (a) VALUES ($1)", [3, 4]), ("UPDATE t SET a = $1 WHERE a = 4", [4, 6])]
    {
        let statement = session.parse(text).expect("parsed").remove(0);
        let prepared = session.prepare(statement, &[]).await.expect("prepared");
        for number in numbers {
            let run = session.execute_prepared(&prepared, value(number)).await.expect("runs");
            run.collect().await.expect("changed");
        }
    }
    check(&session, &[("SELECT a, b FROM t ORDER BY a", "3 6\n6 12")]).await;
}

#[tokio::test]
async fn tables_are_made_like_others_with_all() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let made = "CREATE TABLE t (id INT GENERATED ALWAYS AS IDENTITY (START 5), a INT DEFAULT 7,
            b INT AS (a * 2), CHECK (a > 0));
        COMMENT ON COLUMN t.a IS 'sevens';
        CREATE TABLE u (LIKE t INCLUDING ALL);
        CREATE TABLE v (LIKE public.t INCLUDING ALL EXCLUDING CONSTRAINTS EXCLUDING IDENTITY);
        CREATE TABLE w (LIKE t);
        INSERT INTO u DEFAULT VALUES; INSERT INTO v (id, a) VALUES (1, -1);
        INSERT INTO w VALUES (1, 2, 3)";
    show(&session, made).await;
    check(
        &session,
        &[
            ("SELECT * FROM u", "5 7 14"),
            ("SELECT * FROM v", "1 -1 -2"),
            ("SELECT * FROM w", "1 2 3"),
        ],
    )
    .await;
    let found = error(&session, "INSERT INTO u (a) VALUES (0)").await;
    assert!(found.contains("violates check constraint \"t_a_check\""), "{found}");
    let found = error(&session, "CREATE TABLE x (LIKE t INCLUDING NOTHING)").await;
    assert!(found.contains("say ALL, DEFAULTS"), "{found}");
    show(&session, "DROP TABLE t; INSERT INTO u (a) VALUES (1)").await;
}

#[tokio::test]
async fn generated_columns_survive_a_restart() {
    let directory = tempfile::tempdir().expect("directory");
    {
        let engine = engine_in(directory.path(), DRAM);
        let session = engine.session().expect("session");
        let made = "CREATE TABLE t (id BIGINT GENERATED BY DEFAULT AS IDENTITY, a INT,
            b INT AS (a + 1)); INSERT INTO t (a) VALUES (1)";
        show(&session, made).await;
        drop(session);
        engine.close().expect("closed");
    }
    let engine = engine_in(directory.path(), DRAM);
    let session = engine.session().expect("session");
    show(&session, "INSERT INTO t (a) VALUES (2)").await;
    check(&session, &[("SELECT a, b FROM t ORDER BY id", "1 2\n2 3")]).await;
    let found = error(&session, "INSERT INTO t (b) VALUES (2)").await;
    assert!(found.contains("it is a generated column"), "{found}");
}
