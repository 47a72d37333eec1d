//! Functions and enums, as catalogs show them, and the codes of their errors.

use super::shown;
use crate::common::{connect, with_server};
use terrace_server::Limits;

const DEFINITIONS: &str = "
    CREATE SCHEMA other;
    CREATE FUNCTION inc(i int, by int DEFAULT 1) RETURNS int LANGUAGE SQL IMMUTABLE STRICT
        AS $$ SELECT i + by $$;
    CREATE FUNCTION other.firsts(n bigint) RETURNS SETOF bigint LANGUAGE SQL STABLE
        AS 'SELECT * FROM generate_series(1, n)';
    CREATE MACRO twice(x) AS x + x;
    CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
    CREATE TABLE people (id INT, m mood);
    INSERT INTO people VALUES (1, 'happy'), (2, 'sad');
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
        ] {
            let error = client.batch_execute(text).await.expect_err("it fails");
            assert_eq!(error.code().map(|code| code.code()), Some(code), "{text}: {error:?}");
        }
    })
    .await;
}
