//! Roles, privileges and owners.

use terrace_sql::{Engine, Session, SqlError};

use crate::common::{engine, engine_in, error, show, try_show};

const DRAM: u64 = 64 << 20;
const ADMIN: &str = "CREATE ROLE admin SUPERUSER LOGIN PASSWORD 'secret'";

/// An engine with an administrator and the roles `ada` and `bob`.
async fn with_roles() -> (Engine, Session) {
    let engine = engine(DRAM);
    let owner = engine.session().expect("a session");
    show(&owner, ADMIN).await;
    show(&owner, "CREATE USER ada PASSWORD 'a'; CREATE ROLE bob LOGIN").await;
    show(&owner, "CREATE TABLE t AS SELECT 1 AS x; CREATE VIEW v AS SELECT x + 1 AS y FROM t")
        .await;
    (engine, owner)
}

async fn denied(session: &Session, text: &str) -> String {
    match try_show(session, text).await {
        Err(SqlError::Denied { role: _, what }) => what,
        Err(SqlError::DataFusion(error)) => {
            let text = error.strip_backtrace();
            assert!(text.contains("permission denied"), "{text}");
            text
        }
        other => panic!("{text}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_reads_and_changes_what_it_was_given() {
    let (engine, owner) = with_roles().await;
    let ada = engine.session_of("ada").expect("a session");
    let what = denied(&ada, "SELECT x FROM t").await;
    assert!(what.contains("GRANT SELECT ON public.t TO ada"), "{what}");
    for text in [
        "SELECT (SELECT max(x) FROM t)",
        "WITH c AS (SELECT * FROM t) SELECT 1 FROM c",
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM t)",
        "EXPLAIN SELECT * FROM t",
        "EXPLAIN ANALYZE SELECT * FROM t",
        "PREPARE p AS SELECT * FROM t; EXECUTE p",
        "CREATE TABLE u AS SELECT * FROM t",
        "INSERT INTO t VALUES (2)",
        "UPDATE t SET x = 3",
        "DELETE FROM t",
        "DROP TABLE t",
        "DROP VIEW v",
        "CREATE OR REPLACE TABLE t (a INT)",
        "SELECT y FROM v",
        "TRUNCATE TABLE t",
        "SELECT * FROM terrace.queries",
    ] {
        denied(&ada, text).await;
    }
    show(&owner, "GRANT SELECT, INSERT ON t TO ada").await;
    assert_eq!(show(&ada, "INSERT INTO t VALUES (2); SELECT sum(x) FROM t").await, "3");
    denied(&ada, "DELETE FROM t WHERE x = 2").await;
    denied(&ada, "INSERT OVERWRITE t VALUES (7)").await;
    show(&owner, "GRANT ALL ON t TO ada").await;
    assert_eq!(show(&ada, "UPDATE t SET x = 5 WHERE x = 2; SELECT sum(x) FROM t").await, "6");
    show(&owner, "REVOKE SELECT ON t FROM ada").await;
    denied(&ada, "SELECT x FROM t").await;
    show(&owner, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO PUBLIC").await;
    assert_eq!(show(&ada, "SELECT max(y) FROM v").await, "6");
    show(&owner, "REVOKE USAGE ON SCHEMA public FROM PUBLIC").await;
    let what = denied(&ada, "SELECT x FROM t").await;
    assert!(what.contains("USAGE ON SCHEMA public"), "{what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn views_read_with_the_rights_of_their_owners() {
    let (engine, owner) = with_roles().await;
    let (ada, bob) =
        (engine.session_of("ada").expect("ada"), engine.session_of("bob").expect("bob"));
    show(&owner, "GRANT CREATE ON SCHEMA public TO ada; GRANT SELECT ON v TO bob").await;
    assert_eq!(show(&bob, "SELECT y FROM v").await, "2");
    denied(&bob, "SELECT y FROM v, t").await;
    // A view whose owner may not read the table cannot be read either.
    show(&owner, "GRANT SELECT ON t TO ada").await;
    show(&ada, "CREATE VIEW w AS SELECT x FROM t; GRANT SELECT ON w TO bob").await;
    assert_eq!(show(&bob, "SELECT x FROM w").await, "1");
    let prepared = bob.parse("SELECT x FROM w").expect("parsed").pop().expect("one");
    let prepared = bob.prepare(prepared, &[]).await.expect("prepared");
    show(&owner, "REVOKE SELECT ON t FROM ada").await;
    let text = denied(&bob, "SELECT x FROM w").await;
    assert!(text.contains("ada"), "{text}");
    assert!(bob.execute_prepared(&prepared, vec![]).await.is_err(), "the view is planned again");
    show(&owner, "ALTER TABLE w OWNER TO admin").await;
    assert_eq!(show(&bob, "SELECT x FROM w").await, "1");
    show(&owner, "REVOKE ALL ON w FROM bob").await;
    assert!(bob.execute_prepared(&prepared, vec![]).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owners_do_everything_with_what_is_theirs() {
    let (engine, owner) = with_roles().await;
    let ada = engine.session_of("ada").expect("a session");
    let bob = engine.session_of("bob").expect("a session");
    denied(&ada, "CREATE TABLE mine (a INT)").await;
    denied(&ada, "CREATE SCHEMA s").await;
    show(&owner, "CREATE SCHEMA s; ALTER SCHEMA s OWNER TO ada").await;
    show(&ada, "CREATE TABLE s.mine AS SELECT 1 AS a; GRANT USAGE ON SCHEMA s TO bob").await;
    denied(&bob, "SELECT a FROM s.mine").await;
    denied(&bob, "GRANT SELECT ON s.mine TO bob").await;
    show(&ada, "GRANT SELECT ON s.mine TO bob; GRANT CREATE ON SCHEMA s TO bob").await;
    assert_eq!(show(&bob, "SELECT a FROM s.mine").await, "1");
    // Grants survive the replacement of a table, but not a drop.
    show(&ada, "CREATE OR REPLACE TABLE s.mine AS SELECT 2 AS a").await;
    assert_eq!(show(&bob, "SELECT a FROM s.mine").await, "2");
    show(&ada, "DROP TABLE s.mine; CREATE TABLE s.mine AS SELECT 3 AS a").await;
    denied(&bob, "SELECT a FROM s.mine").await;
    show(&bob, "CREATE TABLE s.his AS SELECT 4 AS a").await;
    denied(&ada, "ALTER TABLE s.mine OWNER TO admin").await;
    denied(&ada, "SELECT a FROM s.his").await;
    show(&ada, "DROP TABLE s.his").await;
    let held = error(&owner, "DROP ROLE ada").await;
    assert!(held.contains("SCHEMA s"), "{held}");
    show(&owner, "DROP SCHEMA s CASCADE; DROP ROLE ada").await;
    let gone = error(&ada, "SELECT 1 FROM t").await;
    assert!(gone.contains("role ada does not exist"), "{gone}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_of_the_engine_is_for_superusers() {
    let (engine, owner) = with_roles().await;
    let ada = engine.session_of("ada").expect("a session");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("f.csv");
    std::fs::write(&file, "a\n1\n").expect("a file");
    let file = file.display().to_string();
    for text in [
        "CREATE TENANT x".to_owned(),
        "CREATE ROLE eve".to_owned(),
        "ALTER ROLE bob SUPERUSER".to_owned(),
        "ALTER ROLE ada SUPERUSER".to_owned(),
        "ALTER ROLE ada PASSWORD NULL".to_owned(),
        "DROP ROLE bob".to_owned(),
        "CANCEL QUERY 1".to_owned(),
        "SET terrace.tenant = 'x'".to_owned(),
        "SET terrace.sla = 'latency 1ms penalty 1'".to_owned(),
        "SET terrace.market = 'off'".to_owned(),
        "ALTER TIER dram SET (size = '1GiB')".to_owned(),
        "GRANT SELECT ON t TO ada".to_owned(),
        "ALTER TABLE t OWNER TO ada".to_owned(),
        format!("SELECT * FROM '{file}'"),
        format!("COPY (SELECT 1) TO '{file}'"),
        format!("CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '{file}'"),
    ] {
        denied(&ada, &text).await;
    }
    show(&ada, "ALTER ROLE ada PASSWORD 'mine'; SET terrace.paged_sort = false").await;
    let admin = engine.session_of("admin").expect("a session");
    show(&admin, "CREATE TENANT x; SET terrace.tenant = 'x'; ALTER ROLE ada TENANT x").await;
    let ada = engine.session_of("ada").expect("a session");
    assert!(show(&ada, "SHOW terrace.tenant").await.contains('x'));
    ada.reset_settings();
    assert!(show(&ada, "SHOW terrace.tenant").await.contains('x'));
    assert!(error(&owner, "DROP TENANT x").await.contains("ada"));
    assert!(error(&owner, "DROP ROLE admin").await.contains("administrator"));
    assert!(error(&owner, "ALTER ROLE admin NOLOGIN").await.contains("administrator"));
    assert!(error(&admin, "DROP ROLE admin").await.contains("which this session has"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_are_changes_of_a_transaction() {
    let (engine, owner) = with_roles().await;
    let ada = engine.session_of("ada").expect("a session");
    show(&owner, "BEGIN; GRANT SELECT ON t TO ada; CREATE TABLE n (a INT)").await;
    show(&owner, "GRANT SELECT ON n TO ada").await;
    denied(&ada, "SELECT x FROM t").await;
    show(&owner, "COMMIT").await;
    assert_eq!(show(&ada, "SELECT x FROM t; SELECT count(*) FROM n").await, "0");
    show(&owner, "BEGIN; REVOKE SELECT ON t FROM ada; ROLLBACK").await;
    assert_eq!(show(&ada, "SELECT x FROM t").await, "1");
    let refused = error(&owner, "BEGIN; CREATE ROLE eve").await;
    assert!(refused.contains("transaction"), "{refused}");
    show(&owner, "ROLLBACK").await;
    for text in [
        "GRANT SELECT ON t TO nosuch",
        "GRANT SELECT ON nosuch TO ada",
        "GRANT USAGE ON t TO ada",
        "GRANT SELECT ON SCHEMA public TO ada",
        "GRANT SELECT (x) ON t TO ada",
        "GRANT SELECT ON t TO ada WITH GRANT OPTION",
        "CREATE ROLE public",
        "CREATE ROLE ada",
        "CREATE ROLE eve CREATEDB",
        "ALTER ROLE nosuch LOGIN",
        "CREATE ROLE eve TENANT nosuch",
    ] {
        error(&owner, text).await;
    }
    assert_eq!(show(&owner, "SELECT count(*) FROM terrace.roles").await, "3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_and_grants_survive_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    {
        let engine = engine_in(directory.path(), DRAM);
        let owner = engine.session().expect("a session");
        let refused = error(&owner, "CREATE ROLE ada LOGIN PASSWORD 'a'").await;
        assert!(refused.contains("administrator"), "{refused}");
        show(&owner, ADMIN).await;
        show(&owner, "CREATE ROLE ada LOGIN PASSWORD 'a'; CREATE SCHEMA s").await;
        show(&owner, "CREATE TABLE t AS SELECT 1 AS x; GRANT SELECT ON t TO ada").await;
        show(&owner, "REVOKE USAGE ON SCHEMA public FROM PUBLIC").await;
        show(&owner, "GRANT USAGE ON SCHEMA public TO ada; ALTER SCHEMA s OWNER TO ada").await;
        drop(owner);
        engine.close().expect("closed");
    }
    let engine = engine_in(directory.path(), DRAM);
    let ada = engine.session_of("ada").expect("a session");
    assert_eq!(show(&ada, "SELECT x FROM t").await, "1");
    denied(&ada, "INSERT INTO t VALUES (1)").await;
    show(&ada, "CREATE TABLE s.mine (a INT); DROP TABLE s.mine").await;
    let owner = engine.session().expect("a session");
    let grants = "SELECT object || ' ' || role || ' ' || privilege FROM terrace.grants \
                  WHERE object IS NOT NULL";
    assert_eq!(show(&owner, grants).await, "t ada SELECT");
    assert!(engine.session_of("nosuch").is_err());
    drop((ada, owner));
    engine.close().expect("closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_columns_of_a_table_are_shown_to_roles_that_may_read_it() {
    let (engine, owner) = with_roles().await;
    let ada = engine.session_of("ada").expect("a session");
    let shown = [
        "DESCRIBE t",
        "DESCRIBE v",
        "DESCRIBE SELECT * FROM t",
        "SHOW COLUMNS FROM t",
        "SHOW CREATE TABLE t",
        "SHOW CREATE VIEW v",
        "PRAGMA table_info('t')",
        "SUMMARIZE t",
        "SUMMARIZE SELECT * FROM v",
        "EXPLAIN SELECT * FROM t",
        "EXPLAIN SELECT * FROM v",
    ];
    for text in shown {
        denied(&ada, text).await;
    }
    show(&owner, "GRANT SELECT ON t TO ada; GRANT SELECT ON v TO ada").await;
    for text in shown {
        show(&ada, text).await;
    }
    denied(&ada, "DESCRIBE terrace.roles").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepared_statement_runs_with_the_rights_of_its_present_role() {
    let (engine, owner) = with_roles().await;
    let admin = engine.session_of("admin").expect("a session");
    let prepare = "CREATE FUNCTION f() RETURNS TABLE(y BIGINT) LANGUAGE SQL AS 'SELECT y FROM v';
        PREPARE p AS SELECT count(*) FROM terrace.roles;
        PREPARE q AS SELECT y FROM v; PREPARE r AS SELECT x FROM t;
        PREPARE s AS SELECT y FROM f();
        EXECUTE p; EXECUTE q; EXECUTE r; EXECUTE s; SET ROLE ada";
    show(&admin, prepare).await;
    let prepared = ["EXECUTE p", "EXECUTE q", "EXECUTE r", "EXECUTE s"];
    for text in prepared {
        denied(&admin, text).await;
    }
    show(&owner, "GRANT SELECT ON v TO ada").await;
    assert_eq!(show(&admin, "EXECUTE q; EXECUTE s").await, "2");
    show(&owner, "REVOKE SELECT ON v FROM ada").await;
    denied(&admin, "EXECUTE q").await;
    show(&admin, "SET ROLE NONE").await;
    for text in prepared {
        show(&admin, text).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_needs_the_rights_for_what_it_does() {
    let (engine, owner) = with_roles().await;
    let ada = engine.session_of("ada").expect("a session");
    show(&owner, "GRANT INSERT ON t TO ada").await;
    assert_eq!(show(&ada, "INSERT INTO t VALUES (2) RETURNING 1 + 1, 'x'").await, "2 x");
    denied(&ada, "INSERT INTO t VALUES (3) RETURNING x").await;
    denied(&ada, "INSERT INTO t VALUES (3) RETURNING *").await;
    show(&owner, "GRANT SELECT ON t TO ada").await;
    assert_eq!(show(&ada, "INSERT INTO t VALUES (3) RETURNING x").await, "3");
    let merge = "MERGE INTO t USING (VALUES (3), (4)) AS s(k) ON t.x = s.k";
    show(&ada, &format!("{merge} WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED THEN DO NOTHING"))
        .await;
    let insert = "WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED THEN INSERT VALUES (k)";
    show(&ada, &format!("{merge} {insert}")).await;
    assert_eq!(show(&ada, "SELECT x FROM t ORDER BY x").await, "1\n2\n3\n4");
    denied(&ada, &format!("{merge} WHEN MATCHED THEN UPDATE SET x = 5")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_types_of_a_schema_need_its_usage() {
    let (engine, owner) = with_roles().await;
    let ada = engine.session_of("ada").expect("a session");
    let made = "CREATE SCHEMA s; CREATE TYPE s.mood AS ENUM ('sad', 'ok');
        CREATE SCHEMA own; ALTER SCHEMA own OWNER TO ada";
    show(&owner, made).await;
    show(&ada, "CREATE TABLE own.b (a INT)").await;
    let uses = [
        "SELECT 'ok'::s.mood",
        "CREATE TABLE own.a (m s.mood)",
        "ALTER TABLE own.b ADD COLUMN m s.mood",
    ];
    for text in uses {
        let what = denied(&ada, text).await;
        assert!(what.contains("USAGE ON SCHEMA s"), "{what}");
    }
    show(&owner, "GRANT USAGE ON SCHEMA s TO ada").await;
    for text in uses {
        show(&ada, text).await;
    }
}

/// Lists of running statements show the text of a parsed statement.
#[tokio::test]
async fn texts_of_statements_have_no_passwords_and_keys() {
    let (engine, owner) = with_roles().await;
    for text in [
        "CREATE ROLE eve LOGIN PASSWORD 'hidden'",
        "ALTER ROLE ada WITH PASSWORD 'hidden'",
        "CREATE USER eve PASSWORD 'hidden'",
        "CREATE OR REPLACE SECRET s (TYPE s3, KEY_ID 'hidden', SECRET 'hidden')",
    ] {
        let statements = owner.parse(text).expect("parsed");
        let shown: Vec<_> = statements.iter().map(ToString::to_string).collect();
        assert!(!shown.join(" ").contains("hidden"), "{text}: {shown:?}");
    }
    drop(owner);
    engine.close().expect("closed");
}

/// A DROP of several roles drops all of them or none.
#[tokio::test]
async fn roles_are_dropped_together() {
    let (engine, owner) = with_roles().await;
    show(&owner, "CREATE ROLE one; CREATE ROLE two; CREATE SCHEMA s; ALTER SCHEMA s OWNER TO two")
        .await;
    for text in ["DROP ROLE one, nosuch", "DROP ROLE one, two", "DROP ROLE IF EXISTS one, two"] {
        error(&owner, text).await;
        show(&owner, "GRANT one TO two; REVOKE one FROM two").await;
    }
    show(&owner, "DROP SCHEMA s; DROP ROLE IF EXISTS one, nosuch, two").await;
    let text = error(&owner, "DROP ROLE one").await;
    assert!(text.contains("one"), "{text}");
    drop(owner);
    engine.close().expect("closed");
}

/// Functions and types have owners, too.
#[tokio::test]
async fn owners_of_functions_and_types_are_not_dropped() {
    let (engine, owner) = with_roles().await;
    show(&owner, "CREATE ROLE r; CREATE FUNCTION f(a INT) RETURNS INT RETURN a + 1").await;
    show(&owner, "ALTER FUNCTION f OWNER TO r").await;
    let text = error(&owner, "DROP ROLE r").await;
    assert!(text.contains("owns or has a privilege on function public.f"), "{text}");
    show(&owner, "DROP FUNCTION f; CREATE TYPE mood AS ENUM ('ok')").await;
    show(&owner, "ALTER TYPE mood OWNER TO r").await;
    let text = error(&owner, "DROP ROLE r").await;
    assert!(text.contains("type public.mood"), "{text}");
    show(&owner, "DROP TYPE mood; DROP ROLE r").await;
    drop(owner);
    engine.close().expect("closed");
}
