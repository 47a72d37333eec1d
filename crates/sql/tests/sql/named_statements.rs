//! PREPARE, EXECUTE and DEALLOCATE beside changes of tables, as in PostgreSQL 15.

use crate::common::{MIB, check, engine, error, show};

const DRAM: u64 = 64 * MIB;

#[tokio::test]
async fn a_run_sees_the_definitions_of_its_time() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(
        &session,
        "CREATE TABLE t (a INT, b INT DEFAULT 1); INSERT INTO t VALUES (1, 10), (2, 20);
         CREATE VIEW v AS SELECT a FROM t;
         PREPARE one (INT) AS SELECT b FROM t WHERE a = $1;
         PREPARE all_columns AS SELECT * FROM t ORDER BY a;
         PREPARE of_view AS SELECT max(a) FROM v;
         PREPARE put (INT) AS INSERT INTO t (a) VALUES ($1);
         PREPARE change AS UPDATE t SET b = b + 1 WHERE a = $1 RETURNING b;
         PREPARE joined AS UPDATE t SET b = k FROM (VALUES (1, 11, 'x')) AS u (i, k, s) \
             WHERE a = i RETURNING s, t.b",
    )
    .await;
    check(
        &session,
        &[
            ("EXECUTE one(1)", "10"),
            ("EXECUTE one(1 + 1)", "20"),
            ("EXECUTE one('2')", "20"),
            ("EXECUTE one(NULL)", ""),
            ("EXECUTE all_columns", "1 10\n2 20"),
            ("EXECUTE change(2)", "21"),
            ("EXECUTE joined", "x 11"),
        ],
    )
    .await;
    show(&session, "ALTER TABLE t ADD COLUMN c INT DEFAULT 5").await;
    show(&session, "ALTER TABLE t ALTER COLUMN b SET DEFAULT 7").await;
    show(&session, "CREATE OR REPLACE VIEW v AS SELECT (a * 100)::INT AS a FROM t").await;
    check(
        &session,
        &[
            ("EXECUTE one(1)", "11"),
            ("EXECUTE of_view", "200"),
            ("EXECUTE put(3)", "1"),
            ("SELECT * FROM t WHERE a = 3", "3 7 5"),
            ("EXECUTE change(3)", "8"),
            ("EXECUTE joined", "x 11"),
        ],
    )
    .await;
    let changed = error(&session, "EXECUTE all_columns").await;
    assert!(changed.starts_with("cached plan must not change result type"), "{changed}");
    show(&session, "ALTER TABLE t DROP COLUMN c").await;
    check(&session, &[("EXECUTE all_columns", "1 11\n2 21\n3 8")]).await;
    show(&session, "DEALLOCATE all_columns; PREPARE all_columns AS SELECT a FROM t").await;
    for (text, cause) in [
        ("EXECUTE one", "it has 1"),
        ("EXECUTE one(1, 2)", "it has 1"),
        ("EXECUTE one(a)", "a"),
        ("EXECUTE one('x')", "x"),
        ("EXECUTE missing", "does not exist"),
        ("DEALLOCATE missing", "does not exist"),
        ("PREPARE one AS SELECT 1", "already exists"),
        ("PREPARE made AS CREATE TABLE x (a INT)", "prepare a query"),
        ("PREPARE bad AS SELECT z FROM t", "z"),
    ] {
        let refused = error(&session, text).await;
        assert!(refused.contains(cause), "{text}: {refused}");
    }
    show(&session, "DEALLOCATE PREPARE one; PREPARE one AS SELECT 5; DEALLOCATE ALL").await;
    assert!(error(&session, "EXECUTE one").await.contains("does not exist"));
}

#[tokio::test]
async fn statements_belong_to_their_session_and_transaction() {
    let engine = engine(DRAM);
    let (one, two) = (engine.session().expect("one"), engine.session().expect("two"));
    show(&one, "CREATE TABLE t (a INT); PREPARE put AS INSERT INTO t VALUES ($1::INT)").await;
    assert!(error(&two, "EXECUTE put(1)").await.contains("does not exist"));
    show(&one, "BEGIN; EXECUTE put(1)").await;
    assert_eq!(show(&two, "SELECT count(*) FROM t").await, "0");
    show(&one, "COMMIT").await;
    assert_eq!(show(&two, "SELECT count(*) FROM t").await, "1");
    assert!(error(&one, "BEGIN READ ONLY; EXECUTE put(2)").await.contains("READ ONLY"));
    show(&one, "ROLLBACK").await;
}
