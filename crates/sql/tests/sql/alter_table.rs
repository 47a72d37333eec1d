//! ALTER TABLE, with the rows and errors of PostgreSQL 15.

use terrace_sql::Session;

use crate::common::{MIB, check, engine, engine_in, error, show, try_show};

const DRAM: u64 = 64 * MIB;

async fn small(session: &Session) {
    let made = "CREATE TABLE al (a INT, b TEXT);
        INSERT INTO al VALUES (1, '1'), (2, '2'), (NULL, 'x')";
    show(session, made).await;
}

#[tokio::test]
async fn columns_are_added_changed_and_dropped() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    small(&session).await;
    show(&session, "ALTER TABLE al ADD COLUMN c INT DEFAULT 9, ADD d TEXT").await;
    check(&session, &[("SELECT * FROM al ORDER BY a", "1 1 9 \n2 2 9 \n x 9 ")]).await;
    show(&session, "ALTER TABLE al ADD COLUMN IF NOT EXISTS c INT").await;
    let changes = "ALTER TABLE al ALTER b TYPE INT USING CASE WHEN b = 'x' THEN -1 ELSE b::int END,
        ALTER a SET DATA TYPE TEXT";
    show(&session, changes).await;
    let changed = "SELECT a || '!', b + 1, c, d FROM al ORDER BY a";
    check(&session, &[(changed, "1! 2 9 \n2! 3 9 \n 0 9 ")]).await;
    show(&session, "DELETE FROM al WHERE a IS NULL; ALTER TABLE al ALTER a SET NOT NULL").await;
    let text = error(&session, "INSERT INTO al VALUES (NULL)").await;
    assert!(text.contains("column a: the column is NOT NULL"), "{text}");
    show(&session, "ALTER TABLE al ALTER a DROP NOT NULL; INSERT INTO al VALUES (NULL)").await;
    show(&session, "ALTER TABLE al DROP COLUMN IF EXISTS zz, DROP COLUMN c, DROP d").await;
    check(&session, &[("SELECT * FROM al ORDER BY a", "1 1\n2 2\n ")]).await;
    show(&session, "ALTER TABLE al RENAME COLUMN b TO \"B b\"; ALTER TABLE al RENAME TO al2").await;
    check(&session, &[("SELECT \"B b\" FROM al2 WHERE a = '2'", "2")]).await;
    show(&session, "ALTER TABLE IF EXISTS al RENAME TO al3").await;
}

#[tokio::test]
async fn impossible_changes_are_refused_and_change_nothing() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    small(&session).await;
    show(&session, "CREATE TABLE t (a INT); CREATE VIEW av AS SELECT b FROM al").await;
    for (change, cause) in [
        ("ADD COLUMN a INT", "column \"a\" of relation \"al\" already exists"),
        ("ADD e INT NOT NULL", "column e: the column is NOT NULL"),
        ("ADD e INT PRIMARY KEY", "PRIMARY KEY"),
        (
            "ALTER b TYPE INT",
            "casting column b automatically to INTEGER is not possible; say USING",
        ),
        ("ALTER b TYPE INT USING b::int", "view public.av uses"),
        ("ALTER a SET NOT NULL", "column a: the column is NOT NULL"),
        ("DROP COLUMN zz", "column \"zz\" of relation \"al\" does not exist"),
        ("DROP COLUMN b", "view av depends on column b of table al"),
        ("RENAME b TO c", "cannot rename column b of table al because view public.av depends"),
        ("RENAME TO al2", "cannot rename table al because view public.av depends on it"),
        ("RENAME a TO b", "column \"b\" of relation \"al\" already exists"),
        ("ADD UNIQUE (a)", "only CHECK is possible"),
        ("ADD c INT, DROP COLUMN zz", "column \"zz\" of relation \"al\" does not exist"),
    ] {
        let text = error(&session, &format!("ALTER TABLE al {change}")).await;
        assert!(text.contains(cause), "{change}: {text}");
    }
    show(&session, "DROP VIEW av").await;
    for (change, cause) in [
        ("ALTER TABLE al RENAME TO t", "public.t already exists"),
        ("ALTER TABLE al DROP COLUMN a, DROP COLUMN b", "without columns"),
        ("ALTER TABLE nothing DROP COLUMN b", "public.nothing does not exist"),
        ("ALTER TABLE terrace.queries DROP COLUMN b", "schema terrace"),
    ] {
        let text = error(&session, change).await;
        assert!(text.contains(cause), "{change}: {text}");
    }
    check(&session, &[("SELECT * FROM al ORDER BY a", "1 1\n2 2\n x")]).await;
}

/// A table of several chunks, of which one column is added, one retyped and one dropped: pruning,
/// statistics and joins go by the new columns.
#[tokio::test]
async fn many_chunks_keep_their_rows() {
    for encoding in ["plain", "compact"] {
        let engine = engine(DRAM);
        let session = engine.session().expect("session");
        let made = format!(
            "CREATE TABLE big (k BIGINT, v INT, w TEXT) WITH (encoding = '{encoding}');
             INSERT INTO big SELECT value, value % 1000, 'row ' || value
             FROM generate_series(1, 200000)"
        );
        show(&session, &made).await;
        let changes = "ALTER TABLE big DROP COLUMN v, ADD COLUMN v BIGINT DEFAULT 5,
            ALTER COLUMN k TYPE TEXT USING lpad(k::text, 7, '0')";
        show(&session, changes).await;
        show(&session, "INSERT INTO big VALUES ('9', 'new', 6)").await;
        check(
            &session,
            &[
                ("SELECT count(*), sum(v), min(k), max(k) FROM big", "200001 1000006 0000001 9"),
                ("SELECT * FROM big WHERE k = '0123456'", "0123456 row 123456 5"),
                ("SELECT * FROM big WHERE v > 5", "9 new 6"),
                ("SELECT count(*) FROM big WHERE v = 0", "0"),
                ("SELECT w FROM big WHERE k > '0199999' ORDER BY k", "row 200000\nnew"),
            ],
        )
        .await;
        show(&session, "UPDATE big SET v = 7 WHERE k < '0000003'; DELETE FROM big WHERE v = 5")
            .await;
        check(&session, &[("SELECT k, v FROM big ORDER BY k", "0000001 7\n0000002 7\n9 6")]).await;
    }
}

/// Values that no longer fit one segment of a chunk are written as several chunks.
#[tokio::test]
async fn values_that_grow_are_written_anew() {
    let engine = engine(128 * MIB);
    let session = engine.session().expect("session");
    let made = "CREATE TABLE g (k INT, s TEXT);
        INSERT INTO g SELECT value, 'x' || value FROM generate_series(1, 40000)";
    show(&session, made).await;
    show(&session, "ALTER TABLE g ALTER s TYPE TEXT USING repeat(s, 100)").await;
    let sums = "SELECT count(*), sum(k), sum(length(s)) FROM g";
    let len = "SELECT sum(length('x' || value) * 100) FROM generate_series(1, 40000)";
    let len = show(&session, len).await;
    check(&session, &[(sums, format!("40000 800020000 {len}").as_str())]).await;
    check(&session, &[("SELECT left(s, 11) FROM g WHERE k = 777", "x777x777x77")]).await;
    show(&session, "SET datafusion.execution.target_partitions = 1").await;
    let order = "SELECT count(*) FROM (SELECT k - lag(k) OVER () AS d FROM g) q WHERE d <> 1";
    check(&session, &[(order, "0")]).await;
}

#[tokio::test]
async fn changes_roll_back_and_commit_with_their_transaction() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    small(&session).await;
    let undone = "BEGIN; INSERT INTO al VALUES (4, '4'); ALTER TABLE al ADD c INT DEFAULT a_is(1);";
    let _ = try_show(&session, undone).await.expect_err("no such function");
    show(&session, "ROLLBACK").await;
    let undone = "BEGIN; INSERT INTO al VALUES (4, '4'); ALTER TABLE al ADD c INT DEFAULT 1;
        ALTER TABLE al RENAME TO x; ALTER TABLE x DROP COLUMN b; INSERT INTO x VALUES (5, 5)";
    show(&session, undone).await;
    check(&session, &[("SELECT * FROM x ORDER BY a", "1 1\n2 1\n4 1\n5 5\n 1")]).await;
    let other = engine.session().expect("session");
    check(&other, &[("SELECT * FROM al ORDER BY a", "1 1\n2 2\n x")]).await;
    show(&session, "ROLLBACK").await;
    check(&session, &[("SELECT * FROM al ORDER BY a", "1 1\n2 2\n x")]).await;
    let kept = "BEGIN; INSERT INTO al VALUES (4, '4'); SAVEPOINT s; ALTER TABLE al DROP COLUMN b;
        ROLLBACK TO s; ALTER TABLE al ADD c INT DEFAULT 1; DELETE FROM al WHERE a = 1; COMMIT";
    show(&session, kept).await;
    check(&other, &[("SELECT * FROM al ORDER BY a", "2 2 1\n4 4 1\n x 1")]).await;
}

#[tokio::test]
async fn concurrent_changes_conflict() {
    let engine = engine(DRAM);
    let (one, two) = (engine.session().expect("session"), engine.session().expect("session"));
    small(&one).await;
    show(&one, "BEGIN; ALTER TABLE al ADD c INT DEFAULT 1").await;
    show(&two, "INSERT INTO al VALUES (9, 'late')").await;
    let text = error(&one, "COMMIT").await;
    assert!(text.contains("public.al was changed by another transaction"), "{text}");
    check(&two, &[("SELECT * FROM al ORDER BY a", "1 1\n2 2\n9 late\n x")]).await;
    show(&one, "BEGIN; INSERT INTO al VALUES (10, 'open')").await;
    show(&two, "ALTER TABLE al DROP COLUMN b").await;
    let text = error(&one, "COMMIT").await;
    assert!(text.contains("public.al was changed by another transaction"), "{text}");
    check(&two, &[("SELECT * FROM al ORDER BY a", "1\n2\n9\n")]).await;
}

/// Sessions that insert and alter at the same time: no acknowledged row is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_rows_survive_concurrent_changes() {
    let engine = engine(DRAM);
    let first = engine.session().expect("session");
    show(&first, "CREATE TABLE t (a INT)").await;
    let writer = engine.session().expect("session");
    let inserts = async {
        let mut acknowledged = 0;
        for _ in 0..60 {
            acknowledged +=
                usize::from(try_show(&writer, "INSERT INTO t (a) VALUES (1)").await.is_ok());
            tokio::task::yield_now().await;
        }
        acknowledged
    };
    let changes = async {
        for change in 0..12 {
            let change = match change % 3 {
                0 => "ALTER TABLE t ADD COLUMN b INT DEFAULT 3",
                1 => "ALTER TABLE t ALTER b TYPE BIGINT",
                _ => "ALTER TABLE t DROP COLUMN b",
            };
            show(&first, change).await;
            tokio::task::yield_now().await;
        }
    };
    let (acknowledged, ()) = tokio::join!(inserts, changes);
    let counted = acknowledged.to_string();
    check(&first, &[("SELECT count(*) FROM t", counted.as_str())]).await;
}

#[tokio::test]
async fn altered_tables_survive_a_restart_and_free_what_they_drop() {
    let directory = tempfile::tempdir().expect("directory");
    let used = "SELECT count(*), count(DISTINCT column_name) FROM terrace.segments";
    {
        let engine = engine_in(directory.path(), DRAM);
        let session = engine.session().expect("session");
        let made = "CREATE TABLE big (k BIGINT, v INT, w TEXT);
            INSERT INTO big SELECT value, value % 7, 'w' || value FROM generate_series(1, 100000);
            ALTER TABLE big DROP COLUMN v, ADD COLUMN x INT DEFAULT 4, RENAME COLUMN w TO u";
        for statement in made.replace(", RENAME", "; ALTER TABLE big RENAME").split(';') {
            show(&session, statement).await;
        }
        check(&session, &[(used, "6 3")]).await;
        drop(session);
        engine.close().expect("closed");
    }
    let engine = engine_in(directory.path(), DRAM);
    let session = engine.session().expect("session");
    check(
        &session,
        &[
            (used, "6 3"),
            ("SELECT * FROM big WHERE k = 70000", "70000 w70000 4"),
            ("SELECT count(*), sum(x), count(DISTINCT u) FROM big", "100000 400000 100000"),
        ],
    )
    .await;
    show(&session, "INSERT INTO big VALUES (0, 'new')").await;
    check(&session, &[("SELECT * FROM big WHERE k = 0", "0 new 4")]).await;
}

/// The actions of a statement apply in their order.
#[tokio::test]
async fn a_generated_column_has_no_dropped_column() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE g (a INT, b INT); INSERT INTO g VALUES (1, 2)").await;
    let text = "ALTER TABLE g DROP COLUMN a, ADD COLUMN c INT GENERATED ALWAYS AS (a + 1) STORED";
    let found = error(&session, text).await;
    assert!(found.contains("a") && found.contains("does not exist"), "{found}");
    let text = "ALTER TABLE g DROP COLUMN a, ADD COLUMN c INT GENERATED ALWAYS AS (b + 1) STORED";
    show(&session, text).await;
    check(&session, &[("SELECT * FROM g", "2 3")]).await;
    show(&session, "ALTER TABLE IF EXISTS nosuch OWNER TO root").await;
}

/// The rows of a query would not be compared with the conditions.
#[tokio::test]
async fn a_table_of_a_query_has_no_conditions() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    for text in [
        "CREATE TABLE c (a INT CHECK (a > 0)) AS SELECT -1",
        "CREATE OR REPLACE TABLE c (a INT, CHECK (a > 0)) AS SELECT -1",
    ] {
        let found = error(&session, text).await;
        assert!(found.contains("CHECK and rows of a query"), "{found}");
    }
}
