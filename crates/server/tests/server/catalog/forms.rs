//! Forms of catalog queries that database browsers use.

use crate::common::connect;
use crate::running::{Running, engine};
use terrace_server::Limits;

/// Statements, each with its only value as a text.
const FORMS: &[(&str, &str)] = &[
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
    for (statement, answer) in FORMS {
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
