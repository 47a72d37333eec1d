//! Forms of catalog queries that database browsers use.

use crate::common::connect;
use crate::running::{Running, engine};
use terrace_server::Limits;

/// Statements of the forms that DataGrip, DBeaver, Metabase, Grafana and pgAdmin send when they
/// connect and list what there is, each with its only value as a text.
const OF_TOOLS: &[(&str, &str)] = &[
    // DataGrip.
    (
        "SELECT count(*)::text FROM (SELECT pg_catalog.age(l.transactionid) AS of FROM \
         pg_catalog.pg_locks l ORDER BY 1 DESC LIMIT 1) AS oldest",
        "0",
    ),
    (
        "SELECT (CASE WHEN pg_catalog.pg_is_in_recovery() THEN NULL ELSE \
         (pg_catalog.txid_current() % 4294967296)::varchar::bigint END > 0)::text",
        "true",
    ),
    (
        "SELECT (round(extract(epoch FROM pg_postmaster_start_time() AT TIME ZONE 'UTC')) > \
         0)::text",
        "true",
    ),
    (
        "SELECT datname FROM pg_catalog.pg_database d LEFT JOIN pg_catalog.pg_shdescription s \
         ON d.oid = s.objoid ORDER BY CASE WHEN datname = pg_catalog.current_database() THEN \
         -1::bigint ELSE d.oid::bigint END LIMIT 1",
        "main",
    ),
    (
        "SELECT nspname FROM pg_catalog.pg_namespace n LEFT JOIN pg_catalog.pg_description d \
         ON n.oid = d.objoid AND d.objsubid = 0 AND d.classoid = 'pg_namespace'::regclass \
         ORDER BY CASE WHEN nspname = pg_catalog.current_schema() THEN -1::bigint ELSE \
         n.oid::bigint END LIMIT 1",
        "public",
    ),
    (
        "SELECT (count(*) > 0)::text FROM (SELECT name, is_dst FROM \
         pg_catalog.pg_timezone_names UNION DISTINCT SELECT abbrev AS name, is_dst FROM \
         pg_catalog.pg_timezone_abbrevs) AS zones",
        "true",
    ),
    (
        "SELECT count(*)::text FROM (SELECT spcacl AS acl FROM pg_catalog.pg_tablespace UNION \
         ALL SELECT datacl AS acl FROM pg_catalog.pg_database) AS lists WHERE acl IS NOT NULL",
        "0",
    ),
    // DBeaver.
    (
        "SELECT (n.nspname = ANY(current_schemas(true)))::text FROM pg_catalog.pg_type t JOIN \
         pg_catalog.pg_type e ON t.typelem = e.oid JOIN pg_catalog.pg_namespace n ON \
         t.typnamespace = n.oid WHERE t.typname = '_int4'",
        "true",
    ),
    (
        "SELECT (string_agg(word, ',') LIKE '%select%')::text FROM \
         pg_catalog.pg_get_keywords() WHERE word <> ALL ('{a,abs,absolute}')",
        "true",
    ),
    (
        "SELECT coalesce(format_type(nullif(t.typbasetype, 0), t.typtypmod), '-') FROM \
         pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_class c ON c.oid = t.typrelid WHERE \
         t.typname = 'int4' AND (c.relkind IS NULL OR c.relkind = 'c')",
        "-",
    ),
    // Metabase.
    (
        "SELECT t.name FROM (SELECT schemaname, tablename AS name FROM pg_catalog.pg_tables \
         UNION SELECT schemaname, viewname FROM pg_catalog.pg_views UNION SELECT schemaname, \
         matviewname FROM pg_catalog.pg_matviews) AS t WHERE t.schemaname !~ '^pg_' AND \
         t.schemaname NOT IN ('information_schema', 'terrace') AND \
         pg_catalog.has_schema_privilege(current_user, t.schemaname, 'usage') AND \
         pg_catalog.has_any_column_privilege(current_user, '\"' || replace(t.schemaname, \
         '\"', '\"\"') || '\".\"' || replace(t.name, '\"', '\"\"') || '\"', 'select') ORDER \
         BY t.name LIMIT 1",
        "lines",
    ),
    (
        "SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON \
         c.relnamespace = n.oid LEFT JOIN pg_stat_user_tables s ON n.nspname = s.schemaname \
         AND c.relname = s.relname WHERE n.nspname IN ('public') AND c.relkind IN ('r', 'p', \
         'f', 'm')",
        "points",
    ),
    // Grafana.
    (
        "SELECT quote_ident(table_name) FROM information_schema.tables WHERE \
         quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog') AND table_type \
         = 'BASE TABLE' AND quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = \
         '\"$user\"' THEN user ELSE trim(s[i]) END FROM \
         generate_series(array_lower(string_to_array(current_setting('search_path'), ','), \
         1), array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i, \
         string_to_array(current_setting('search_path'), ',') s)",
        "points",
    ),
    (
        "SELECT quote_ident(column_name) FROM information_schema.columns WHERE \
         quote_ident(table_name) = 'points' AND udt_name IN ('float8') ORDER BY \
         ordinal_position",
        "y",
    ),
    ("SELECT count(*)::text FROM pg_extension WHERE extname = 'timescaledb'", "0"),
    ("SELECT (current_setting('server_version_num')::int / 100 >= 1400)::text", "true"),
    // pgAdmin.
    (
        "SELECT db.datname FROM pg_catalog.pg_database db WHERE db.datname = \
         current_database() AND pg_catalog.has_database_privilege(db.oid, 'CREATE')",
        "main",
    ),
    ("SELECT encrypted::text FROM pg_catalog.pg_stat_gssapi WHERE pid = pg_backend_pid()", "false"),
    (
        "SELECT (CASE WHEN usesuper THEN pg_catalog.pg_is_in_recovery() ELSE FALSE END)::text \
         FROM pg_catalog.pg_user WHERE usename = current_user",
        "false",
    ),
    (
        "SELECT (rolname = current_user)::text FROM pg_catalog.pg_roles WHERE rolname = \
         current_user AND rolcreaterole = rolsuper",
        "true",
    ),
];

/// Statements, each with its only value as a text.
const FORMS: &[(&str, &str)] = &[
    ("SELECT array(SELECT unnest(array[3, 1, 2]) ORDER BY 1)::text", "[1, 2, 3]"),
    ("SELECT array(SELECT unnest(array[3, 1, 2]) AS x ORDER BY x DESC)::text", "[3, 2, 1]"),
    ("SELECT array(VALUES (1), (2))::text", "[1, 2]"),
    ("SELECT array(SELECT x FROM unnest(array[3, 1, 2]) x ORDER BY x)::text", "[1, 2, 3]"),
    ("SELECT array(SELECT a FROM (VALUES (3), (1)) v(a) ORDER BY a DESC LIMIT 1)::text", "[3]"),
    (
        "SELECT array(SELECT a FROM (VALUES (1, 2), (2, 1), (3, 1)) v(a, b) ORDER BY b, a \
         DESC)::text",
        "[3, 2, 1]",
    ),
    (
        "SELECT array(SELECT count(*) FROM (VALUES (1), (1), (2)) v(a) GROUP BY a ORDER BY \
         1)::text",
        "[1, 2]",
    ),
    ("SELECT array(SELECT a FROM (VALUES (1)) v(a) WHERE a > 1)::text", "[]"),
    (
        "SELECT count(*)::text FROM pg_class WHERE xmin IS NOT NULL AND \
         tableoid = 'pg_class'::regclass AND relname = 'points'",
        "1",
    ),
    ("SELECT max(age(xmin))::text FROM pg_namespace", "0"),
    (
        "SELECT format('%I.%I = %L', n.nspname, c.relname, 'it''s') FROM pg_class c \
         JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = 'points'",
        "public.points = 'it''s'",
    ),
    ("SELECT count(*)::text FROM pg_class c, aclexplode(c.relacl) a", "0"),
    (
        "SELECT row_to_json(t)::text FROM (SELECT attname, attnum FROM pg_attribute \
         WHERE attrelid = 'points'::regclass AND attnum = 1) t",
        "{\"attname\":\"x\",\"attnum\":1}",
    ),
    ("SELECT row_to_json(named_struct('a', 1))::text", "{\"a\":1}"),
    ("SELECT json_build_object('a', ARRAY[1, 2])::text", "{\"a\" : [1,2]}"),
    (
        "SELECT relname FROM pg_class c WHERE relkind IN ('r', 'v') \
         AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'public') \
         ORDER BY (SELECT count(*) FROM pg_attribute a \
         WHERE a.attrelid = c.oid AND a.attnum > 0) DESC LIMIT 1",
        "points",
    ),
    (
        "SELECT (relname IN (SELECT tablename FROM pg_tables))::text FROM pg_class \
         WHERE relname = 'points'",
        "true",
    ),
    (
        "WITH RECURSIVE members AS (SELECT oid FROM pg_roles WHERE rolname = current_user \
         UNION ALL SELECT m.roleid FROM pg_auth_members m JOIN members ON m.member = members.oid) \
         SELECT count(*)::text FROM members",
        "1",
    ),
    ("SELECT count(*)::text FROM pg_operator WHERE oid = '=(int4,int4)'::regoperator", "0"),
    ("SELECT ssl::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()", "false"),
    ("SELECT viewname FROM pg_views WHERE schemaname = 'public'", "lines"),
];

#[tokio::test]
async fn statements_of_tools_that_show_a_database() {
    let server = Running::start(engine(), Limits::default()).await;
    let client = connect(server.address).await;
    let tables = "CREATE TABLE points (x BIGINT, y DOUBLE PRECISION, name TEXT); \
                  CREATE VIEW lines AS SELECT x FROM points";
    client.batch_execute(tables).await.expect("made");
    let mut wrong = Vec::new();
    for (statement, answer) in FORMS.iter().chain(OF_TOOLS) {
        match client.simple_query(statement).await {
            Ok(messages) => {
                let rows = messages.iter().filter_map(|message| match message {
                    tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
                    _ => None,
                });
                let rows: Vec<_> = rows.collect();
                if rows != [*answer] {
                    wrong.push(format!("{statement}: {rows:?}"));
                }
            }
            Err(error) => wrong.push(format!("{statement}: {error:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    drop(client);
    server.end().await.close().expect("the engine is free");
}

#[tokio::test]
async fn temporary_tables_are_found_first() {
    let server = Running::start(engine(), Limits::default()).await;
    let client = connect(server.address).await;
    let tables = "CREATE TABLE a (x INT NOT NULL); CREATE TEMP TABLE a (y TEXT); \
                  CREATE TEMP TABLE b (x INT); CREATE VIEW public.v AS SELECT x FROM public.a";
    client.batch_execute(tables).await.expect("made");
    for (query, expected) in [
        (
            "SELECT string_agg(relpersistence || relname || pg_table_is_visible(oid), ',' \
             ORDER BY relpersistence, relname) FROM pg_class WHERE relname IN ('a', 'b')",
            "pafalse,tatrue,tbtrue",
        ),
        ("SELECT attname FROM pg_attribute WHERE attrelid = 'a'::regclass", "y"),
        ("SELECT 'b'::regclass::text", "b"),
        ("SELECT attnotnull::text FROM pg_attribute WHERE attrelid = 'public.a'::regclass", "true"),
        ("SELECT attnotnull::text FROM pg_attribute WHERE attrelid = 'v'::regclass", "false"),
    ] {
        let messages = client.simple_query(query).await;
        let messages = messages.unwrap_or_else(|error| panic!("{query}: {error:?}"));
        let shown = messages.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        assert_eq!(shown, Some(expected), "{query}");
    }
    drop(client);
    server.end().await.close().expect("the engine is free");
}
