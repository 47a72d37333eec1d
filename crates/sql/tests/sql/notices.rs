//! Notices: what statements tell beside their results, in PostgreSQL's words and with its codes.

use terrace_sql::Session;

use crate::common::{MIB, engine, error, show};

/// Runs a text and returns the notices that it gives, with their severities and codes.
async fn told(session: &Session, text: &str) -> Vec<String> {
    show(session, text).await;
    let notices = session.take_notices().into_iter();
    notices.map(|it| format!("{} {}: {}", it.severity.as_str(), it.code, it.text)).collect()
}

#[tokio::test]
async fn what_is_skipped_is_told() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    let before = "CREATE TABLE t (x INT); CREATE SCHEMA s; CREATE SEQUENCE q; \
                  CREATE TYPE e AS ENUM ('a'); CREATE VIEW v AS SELECT 1 AS x";
    assert_eq!(told(&session, before).await, [""; 0]);
    let missing = |what: &str| vec![format!("NOTICE 00000: {what} does not exist, skipping")];
    let exists =
        |code: &str, what: &str| vec![format!("NOTICE {code}: {what} already exists, skipping")];
    let cases = [
        ("DROP TABLE IF EXISTS nope", missing("table \"nope\"")),
        ("DROP TABLE IF EXISTS nope.nope", missing("schema \"nope\"")),
        ("DROP VIEW IF EXISTS \"No\"", missing("view \"No\"")),
        ("DROP SCHEMA IF EXISTS nope", missing("schema \"nope\"")),
        ("DROP SEQUENCE IF EXISTS nope", missing("sequence \"nope\"")),
        ("DROP TYPE IF EXISTS nope", missing("type \"nope\"")),
        ("DROP TYPE IF EXISTS nope.nope", missing("schema \"nope\"")),
        ("DROP FUNCTION IF EXISTS nope", missing("function nope()")),
        ("DROP ROLE IF EXISTS nope", missing("role \"nope\"")),
        ("ALTER TABLE IF EXISTS nope ADD COLUMN y INT", missing("relation \"nope\"")),
        ("ALTER TABLE IF EXISTS nope RENAME TO no", missing("relation \"nope\"")),
        ("ALTER SEQUENCE IF EXISTS nope RESTART", missing("relation \"nope\"")),
        ("ALTER TABLE t DROP COLUMN IF EXISTS z", missing("column \"z\" of relation \"t\"")),
        (
            "ALTER TABLE t DROP CONSTRAINT IF EXISTS z",
            missing("constraint \"z\" of relation \"t\""),
        ),
        ("CREATE TABLE IF NOT EXISTS t (x INT)", exists("42P07", "relation \"t\"")),
        ("CREATE TABLE IF NOT EXISTS t AS SELECT 1 AS x", exists("42P07", "relation \"t\"")),
        ("CREATE TABLE IF NOT EXISTS t (LIKE t)", exists("42P07", "relation \"t\"")),
        ("DROP TENANT IF EXISTS nope", missing("tenant \"nope\"")),
        ("DROP HEAP IF EXISTS nope", missing("heap \"nope\"")),
        ("DROP SECRET IF EXISTS nope", missing("secret \"nope\"")),
        ("CREATE SCHEMA IF NOT EXISTS s", exists("42P06", "schema \"s\"")),
        ("CREATE SEQUENCE IF NOT EXISTS q", exists("42P07", "relation \"q\"")),
        (
            "ALTER TABLE t ADD COLUMN IF NOT EXISTS x INT",
            exists("42701", "column \"x\" of relation \"t\""),
        ),
        ("ALTER TYPE e ADD VALUE IF NOT EXISTS 'a'", exists("42710", "enum label \"a\"")),
    ];
    for (text, expected) in cases {
        assert_eq!(told(&session, text).await, expected, "{text}");
    }
    let several = told(&session, "DROP TABLE IF EXISTS one, t, two").await;
    assert_eq!(several, [missing("table \"one\""), missing("table \"two\"")].concat());
    // Nothing is skipped: nothing is told.
    let all = "DROP VIEW IF EXISTS v; CREATE TABLE IF NOT EXISTS t (x INT); DROP TABLE t";
    assert_eq!(told(&session, all).await, [""; 0]);
}

#[tokio::test]
async fn transactions_that_are_not_there_are_warned_of() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    for (text, expected) in [
        ("COMMIT", "WARNING 25P01: there is no transaction in progress"),
        ("ROLLBACK", "WARNING 25P01: there is no transaction in progress"),
        ("BEGIN; BEGIN", "WARNING 25001: there is already a transaction in progress"),
    ] {
        assert_eq!(told(&session, text).await, [expected], "{text}");
    }
    // The second BEGIN has not ended the transaction, nor has it begun another.
    show(&session, "CREATE TABLE t (x INT); ROLLBACK").await;
    error(&session, "SELECT * FROM t").await;
    show(&session, "BEGIN").await;
    error(&session, "SELECT 1 / 0").await;
    assert!(error(&session, "BEGIN").await.contains("say ROLLBACK"));
    assert_eq!(told(&session, "ROLLBACK").await, [""; 0]);
}

#[tokio::test]
async fn grants_have_grantors() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    show(&session, "CREATE ROLE boss SUPERUSER LOGIN PASSWORD 'boss'").await;
    show(&session, "CREATE ROLE r1; CREATE ROLE r2; CREATE TABLE t (x INT)").await;
    for (text, expected) in [
        ("GRANT r1 TO r2 GRANTED BY r2", None),
        ("GRANT r1 TO r2", Some("NOTICE 00000: role \"r2\" is already a member of role \"r1\"")),
        ("GRANT r1 TO r2 WITH ADMIN OPTION GRANTED BY CURRENT_USER", None),
        ("REVOKE r2 FROM r1", Some("WARNING 01000: role \"r1\" is not a member of role \"r2\"")),
        ("REVOKE r1 FROM r2 GRANTED BY r1", None),
        ("GRANT SELECT ON t TO r1 GRANTED BY CURRENT_USER", None),
        ("GRANT SELECT ON t TO r1 GRANTED BY SESSION_USER", None),
        ("REVOKE SELECT ON t FROM r1 GRANTED BY CURRENT_ROLE", None),
    ] {
        let expected: Vec<_> = expected.into_iter().collect();
        assert_eq!(told(&session, text).await, expected, "{text}");
    }
    show(&session, "GRANT r1 TO r2 GRANTED BY r2").await;
    let grantor = "SELECT grantor FROM terrace.memberships WHERE member = 'r2'";
    assert_eq!(show(&session, grantor).await, "r2");
    for (text, part) in [
        ("GRANT SELECT ON t TO r1 GRANTED BY r2", "grantor must be current user"),
        ("REVOKE SELECT ON t FROM r1 GRANTED BY r2", "grantor must be current user"),
        ("GRANT SELECT ON t TO r1 GRANTED BY nope", "nope"),
        ("GRANT r1 TO r2 GRANTED BY nope", "nope"),
        ("REVOKE r1 FROM r2 GRANTED BY nope", "nope"),
    ] {
        let error = error(&session, text).await;
        assert!(error.contains(part), "{text}: {error}");
    }
}
