//! Roles that are members of roles, as clients change and see them.

use std::net::SocketAddr;
use std::process::Command;

use terrace_server::Limits;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::common::has_psql;
use crate::running::{Running, engine};

/// The roles: `ada` and `bob` log in, `bob` does not inherit.
const ROLES: &str = "CREATE ROLE admin SUPERUSER LOGIN PASSWORD 'secret';
    CREATE ROLE readers; CREATE ROLE staff IN ROLE readers;
    CREATE ROLE ada LOGIN PASSWORD 'secret' IN ROLE staff;
    CREATE ROLE bob LOGIN PASSWORD 'secret' NOINHERIT IN ROLE readers;
    GRANT readers TO ada WITH ADMIN OPTION;
    CREATE TABLE t AS SELECT 1 AS x; GRANT SELECT ON t TO readers";

/// The query of `\drg` of psql 16.
const GRANTS: &str = "SELECT m.rolname AS \"Role name\", r.rolname AS \"Member of\",
      pg_catalog.concat_ws(', ',
        CASE WHEN pam.admin_option THEN 'ADMIN' END,
        CASE WHEN pam.inherit_option THEN 'INHERIT' END,
        CASE WHEN pam.set_option THEN 'SET' END
      ) AS \"Options\",
      g.rolname AS \"Grantor\"
    FROM pg_catalog.pg_roles m
         JOIN pg_catalog.pg_auth_members pam ON (pam.member = m.oid)
         LEFT JOIN pg_catalog.pg_roles r ON (pam.roleid = r.oid)
         LEFT JOIN pg_catalog.pg_roles g ON (pam.grantor = g.oid)
    WHERE m.rolname !~ '^pg_'
    ORDER BY 1, 2, 4;";

/// The query with which pgAdmin begins.
const OF_PGADMIN: &str = "SELECT roles.oid as id, roles.rolname as name, \
    CASE WHEN 'readers'=ANY(ARRAY(WITH RECURSIVE cte AS ( \
    SELECT pg_roles.oid,pg_roles.rolname FROM pg_roles WHERE pg_roles.oid = roles.oid \
    UNION ALL \
    SELECT m.roleid,pgr.rolname FROM cte cte_1 JOIN pg_auth_members m ON m.member = cte_1.oid \
    JOIN pg_roles pgr ON pgr.oid = m.roleid) \
    SELECT rolname FROM cte)) THEN True ELSE False END as can_signal_backend \
    FROM pg_catalog.pg_roles as roles WHERE rolname = current_user";

/// A server with [`ROLES`].
async fn served() -> Running {
    let engine = engine();
    let session = engine.session().expect("a session");
    session.sql(ROLES).await.expect("made");
    drop(session);
    Running::start(engine, Limits::default()).await
}

async fn connect(address: SocketAddr, role: &str) -> Client {
    let url = format!("postgres://{role}:secret@{address}/main");
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.expect("connected");
    tokio::spawn(connection);
    client
}

/// Returns the rows of a statement as lines.
async fn shown(client: &Client, text: &str) -> String {
    let messages = client.simple_query(text).await;
    let messages = messages.unwrap_or_else(|error| panic!("{text}: {error:?}"));
    let line = |message: SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => {
            let values = (0..row.len()).map(|index| row.get(index).unwrap_or("-").to_owned());
            Some(values.collect::<Vec<_>>().join("|"))
        }
        _ => None,
    };
    messages.into_iter().filter_map(line).collect::<Vec<_>>().join("\n")
}

/// Runs a statement that must fail, and returns the class and the text of its error.
async fn refused(client: &Client, text: &str) -> (SqlState, String) {
    let error = client.simple_query(text).await.expect_err(text);
    let error = error.as_db_error().expect("of the server");
    (error.code().clone(), error.message().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_are_those_of_postgresql() {
    let running = served().await;
    let (admin, ada) =
        (connect(running.address, "admin").await, connect(running.address, "ada").await);
    let invalid_grant = SqlState::INVALID_GRANT_OPERATION;
    for (role, member) in [("readers", "readers"), ("ada", "readers"), ("staff", "readers")] {
        let (state, text) = refused(&admin, &format!("GRANT {role} TO {member}")).await;
        assert_eq!(state, invalid_grant, "{text}");
        assert_eq!(text, format!("role \"{role}\" is a member of role \"{member}\""));
    }
    for (statement, words) in [
        ("GRANT staff TO bob", "must have admin option on role \"staff\""),
        ("REVOKE staff FROM ada", "must have admin option on role \"staff\""),
        ("GRANT admin TO ada", "must be superuser to alter superusers"),
    ] {
        let (state, text) = refused(&ada, statement).await;
        assert_eq!((state, text.as_str()), (SqlState::INSUFFICIENT_PRIVILEGE, words));
    }
    let (state, text) = refused(&admin, "GRANT nosuch TO ada").await;
    assert_eq!(state, SqlState::UNDEFINED_OBJECT, "{text}");
    let (state, text) = refused(&admin, "GRANT readers TO ada WITH SET TRUE").await;
    assert_eq!(state, SqlState::SYNTAX_ERROR, "{text}");
    let (state, text) = refused(&ada, "SET SESSION AUTHORIZATION bob").await;
    assert_eq!(state, SqlState::FEATURE_NOT_SUPPORTED, "{text}");
    ada.batch_execute("GRANT readers TO staff; REVOKE readers FROM staff").await.expect("changed");
    assert_eq!(shown(&ada, "SELECT x FROM t").await, "1");
    drop((admin, ada));
    running.end().await.close().expect("the engine is free");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_catalog_lists_members() {
    let running = served().await;
    let (admin, ada) =
        (connect(running.address, "admin").await, connect(running.address, "ada").await);
    ada.batch_execute("GRANT readers TO admin").await.expect("granted");
    assert_eq!(
        shown(&admin, GRANTS).await,
        "ada|readers|ADMIN, INHERIT, SET|terrace\nada|staff|INHERIT, SET|terrace\n\
         admin|readers|INHERIT, SET|ada\nbob|readers|SET|terrace\n\
         staff|readers|INHERIT, SET|terrace"
    );
    let all = "SELECT roleid::regrole, member::regrole, grantor::regrole, admin_option \
               FROM pg_auth_members WHERE member = 'ada'::regrole ORDER BY 1";
    assert_eq!(shown(&admin, all).await, "readers|ada|terrace|t\nstaff|ada|terrace|f");
    let inherits = "SELECT rolname FROM pg_roles WHERE NOT rolinherit";
    assert_eq!(shown(&admin, inherits).await, "bob");
    let recursive = "WITH RECURSIVE members AS (SELECT oid FROM pg_roles \
                     WHERE rolname = current_user UNION ALL SELECT m.roleid FROM pg_auth_members m \
                     JOIN members ON m.member = members.oid) SELECT count(*) FROM members";
    // A role that is reached on two ways is listed twice.
    assert_eq!(shown(&ada, recursive).await, "4");
    let bob = connect(running.address, "bob").await;
    for (client, user) in [(&ada, "ada"), (&bob, "bob")] {
        let line = shown(client, OF_PGADMIN).await;
        assert!(line.ends_with(&format!("|{user}|t")), "{line}");
    }
    let enabled = "SELECT role_name FROM information_schema.enabled_roles ORDER BY 1";
    assert_eq!(shown(&ada, enabled).await, "ada\nreaders\nstaff");
    assert_eq!(shown(&bob, enabled).await, "bob");
    let applicable = "SELECT grantee, role_name, is_grantable \
                      FROM information_schema.applicable_roles ORDER BY 1, 2";
    let listed = "ada|readers|YES\nada|staff|NO\nstaff|readers|NO";
    assert_eq!(shown(&ada, applicable).await, listed);
    let administrable = "SELECT grantee, role_name \
                         FROM information_schema.administrable_role_authorizations";
    assert_eq!(shown(&ada, administrable).await, "ada|readers");
    drop((admin, ada, bob));
    running.end().await.close().expect("the engine is free");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_tell_members_and_their_privileges() {
    let running = served().await;
    let (admin, ada, bob) = (
        connect(running.address, "admin").await,
        connect(running.address, "ada").await,
        connect(running.address, "bob").await,
    );
    for (client, text, wanted) in [
        (&ada, "SELECT pg_has_role('readers', 'MEMBER'), pg_has_role('readers', 'usage')", "t|t"),
        (&ada, "SELECT pg_has_role('bob', 'MEMBER'), pg_has_role('ada', 'MEMBER')", "f|t"),
        (&ada, "SELECT pg_has_role('readers', 'MEMBER WITH ADMIN OPTION')", "t"),
        (&ada, "SELECT pg_has_role('staff', 'USAGE WITH GRANT OPTION')", "f"),
        (&ada, "SELECT pg_has_role('ada', 'MEMBER WITH ADMIN OPTION')", "f"),
        (&bob, "SELECT pg_has_role('readers', 'MEMBER'), pg_has_role('readers', 'USAGE')", "t|f"),
        (&bob, "SELECT pg_has_role('readers', 'USAGE, MEMBER')", "t"),
        (&bob, "SELECT pg_has_role('staff', 'readers', 'USAGE'), pg_has_role(99, 'USAGE')", "t|f"),
        (&bob, "SELECT pg_has_role('admin', 'staff', 'MEMBER'), pg_has_role('bob', 'SET')", "t|t"),
        (&bob, "SELECT pg_has_role('readers'::regrole, 'MEMBER')", "t"),
        (&bob, "SELECT has_table_privilege('t', 'SELECT')", "f"),
        (&ada, "SELECT has_table_privilege('t', 'SELECT')", "t"),
        (&admin, "SELECT has_table_privilege('staff', 't', 'SELECT')", "t"),
    ] {
        assert_eq!(shown(client, text).await, wanted, "{text}");
    }
    let (state, text) = refused(&ada, "SELECT pg_has_role('nosuch', 'MEMBER')").await;
    assert_eq!(state, SqlState::UNDEFINED_OBJECT, "{text}");
    let (state, text) = refused(&ada, "SELECT pg_has_role('readers', 'x')").await;
    assert_eq!(state, SqlState::INVALID_PARAMETER_VALUE, "{text}");
    assert!(text.contains("unrecognized privilege type: \"x\""), "{text}");
    drop((admin, ada, bob));
    running.end().await.close().expect("the engine is free");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_with_the_name_of_the_owner_is_no_superuser() {
    let running = served().await;
    let admin = connect(running.address, "admin").await;
    let made = "CREATE ROLE terrace LOGIN PASSWORD 'secret'";
    admin.batch_execute(made).await.expect("made");
    let other = connect(running.address, "terrace").await;
    let answers = "SELECT has_table_privilege('t', 'SELECT'), pg_has_role('admin', 'MEMBER')";
    assert_eq!(shown(&other, answers).await, "f|f");
    let number = shown(&admin, "SELECT pg_backend_pid()").await;
    let (_, text) = refused(&other, &format!("SELECT pg_terminate_backend({number})")).await;
    assert!(text.contains("permission denied"), "{text}");
    drop((admin, other));
    running.end().await.close().expect("the engine is free");
}

/// The user that statements run as, that of the login, and the setting.
const WHO: &str = "SELECT current_user, session_user, current_setting('role')";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_act_as_their_roles() {
    let running = served().await;
    let (admin, ada, bob) = (
        connect(running.address, "admin").await,
        connect(running.address, "ada").await,
        connect(running.address, "bob").await,
    );
    // Bob does not inherit, and has the privileges of his role while he acts as it.
    let (state, _) = refused(&bob, "SELECT x FROM t").await;
    assert_eq!(state, SqlState::INSUFFICIENT_PRIVILEGE);
    bob.batch_execute("SET ROLE readers").await.expect("a member");
    assert_eq!(shown(&bob, "SELECT x FROM t").await, "1");
    assert_eq!(shown(&bob, WHO).await, "readers|bob|readers");
    assert_eq!(shown(&bob, "SELECT has_table_privilege('t', 'SELECT')").await, "t");
    bob.batch_execute("RESET ALL").await.expect("reset");
    assert_eq!(shown(&bob, "SHOW role").await, "readers");
    for reset in ["RESET ROLE", "SET ROLE NONE", "SET role TO DEFAULT", "DISCARD ALL"] {
        bob.batch_execute("SET SESSION ROLE 'readers'").await.expect("a member");
        bob.batch_execute(reset).await.expect(reset);
        assert_eq!(shown(&bob, WHO).await, "bob|bob|none", "{reset}");
        refused(&bob, "SELECT x FROM t").await;
    }

    // Other roles, and those that do not exist.
    let (state, text) = refused(&bob, "SET ROLE staff").await;
    assert_eq!(state, SqlState::INSUFFICIENT_PRIVILEGE, "{text}");
    let (state, text) = refused(&ada, "SET ROLE nosuch").await;
    assert_eq!(state, SqlState::INVALID_PARAMETER_VALUE, "{text}");
    let (state, text) = refused(&bob, "SELECT set_config('role', 'staff', false)").await;
    assert_eq!(state, SqlState::INSUFFICIENT_PRIVILEGE, "{text}");
    assert_eq!(shown(&bob, WHO).await, "bob|bob|none");
    assert_eq!(shown(&bob, "SELECT set_config('role', 'readers', false)").await, "readers");
    assert_eq!(shown(&bob, WHO).await, "readers|bob|readers");

    // A transaction restores the role.
    ada.batch_execute("BEGIN; SET LOCAL ROLE staff").await.expect("a member");
    assert_eq!(shown(&ada, WHO).await, "staff|ada|staff");
    ada.batch_execute("COMMIT; BEGIN; SET ROLE readers; ROLLBACK").await.expect("ended");
    assert_eq!(shown(&ada, WHO).await, "ada|ada|none");

    // A superuser acts as any role, without the rights of a superuser until it resets the role.
    admin.batch_execute("SET ROLE ada").await.expect("any role");
    let (state, _) = refused(&admin, "CREATE ROLE eve").await;
    assert_eq!(state, SqlState::INSUFFICIENT_PRIVILEGE);
    refused(&admin, "SET terrace.market = 'fair'").await;
    admin.batch_execute("SET ROLE staff; RESET ROLE; CREATE ROLE eve").await.expect("a superuser");
    admin.batch_execute("GRANT CREATE ON SCHEMA public TO eve; SET ROLE eve").await.expect("made");
    admin.batch_execute("CREATE TABLE hers (x INT); RESET ROLE").await.expect("made");
    let owner = "SELECT tableowner FROM pg_tables WHERE tablename = 'hers'";
    assert_eq!(shown(&admin, owner).await, "eve");
    admin.batch_execute("SET ROLE eve; SET ROLE admin").await.expect("any role");
    let (_, text) = refused(&admin, "DROP ROLE admin").await;
    assert!(text.contains("which this session has"), "{text}");
    drop((admin, ada, bob));
    running.end().await.close().expect("the engine is free");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn psql_lists_the_roles_of_members() {
    if !has_psql() {
        return;
    }
    let running = served().await;
    let (host, port) = (running.address.ip().to_string(), running.address.port().to_string());
    let ask = |text: &'static str| {
        let mut psql = Command::new("psql");
        psql.env("PGPASSWORD", "secret").args(["-X", "-A", "-t", "-h", &host, "-p", &port]);
        psql.args(["-U", "admin", "-d", "main", "-c", text]);
        tokio::task::spawn_blocking(move || {
            let output = psql.output().expect("psql runs");
            assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        })
    };
    let listed = ask("\\du").await.expect("psql");
    let of = |role: &str| {
        let lines = listed.lines().map(|line| line.split('|').collect::<Vec<_>>());
        let mut lines = lines.filter(|columns| columns[0] == role);
        let line = lines.next().unwrap_or_else(|| panic!("{role}: {listed}"));
        let mut roles: Vec<_> = line[2].trim_matches(['{', '}']).split(',').collect();
        roles.sort_unstable();
        (line[1].to_owned(), roles.join(","))
    };
    assert_eq!(of("ada"), (String::new(), "readers,staff".to_owned()));
    assert_eq!(of("bob"), ("No inheritance".to_owned(), "readers".to_owned()));
    assert_eq!(of("staff"), ("Cannot login".to_owned(), "readers".to_owned()));
    assert_eq!(of("admin"), ("Superuser, Create role".to_owned(), String::new()));
    assert_eq!(ask("GRANT staff TO bob").await.expect("psql"), "GRANT ROLE");
    assert_eq!(ask("REVOKE staff FROM bob").await.expect("psql"), "REVOKE ROLE");
    running.end().await.close().expect("the engine is free");
}
