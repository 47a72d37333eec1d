//! Values of UUID, JSON and JSONB beside literals, and within lists and structs of tables: they
//! keep their types. The answers are PostgreSQL's, those of `typeof` DuckDB's.

use crate::common::{MIB, check, engine, error, show};

const DRAM: u64 = 64 * MIB;
const ID: &str = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";

#[tokio::test]
async fn a_choice_among_values_and_literals_has_the_type_of_the_values() {
    let session = engine(DRAM).session().expect("session");
    show(&session, &format!("CREATE TABLE t (id UUID, j JSONB); INSERT INTO t VALUES ('{ID}')"))
        .await;
    let upper = ID.to_uppercase();
    for (choice, of, value) in [
        (format!("coalesce(NULL, id, '{upper}')"), "uuid", ID),
        (format!("coalesce(NULL::uuid, '{upper}')"), "uuid", ID),
        (format!("ifnull(NULL::uuid, '{upper}')"), "uuid", ID),
        (format!("CASE WHEN k > 1 THEN id ELSE '{upper}' END"), "uuid", ID),
        (format!("CASE WHEN k > 1 THEN '{upper}' WHEN k = 1 THEN id END"), "uuid", ID),
        (format!("CASE k WHEN 1 THEN id ELSE '{upper}' END"), "uuid", ID),
        (format!("nullif(id, '{upper}')"), "uuid", ""),
        ("greatest(id, '00000000-0000-0000-0000-00000000000A')".to_owned(), "uuid", ID),
        ("least(id, NULL)".to_owned(), "uuid", ID),
        ("coalesce(j, '{\"b\":1,\"a\":2}')".to_owned(), "jsonb", "{\"a\": 2, \"b\": 1}"),
        ("coalesce(NULL::json, '{\"b\":1}')".to_owned(), "json", "{\"b\":1}"),
        ("CASE WHEN true THEN '[1]'::json ELSE '{}' END".to_owned(), "json", "[1]"),
        ("coalesce(id::text, 'none')".to_owned(), "text", ID),
    ] {
        let query = format!("SELECT pg_typeof({choice}), {choice} FROM t, (SELECT 1 AS k)");
        assert_eq!(show(&session, &query).await, format!("{of} {value}"), "{choice}");
        let made = format!("CREATE TEMP TABLE m AS SELECT {choice} AS x FROM t, (SELECT 1 AS k)");
        show(&session, &made).await;
        assert_eq!(show(&session, "SELECT pg_typeof(x) FROM m").await, of, "{choice}");
        show(&session, "DROP TABLE m").await;
    }
    for wrong in ["coalesce(id, 'x')", "CASE WHEN id IS NULL THEN 'x' ELSE id END"] {
        let error = error(&session, &format!("SELECT {wrong} FROM t")).await;
        assert!(error.contains("invalid input syntax for type uuid"), "{wrong}: {error}");
    }
}

#[tokio::test]
async fn columns_of_unions_and_values_keep_their_types() {
    let session = engine(DRAM).session().expect("session");
    let upper = ID.to_uppercase();
    for (query, of) in [
        (format!("SELECT '{ID}'::uuid UNION ALL SELECT '{upper}'"), "uuid"),
        (format!("SELECT '{upper}' UNION ALL SELECT '{ID}'::uuid"), "uuid"),
        (format!("SELECT '{ID}'::uuid UNION SELECT '{upper}'::uuid"), "uuid"),
        (format!("SELECT '{ID}'::uuid UNION ALL SELECT '{upper}' UNION ALL SELECT NULL"), "uuid"),
        ("SELECT '{\"a\":1}'::jsonb UNION ALL SELECT '{\"a\": 1}'".to_owned(), "jsonb"),
        (format!("VALUES ('{ID}'::uuid), ('{upper}'), (NULL)"), "uuid"),
        ("VALUES ('{}'::json), ('[]')".to_owned(), "json"),
        ("VALUES ('a'), ('b')".to_owned(), "text"),
    ] {
        let query = format!("SELECT DISTINCT pg_typeof(x) FROM ({query}) AS q(x)");
        assert_eq!(show(&session, &query).await, of, "{query}");
    }
    let query = format!("SELECT '{ID}'::uuid AS x, 1 AS n UNION SELECT '{upper}', 1.5");
    let sums = format!("SELECT x, sum(n) FROM ({query}) GROUP BY x");
    assert_eq!(show(&session, &sums).await, format!("{ID} 2.5"));
}

#[tokio::test]
async fn nested_columns_of_tables_show_the_types_of_their_parts() {
    let session = engine(DRAM).session().expect("session");
    show(
        &session,
        &format!(
            "CREATE TABLE t (u UUID[], j JSON[], s STRUCT(a UUID, n INT));
             INSERT INTO t VALUES (ARRAY['{ID}'], NULL, NULL);
             INSERT INTO t VALUES (NULL, NULL, NULL), (NULL, ARRAY['{{}}', '[]'], NULL)"
        ),
    )
    .await;
    check(
        &session,
        &[
            ("SELECT DISTINCT pg_typeof(u), pg_typeof(j) FROM t", "uuid[] json[]"),
            (
                "SELECT DISTINCT typeof(u), typeof(j), typeof(s) FROM t",
                "UUID[] JSON[] STRUCT(a UUID, n INTEGER)",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn literals_beside_lists_are_lists() {
    let session = engine(DRAM).session().expect("session");
    show(&session, "CREATE TABLE t (k INT, l INT[], s TEXT); INSERT INTO t VALUES (1, NULL, 'a')")
        .await;
    check(
        &session,
        &[
            ("SELECT coalesce(l, '{}') FROM t", "[]"),
            (
                "SELECT coalesce(l, '{1,2}'), pg_typeof(coalesce(l, '{1}')) FROM t",
                "[1, 2] integer[]",
            ),
            ("SELECT coalesce(NULL, l, '{3}') FROM t", "[3]"),
            ("SELECT CASE WHEN k > 1 THEN l ELSE '{4,NULL}' END FROM t", "[4, ]"),
            ("SELECT cardinality(coalesce(l, '{}')) FROM t", "0"),
        ],
    )
    .await;
    for wrong in ["SELECT coalesce(l, s) FROM t", "SELECT coalesce(l, 'x') FROM t"] {
        error(&session, wrong).await;
    }
}
