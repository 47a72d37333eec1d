//! CHECK constraints, with the rows and errors of PostgreSQL 15.

use std::sync::Arc;

use datafusion::arrow::array::{Int32Array, RecordBatch};
use terrace_sql::session::{CopyIn, SessionStatement};
use terrace_sql::{Session, SqlError};

use crate::common::{MIB, check, engine, engine_in, error, show, try_show};

const DRAM: u64 = 64 * MIB;

async fn table(session: &Session) {
    let made = "CREATE TABLE ck (a INT CHECK (a > 0), b INT, CONSTRAINT sums CHECK (a + b < 100),
        CHECK (a <> b), CHECK (b <> 5), CHECK (b <> 6))";
    show(session, made).await;
}

fn violated(constraint: &str) -> String {
    format!("new row for relation \"ck\" violates check constraint \"{constraint}\"")
}

#[tokio::test]
async fn rows_that_make_a_condition_false_are_refused() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    table(&session).await;
    for (row, constraint) in [
        ("(0, 1)", "ck_a_check"),
        ("(50, 60)", "sums"),
        ("(5, 5)", "ck_b_check"),
        ("(1, 6)", "ck_b_check1"),
        ("(2, 1), (7, 7)", "ck_check"),
    ] {
        let text = error(&session, &format!("INSERT INTO ck VALUES {row}")).await;
        assert_eq!(text, violated(constraint), "{row}");
    }
    let failed = try_show(&session, "INSERT INTO ck SELECT 0, 1").await.expect_err("refused");
    let is_violation = matches!(failed, SqlError::CheckViolated { .. })
        || failed.to_string() == violated("ck_a_check");
    assert!(is_violation, "{failed:?}");
    show(&session, "INSERT INTO ck VALUES (NULL, 1), (1, NULL), (1, 2)").await;
    for change in [
        "UPDATE ck SET a = -1 WHERE b = 2",
        "UPDATE ck SET a = b - 3 FROM (SELECT 2 AS k) q WHERE b = k",
        "UPDATE ck SET a = (SELECT 0) WHERE b = 2",
        "INSERT OVERWRITE ck SELECT 0, 1",
    ] {
        assert_eq!(error(&session, change).await, violated("ck_a_check"), "{change}");
    }
    check(&session, &[("SELECT a, b FROM ck ORDER BY a, b", "1 2\n1 \n 1")]).await;
    show(&session, "DELETE FROM ck WHERE a IS NULL; UPDATE ck SET a = 3 WHERE b = 2").await;
    check(&session, &[("SELECT a, b FROM ck ORDER BY a, b", "1 \n3 2")]).await;
}

#[tokio::test]
async fn constraints_are_added_and_dropped() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    table(&session).await;
    show(&session, "INSERT INTO ck VALUES (NULL, 1), (1, NULL), (1, 2)").await;
    for (change, text) in [
        (
            "ADD CHECK (b < 2)",
            "check constraint \"ck_b_check2\" of relation \"ck\" is violated by some row",
        ),
        (
            "ADD CONSTRAINT sums CHECK (a < 3)",
            "constraint \"sums\" for relation \"ck\" already exists",
        ),
        ("DROP CONSTRAINT nothere", "constraint \"nothere\" of relation \"ck\" does not exist"),
    ] {
        assert_eq!(error(&session, &format!("ALTER TABLE ck {change}")).await, text);
    }
    let changes = "ALTER TABLE ck DROP CONSTRAINT IF EXISTS nothere, DROP CONSTRAINT sums;
        INSERT INTO ck VALUES (50, 60);
        ALTER TABLE ck ADD CONSTRAINT small CHECK (a < 51), RENAME COLUMN b TO \"B b\"";
    for change in changes.split(", RENAME") {
        let change = change.trim();
        let change = match change.starts_with("COLUMN") {
            true => format!("ALTER TABLE ck RENAME {change}"),
            false => change.to_owned(),
        };
        show(&session, &change).await;
    }
    let text = error(&session, "INSERT INTO ck VALUES (1, 6)").await;
    assert_eq!(text, violated("ck_b_check1"));
    assert_eq!(error(&session, "INSERT INTO ck VALUES (51, 1)").await, violated("small"));
    show(&session, "ALTER TABLE ck RENAME CONSTRAINT small TO tiny").await;
    assert_eq!(error(&session, "INSERT INTO ck VALUES (51, 1)").await, violated("tiny"));
    show(&session, "ALTER TABLE ck DROP COLUMN a").await;
    show(&session, "INSERT INTO ck VALUES (-1)").await;
    assert_eq!(error(&session, "INSERT INTO ck VALUES (6)").await, violated("ck_b_check1"));
}

#[tokio::test]
async fn conditions_that_no_row_decides_are_refused() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    for (condition, cause) in [
        ("a + 1", "the check a + 1, whose type is"),
        ("a IN (SELECT 1)", "a subquery in a CHECK constraint"),
        ("count(*) > 1", "an aggregate function in a CHECK constraint"),
        ("z > 1", "z"),
    ] {
        let text = error(&session, &format!("CREATE TABLE bad (a INT, CHECK ({condition}))")).await;
        assert!(text.contains(cause), "{condition}: {text}");
    }
    show(&session, "CREATE TABLE t (a INT); INSERT INTO t VALUES (1)").await;
    let text = error(&session, "ALTER TABLE t ADD CHECK (10 / (a - 1) > 1)").await;
    assert!(text.contains("division by zero"), "{text}");
    let text = error(&session, "ALTER TABLE t ADD CHECK (a > 1) NOT VALID").await;
    assert!(text.contains("leave NOT VALID out"), "{text}");
}

#[tokio::test]
async fn copied_rows_are_checked_and_get_defaults() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE c (a INT CHECK (a > 0), b TEXT DEFAULT 'd')").await;
    for (value, expected) in [(1, Ok(())), (0, Err("\"c_a_check\""))] {
        let statement = session.parse("COPY c (a) FROM STDIN").expect("parsed").remove(0);
        let SessionStatement::Copy(copy) = statement else { panic!("{statement:?}") };
        let started = session.copy_in(&copy).await.expect("starts");
        let CopyIn { schema, rows, handle } = started;
        let batch = RecordBatch::try_new(schema, vec![Arc::new(Int32Array::from(vec![value]))]);
        let send = async {
            rows.send(Some(batch.expect("rows"))).await;
            rows.send(None).await;
        };
        let (copied, ()) = tokio::join!(handle.collect(), send);
        match (copied, expected) {
            (Ok(_), Ok(())) => {}
            (Err(error), Err(cause)) => assert!(error.to_string().contains(cause), "{error}"),
            (copied, _) => panic!("{value}: {copied:?}"),
        }
    }
    check(&session, &[("SELECT a, b FROM c", "1 d")]).await;
}

#[tokio::test]
async fn constraints_survive_a_restart_and_roll_back() {
    let directory = tempfile::tempdir().expect("directory");
    {
        let engine = engine_in(directory.path(), DRAM);
        let session = engine.session().expect("session");
        table(&session).await;
        let undone = "BEGIN; ALTER TABLE ck DROP CONSTRAINT sums; INSERT INTO ck VALUES (50, 60);
            ROLLBACK";
        show(&session, undone).await;
        drop(session);
        engine.close().expect("closed");
    }
    let engine = engine_in(directory.path(), DRAM);
    let session = engine.session().expect("session");
    assert_eq!(error(&session, "INSERT INTO ck VALUES (50, 60)").await, violated("sums"));
    show(&session, "INSERT INTO ck VALUES (1, 2)").await;
    check(&session, &[("SELECT count(*) FROM ck", "1")]).await;
}

#[tokio::test]
async fn rows_of_many_chunks_are_checked() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let made = "CREATE TABLE big (k BIGINT, CONSTRAINT bound CHECK (k <= 200000));
        INSERT INTO big SELECT value FROM generate_series(1, 200000)";
    show(&session, made).await;
    let text =
        error(&session, "INSERT INTO big SELECT value FROM generate_series(1, 200001)").await;
    assert_eq!(text, "new row for relation \"big\" violates check constraint \"bound\"");
    let text = error(&session, "ALTER TABLE big ADD CHECK (k < 200000)").await;
    assert_eq!(
        text,
        "check constraint \"big_k_check\" of relation \"big\" is violated by some row"
    );
    check(&session, &[("SELECT count(*), max(k) FROM big", "200000 200000")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_all_partitions_are_inserted() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE large (a BIGINT CHECK (a > 0)); CREATE TABLE s (a BIGINT)").await;
    show(&session, "INSERT INTO large SELECT * FROM generate_series(1, 200000)").await;
    show(&session, "INSERT INTO s SELECT * FROM generate_series(1, 50000)").await;
    check(&session, &[("SELECT count(*), sum(a) FROM large", "200000 20000100000")]).await;
    show(&session, "INSERT INTO large SELECT a FROM s UNION SELECT a FROM s").await;
    show(&session, "INSERT INTO large SELECT a FROM s UNION ALL SELECT a FROM s").await;
    show(&session, "INSERT INTO large SELECT a + 1 FROM s WHERE a > 5 GROUP BY a").await;
    check(&session, &[("SELECT count(*) FROM large", "399995")]).await;
    // A condition that is null by its type holds.
    show(&session, "CREATE TABLE n (a INT CHECK (NULL)); INSERT INTO n VALUES (1)").await;
    check(&session, &[("SELECT a FROM n", "1")]).await;
}
