//! LIMIT and OFFSET that are computed, with the answers of PostgreSQL 15.

use terrace_sql::Session;

use crate::common::{MIB, check, engine, error, show};

async fn session() -> Session {
    let session = engine(64 * MIB).session().expect("session");
    let text = "CREATE TABLE t AS SELECT * FROM generate_series(1, 6) AS g(a);
        CREATE TABLE n AS SELECT 2 AS k;
        CREATE VIEW v AS SELECT a FROM t ORDER BY a DESC LIMIT (SELECT k FROM n)";
    show(&session, text).await;
    session
}

#[tokio::test]
async fn limits_are_computed_before_the_query() {
    let session = session().await;
    check(
        &session,
        &[
            ("SELECT a FROM t ORDER BY a LIMIT (SELECT k FROM n)", "1\n2"),
            ("SELECT a FROM t ORDER BY a OFFSET (SELECT max(a) - 2 FROM t)", "5\n6"),
            ("SELECT a FROM t ORDER BY a LIMIT (SELECT 1) + 1 OFFSET (SELECT 1)", "2\n3"),
            ("SELECT a FROM t ORDER BY a FETCH FIRST (SELECT k FROM n) ROWS ONLY", "1\n2"),
            (
                "SELECT a FROM t ORDER BY a OFFSET (SELECT k FROM n) ROWS FETCH NEXT (1 + 1) \
                 ROWS ONLY",
                "3\n4",
            ),
            ("SELECT a FROM t ORDER BY a LIMIT (SELECT NULL::INT) OFFSET 4", "5\n6"),
            ("SELECT a FROM t ORDER BY a LIMIT (SELECT 1 WHERE false) OFFSET 4", "5\n6"),
            (
                "SELECT a FROM t ORDER BY a LIMIT NULL OFFSET (SELECT NULL::INT) + 4",
                "1\n2\n3\n4\n5\n6",
            ),
            ("SELECT a FROM t ORDER BY a LIMIT 1.5", "1\n2"),
            ("SELECT a FROM t ORDER BY a LIMIT 2.5", "1\n2\n3"),
            ("SELECT a FROM t ORDER BY a LIMIT '2'", "1\n2"),
            ("SELECT a FROM t ORDER BY a LIMIT CAST(random() * 0 + 1 AS INT)", "1"),
            ("SELECT count(*) FROM (SELECT a FROM t LIMIT (SELECT k FROM n)) AS s", "2"),
            (
                "SELECT a FROM t WHERE a IN (SELECT a FROM t ORDER BY a LIMIT (SELECT k FROM n))
                 ORDER BY a",
                "1\n2",
            ),
            (
                "SELECT a FROM t ORDER BY a LIMIT (SELECT a FROM t ORDER BY a DESC \
                 LIMIT (SELECT 1) OFFSET (SELECT k FROM n))",
                "1\n2\n3\n4",
            ),
            ("SELECT a FROM v", "6\n5"),
            ("UPDATE n SET k = 3; SELECT a FROM v", "6\n5\n4"),
            (
                "CREATE TABLE c AS SELECT a FROM t ORDER BY a LIMIT (SELECT k FROM n); TABLE c",
                "1\n2\n3",
            ),
            ("PREPARE p AS SELECT a FROM t ORDER BY a LIMIT $1 + 1; EXECUTE p(2)", "1\n2\n3"),
            ("EXECUTE p(0)", "1"),
            (
                "PREPARE q AS SELECT a FROM t ORDER BY a LIMIT (SELECT k FROM n); EXECUTE q",
                "1\n2\n3",
            ),
            ("UPDATE n SET k = 1; EXECUTE q", "1"),
        ],
    )
    .await;
}

#[tokio::test]
async fn limits_that_are_not_possible_are_refused() {
    let session = session().await;
    for (text, reason) in [
        ("SELECT a FROM t LIMIT (SELECT -2)", "LIMIT must be >= 0"),
        ("SELECT a FROM t OFFSET (SELECT -2)", "OFFSET must be >=0"),
        ("SELECT a FROM t LIMIT (SELECT 1 UNION SELECT 2)", "more than one row"),
        ("SELECT a FROM t LIMIT a", "No field named a"),
        ("SELECT a FROM t LIMIT (SELECT a)", "No field named a"),
        ("SELECT a FROM t LIMIT true", "argument of LIMIT must be type bigint, not type boolean"),
        ("SELECT a FROM t OFFSET (SELECT 'a'::text)", "argument of OFFSET must be type bigint"),
        ("SELECT a FROM t LIMIT 'x'", "x"),
        (
            "SELECT (SELECT max(a) FROM (SELECT a FROM t LIMIT (SELECT o.k)) AS s) FROM n AS o",
            "argument of LIMIT must not contain variables",
        ),
    ] {
        let found = error(&session, text).await;
        assert!(found.contains(reason), "{text}: {found}");
    }
    show(&session, "CREATE ROLE admin SUPERUSER LOGIN PASSWORD 'secret'").await;
    show(&session, "CREATE ROLE ada; GRANT SELECT ON t, v TO ada; SET ROLE ada").await;
    let found = error(&session, "SELECT a FROM t LIMIT (SELECT k FROM n)").await;
    assert!(found.contains("permission denied"), "{found}");
    check(&session, &[("SELECT a FROM v", "6\n5")]).await;
}
