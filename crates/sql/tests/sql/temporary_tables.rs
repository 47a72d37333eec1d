//! Temporary tables, views and sequences, with the answers of PostgreSQL 15.

use crate::common::{MIB, check, engine, engine_in, error, eventually, show, try_show};

const DRAM: u64 = 64 * MIB;

#[tokio::test]
async fn temporary_tables_are_visible_to_their_session_alone() {
    let engine = engine(DRAM);
    let (one, other) = (engine.session().expect("session"), engine.session().expect("session"));
    show(&one, "CREATE TABLE t (a INT); INSERT INTO t VALUES (1)").await;
    let made = "CREATE TEMP TABLE t (a INT, b TEXT DEFAULT 'd'); INSERT INTO t (a) VALUES (2), (3)";
    show(&one, made).await;
    check(
        &one,
        &[
            ("SELECT * FROM t ORDER BY a", "2 d\n3 d"),
            ("SELECT * FROM public.t", "1"),
            ("SELECT count(*) FROM pg_temp.t", "2"),
            ("SELECT current_schema()", "public"),
            ("SHOW search_path", "search_path public"),
        ],
    )
    .await;
    check(&other, &[("SELECT * FROM t", "1")]).await;
    let schema = one.names().schemas().into_iter().find(|name| name.starts_with("pg_temp_"));
    let schema = schema.expect("a schema");
    assert!(!other.names().schemas().contains(&schema));
    let found = error(&other, &format!("SELECT * FROM {schema}.t")).await;
    assert!(found.contains("not found"), "{found}");
    show(&one, "UPDATE t SET b = 'e' WHERE a = 2; DELETE FROM t WHERE a = 3").await;
    check(&one, &[("SELECT * FROM t", "2 e")]).await;
    show(&one, "CREATE TABLE u AS SELECT * FROM t; DROP TABLE t").await;
    check(&one, &[("SELECT * FROM t", "1"), ("SELECT * FROM public.u", "2 e")]).await;
    show(&one, "CREATE TEMPORARY TABLE w AS SELECT 5 AS x").await;
    check(&one, &[("SELECT x FROM w", "5")]).await;
    show(&one, "CREATE TEMP TABLE IF NOT EXISTS w (y INT)").await;
    check(&one, &[("SELECT x FROM w", "5")]).await;
    drop(one);
    eventually("the schema is dropped", || !engine.catalog().has_schema(&schema)).await;
}

#[tokio::test]
async fn temporary_tables_belong_to_their_transaction() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "BEGIN; CREATE TEMP TABLE t (a INT); INSERT INTO t VALUES (1)").await;
    show(&session, "SAVEPOINT s; INSERT INTO t VALUES (2); ROLLBACK TO s").await;
    check(&session, &[("SELECT a FROM t", "1"), ("COMMIT", ""), ("SELECT a FROM t", "1")]).await;
    show(&session, "BEGIN; CREATE TEMP TABLE u (a INT); ROLLBACK").await;
    assert!(try_show(&session, "SELECT * FROM u").await.is_err());
}

#[tokio::test]
async fn on_commit_ends_rows_and_tables() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let made = "BEGIN;
        CREATE TEMP TABLE kept (a INT) ON COMMIT PRESERVE ROWS;
        CREATE TEMP TABLE emptied (a INT) ON COMMIT DELETE ROWS;
        CREATE TEMP TABLE dropped ON COMMIT DROP AS SELECT 1 AS a;
        INSERT INTO kept VALUES (1); INSERT INTO emptied VALUES (1)";
    show(&session, made).await;
    let counts = "SELECT (SELECT count(*) FROM kept), (SELECT count(*) FROM emptied)";
    check(&session, &[(counts, "1 1"), ("SELECT a FROM dropped", "1")]).await;
    show(&session, "COMMIT").await;
    check(&session, &[(counts, "1 0")]).await;
    assert!(try_show(&session, "SELECT * FROM dropped").await.is_err());
    show(&session, "INSERT INTO emptied VALUES (2)").await;
    check(&session, &[(counts, "1 0")]).await;
    show(&session, "BEGIN; INSERT INTO emptied VALUES (3)").await;
    check(&session, &[(counts, "1 1")]).await;
    show(&session, "ROLLBACK").await;
    let found = error(&session, "CREATE TABLE t (a INT) ON COMMIT DROP").await;
    assert!(found.contains("ON COMMIT can only be used on temporary tables"), "{found}");
}

#[tokio::test]
async fn temporary_views_and_identity_columns() {
    let engine = engine(DRAM);
    let (session, other) = (engine.session().expect("session"), engine.session().expect("session"));
    let made = "CREATE TEMP TABLE t (id SERIAL, a INT); INSERT INTO t (a) VALUES (7);
        CREATE TEMP VIEW v AS SELECT a + 1 AS b FROM t";
    show(&session, made).await;
    check(&session, &[("SELECT b FROM v", "8"), ("SELECT id FROM t", "1")]).await;
    assert!(try_show(&other, "SELECT * FROM v").await.is_err());
    let found = error(&session, "CREATE VIEW w AS SELECT * FROM t").await;
    assert!(found.contains("say CREATE TEMP VIEW"), "{found}");
    for (text, cause) in [
        ("CREATE TEMP TABLE public.x (a INT)", "say its name without a schema"),
        ("CREATE TEMP SEQUENCE public.s", "say its name without a schema"),
        ("CREATE SCHEMA pg_temp_9", "the prefix pg_temp is for temporary objects"),
        ("CREATE TABLE pg_temp.x (a INT)", "say CREATE TEMP"),
    ] {
        let found = error(&session, text).await;
        assert!(found.contains(cause), "{text}: {found}");
    }
    show(&session, "DROP VIEW v; DROP TABLE t").await;
}

#[tokio::test]
async fn roles_have_temporary_tables_of_their_own() {
    let engine = engine(DRAM);
    let owner = engine.session().expect("session");
    show(&owner, "CREATE ROLE boss SUPERUSER LOGIN PASSWORD 'b'; CREATE ROLE ada").await;
    let ada = engine.session_of("ada").expect("session");
    show(&ada, "CREATE TEMP TABLE t (a INT); INSERT INTO t VALUES (1)").await;
    check(&ada, &[("SELECT a FROM t", "1")]).await;
    show(&ada, "DROP TABLE t").await;
}

#[tokio::test]
async fn temporary_tables_end_with_the_engine() {
    let directory = tempfile::tempdir().expect("directory");
    {
        let engine = engine_in(directory.path(), DRAM);
        let session = engine.session().expect("session");
        let made = "CREATE TABLE k (a INT); INSERT INTO k VALUES (1);
            CREATE TEMP TABLE t AS SELECT value FROM generate_series(1, 10000)";
        show(&session, made).await;
        // As after a kill: the session does not end before the engine.
        std::mem::forget(session);
        std::mem::forget(engine);
    }
    // The lock on the directory is held by this process until it ends, so a copy is opened.
    let copy = tempfile::tempdir().expect("directory");
    for entry in std::fs::read_dir(directory.path()).expect("entries") {
        let entry = entry.expect("entry");
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).expect("copied");
    }
    let engine = engine_in(copy.path(), DRAM);
    assert!(!engine.catalog().schemas().iter().any(|name| name.starts_with("pg_temp_")));
    let session = engine.session().expect("session");
    check(&session, &[("SELECT a FROM k", "1")]).await;
    assert!(try_show(&session, "SELECT * FROM t").await.is_err());
    drop(session);
    engine.close().expect("closed");
}
