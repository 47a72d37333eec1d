//! RETURNING, with the rows that PostgreSQL 15 gives.

use terrace_sql::Session;

use crate::common::{MIB, check, engine, error, show};

const DRAM: u64 = 64 * MIB;

/// The rows of a statement in order: those of a change come as it finds them.
async fn sorted(session: &Session, text: &str) -> String {
    let shown = show(session, text).await;
    let mut lines: Vec<_> = shown.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

#[tokio::test]
async fn changes_return_values_of_their_rows() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE r (a INT, b TEXT DEFAULT 'd', c INT)").await;
    for (change, rows) in [
        (
            "INSERT INTO r (a, c) VALUES (1, 10), (2, 20) RETURNING *, a + c AS s, upper(b)",
            "1 d 10 11 D\n2 d 20 22 D",
        ),
        ("INSERT INTO r SELECT a + 2, 'q', c FROM r RETURNING r.a, b", "3 q\n4 q"),
        ("UPDATE r SET c = c * 2 WHERE a < 3 RETURNING a, c", "1 20\n2 40"),
        (
            "UPDATE r AS x SET b = y.b || '!' FROM r y WHERE x.a = y.a + 1 AND x.a > 2 \
             RETURNING x.a, x.b",
            "3 d!\n4 q!",
        ),
        ("UPDATE r SET c = 0 WHERE false RETURNING a", ""),
        ("DELETE FROM r WHERE c = 20 RETURNING a, b, c", "1 d 20\n4 q! 20"),
        ("DELETE FROM r WHERE a IN (SELECT max(a) FROM r) RETURNING r.*", "3 d! 10"),
        ("DELETE FROM r RETURNING a", "2"),
        ("INSERT INTO r DEFAULT VALUES RETURNING b, a IS NULL", "d true"),
    ] {
        assert_eq!(sorted(&session, change).await, rows, "{change}");
    }
    check(&session, &[("SELECT count(*) FROM r", "1")]).await;
    for (clause, cause) in [
        ("z", "z"),
        ("count(*)", "an aggregate function in RETURNING"),
        ("(SELECT 1)", "a subquery in RETURNING"),
        ("q.*", "q.*"),
    ] {
        let text = error(&session, &format!("INSERT INTO r VALUES (1) RETURNING {clause}")).await;
        assert!(text.contains(cause), "{clause}: {text}");
    }
    check(&session, &[("SELECT count(*) FROM r", "1")]).await;
}

#[tokio::test]
async fn many_rows_are_returned_within_the_budget() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE big (k BIGINT, w TEXT)").await;
    let insert = "INSERT INTO big SELECT value, repeat('x', 100) || value \
                  FROM generate_series(1, 300000) RETURNING k, w";
    let statement = session.parse(insert).expect("parsed").remove(0);
    let output = session.execute(statement).await.expect("runs").collect().await.expect("rows");
    assert_eq!(output.rows(), 300_000);
    assert_eq!(
        sorted(&session, "DELETE FROM big WHERE k % 100000 = 5 RETURNING k").await,
        "100005\n200005\n5"
    );
    let kept = "SELECT count(*) FROM big";
    check(&session, &[(kept, "299997")]).await;
}

#[tokio::test]
async fn prepared_changes_return_rows() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE r (a INT, b INT)").await;
    let insert = "INSERT INTO r VALUES ($1, 2) RETURNING a + b AS s";
    let insert = session.parse(insert).expect("parsed").remove(0);
    let prepared = session.prepare(insert, &[]).await.expect("prepared");
    let schema = prepared.schema().expect("rows").clone();
    assert_eq!(schema.field(0).name(), "s");
    let value = datafusion::common::ScalarValue::Int32(Some(5));
    let run = session.execute_prepared(&prepared, vec![value]).await.expect("runs");
    let output = run.collect().await.expect("rows");
    assert_eq!(crate::common::lines(&output.batches[0]), ["7"]);
    let named = "PREPARE p AS DELETE FROM r WHERE a = $1 RETURNING b; EXECUTE p(5)";
    assert_eq!(sorted(&session, named).await, "2");
}

#[tokio::test]
async fn rows_that_are_refused_are_not_returned() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE r (a INT CHECK (a < 5), b INT NOT NULL)").await;
    let text = error(&session, "INSERT INTO r VALUES (1, 1), (7, 1) RETURNING a").await;
    assert_eq!(text, "new row for relation \"r\" violates check constraint \"r_a_check\"");
    let text = error(&session, "INSERT INTO r VALUES (1, NULL) RETURNING a").await;
    assert!(text.contains("NOT NULL"), "{text}");
    check(&session, &[("SELECT count(*) FROM r", "0")]).await;
    show(&session, "BEGIN; INSERT INTO r VALUES (1, 1) RETURNING a; ROLLBACK").await;
    check(&session, &[("SELECT count(*) FROM r", "0")]).await;
}

#[tokio::test]
async fn rows_are_returned_to_roles_that_may_read_them() {
    let engine = engine(DRAM);
    let owner = engine.session().expect("session");
    show(&owner, "CREATE TABLE secrets (a INT, b TEXT); INSERT INTO secrets VALUES (1, 'x')").await;
    show(&owner, "CREATE ROLE chief SUPERUSER LOGIN PASSWORD 'p'; CREATE ROLE ada").await;
    show(&owner, "GRANT INSERT, UPDATE, DELETE ON secrets TO ada; SET ROLE ada").await;
    for text in [
        "INSERT INTO secrets VALUES (2, 'y') RETURNING a",
        "UPDATE secrets SET a = 3 RETURNING b",
        "DELETE FROM secrets RETURNING *",
    ] {
        let refused = error(&owner, text).await;
        assert!(refused.contains("lacks SELECT"), "{text}: {refused}");
        let prepared = error(&owner, &format!("PREPARE p AS {text}; EXECUTE p")).await;
        assert!(prepared.contains("lacks SELECT"), "{text}: {prepared}");
        show(&owner, "DEALLOCATE p").await;
    }
    show(&owner, "INSERT INTO secrets VALUES (2, 'y'); RESET ROLE").await;
    check(&owner, &[("SELECT a, b FROM secrets ORDER BY a", "1 x\n2 y")]).await;
    show(&owner, "GRANT SELECT ON secrets TO ada; SET ROLE ada").await;
    assert_eq!(sorted(&owner, "UPDATE secrets SET a = a + 1 RETURNING a, b").await, "2 x\n3 y");
}
