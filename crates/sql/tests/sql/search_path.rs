//! The search path: which schema a name without one belongs to. Answers are those of PostgreSQL 15,
//! of USE those of DuckDB 2.0.

use terrace_sql::Session;

use crate::common::{MIB, check, engine, error, show};

/// Two schemas with a table of the same name, and one table only in each.
async fn schemas(session: &Session) {
    let text = "CREATE SCHEMA s1; CREATE SCHEMA s2;
        CREATE TABLE s1.t (a INT); INSERT INTO s1.t VALUES (1);
        CREATE TABLE s2.t (a INT); INSERT INTO s2.t VALUES (2);
        CREATE TABLE public.t (a INT); INSERT INTO public.t VALUES (0);
        CREATE TABLE s2.only2 (b INT); INSERT INTO s2.only2 VALUES (22)";
    show(session, text).await;
}

#[tokio::test]
async fn names_are_looked_up_in_order() {
    let session = engine(64 * MIB).session().expect("session");
    schemas(&session).await;
    check(
        &session,
        &[
            ("SELECT a FROM t", "0"),
            ("SET search_path = s1; SELECT a FROM t", "1"),
            ("SET search_path TO s2, s1; SELECT a FROM t", "2"),
            ("SET search_path = 's1, s2'; SELECT a, b FROM t, only2", "1 22"),
            ("SET search_path = nope, s2, public; SELECT a FROM t", "2"),
            ("SET SESSION search_path TO 's2'; SELECT a FROM t", "2"),
            ("SET schema = 's1'; SELECT a FROM t", "1"),
            ("USE s2; SELECT a FROM t", "2"),
            ("USE main.s1; SELECT a FROM t", "1"),
            ("USE main; SELECT a FROM t", "0"),
            ("SET search_path TO S1; SELECT a FROM t", "1"),
            ("RESET search_path; SELECT a FROM t", "0"),
            ("SET search_path = s1; SET search_path TO DEFAULT; SELECT a FROM t", "0"),
            ("SET search_path = s1, public; SELECT a FROM public.t", "0"),
            ("SELECT count(*) FROM information_schema.schemata WHERE schema_name = 's1'", "1"),
        ],
    )
    .await;
    let text = error(&session, "SET search_path = s1; SELECT * FROM only2").await;
    assert!(text.contains("only2") && text.contains("did you mean s2.only2?"), "{text}");
    for wrong in ["USE nope", "SET schema = 'nope'", "USE a.b.c"] {
        let text = error(&session, wrong).await;
        assert!(text.contains("nope") || text.contains("a.b.c"), "{text}");
    }
}

#[tokio::test]
async fn the_path_is_shown() {
    let session = engine(64 * MIB).session().expect("session");
    schemas(&session).await;
    check(
        &session,
        &[
            ("SHOW search_path", "search_path public"),
            ("SELECT current_schema(), current_schemas(false)", "public [public]"),
            ("SET search_path = nope, s2, s1; SHOW search_path", "search_path nope, s2, s1"),
            ("SELECT current_schema()", "s2"),
            ("SELECT current_schemas(false)", "[s2, s1]"),
            ("SELECT current_schemas(true)", "[pg_catalog, s2, s1]"),
            ("SELECT current_schemas(NULL) IS NULL", "true"),
            ("SET search_path = nope; SELECT current_schema() IS NULL", "true"),
            ("SELECT current_schemas(false)", "[]"),
            ("SET search_path = ''; SELECT current_schemas(false)", "[]"),
        ],
    )
    .await;
    for query in ["SELECT * FROM t", "INSERT INTO t VALUES (1)", "CREATE TABLE n (a INT)"] {
        error(&session, query).await;
    }
}

#[tokio::test]
async fn new_objects_are_in_the_first_schema_that_exists() {
    let session = engine(64 * MIB).session().expect("session");
    schemas(&session).await;
    show(&session, "SET search_path = nope, s1, s2").await;
    show(&session, "CREATE TABLE n AS SELECT 5 AS x; CREATE VIEW v AS SELECT x FROM n").await;
    check(
        &session,
        &[
            ("SELECT x FROM s1.n", "5"),
            ("SELECT x FROM s1.v", "5"),
            // A table of a later schema does not prevent one in the first.
            ("CREATE TABLE only2 (c INT); SELECT count(*) FROM only2", "0"),
            ("DROP TABLE only2; SELECT b FROM only2", "22"),
            ("INSERT INTO only2 VALUES (23); SELECT count(*) FROM s2.only2", "2"),
            ("DELETE FROM only2 WHERE b = 22; SELECT b FROM s2.only2", "23"),
            ("UPDATE only2 SET b = 24; SELECT b FROM s2.only2", "24"),
            ("TRUNCATE only2; SELECT count(*) FROM s2.only2", "0"),
            (
                "DROP TABLE only2; SELECT count(*) FROM information_schema.tables \
              WHERE table_name = 'only2'",
                "0",
            ),
            // Names of a view keep the path that it was created with.
            ("SET search_path = public; SELECT x FROM s1.v", "5"),
            ("DROP VIEW s1.v; SELECT a FROM t", "0"),
        ],
    )
    .await;
}

#[tokio::test]
async fn set_local_ends_with_the_transaction() {
    let session = engine(64 * MIB).session().expect("session");
    schemas(&session).await;
    check(
        &session,
        &[
            ("BEGIN; SET LOCAL search_path = s1; SELECT a FROM t", "1"),
            ("COMMIT; SELECT a FROM t", "0"),
            ("BEGIN; SET LOCAL search_path = s1; SET LOCAL search_path = s2; SELECT a FROM t", "2"),
            ("ROLLBACK; SELECT a FROM t", "0"),
            // A later SET lasts.
            (
                "BEGIN; SET LOCAL search_path = s1; SET search_path = s2; COMMIT; SELECT a FROM t",
                "2",
            ),
            ("BEGIN; SET LOCAL threads = 1; SHOW threads", "threads 1"),
            ("COMMIT; SHOW threads", "threads 2"),
            (
                "BEGIN; SET LOCAL terrace.lock_timeout = '5s'; SHOW terrace.lock_timeout",
                "terrace.lock_timeout 5s",
            ),
            ("COMMIT; SHOW terrace.lock_timeout", "terrace.lock_timeout 0"),
        ],
    )
    .await;
    let text = error(&session, "SET LOCAL search_path = s1").await;
    assert!(text.contains("outside of a transaction") && text.contains("BEGIN"), "{text}");
}

#[tokio::test]
async fn prepared_statements_follow_the_path() {
    let session = engine(64 * MIB).session().expect("session");
    schemas(&session).await;
    show(&session, "PREPARE p AS SELECT a FROM t").await;
    let statement = session.parse("SELECT a FROM t").expect("parsed").remove(0);
    let prepared = session.prepare(statement, &[]).await.expect("prepared");
    show(&session, "SET search_path = nope, s2").await;
    let rows = session.execute_prepared(&prepared, vec![]).await.expect("started");
    let output = rows.collect().await.expect("rows");
    assert_eq!(crate::common::lines(&output.batches[0]), ["2"]);
}

#[tokio::test]
async fn roles_read_what_the_path_finds() {
    let engine = engine(64 * MIB);
    let owner = engine.session().expect("session");
    schemas(&owner).await;
    show(&owner, "CREATE VIEW s1.v AS SELECT 1 AS x").await;
    show(
        &owner,
        "CREATE ROLE chief SUPERUSER LOGIN PASSWORD 'a long password';
         CREATE ROLE ada LOGIN PASSWORD 'a long password'; GRANT USAGE ON SCHEMA s2 TO ada",
    )
    .await;
    show(&owner, "GRANT SELECT ON TABLE s2.only2 TO ada").await;
    let ada = engine.session_of("ada").expect("session");
    show(&ada, "SET search_path = s1, s2, terrace").await;
    assert_eq!(show(&ada, "SELECT b FROM only2").await, "22");
    for denied in ["SELECT * FROM v", "SELECT * FROM t", "SELECT * FROM tiers"] {
        let text = error(&ada, denied).await;
        assert!(text.contains("ada"), "{denied}: {text}");
    }
}
