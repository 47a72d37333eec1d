//! Views and changes of their tables, as in PostgreSQL 15.

use terrace_sql::Session;

use crate::common::{MIB, check, engine, engine_in, error, show};

const DRAM: u64 = 64 * MIB;

#[tokio::test]
async fn a_view_keeps_its_columns() {
    let directory = tempfile::tempdir().expect("a directory");
    {
        let engine = engine_in(directory.path(), DRAM);
        let session = engine.session().expect("session");
        show(&session, "CREATE TABLE t (a INT, \"B c\" TEXT); INSERT INTO t VALUES (1, 'x')").await;
        show(&session, "CREATE TABLE u (a INT, d INT); INSERT INTO u VALUES (1, 5)").await;
        for view in [
            "CREATE VIEW v AS SELECT * FROM t",
            "CREATE VIEW named (x, y) AS SELECT t.* FROM t",
            "CREATE VIEW joined AS SELECT * FROM t JOIN u USING (a)",
            "CREATE VIEW parts AS WITH w AS (SELECT * FROM t) SELECT w.*, u.d FROM w, u",
            "CREATE VIEW inner_view AS SELECT count(*) AS n FROM (SELECT * FROM v) q",
            "CREATE VIEW both AS SELECT * FROM t UNION ALL SELECT * FROM t",
            "CREATE VIEW rest AS SELECT * EXCLUDE (a) FROM t",
        ] {
            show(&session, view).await;
        }
        show(&session, "ALTER TABLE t ADD COLUMN e INT DEFAULT 9; ALTER TABLE u ADD e INT").await;
    }
    let engine = engine_in(directory.path(), DRAM);
    let session = engine.session().expect("session");
    check(
        &session,
        &[
            ("SELECT * FROM t", "1 x 9"),
            ("SELECT * FROM v", "1 x"),
            ("SELECT y, x FROM named", "x 1"),
            ("SELECT * FROM joined", "1 x 5"),
            ("SELECT * FROM parts", "1 x 5"),
            ("SELECT * FROM inner_view", "1"),
            ("SELECT * FROM both", "1 x\n1 x"),
            ("SELECT * FROM rest", "x"),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_type_below_a_view_stays() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t (a INT, b INT, c INT)").await;
    show(&session, "CREATE VIEW v AS SELECT a FROM t WHERE b > 0").await;
    for column in ["a", "b"] {
        let alter = format!("ALTER TABLE t ALTER COLUMN {column} TYPE BIGINT");
        let text = error(&session, &alter).await;
        assert!(text.contains("view public.v") && text.contains("type"), "{text}");
    }
    show(&session, "ALTER TABLE t ALTER COLUMN c TYPE BIGINT; ALTER TABLE t DROP COLUMN c").await;
    show(&session, "DROP VIEW v; ALTER TABLE t ALTER COLUMN a TYPE BIGINT").await;
}

/// Runs two statements in transactions that both begin before either ends; returns the error of
/// the second commit.
async fn beside(first: &Session, second: &Session, statements: [&str; 2]) -> String {
    show(first, "BEGIN; SELECT count(*) FROM t").await;
    show(second, "BEGIN; SELECT count(*) FROM t").await;
    show(first, statements[0]).await;
    show(first, "COMMIT").await;
    let text = match crate::common::try_show(second, statements[1]).await {
        Ok(_) => error(second, "COMMIT").await,
        Err(error) => error.to_string(),
    };
    // A transaction whose COMMIT has failed is over.
    let _ = crate::common::try_show(second, "ROLLBACK").await;
    text
}

#[tokio::test]
async fn a_view_conflicts_with_a_change_of_its_table() {
    let engine = engine(DRAM);
    let (one, two) = (engine.session().expect("one"), engine.session().expect("two"));
    show(&one, "CREATE TABLE t (a INT, b INT)").await;
    for statements in [
        ["ALTER TABLE t DROP COLUMN b", "CREATE VIEW v AS SELECT b FROM t"],
        ["CREATE VIEW v AS SELECT b FROM t", "ALTER TABLE t DROP COLUMN b"],
        ["CREATE VIEW v AS SELECT b FROM t", "ALTER TABLE t RENAME COLUMN b TO c"],
        ["CREATE VIEW v AS SELECT b FROM t", "ALTER TABLE t ALTER COLUMN b TYPE TEXT"],
        ["ALTER TABLE t RENAME TO s", "CREATE VIEW v AS SELECT b FROM t"],
        ["DROP TABLE t", "CREATE VIEW v AS SELECT b FROM t"],
    ] {
        let text = beside(&one, &two, statements).await;
        assert!(text.contains("by another transaction"), "{statements:?}: {text}");
        show(&one, "DROP VIEW IF EXISTS v; DROP TABLE IF EXISTS t; DROP TABLE IF EXISTS s").await;
        show(&one, "CREATE TABLE t (a INT, b INT)").await;
    }
    // A view of another table is no conflict of a change that loses nothing.
    show(&one, "CREATE TABLE u (a INT); BEGIN; CREATE VIEW w AS SELECT a FROM u").await;
    show(&two, "ALTER TABLE t ADD COLUMN c INT").await;
    show(&one, "COMMIT").await;
}
