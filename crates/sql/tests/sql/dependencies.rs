//! DROP of objects that others depend on, as PostgreSQL 15 refuses it; and names, owners and
//! comments of views, functions and types.

use terrace_sql::{Engine, Session, SqlError};

use crate::common::{MIB, check, engine, engine_in, error, show, try_show};

const DRAM: u64 = 64 * MIB;

const DEFINITIONS: &str = "CREATE SCHEMA s;
    CREATE TYPE mood AS ENUM ('sad', 'ok');
    CREATE SEQUENCE numbers;
    CREATE TABLE t (a INT, b INT, m mood, n INT DEFAULT nextval('numbers'));
    CREATE TABLE g (a INT, twice INT GENERATED ALWAYS AS (a * 2) STORED);
    CREATE FUNCTION inc(i INT) RETURNS INT LANGUAGE SQL AS 'SELECT i + 1';
    CREATE FUNCTION twice(i INT) RETURNS INT RETURN inc(inc(i));
    CREATE FUNCTION of_mood(x mood) RETURNS TEXT LANGUAGE SQL AS 'SELECT x::TEXT';
    CREATE VIEW v AS SELECT a, inc(b) AS c FROM t;
    CREATE VIEW s.w AS SELECT a FROM v;
    CREATE VIEW taken AS SELECT nextval('numbers') AS n;
    CREATE VIEW every AS SELECT * FROM s.w";

async fn defined() -> (Engine, Session) {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, DEFINITIONS).await;
    (engine, session)
}

/// The names of the objects that a statement would leave without what they depend on.
async fn details(session: &Session, text: &str) -> (String, Vec<String>) {
    match try_show(session, text).await {
        Err(SqlError::Dependents { what, details }) => (what, details),
        Err(error) => panic!("{text}: {error}"),
        Ok(_) => panic!("{text} should fail"),
    }
}

/// Statements, their errors, and the objects that these list.
const REFUSED_DROPS: &[(&str, &str, &[&str])] = &[
    (
        "DROP TABLE t",
        "drop table t because other objects depend on it",
        &[
            "view v depends on table t",
            "view s.w depends on view v",
            "view every depends on view s.w",
        ],
    ),
    (
        "DROP VIEW v RESTRICT",
        "drop view v because other objects depend on it",
        &["view s.w depends on view v", "view every depends on view s.w"],
    ),
    (
        "DROP TABLE t, g",
        "drop desired object(s) because other objects depend on them",
        &[
            "view v depends on table t",
            "view s.w depends on view v",
            "view every depends on view s.w",
        ],
    ),
    (
        "DROP TYPE mood",
        "drop type mood because other objects depend on it",
        &[
            "function of_mood(x mood) depends on type mood",
            "column m of table t depends on type mood",
        ],
    ),
    (
        "DROP SEQUENCE numbers",
        "drop sequence numbers because other objects depend on it",
        &[
            "view taken depends on sequence numbers",
            "default value for column n of table t depends on sequence numbers",
        ],
    ),
    (
        "DROP FUNCTION inc(INT)",
        "drop function inc(i INT) because other objects depend on it",
        &[
            "view v depends on function inc(i INT)",
            "function twice(i INT) depends on function inc(i INT)",
            "view s.w depends on view v",
            "view every depends on view s.w",
        ],
    ),
    (
        "ALTER TABLE t DROP COLUMN b",
        "drop column b of table t because other objects depend on it",
        &[
            "view v depends on column b of table t",
            "view s.w depends on view v",
            "view every depends on view s.w",
        ],
    ),
    (
        "ALTER TABLE g DROP COLUMN a",
        "drop column a of table g because other objects depend on it",
        &["column twice of table g depends on column a of table g"],
    ),
];

#[tokio::test]
async fn objects_that_others_depend_on_are_not_dropped() {
    let (_engine, session) = defined().await;
    for (text, what, expected) in REFUSED_DROPS {
        let (found, mut all) = details(&session, text).await;
        let mut expected = expected.to_vec();
        all.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, *what, "{text}");
        assert_eq!(all, expected, "{text}");
    }
    check(&session, &[("SELECT count(*) FROM every", "0")]).await;
    let text = error(&session, "DROP TABLE t").await;
    assert!(text.ends_with("drop them first, or say CASCADE"), "{text}");
    // An object without dependents, and one that is dropped together with its dependents.
    show(&session, "DROP VIEW every; DROP VIEW s.w, v; DROP FUNCTION twice").await;
    show(&session, "DROP FUNCTION inc; DROP VIEW taken; DROP TABLE t; DROP SEQUENCE numbers").await;
    show(&session, "DROP FUNCTION of_mood(mood); DROP TYPE mood").await;
}

#[tokio::test]
async fn cascade_drops_the_dependents() {
    let views = "SELECT table_name FROM information_schema.tables \
                 WHERE table_type = 'VIEW' AND table_schema IN ('public', 's') ORDER BY 1";
    for (text, left) in [
        ("DROP TABLE t CASCADE", "taken"),
        ("DROP VIEW s.w CASCADE", "taken\nv"),
        ("DROP FUNCTION inc CASCADE", "taken"),
        ("DROP SCHEMA s CASCADE", "taken\nv"),
        ("ALTER TABLE t DROP COLUMN b CASCADE", "taken"),
        ("BEGIN; DROP VIEW v CASCADE; ROLLBACK", "every\ntaken\nv\nw"),
    ] {
        let (_engine, session) = defined().await;
        show(&session, text).await;
        check(&session, &[(views, left)]).await;
    }
    let (_engine, session) = defined().await;
    show(&session, "DROP FUNCTION inc CASCADE").await;
    error(&session, "SELECT twice(1)").await;
    show(&session, "ALTER TABLE g DROP COLUMN a CASCADE, ADD COLUMN z INT").await;
    let columns = "SELECT column_name FROM information_schema.columns WHERE table_name = 'g'";
    check(&session, &[(columns, "z")]).await;
    // Parts of one table are dropped, too; those of several are not.
    show(&session, "INSERT INTO t (a, m) VALUES (1, 'ok'); CREATE TABLE other (m mood)").await;
    for (text, part) in [
        ("DROP TYPE mood CASCADE", "column m of table public."),
        (
            "CREATE TABLE r (id INT GENERATED ALWAYS AS IDENTITY); DROP SEQUENCE r_id_seq CASCADE",
            "column id of table public.r",
        ),
    ] {
        let found = error(&session, text).await;
        assert!(found.contains(part), "{text}: {found}");
    }
    show(&session, "DROP TABLE other; CREATE VIEW moods AS SELECT m FROM t").await;
    show(&session, "DROP TYPE mood CASCADE; DROP SEQUENCE numbers CASCADE").await;
    error(&session, "SELECT of_mood(NULL)").await;
    let rest = "INSERT INTO t (a) VALUES (7); SELECT a, b, n FROM t ORDER BY a";
    check(&session, &[(views, ""), (rest, "1  1\n7  ")]).await;
    error(&session, "SELECT m FROM t").await;
}

/// A table that replaces another keeps its views, and a view that names another object of the same
/// name is no dependent.
#[tokio::test]
async fn names_are_those_of_the_views_path() {
    let (_engine, session) = defined().await;
    show(&session, "CREATE OR REPLACE TABLE t AS SELECT 1 AS a, 2 AS b").await;
    check(&session, &[("SELECT a, c FROM v", "1 3")]).await;
    show(&session, "CREATE TABLE s.t (x INT); CREATE TABLE x (t INT); CREATE TABLE \"T\" (a INT)")
        .await;
    show(&session, "CREATE VIEW s.y AS WITH x AS (SELECT 1 AS t) SELECT t FROM x").await;
    show(&session, "CREATE VIEW s.z AS SELECT \"a\" FROM \"T\"").await;
    show(&session, "DROP TABLE s.t; DROP TABLE x").await;
    let (_, all) = details(&session, "DROP TABLE \"T\"").await;
    assert_eq!(all, ["view s.z depends on table T"]);
    show(
        &session,
        "SET search_path = s; CREATE TABLE t (a INT); CREATE VIEW own AS SELECT a FROM t",
    )
    .await;
    let (_, all) = details(&session, "DROP TABLE t").await;
    assert_eq!(all, ["view own depends on table t"]);
}

#[tokio::test]
async fn views_and_prepared_statements_see_a_replaced_function() {
    let (engine, session) = defined().await;
    show(&session, "INSERT INTO t VALUES (1, 10, 'ok', 0)").await;
    show(&session, "CREATE MACRO outer_of(x) AS inc(x) * 2").await;
    show(&session, "CREATE VIEW o AS SELECT outer_of(b) AS d, * FROM t").await;
    show(&session, "CREATE MACRO pairs(x) AS TABLE SELECT x AS p, x + 1 AS q").await;
    show(&session, "CREATE VIEW r AS SELECT * FROM pairs(1)").await;
    let mut known = Vec::new();
    for text in ["SELECT inc(1) AS x", "SELECT inc(a) AS x FROM t", "SELECT c FROM v"] {
        let statement = session.parse(text).expect("parsed").pop().expect("one");
        known.push(session.prepare(statement, &[]).await.expect("prepared"));
    }
    check(
        &session,
        &[("SELECT c FROM every, v; SELECT d FROM o", "22"), ("SELECT * FROM r", "1 2")],
    )
    .await;
    let replaced = "CREATE OR REPLACE FUNCTION inc(i INT) RETURNS INT LANGUAGE SQL \
                    AS 'SELECT i + 100'";
    show(&session, replaced).await;
    check(&session, &[("SELECT c FROM v", "110"), ("SELECT d FROM o", "220")]).await;
    for (prepared, answer) in known.iter().zip([101, 101, 110]) {
        assert!(session.known_rows(prepared).expect("begun").is_none());
        let handle = session.execute_prepared(prepared, vec![]).await.expect("started");
        let output = handle.collect().await.expect("rows");
        let lines: Vec<_> = output.batches.iter().flat_map(crate::common::lines).collect();
        assert_eq!(lines, [answer.to_string()]);
    }
    // The view keeps its columns.
    let replaced = "CREATE OR REPLACE MACRO pairs(x) AS TABLE SELECT 0 AS n, x + 5 AS q, x AS p";
    show(&session, replaced).await;
    check(&session, &[("SELECT * FROM r", "1 6")]).await;
    let text = error(&session, "CREATE OR REPLACE MACRO pairs(x) AS TABLE SELECT x AS p").await;
    assert!(text.contains("view public.r loses column q"), "{text}");
    check(&session, &[("SELECT * FROM r", "1 6"), ("SELECT q FROM pairs(2)", "7")]).await;
    // In a transaction, and after it.
    show(&session, "BEGIN; CREATE OR REPLACE FUNCTION inc(i INT) RETURNS INT RETURN i").await;
    check(&session, &[("SELECT c FROM v", "10")]).await;
    let other = engine.session().expect("session");
    check(&other, &[("SELECT c FROM v", "110")]).await;
    show(&session, "ROLLBACK").await;
    check(&session, &[("SELECT c FROM v", "110")]).await;
}

#[tokio::test]
async fn a_function_is_not_replaced_under_the_view_of_another_role() {
    let (engine, session) = defined().await;
    let made = "CREATE ROLE boss SUPERUSER LOGIN PASSWORD 'boss';
        CREATE ROLE ada LOGIN; GRANT CREATE ON SCHEMA public TO ada;
        CREATE TABLE secrets (x INT); INSERT INTO secrets VALUES (42)";
    show(&session, made).await;
    let ada = engine.session_of("ada").expect("session");
    show(&ada, "CREATE FUNCTION mine() RETURNS INT LANGUAGE SQL AS 'SELECT 1'").await;
    show(&session, "CREATE VIEW of_owner AS SELECT mine() AS x; GRANT SELECT ON of_owner TO ada")
        .await;
    let replaced = "CREATE OR REPLACE FUNCTION mine() RETURNS INT LANGUAGE SQL \
                    AS 'SELECT max(x) FROM secrets'";
    error(&ada, replaced).await;
    check(&ada, &[("SELECT x FROM of_owner", "1")]).await;
    show(&session, replaced).await;
    check(&ada, &[("SELECT x FROM of_owner", "42")]).await;
}

#[tokio::test]
async fn views_functions_and_types_are_renamed_and_moved() {
    let directory = tempfile::tempdir().expect("directory");
    {
        let engine = engine_in(directory.path(), DRAM);
        let session = engine.session().expect("session");
        show(&session, "CREATE SCHEMA s; CREATE TABLE t (a INT); INSERT INTO t VALUES (1)").await;
        show(&session, "CREATE FUNCTION inc(i INT) RETURNS INT RETURN i + 1").await;
        show(&session, "CREATE ROLE boss SUPERUSER LOGIN PASSWORD 'boss'; CREATE ROLE ada").await;
        show(&session, "CREATE TYPE mood AS ENUM ('sad', 'ok')").await;
        show(&session, "CREATE VIEW v AS SELECT inc(a) AS a FROM t").await;
        show(&session, "COMMENT ON VIEW v IS 'of v'; GRANT SELECT ON v TO ada").await;
        show(&session, "ALTER VIEW v RENAME TO \"W w\"; ALTER VIEW \"W w\" SET SCHEMA s").await;
        check(&session, &[("SELECT a FROM s.\"W w\"", "2")]).await;
        let text = error(&session, "ALTER FUNCTION inc RENAME TO next").await;
        assert!(text.contains("view s.W w depends on it"), "{text}");
        show(&session, "CREATE OR REPLACE FUNCTION inc(i INT) RETURNS INT RETURN i + 2").await;
        check(&session, &[("SELECT a FROM s.\"W w\"", "3")]).await;
        for (text, part) in [
            ("ALTER VIEW v RENAME TO x", "public.v does not exist"),
            ("ALTER VIEW t RENAME TO x", "which is none"),
            ("ALTER VIEW s.\"W w\" RENAME TO pg_x", "prefix pg_"),
            ("ALTER VIEW s.\"W w\" SET SCHEMA nosuch", "schema nosuch does not exist"),
            ("ALTER VIEW s.\"W w\" OWNER TO absent", "role absent does not exist"),
            ("ALTER FUNCTION nosuch RENAME TO x", "nosuch"),
            ("ALTER TYPE mood RENAME TO int", "built in"),
            ("ALTER TYPE mood SET SCHEMA pg_catalog", "pg_catalog"),
            ("ALTER FUNCTION inc SET SCHEMA nosuch", "view s.W w depends on it"),
        ] {
            let found = error(&session, text).await;
            assert!(found.contains(part), "{text}: {found}");
        }
        show(&session, "ALTER VIEW IF EXISTS nosuch RENAME TO x").await;
        show(&session, "ALTER VIEW s.\"W w\" OWNER TO ada").await;
        show(&session, "DROP VIEW s.\"W w\"; ALTER FUNCTION inc(INT) RENAME TO \"Next\"").await;
        show(&session, "ALTER FUNCTION \"Next\" SET SCHEMA s").await;
        show(&session, "ALTER FUNCTION s.\"Next\" OWNER TO ada").await;
        show(&session, "ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'").await;
        show(&session, "ALTER TYPE mood RENAME TO e").await;
        show(&session, "ALTER TYPE e SET SCHEMA s; ALTER TYPE s.e OWNER TO ada").await;
        show(&session, "COMMENT ON FUNCTION s.\"Next\"(INT) IS 'the next'").await;
        show(&session, "COMMENT ON TYPE s.e IS 'moods'; COMMENT ON TYPE s.e IS NULL").await;
        error(&session, "COMMENT ON FUNCTION nosuch IS 'x'").await;
        error(&session, "COMMENT ON TYPE nosuch IS 'x'").await;
        drop(session);
        engine.close().expect("closed");
    }
    let engine = engine_in(directory.path(), DRAM);
    let session = engine.session().expect("session");
    let cases = [("SELECT s.\"Next\"(1)", "3"), ("SELECT 'fine'::s.e > 'sad'", "true")];
    check(&session, &cases).await;
    error(&session, "SELECT inc(1)").await;
    let (routines, enums) = (session.names().routines(), session.names().enums());
    let routines = routines.iter().map(|it| (it.name.as_str(), &it.comment, &it.owner));
    let enums = enums.iter().map(|it| (it.name.as_str(), &it.comment, &it.owner));
    let (comment, ada) = (Some("the next".to_owned()), Some("ada".to_owned()));
    let all: Vec<_> = routines.chain(enums).collect();
    assert_eq!(all, [("Next", &comment, &ada), ("e", &None, &ada)]);
}

#[tokio::test]
async fn temporary_sequences_end_with_their_session() {
    let engine = engine(DRAM);
    let (session, other) = (engine.session().expect("session"), engine.session().expect("session"));
    show(&session, "CREATE SEQUENCE s START 100; CREATE TEMP SEQUENCE s START 5").await;
    let cases = [
        ("SELECT nextval('s')", "5"),
        ("SELECT currval('s'), lastval()", "5 5"),
        ("SELECT nextval('pg_temp.s')", "6"),
        ("SELECT nextval('public.s')", "100"),
        (
            "CREATE TEMP TABLE t (id SERIAL, a INT); INSERT INTO t (a) VALUES (7); SELECT * FROM t",
            "1 7",
        ),
        ("SELECT currval('t_id_seq')", "1"),
    ];
    check(&session, &cases).await;
    show(&session, "CREATE TEMP TABLE u (n BIGINT DEFAULT nextval('s'))").await;
    show(&session, "INSERT INTO u DEFAULT VALUES").await;
    check(&session, &[("SELECT n FROM u", "7")]).await;
    check(&other, &[("SELECT nextval('s')", "101")]).await;
    for (text, part) in [
        ("CREATE TABLE p (n BIGINT DEFAULT nextval('s'))", "temporary sequence s"),
        ("CREATE VIEW p AS SELECT nextval('s') AS n", "temporary sequence s"),
    ] {
        let found = error(&session, text).await;
        assert!(found.contains(part), "{text}: {found}");
    }
    show(&session, "CREATE TEMP SEQUENCE IF NOT EXISTS s; ALTER SEQUENCE s RESTART").await;
    check(&session, &[("SELECT nextval('s')", "5")]).await;
    let (_, all) = details(&session, "DROP SEQUENCE s").await;
    assert_eq!(all, ["default value for column n of table u depends on sequence s"]);
    show(&session, "DROP TABLE u; DROP SEQUENCE s").await;
    check(&session, &[("SELECT nextval('s')", "102")]).await;
}

/// Names that an object of the database cannot have.
#[tokio::test]
async fn names_that_are_taken_are_refused() {
    let (_engine, session) = defined().await;
    for (text, part) in [
        ("CREATE TABLE pg_x (a INT)", "prefix pg_"),
        ("CREATE VIEW pg_x AS SELECT 1 AS a", "prefix pg_"),
        ("CREATE SEQUENCE pg_x", "prefix pg_"),
        ("CREATE SCHEMA pg_x", "prefix pg_"),
        ("CREATE SCHEMA pg_temp_1", "pg_temp"),
        ("CREATE SCHEMA information_schema", "information_schema"),
        ("CREATE SCHEMA s", "already exists"),
        ("CREATE TYPE int AS ENUM ('a')", "built in"),
        ("CREATE TYPE mood AS ENUM ('a')", "already exists"),
        ("CREATE TYPE pg_catalog.x AS ENUM ('a')", "pg_catalog"),
        ("CREATE FUNCTION abs(i INT) RETURNS INT RETURN i", "built in"),
        ("CREATE FUNCTION inc(j INT) RETURNS INT RETURN j", "already exists"),
        ("CREATE FUNCTION terrace.x() RETURNS INT RETURN 1", "terrace"),
        ("CREATE SEQUENCE t", "already exists"),
        ("CREATE VIEW numbers AS SELECT 1 AS a", "already exists"),
        ("ALTER TABLE g RENAME TO pg_t", "prefix pg_"),
    ] {
        let found = error(&session, text).await;
        assert!(found.contains(part), "{text}: {found}");
    }
}
