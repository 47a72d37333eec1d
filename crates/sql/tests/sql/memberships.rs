//! Roles that are members of roles.

use terrace_sql::{Engine, Session, SqlError};

use crate::common::{engine, engine_in, error, show, try_show};

const DRAM: u64 = 64 << 20;
const ADMIN: &str = "CREATE ROLE admin SUPERUSER LOGIN PASSWORD 'secret'";
const MEMBERSHIPS: &str = "SELECT role, member, admin_option, coalesce(grantor, '-') \
                           FROM terrace.memberships ORDER BY role, member";

/// An engine with an administrator, and the users `ada` and `bob` who own nothing.
async fn with_roles() -> (Engine, Session) {
    let engine = engine(DRAM);
    let owner = engine.session().expect("a session");
    show(&owner, ADMIN).await;
    show(&owner, "CREATE USER ada; CREATE USER bob; CREATE ROLE readers; CREATE ROLE staff").await;
    show(&owner, "CREATE TABLE t AS SELECT 1 AS x; GRANT SELECT ON t TO readers").await;
    (engine, owner)
}

/// Runs a statement that the role of the session may not run.
async fn denied(session: &Session, text: &str) {
    let denied = error(session, text).await;
    assert!(denied.contains("permission denied"), "{text}: {denied}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_have_the_privileges_of_their_roles() {
    let (engine, owner) = with_roles().await;
    let ada = engine.session_of("ada").expect("a session");
    denied(&ada, "SELECT x FROM t").await;
    show(&owner, "GRANT readers TO staff; GRANT staff TO ada, bob").await;
    assert_eq!(show(&ada, "SELECT x FROM t").await, "1");
    denied(&ada, "INSERT INTO t VALUES (2)").await;
    show(&owner, "GRANT INSERT ON t TO staff").await;
    show(&ada, "INSERT INTO t VALUES (2)").await;

    // Privileges on schemas, and the rights of owners.
    show(&owner, "CREATE SCHEMA s; GRANT USAGE, CREATE ON SCHEMA s TO readers").await;
    show(&ada, "CREATE TABLE s.mine AS SELECT 3 AS x; GRANT SELECT ON s.mine TO bob").await;
    let bob = engine.session_of("bob").expect("a session");
    assert_eq!(show(&bob, "SELECT x FROM s.mine").await, "3");
    denied(&bob, "DROP TABLE s.mine").await;
    show(&owner, "ALTER TABLE s.mine OWNER TO staff").await;
    show(&bob, "UPDATE s.mine SET x = 4; CREATE VIEW s.v AS SELECT x FROM t").await;
    show(&bob, "GRANT SELECT ON s.v TO PUBLIC; DROP TABLE s.mine").await;

    // A view reads with the rights that its owner has through others.
    show(&owner, "CREATE USER eve; GRANT USAGE ON SCHEMA s TO eve").await;
    let eve = engine.session_of("eve").expect("a session");
    assert_eq!(show(&eve, "SELECT sum(x) FROM s.v").await, "3");
    let statement = ada.parse("SELECT sum(x) FROM t").expect("parsed").pop().expect("one");
    let prepared = ada.prepare(statement, &[]).await.expect("prepared");
    let run = || async { ada.execute_prepared(&prepared, vec![]).await?.collect().await };
    run().await.expect("allowed");
    show(&owner, "REVOKE readers FROM staff").await;
    denied(&eve, "SELECT sum(x) FROM s.v").await;
    assert!(run().await.is_err());
    show(&ada, "INSERT INTO t VALUES (5)").await;
    show(&owner, "REVOKE staff FROM ada, bob").await;
    denied(&ada, "INSERT INTO t VALUES (6)").await;
    show(&owner, "REVOKE staff FROM ada; REVOKE ADMIN OPTION FOR readers FROM bob").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_do_not_inherit_have_their_own_privileges_alone() {
    let (engine, owner) = with_roles().await;
    let ada = engine.session_of("ada").expect("a session");
    show(&owner, "GRANT readers TO staff; GRANT staff TO ada; ALTER ROLE ada NOINHERIT").await;
    denied(&ada, "SELECT x FROM t").await;
    show(&owner, "ALTER ROLE ada INHERIT; ALTER ROLE staff NOINHERIT").await;
    denied(&ada, "SELECT x FROM t").await;
    show(&owner, "GRANT readers TO ada").await;
    assert_eq!(show(&ada, "SELECT x FROM t").await, "1");
    // A superuser's members have its grants, and are no superusers.
    show(&owner, "GRANT admin TO bob; GRANT DELETE ON t TO admin").await;
    let bob = engine.session_of("bob").expect("a session");
    denied(&bob, "SELECT x FROM t").await;
    denied(&bob, "CREATE ROLE eve").await;
    show(&bob, "TRUNCATE t").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_role_becomes_a_member_of_itself() {
    let (_engine, owner) = with_roles().await;
    show(&owner, "GRANT readers TO staff; GRANT staff TO ada").await;
    for (role, member) in [("readers", "readers"), ("staff", "readers"), ("ada", "readers")] {
        let text = format!("GRANT {role} TO {member}");
        let cycle = try_show(&owner, &text).await.expect_err("a cycle");
        assert!(matches!(cycle, SqlError::MembershipCycle { .. }), "{text}: {cycle}");
        let words = format!("role \"{role}\" is a member of role \"{member}\"");
        assert_eq!(cycle.to_string(), words);
    }
    for text in [
        "CREATE ROLE eve ROLE eve",
        "CREATE ROLE eve IN ROLE eve",
        "CREATE ROLE eve IN ROLE staff ROLE readers",
    ] {
        let cycle = error(&owner, text).await;
        assert!(
            cycle.starts_with("role \"") && cycle.contains("is a member of"),
            "{text}: {cycle}"
        );
    }
    // A statement that fails changes nothing.
    error(&owner, "GRANT ada TO bob, readers").await;
    assert_eq!(show(&owner, MEMBERSHIPS).await, "readers staff false -\nstaff ada false -");
    assert_eq!(show(&owner, "SELECT count(*) FROM terrace.roles").await, "5");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_are_changed_with_the_admin_option() {
    let (engine, owner) = with_roles().await;
    let ada = engine.session_of("ada").expect("a session");
    let refused = |text: &'static str| {
        let ada = &ada;
        async move { error(ada, text).await }
    };
    show(&owner, "GRANT readers TO ada").await;
    let lacks = "must have admin option on role \"readers\"";
    assert_eq!(refused("GRANT readers TO bob").await, lacks);
    assert_eq!(refused("REVOKE readers FROM ada").await, lacks);
    show(&owner, "GRANT readers TO ada WITH ADMIN OPTION; GRANT readers TO ada").await;
    show(&ada, "GRANT readers TO bob, staff").await;
    let shown = "readers ada true -\nreaders bob false ada\nreaders staff false ada";
    assert_eq!(show(&owner, MEMBERSHIPS).await, shown);
    let staff = "must have admin option on role \"staff\"";
    assert_eq!(refused("GRANT readers, staff TO bob").await, staff);
    assert_eq!(refused("GRANT ada TO bob").await, "must have admin option on role \"ada\"");
    let grantor = refused("GRANT readers TO bob GRANTED BY admin").await;
    assert!(grantor.contains("must be superuser to set grantor"), "{grantor}");
    assert_eq!(refused("GRANT admin TO ada").await, "must be superuser to alter superusers");
    assert_eq!(refused("REVOKE admin FROM bob").await, "must be superuser to alter superusers");
    assert!(refused("GRANT nosuch TO bob").await.contains("role nosuch does not exist"));
    denied(&ada, "CREATE ROLE eve IN ROLE readers").await;
    denied(&ada, "ALTER ROLE ada NOINHERIT").await;
    show(&ada, "REVOKE readers FROM bob GRANTED BY admin").await;
    show(&owner, "REVOKE ADMIN OPTION FOR readers FROM ada").await;
    assert_eq!(refused("REVOKE readers FROM staff").await, lacks);
    assert_eq!(show(&ada, "SELECT x FROM t").await, "1");

    // The option is had through another role as well, also by one that does not inherit.
    show(&owner, "GRANT readers TO staff WITH ADMIN OPTION; GRANT staff TO bob").await;
    show(&owner, "ALTER ROLE bob NOINHERIT").await;
    let bob = engine.session_of("bob").expect("a session");
    show(&bob, "REVOKE readers FROM ada").await;
    denied(&ada, "SELECT x FROM t").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_are_made_and_dropped_with_their_memberships() {
    let (engine, owner) = with_roles().await;
    let admin = engine.session_of("admin").expect("a session");
    let made = "CREATE ROLE team WITH IN ROLE readers, staff ROLE ada ADMIN bob NOINHERIT";
    show(&admin, made).await;
    let shown = "readers team false admin\nstaff team false admin\nteam ada false admin\n\
                 team bob true admin";
    assert_eq!(show(&owner, MEMBERSHIPS).await, shown);
    show(&admin, "CREATE ROLE IF NOT EXISTS team ROLE staff; DROP ROLE staff").await;
    let inherits = "SELECT inherit FROM terrace.roles WHERE role = 'team'";
    assert_eq!(show(&owner, inherits).await, "false");
    show(&owner, "CREATE ROLE other SUPERUSER LOGIN PASSWORD 'secret'; DROP ROLE admin").await;
    let shown = "readers team false -\nteam ada false -\nteam bob true -";
    assert_eq!(show(&owner, MEMBERSHIPS).await, shown);
    show(&owner, "DROP ROLE team").await;
    assert_eq!(show(&owner, MEMBERSHIPS).await, "");
    for text in [
        "GRANT readers TO nosuch",
        "GRANT readers TO PUBLIC",
        "GRANT PUBLIC TO ada",
        "GRANT readers TO ada WITH GRANT OPTION",
        "GRANT readers TO ada WITH INHERIT FALSE",
        "GRANT readers TO ada GRANTED BY nosuch",
        "GRANT readers",
        "GRANT readers ada",
        "GRANT SELECT TO ada",
        "REVOKE readers FROM nosuch",
        "REVOKE nosuch FROM ada",
        "REVOKE readers FROM ada CASCADE",
        "REVOKE INHERIT OPTION FOR readers FROM ada",
        "CREATE ROLE eve IN ROLE nosuch",
        "CREATE ROLE eve ROLE nosuch",
        "CREATE ROLE eve IN",
        "ALTER ROLE ada IN ROLE readers",
        "ALTER ROLE ada ROLE bob",
        "BEGIN; GRANT readers TO ada",
    ] {
        error(&owner, text).await;
    }
    show(&owner, "ROLLBACK").await;
    assert_eq!(show(&owner, MEMBERSHIPS).await, "");
    for (text, words) in [
        ("SET SESSION AUTHORIZATION bob", "keeps the role that it has logged in with"),
        ("SET ROLE nosuch", "nosuch"),
        ("SET LOCAL ROLE readers", "say SET ROLE"),
    ] {
        let refused = error(&owner, text).await;
        assert!(refused.contains(words), "{text}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memberships_survive_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let memberships = "readers ada true -\nreaders staff false -\nstaff bob false -";
    {
        let engine = engine_in(directory.path(), DRAM);
        let owner = engine.session().expect("a session");
        show(&owner, ADMIN).await;
        show(&owner, "CREATE ROLE readers; CREATE ROLE staff IN ROLE readers NOINHERIT").await;
        show(&owner, "CREATE USER ada; CREATE USER bob IN ROLE staff").await;
        show(&owner, "GRANT readers TO ada WITH ADMIN OPTION").await;
        show(&owner, "CREATE TABLE t AS SELECT 1 AS x; GRANT SELECT ON t TO readers").await;
        assert_eq!(show(&owner, MEMBERSHIPS).await, memberships);
        drop(owner);
        engine.close().expect("closed");
    }
    let engine = engine_in(directory.path(), DRAM);
    let owner = engine.session().expect("a session");
    assert_eq!(show(&owner, MEMBERSHIPS).await, memberships);
    let ada = engine.session_of("ada").expect("a session");
    let bob = engine.session_of("bob").expect("a session");
    assert_eq!(show(&ada, "SELECT x FROM t").await, "1");
    denied(&bob, "SELECT x FROM t").await;
    show(&ada, "REVOKE readers FROM staff; GRANT readers TO bob").await;
    assert_eq!(show(&bob, "SELECT x FROM t").await, "1");
    drop((ada, bob, owner));
    engine.close().expect("closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_act_as_other_roles() {
    let (engine, owner) = with_roles().await;
    show(&owner, "GRANT readers TO staff; GRANT staff TO bob; ALTER ROLE bob NOINHERIT").await;
    // A session without a login role may act as every role.
    show(&owner, "SET ROLE readers").await;
    assert_eq!(owner.role().as_deref(), Some("readers"));
    assert_eq!(show(&owner, "SELECT x FROM t").await, "1");
    denied(&owner, "INSERT INTO t VALUES (2)").await;
    denied(&owner, "CREATE ROLE eve").await;
    show(&owner, "SET ROLE NONE; INSERT INTO t VALUES (2)").await;
    assert_eq!(owner.role(), None);

    let bob = engine.session_of("bob").expect("a session");
    denied(&bob, "SELECT sum(x) FROM t").await;
    for text in
        ["SET ROLE staff", "SET ROLE readers", "SET role = 'readers'", "SET role TO Readers"]
    {
        show(&bob, text).await;
        assert_eq!(show(&bob, "SELECT sum(x) FROM t").await, "3", "{text}");
    }
    denied(&bob, "SET ROLE admin").await;
    assert_eq!(bob.role().as_deref(), Some("readers"));
    // A statement that is prepared runs with the rights of the role at that time.
    let statement = bob.parse("SELECT sum(x) FROM t").expect("parsed").pop().expect("one");
    let prepared = bob.prepare(statement, &[]).await.expect("prepared");
    let run = || async { bob.execute_prepared(&prepared, vec![]).await?.collect().await };
    run().await.expect("allowed");
    show(&bob, "RESET ROLE").await;
    assert!(run().await.is_err());

    // A role that goes takes its rights along.
    show(&bob, "SET ROLE staff").await;
    show(&owner, "DROP ROLE staff").await;
    error(&bob, "SELECT sum(x) FROM t").await;
    show(&bob, "RESET ROLE").await;
}
