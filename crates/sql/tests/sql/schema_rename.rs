//! ALTER SCHEMA RENAME, with the answers of PostgreSQL 15.

use std::sync::Arc;

use terrace_sql::Session;

use crate::common::{MIB, check, engine, engine_in, error, show};

const DRAM: u64 = 64 * MIB;

/// A schema with objects of every kind that name each other, and others outside that name them.
async fn schema(session: &Session) {
    let text = "CREATE SCHEMA s;
        CREATE TYPE s.mood AS ENUM ('sad', 'ok', 'happy');
        CREATE SEQUENCE s.q;
        CREATE TABLE s.t (id INT DEFAULT nextval('s.q'), m s.mood DEFAULT 'ok',
            CHECK (m <> 'sad'::s.mood));
        COMMENT ON TABLE s.t IS 'rows';
        INSERT INTO s.t (m) VALUES ('happy'), ('ok');
        CREATE FUNCTION s.twice(a INT) RETURNS INT LANGUAGE sql RETURN a * 2;
        CREATE FUNCTION s.total() RETURNS BIGINT LANGUAGE sql RETURN (SELECT count(*) FROM s.t);
        CREATE VIEW s.v AS SELECT s.t.id, s.twice(t.id) AS d, m FROM s.t WHERE m > 'sad'::s.mood;
        COMMENT ON VIEW s.v IS 'of t';
        CREATE VIEW public.v AS SELECT * FROM s.v;
        CREATE TABLE public.o (m s.mood);
        INSERT INTO public.o VALUES ('sad');
        SET search_path = s, public;
        CREATE VIEW by_path AS SELECT id FROM t;
        RESET search_path";
    show(session, text).await;
}

/// The answers behind the rename.
const ANSWERS: &[(&str, &str)] = &[
    ("SELECT id, d, m FROM r.v ORDER BY id", "1 2 happy\n2 4 ok"),
    ("SELECT id, d, m FROM public.v ORDER BY id", "1 2 happy\n2 4 ok"),
    ("SELECT id FROM r.by_path ORDER BY id", "1\n2"),
    ("INSERT INTO r.t DEFAULT VALUES; SELECT id, m FROM r.t ORDER BY id", "1 happy\n2 ok\n3 ok"),
    ("SELECT r.total(), r.twice(4)", "3 8"),
    ("SELECT m FROM public.o WHERE m < 'ok'", "sad"),
    ("SELECT nextval('r.q')", "4"),
    ("SELECT count(*) FROM information_schema.schemata WHERE schema_name = 's'", "0"),
    (
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'r' ORDER BY 1",
        "by_path\nt\nv",
    ),
];

#[tokio::test]
async fn definitions_get_the_new_name() {
    let session = engine(DRAM).session().expect("session");
    schema(&session).await;
    show(&session, "ALTER SCHEMA s RENAME TO r").await;
    check(&session, ANSWERS).await;
    let names = session.names();
    assert_eq!(names.comment("r", Some("t")).as_deref(), Some("rows"));
    assert_eq!(names.comment("r", Some("v")).as_deref(), Some("of t"));
    for (text, reason) in [
        ("SELECT * FROM s.t", "s.t"),
        ("INSERT INTO r.t (m) VALUES ('sad')", "violates check constraint"),
        ("INSERT INTO r.t (m) VALUES ('glad')", "invalid input value for enum mood"),
        ("DROP TABLE r.t", "view"),
        ("DROP TYPE r.mood", "column m of table"),
    ] {
        let found = error(&session, text).await;
        assert!(found.contains(reason), "{text}: {found}");
    }
    show(&session, "CREATE SCHEMA s; CREATE TABLE s.t (id TEXT); DROP SCHEMA s CASCADE").await;
    show(&session, "DROP VIEW public.v; DROP TABLE public.o; DROP SCHEMA r CASCADE").await;
}

#[tokio::test]
async fn a_transaction_takes_the_rename_back() {
    let engine = Arc::new(engine(DRAM));
    let session = engine.session().expect("session");
    schema(&session).await;
    show(&session, "BEGIN; INSERT INTO s.t (m) VALUES ('ok'); ALTER SCHEMA s RENAME TO r").await;
    check(&session, &[("SELECT count(*), max(id) FROM r.v", "3 3")]).await;
    let other = engine.session().expect("session");
    check(&other, &[("SELECT count(*) FROM s.v", "2")]).await;
    show(&session, "ROLLBACK").await;
    check(&session, &[("SELECT count(*) FROM s.v", "2")]).await;
    show(&session, "BEGIN; ALTER SCHEMA s RENAME TO r; ALTER SCHEMA r RENAME TO u; COMMIT").await;
    check(&other, &[("SELECT count(*) FROM u.v", "2"), ("SELECT u.twice(2)", "4")]).await;
}

#[tokio::test]
async fn the_new_name_is_durable() {
    let directory = tempfile::tempdir().expect("directory");
    {
        let session = engine_in(directory.path(), DRAM).session().expect("session");
        schema(&session).await;
        show(&session, "CREATE ROLE admin SUPERUSER LOGIN PASSWORD 'secret'").await;
        show(&session, "CREATE ROLE ada; GRANT SELECT ON s.t, s.v TO ada").await;
        show(&session, "GRANT USAGE ON SCHEMA s TO ada; ALTER SCHEMA s RENAME TO r").await;
    }
    let session = engine_in(directory.path(), DRAM).session().expect("session");
    show(&session, "SET ROLE ada").await;
    check(&session, &[("SELECT count(*) FROM r.t", "2"), ("SELECT count(*) FROM r.v", "2")]).await;
    let found = error(&session, "ALTER SCHEMA r RENAME TO u").await;
    assert!(found.contains("superuser"), "{found}");
    show(&session, "RESET ROLE").await;
    check(&session, &ANSWERS[..3]).await;
}

#[tokio::test]
async fn names_that_are_not_possible_are_refused() {
    let session = engine(DRAM).session().expect("session");
    schema(&session).await;
    for (text, reason) in [
        ("ALTER SCHEMA nosuch RENAME TO r", "nosuch"),
        ("ALTER SCHEMA s RENAME TO public", "public"),
        ("ALTER SCHEMA s RENAME TO pg_r", "pg_"),
        ("ALTER SCHEMA terrace RENAME TO r", "terrace"),
        ("ALTER SCHEMA s RENAME TO a.b.c", "one part"),
    ] {
        let found = error(&session, text).await;
        assert!(found.contains(reason), "{text}: {found}");
    }
    // A field of a column, or a column of a table of the schema.
    show(&session, "CREATE VIEW w AS SELECT s.t.m FROM (SELECT {'m': 1} AS t) AS s").await;
    let found = error(&session, "ALTER SCHEMA s RENAME TO r").await;
    let reason = "cannot rename schema s because view public.w depends on it";
    assert!(found.contains(reason), "{found}");
    show(&session, "DROP VIEW w; ALTER SCHEMA IF EXISTS nosuch RENAME TO r").await;
    show(&session, "ALTER SCHEMA s RENAME TO \"New One\"").await;
    check(&session, &[("SELECT count(*) FROM \"New One\".v", "2")]).await;
}
