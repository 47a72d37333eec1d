//! Comments on objects.

use terrace_sql::{Engine, Session};

use crate::common::{MIB, engine, engine_in, error, show};

const DRAM: u64 = 64 * MIB;

/// The comments on a schema, or on an object of the schema `public` and on a column of it.
fn comment(session: &Session, object: Option<&str>, column: Option<&str>) -> Option<String> {
    let names = session.names();
    match (object, column) {
        (Some(object), Some(column)) => names.column_comment("public", object, column),
        (object, _) => names.comment("public", object),
    }
}

fn begin(engine: &Engine) -> Session {
    engine.session().expect("session")
}

#[tokio::test]
async fn comments_are_set_and_removed() {
    let engine = engine(DRAM);
    let session = begin(&engine);
    let made = "CREATE TABLE t (a INT, \"B c\" INT); CREATE VIEW v AS SELECT a FROM t;
        CREATE SEQUENCE s; INSERT INTO t VALUES (1, 2);
        COMMENT ON TABLE t IS 'it''s a table'; COMMENT ON COLUMN t.\"B c\" IS 'second';
        COMMENT ON VIEW v IS 'a view'; COMMENT ON COLUMN public.v.a IS 'first';
        COMMENT ON SEQUENCE s IS $$numbers$$; COMMENT ON SCHEMA public IS 'the schema'";
    show(&session, made).await;
    for (object, column, text) in [
        (Some("t"), None, "it's a table"),
        (Some("t"), Some("B c"), "second"),
        (Some("v"), None, "a view"),
        (Some("v"), Some("a"), "first"),
        (Some("s"), None, "numbers"),
        (None, None, "the schema"),
    ] {
        let found = comment(&session, object, column);
        assert_eq!(found.as_deref(), Some(text), "{object:?} {column:?}");
    }
    assert_eq!(show(&session, "SELECT a FROM t").await, "1");
    let changed = "ALTER TABLE t RENAME COLUMN \"B c\" TO b; ALTER TABLE t ADD COLUMN d INT;
        CREATE OR REPLACE VIEW v AS SELECT 1 AS a; ALTER SEQUENCE s RENAME TO r;
        COMMENT ON TABLE t IS NULL; COMMENT ON COLUMN v.a IS ''";
    show(&session, changed).await;
    assert_eq!(comment(&session, Some("t"), None), None);
    assert_eq!(comment(&session, Some("t"), Some("b")).as_deref(), Some("second"));
    assert_eq!(comment(&session, Some("v"), None).as_deref(), Some("a view"));
    assert_eq!(comment(&session, Some("v"), Some("a")), None);
    assert_eq!(comment(&session, Some("r"), None).as_deref(), Some("numbers"));
    show(&session, "DROP VIEW v; CREATE VIEW v AS SELECT 1 AS a").await;
    assert_eq!(comment(&session, Some("v"), None), None);
}

#[tokio::test]
async fn comments_belong_to_their_transaction() {
    let engine = engine(DRAM);
    let (session, other) = (begin(&engine), begin(&engine));
    show(&session, "CREATE TABLE t (a INT); CREATE VIEW v AS SELECT 1").await;
    show(&session, "BEGIN; COMMENT ON TABLE t IS 'x'; COMMENT ON VIEW v IS 'y'").await;
    assert_eq!(comment(&session, Some("t"), None).as_deref(), Some("x"));
    assert_eq!(comment(&other, Some("t"), None), None);
    assert_eq!(comment(&other, Some("v"), None), None);
    show(&session, "ROLLBACK").await;
    assert_eq!(comment(&session, Some("t"), None), None);
    assert_eq!(comment(&session, Some("v"), None), None);
}

#[tokio::test]
async fn comments_on_missing_objects_are_refused() {
    let engine = engine(DRAM);
    let session = begin(&engine);
    let made = "CREATE TABLE t (a INT); CREATE VIEW v AS SELECT 1 AS a;
        CREATE ROLE boss SUPERUSER LOGIN PASSWORD 'boss';
        CREATE ROLE ada LOGIN;
        GRANT SELECT ON t TO ada";
    show(&session, made).await;
    for (text, cause) in [
        ("COMMENT ON TABLE nothing IS 'x'", "public.nothing does not exist"),
        ("COMMENT ON TABLE v IS 'x'", "COMMENT ON TABLE public.v, which is none"),
        ("COMMENT ON COLUMN t.z IS 'x'", "column \"z\" of relation \"t\" does not exist"),
        ("COMMENT ON COLUMN v.z IS 'x'", "column \"z\" of relation \"v\" does not exist"),
        ("COMMENT ON COLUMN t IS 'x'", "name its table too"),
        ("COMMENT ON SCHEMA nothing IS 'x'", "schema nothing does not exist"),
        ("COMMENT ON TABLE t IS x", "a text in quotes, or NULL"),
        ("COMMENT ON INDEX t IS 'x'", "SCHEMA, TYPE, FUNCTION or MACRO, found: INDEX"),
    ] {
        let found = error(&session, text).await;
        assert!(found.contains(cause), "{text}: {found}");
    }
    let ada = engine.session_of("ada").expect("session");
    let found = error(&ada, "COMMENT ON TABLE t IS 'x'").await;
    assert!(found.contains("takes the owner"), "{found}");
}

#[tokio::test]
async fn comments_survive_a_restart() {
    let directory = tempfile::tempdir().expect("directory");
    {
        let engine = engine_in(directory.path(), DRAM);
        let session = begin(&engine);
        let made = "CREATE TABLE t (a INT); CREATE VIEW v AS SELECT 1 AS a;
            COMMENT ON TABLE t IS 'x'; COMMENT ON COLUMN t.a IS 'y'; COMMENT ON VIEW v IS 'z';
            COMMENT ON COLUMN v.a IS 'w'; COMMENT ON SCHEMA public IS 'p'";
        show(&session, made).await;
        drop(session);
        engine.close().expect("closed");
    }
    let engine = engine_in(directory.path(), DRAM);
    let session = begin(&engine);
    for (object, column, text) in [
        (Some("t"), None, "x"),
        (Some("t"), Some("a"), "y"),
        (Some("v"), None, "z"),
        (Some("v"), Some("a"), "w"),
        (None, None, "p"),
    ] {
        assert_eq!(comment(&session, object, column).as_deref(), Some(text));
    }
}
