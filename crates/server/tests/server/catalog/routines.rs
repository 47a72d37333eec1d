//! Functions and enums, as catalogs show them, and the codes of their errors.

use super::{ask_psql, shown};
use crate::common::{connect, has_psql, with_server};
use terrace_server::Limits;

const DEFINITIONS: &str = "
    CREATE SCHEMA other;
    CREATE FUNCTION inc(i int, by int DEFAULT 1) RETURNS int LANGUAGE SQL IMMUTABLE STRICT
        AS $$ SELECT i + by $$;
    CREATE FUNCTION other.firsts(n bigint) RETURNS SETOF bigint LANGUAGE SQL STABLE
        AS 'SELECT * FROM generate_series(1, n)';
    CREATE MACRO twice(x) AS x + x;
    CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
    CREATE TABLE people (id INT, m mood, n SERIAL);
    INSERT INTO people VALUES (1, 'happy'), (2, 'sad');
    COMMENT ON TYPE mood IS 'a mood'; COMMENT ON FUNCTION inc(int, int) IS 'adds';
    COMMENT ON SCHEMA public IS 'the schema';
";

/// Queries with their rows.
const QUERIES: &[(&str, &str)] = &[
    (
        "SELECT n.nspname, p.proname, p.pronargs, p.pronargdefaults, p.proisstrict, p.proretset, \
         p.provolatile, trim(p.prosrc) FROM pg_proc p JOIN pg_namespace n \
         ON n.oid = p.pronamespace WHERE p.prolang = 14 ORDER BY p.proname",
        "other|firsts|1|0|f|t|s|SELECT * FROM generate_series(1, n)\n\
         public|inc|2|1|t|f|i|SELECT i + by\npublic|twice|1|0|f|f|v|x + x",
    ),
    (
        "SELECT p.proname, t.typname, p.proargnames FROM pg_proc p JOIN pg_type t \
         ON t.oid = p.prorettype WHERE p.prolang = 14 ORDER BY p.proname",
        "firsts|int8|{n}\ninc|int4|{i,by}\ntwice|any|{x}",
    ),
    (
        "SELECT t.typname, t.typtype, t.typcategory, e.enumsortorder, e.enumlabel FROM pg_enum e \
         JOIN pg_type t ON t.oid = e.enumtypid ORDER BY e.enumsortorder",
        "mood|e|E|1|sad\nmood|e|E|2|ok\nmood|e|E|3|happy",
    ),
    (
        "SELECT routine_schema, routine_name, data_type, is_deterministic, external_language \
         FROM information_schema.routines ORDER BY routine_name",
        "other|firsts|bigint|NO|SQL\npublic|inc|integer|YES|SQL\npublic|twice|record|NO|SQL",
    ),
    ("SELECT 'mood'::regtype, format_type('mood'::regtype, -1)", "mood|mood"),
    ("SELECT typname FROM pg_type WHERE oid = 'public.mood'::regtype", "mood"),
    (
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attlen FROM pg_attribute a \
         WHERE a.attrelid = 'people'::regclass ORDER BY a.attnum",
        "id|integer|4\nm|mood|4\nn|integer|4",
    ),
    (
        "SELECT column_name, data_type, udt_schema, udt_name FROM information_schema.columns \
         WHERE table_name = 'people' AND column_name <> 'n' ORDER BY ordinal_position",
        "id|integer|pg_catalog|int4\nm|USER-DEFINED|public|mood",
    ),
    (
        "SELECT pg_get_function_identity_arguments(oid), pg_function_is_visible(oid), \
         obj_description(oid, 'pg_proc') FROM pg_proc WHERE proname = 'inc'",
        "i integer, by integer|t|adds",
    ),
    (
        "SELECT pg_function_is_visible(oid), pg_get_function_result(oid) FROM pg_proc \
         WHERE oid = 'other.firsts(bigint)'::regprocedure",
        "f|SETOF bigint",
    ),
    (
        "SELECT d.description FROM pg_description d JOIN pg_type t ON t.oid = d.objoid \
         WHERE d.classoid = 'pg_type'::regclass",
        "a mood",
    ),
    (
        "SELECT pg_get_functiondef('inc'::regproc)",
        "CREATE OR REPLACE FUNCTION public.inc(i integer, by integer DEFAULT 1)\n \
         RETURNS integer\n LANGUAGE sql\n IMMUTABLE STRICT\n\
         AS $function$ SELECT i + by $function$\n",
    ),
    ("SELECT inc(1), inc(1, by => 5), twice(4)", "2|6|8"),
    ("SELECT m FROM people ORDER BY m", "sad\nhappy"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn catalogs_show_functions_and_enums() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        client.batch_execute(DEFINITIONS).await.expect("defined");
        for (query, rows) in QUERIES {
            assert_eq!(shown(&client, query).await, *rows, "{query}");
        }
        let of_parameter = "SELECT id FROM people WHERE m > $1::text::mood ORDER BY id";
        let rows = client.query(of_parameter, &[&"sad"]).await.expect("rows");
        assert_eq!(rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [1]);
        for (text, code) in [
            ("SELECT inc()", "42883"),
            ("SELECT 'glad'::mood", "22P02"),
            ("INSERT INTO people VALUES (3, 'glad')", "22P02"),
            ("DROP TYPE mood", "2BP01"),
            ("CREATE FUNCTION f() RETURNS int LANGUAGE c AS 'f'", "0A000"),
            ("DROP FUNCTION nosuch", "42883"),
            ("DROP TYPE nosuch", "42704"),
            ("CREATE TYPE mood AS ENUM ('a')", "42710"),
            ("CREATE FUNCTION inc(a int, b int) RETURNS int RETURN a", "42723"),
        ] {
            let error = client.batch_execute(text).await.expect_err("it fails");
            assert_eq!(error.code().map(|code| code.code()), Some(code), "{text}: {error:?}");
        }
    })
    .await;
}

/// Statements of psql with their rows. The owner is the role of the connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn psql_lists_functions_and_types() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        client.batch_execute(DEFINITIONS).await.expect("defined");
        let owner = shown(&client, "SELECT current_user").await;
        let recorded = include_str!("psql_definitions.txt").split("\n--- ").skip(1);
        for part in recorded {
            let (text, wanted) = part.split_once("\n-->").expect("rows");
            let (command, query) = text.split_once('\n').expect("a statement");
            let wanted = wanted.trim().replace("{owner}", &owner).replace("\\n", "\n");
            assert_eq!(shown(&client, query).await, wanted, "{command}");
        }
        if !has_psql() {
            return;
        }
        let people = "id|integer|||\nm|mood|||\n\
                      n|integer||not null|nextval('public.people_n_seq')";
        assert_eq!(ask_psql(address, "\\d people").await, people);
        let source = ask_psql(address, "\\sf twice").await;
        assert_eq!(source, "CREATE MACRO public.twice(x) AS x + x");
        assert!(ask_psql(address, "\\sf inc").await.starts_with("CREATE OR REPLACE FUNCTION"));
        assert_eq!(ask_psql(address, "\\dT mood").await, "public|mood|a mood");
        assert!(ask_psql(address, "\\ds+").await.starts_with("public|people_n_seq|sequence|"));
    })
    .await;
}

/// The parts of an error about dependents, which clients show beside it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_drops_have_a_detail_and_a_hint() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        client.batch_execute(DEFINITIONS).await.expect("defined");
        let views = "CREATE VIEW v AS SELECT inc(id) AS i FROM people; \
                     CREATE VIEW w AS SELECT i FROM v";
        client.batch_execute(views).await.expect("views");
        let error = client.batch_execute("DROP TABLE people").await.expect_err("views use it");
        let error = error.as_db_error().expect("an error of the server");
        assert_eq!(error.code().code(), "2BP01");
        assert_eq!(error.message(), "cannot drop table people because other objects depend on it");
        let detail = "view v depends on table people\nview w depends on view v";
        assert_eq!(error.detail(), Some(detail));
        let hint = "Use DROP ... CASCADE to drop the dependent objects too.";
        assert_eq!(error.hint(), Some(hint));
        let overloads = "CREATE FUNCTION inc(i int, j int, k int) RETURNS int RETURN i";
        client.batch_execute(overloads).await.expect("defined");
        let error = client.batch_execute("DROP FUNCTION inc").await.expect_err("there are two");
        assert_eq!(error.code().map(|code| code.code()), Some("42725"));
        client.batch_execute("DROP TABLE people CASCADE").await.expect("dropped");
        assert_eq!(shown(&client, "SELECT count(*) FROM pg_views WHERE viewname = 'v'").await, "0");
    })
    .await;
}
