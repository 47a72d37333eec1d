//! Catalog queries of clients: psql's commands, and recorded queries of drivers (`catalog/`).

mod definitions;
mod forms;
mod routines;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::common::{connect, has_psql, psql, with_server};
use terrace_server::Limits;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, SimpleQueryMessage};

/// Definitions of the database that the clients look up.
const DEFINITIONS: &str = "
    CREATE TABLE t (k BIGINT NOT NULL, s TEXT, d DECIMAL(9,2), b BOOLEAN, ts TIMESTAMPTZ,
                    x DOUBLE, a INT[]);
    INSERT INTO t VALUES (1, 'a', 1.5, true, '2024-01-01 00:00:00+00', 2.5, [1, 2]);
    CREATE VIEW v AS SELECT k, s FROM t;
    CREATE SCHEMA other;
    CREATE TABLE other.u (i INT, day DATE);
";

/// Runs a test against a server of a database with [`DEFINITIONS`].
async fn with_database<T: Future<Output = ()>>(test: impl FnOnce(SocketAddr, Client) -> T) {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        client.batch_execute(DEFINITIONS).await.expect("defined");
        test(address, client).await;
    })
    .await;
}

/// Returns the rows of a statement as texts; messages without rows, such as for `SET`, are skipped.
async fn rows(client: &Client, text: &str) -> Vec<Vec<String>> {
    let messages = client.simple_query(text).await;
    let messages = messages.unwrap_or_else(|error| panic!("{text}: {error:?}"));
    let row = |message: SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => {
            let value = |index| row.get(index).unwrap_or("-").to_owned();
            Some((0..row.len()).map(value).collect())
        }
        _ => None,
    };
    messages.into_iter().filter_map(row).collect()
}

/// Returns the rows of a statement as lines.
async fn shown(client: &Client, text: &str) -> String {
    rows(client, text).await.iter().map(|row| row.join("|")).collect::<Vec<_>>().join("\n")
}

async fn ask_psql(address: SocketAddr, text: &'static str) -> String {
    let asked = tokio::task::spawn_blocking(move || psql(address, text));
    let (out, errors) = asked.await.expect("psql");
    assert_eq!(errors, "", "{text}");
    out
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn psql_describes_the_database() {
    if !has_psql() {
        return;
    }
    with_database(|address, _client| async move {
        let ask = |text| ask_psql(address, text);
        let out = ask("\\d").await;
        let kinds: Vec<_> =
            out.lines().map(|line| line.rsplit_once('|').map_or(line, |(of, _)| of)).collect();
        assert_eq!(kinds, ["public|t|table", "public|v|view"]);
        assert_eq!(
            ask("\\d t").await,
            "k|bigint||not null|\ns|text|||\nd|numeric(9,2)|||\nb|boolean|||\n\
             ts|timestamp with time zone|||\nx|double precision|||\na|integer[]|||"
        );
        assert_eq!(ask("\\d v").await, "k|bigint|||\ns|text|||");
        let view = "k|bigint||||plain|\ns|text||||extended|";
        assert_eq!(ask("\\d+ v").await, view);
        let view = ask("SELECT pg_catalog.pg_get_viewdef('v'::regclass, true)").await;
        assert_eq!(view, "SELECT k, s FROM t;");
        let table = ask("\\d+ t").await;
        assert!(table.starts_with("k|bigint||not null||plain|||\ns|text||||extended|"), "{table}");
        assert!(ask("\\dt+").await.starts_with("public|t|table|"));
        assert!(ask("\\dt other.*").await.starts_with("other|u|table|"));
        assert!(ask("\\dv").await.starts_with("public|v|view|"));
        let schemas = ask("\\dn").await;
        let schemas: Vec<_> = schemas.lines().filter_map(|line| line.split('|').next()).collect();
        assert_eq!(schemas, ["other", "public", "terrace"]);
        assert!(ask("\\du").await.contains("|Superuser, Create role"));
        assert!(ask("\\l").await.starts_with("main|"));
        assert!(ask("\\sv v").await.contains("CREATE OR REPLACE VIEW public.v AS\n SELECT k, s"));
        assert!(ask("\\dfS lower").await.starts_with("pg_catalog|lower|"));
        for none in [
            "\\df",
            "\\dT",
            "\\dD",
            "\\dx",
            "\\dRp",
            "\\dy",
            "\\dC",
            "\\dp nothing",
            "\\do",
            "\\des",
            "\\dO+ nothing",
            "\\dF",
        ] {
            assert_eq!(ask(none).await, "", "{none}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oids_are_the_same_in_all_connections() {
    with_database(|address, one| async move {
        let other = connect(address).await;
        let text = "SELECT relname, oid FROM pg_class WHERE relnamespace IN \
                    ('public'::regnamespace, 'other'::regnamespace) ORDER BY 1";
        let before = shown(&one, text).await;
        assert_eq!(shown(&other, text).await, before);
        assert_eq!(before.lines().count(), 3);
        // A table that replaces another one has a different OID.
        let oid = "SELECT 't'::regclass::oid";
        let first = shown(&one, oid).await;
        one.batch_execute("CREATE OR REPLACE TABLE t AS SELECT 1 AS k").await.expect("replaced");
        assert_ne!(shown(&other, oid).await, first);
        let of_view = "SELECT 'v'::regclass::oid";
        let view = shown(&one, of_view).await;
        one.batch_execute("CREATE OR REPLACE VIEW v AS SELECT k FROM t").await.expect("replaced");
        assert_eq!(shown(&other, of_view).await, view);
        // A transaction sees the table that it has created; others do not.
        one.batch_execute("BEGIN; CREATE TABLE mine (i INT)").await.expect("made");
        let mine = "SELECT to_regclass('mine') IS NULL, count(*) FROM pg_tables \
                    WHERE tablename = 'mine'";
        assert_eq!(shown(&one, mine).await, "f|1");
        assert_eq!(shown(&other, mine).await, "t|0");
        one.batch_execute("ROLLBACK").await.expect("undone");
        assert_eq!(shown(&one, mine).await, "t|0");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn casts_find_names_and_oids() {
    with_database(|_, client| async move {
        for (text, wanted) in [
            ("SELECT 't'::regclass", "t"),
            ("SELECT 'other.u'::regclass, 'public.t'::regclass::text", "other.u|t"),
            ("SELECT 'int'::regtype, 'text[]'::regtype::oid, 23::regtype", "integer|1009|integer"),
            ("SELECT 'pg_class'::regclass::oid, 1259::regclass", "1259|pg_class"),
            ("SELECT 'array_in'::regproc::oid, 750::regproc", "750|array_in"),
            ("SELECT 'public'::regnamespace::oid, 11::regnamespace", "2200|pg_catalog"),
            ("SELECT count(*) FROM pg_class WHERE oid = 'public.t'::regclass", "1"),
            (
                "SELECT relname FROM pg_class WHERE relname OPERATOR(pg_catalog.~) '^(t)$' \
              COLLATE pg_catalog.default",
                "t",
            ),
            (
                "SELECT relname FROM pg_class WHERE relkind = ANY('{v,m}') AND relnamespace = 2200",
                "v",
            ),
            ("SELECT a = ANY('{1,2}'), a <> ALL('{1,2}') FROM (SELECT 1 AS a) x", "t|f"),
            (
                "SELECT ARRAY(SELECT nspname FROM pg_namespace WHERE oid IN (11, 2200) ORDER BY 1)",
                "{pg_catalog,public}",
            ),
            (
                "SELECT current_schema, current_user, (current_schemas(true))[1]",
                "public|someone|pg_catalog",
            ),
            ("SELECT 'a_b' LIKE 'a/_b' ESCAPE '/', 'axb' LIKE 'a/_b' ESCAPE '/'", "t|f"),
            ("SELECT format_type(1700, 589830), format_type(1007, NULL)", "numeric(9,2)|integer[]"),
            ("SELECT pg_catalog.quote_ident('A b'), quote_literal('it''s')", "\"A b\"|'it''s'"),
            ("SELECT pg_relation_size('t') > 0, pg_size_pretty(10240)", "t|10 kB"),
            ("SELECT to_regclass('nothing'), to_regtype('nothing')", "-|-"),
        ] {
            assert_eq!(shown(&client, text).await, wanted, "{text}");
        }
        let missing = client.simple_query("SELECT 'nothing'::regclass").await.expect_err("none");
        assert_eq!(missing.code(), Some(&SqlState::UNDEFINED_TABLE));
        let row = "SELECT oid, relname, relkind, relhasindex FROM pg_class WHERE relname = $1";
        let statement = client.prepare(row).await.expect("prepared");
        let types: Vec<_> = statement.columns().iter().map(|column| column.type_()).collect();
        assert_eq!(types, [&Type::OID, &Type::NAME, &Type::CHAR, &Type::BOOL]);
        let row = client.query_one(&statement, &[&"t"]).await.expect("a row");
        assert!(row.get::<_, u32>(0) >= 16384);
        assert_eq!((row.get::<_, &str>(1), row.get::<_, i8>(2)), ("t", b'r' as i8));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_information_schema_speaks_of_postgresql_types() {
    with_database(|_, client| async move {
        let columns = "SELECT column_name, ordinal_position, is_nullable, data_type, \
                       numeric_precision, udt_name FROM information_schema.columns \
                       WHERE table_schema = 'public' AND table_name = 't' ORDER BY 2";
        assert_eq!(
            shown(&client, columns).await,
            "k|1|NO|bigint|64|int8\ns|2|YES|text|-|text\nd|3|YES|numeric|9|numeric\n\
             b|4|YES|boolean|-|bool\nts|5|YES|timestamp with time zone|-|timestamptz\n\
             x|6|YES|double precision|53|float8\na|7|YES|ARRAY|-|_int4"
        );
        let tables = "SELECT tables.table_name, table_type FROM information_schema.tables \
                      WHERE table_schema NOT IN ('pg_catalog', 'information_schema', 'terrace') \
                      ORDER BY 1";
        assert_eq!(shown(&client, tables).await, "t|BASE TABLE\nu|BASE TABLE\nv|VIEW");
        let views = "SELECT view_definition FROM information_schema.views WHERE table_name = 'v'";
        assert_eq!(shown(&client, views).await, "SELECT k, s FROM t");
        let schemas = "SELECT schema_name FROM information_schema.schemata ORDER BY 1";
        assert_eq!(
            shown(&client, schemas).await,
            "information_schema\nother\npg_catalog\npublic\nterrace"
        );
        let none = "SELECT count(*) FROM information_schema.table_constraints JOIN \
                    information_schema.key_column_usage USING (constraint_name)";
        assert_eq!(shown(&client, none).await, "0");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_are_read_and_changed_by_functions() {
    with_database(|_, client| async move {
        let changed = "SELECT set_config('search_path', 'other', false), \
                       set_config('application_name', 'it', false)";
        assert_eq!(shown(&client, changed).await, "other|it");
        let facts = "SELECT current_setting('search_path'), current_schema, \
                     (SELECT setting FROM pg_settings WHERE name = 'application_name'), \
                     current_setting('nothing', true)";
        assert_eq!(shown(&client, facts).await, "other|other|it|-");
        assert_eq!(shown(&client, "SHOW search_path; SELECT count(*) FROM u").await, "other\n0");
        let missing = client.simple_query("SELECT current_setting('nothing')").await;
        assert!(missing.is_err());
        let version = "SELECT current_setting('server_version') = \
                       split_part(version(), ' ', 2) || ' ' || split_part(version(), ' ', 3) \
                       || ' ' || split_part(version(), ' ', 4)";
        assert_eq!(shown(&client, version).await, "t");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_end_what_others_do() {
    with_database(|address, client| async move {
        let busy = connect(address).await;
        let pid: i32 =
            busy.query_one("SELECT pg_backend_pid()", &[]).await.expect("a number").get(0);
        let endless = "SELECT count(*) FROM generate_series(1, 1000000000000) a (value)";
        let running = tokio::spawn(async move {
            let ended = busy.simple_query(endless).await.expect_err("it never ends");
            (ended, busy)
        });
        let active = format!("SELECT state, query FROM pg_stat_activity WHERE pid = {pid}");
        let active_now = format!("active|{endless}");
        timeout(Duration::from_secs(20), async {
            while shown(&client, &active).await != active_now {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await
        .expect("it runs");
        let cancel = format!("SELECT pg_cancel_backend({pid})");
        assert_eq!(shown(&client, &cancel).await, "t");
        let (ended, busy) =
            timeout(Duration::from_secs(20), running).await.expect("soon").expect("no panic");
        assert_eq!(ended.code(), Some(&SqlState::QUERY_CANCELED));
        busy.query_one("SELECT 7", &[]).await.expect("the connection goes on");
        let terminate = format!("SELECT pg_terminate_backend({pid}), pg_cancel_backend(-1)");
        assert_eq!(shown(&client, &terminate).await, "t|f");
        timeout(Duration::from_secs(20), async {
            while !shown(&client, &active).await.is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await
        .expect("the connection that waits is ended");
        assert!(busy.query_one("SELECT 7", &[]).await.is_err());
    })
    .await;
}

/// Recorded statements of clients, separated by lines of dashes, each with the number of rows that
/// it returns for [`DEFINITIONS`].
const RECORDINGS: &[(&str, &str)] = &[
    ("psql", include_str!("catalog/psql.txt")),
    ("asyncpg", include_str!("catalog/asyncpg.txt")),
    ("jdbc", include_str!("catalog/jdbc.txt")),
    ("sqlalchemy", include_str!("catalog/sqlalchemy.txt")),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_queries_have_the_rows_of_the_database() {
    with_database(|_, client| async move {
        let oids = rows(&client, "SELECT relname, oid FROM pg_class WHERE relname IN ('t', 'v')");
        let oids: BTreeMap<String, String> =
            oids.await.into_iter().map(|row| (row[0].clone(), row[1].clone())).collect();
        let mut failures = Vec::new();
        for (name, recording) in RECORDINGS {
            for part in recording.split("\n--- ").skip(1) {
                let (wanted, text) = part.split_once(" rows\n").expect("a number of rows");
                let text = text.replace("{t}", &oids["t"]).replace("{v}", &oids["v"]);
                let count = |messages: Vec<SimpleQueryMessage>| {
                    let is_row = |message: &&SimpleQueryMessage| {
                        matches!(message, SimpleQueryMessage::Row(_))
                    };
                    messages.iter().filter(is_row).count().to_string()
                };
                let got = match client.simple_query(&text).await {
                    Ok(messages) => count(messages),
                    Err(error) => format!("{error:?}"),
                };
                if got != wanted {
                    failures.push(format!("{name}: {got} in place of {wanted} rows:\n{text}"));
                }
            }
        }
        assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    })
    .await;
}
