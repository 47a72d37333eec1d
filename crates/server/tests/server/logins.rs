//! Logins with passwords and over TLS.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Instant;

use terrace_server::{Limits, Listener, Server, ServerError, Tls};
use terrace_sql::Session;
use terrace_testkit::needs;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use crate::running::{Running, engine};

/// A server with the roles `admin` and `ada`, whose passwords are `secret` and `pencil`.
pub struct Served {
    pub running: Running,
    pub directory: tempfile::TempDir,
    tls: Option<Arc<Tls>>,
}

impl Served {
    pub async fn start(with_tls: bool, with_roles: bool) -> Self {
        let engine = engine();
        let directory = tempfile::tempdir().expect("a directory");
        let tls = with_tls.then(|| {
            let (certificate, key) = certificate_in(directory.path());
            Arc::new(Tls::open(&certificate, &key).expect("a certificate"))
        });
        if with_roles {
            let session = engine.session().expect("a session");
            run(&session, "CREATE ROLE admin SUPERUSER LOGIN PASSWORD 'secret'").await;
            run(&session, "CREATE ROLE ada LOGIN PASSWORD 'pencil'; CREATE ROLE nologin").await;
            run(&session, "CREATE TABLE t AS SELECT 1 AS x").await;
        }
        let server = Server::new(engine.clone(), Limits::default(), tls.clone()).expect("a server");
        let running = Running::of(engine, server).await;
        Self { running, directory, tls }
    }

    pub async fn end(self) {
        self.running.end().await.close().expect("the engine is free");
    }

    /// Runs psql with a password; `options` are added to its connection string.
    async fn psql(&self, role: &str, password: &str, options: &str, text: &str) -> Output {
        let (host, port) = (self.running.address.ip(), self.running.address.port());
        let to = format!("host={host} port={port} dbname=main user={role} {options}");
        let (password, text) = (password.to_owned(), text.to_owned());
        let psql = move || {
            Command::new("psql")
                .env("PGPASSWORD", password)
                .args(["-X", "-A", "-t", "-w", "-c", &text, &to])
                .output()
        };
        tokio::task::spawn_blocking(psql).await.expect("a thread").expect("psql runs")
    }
}

pub fn certificate_in(directory: &Path) -> (PathBuf, PathBuf) {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let pair = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let (certificate, key) = (directory.join("cert.pem"), directory.join("key.pem"));
    std::fs::write(&certificate, pair.cert.pem()).expect("written");
    std::fs::write(&key, pair.signing_key.serialize_pem()).expect("written");
    let own = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&key, own).expect("changed");
    (certificate, key)
}

async fn run(session: &Session, text: &str) {
    session.sql(text).await.expect("run");
}

async fn connect(to: SocketAddr, role: &str, password: &str) -> Result<Client, SqlState> {
    let url = format!("postgres://{role}:{password}@{to}/main");
    let (client, connection) = tokio_postgres::connect(&url, NoTls)
        .await
        .map_err(|error| error.code().cloned().unwrap_or(SqlState::INTERNAL_ERROR))?;
    tokio::spawn(connection);
    Ok(client)
}

fn has_psql() -> bool {
    let found = Command::new("psql").arg("--version").output();
    needs::or_skip("psql", found.map_err(|error| error.to_string())).is_some()
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_log_in_by_their_passwords_alone() {
    let served = Served::start(false, true).await;
    let ada = connect(served.running.address, "ada", "pencil").await.expect("logged in");
    let user = ada.query_one("SELECT current_user", &[]).await.expect("a row");
    assert_eq!(user.get::<_, String>(0), "ada");
    let denied = ada.query("SELECT x FROM t", &[]).await.expect_err("no grant");
    assert_eq!(denied.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{denied}");
    for (role, password) in [("ada", "wrong"), ("nosuch", "pencil"), ("nologin", "x"), ("ada", "")]
    {
        let refused = connect(served.running.address, role, password).await.expect_err("refused");
        assert_eq!(refused, SqlState::INVALID_PASSWORD, "{role} {password}");
    }
    let admin = connect(served.running.address, "admin", "secret").await.expect("logged in");
    admin.batch_execute("GRANT SELECT ON t TO ada").await.expect("granted");
    assert_eq!(ada.query_one("SELECT x FROM t", &[]).await.expect("a row").get::<_, i64>(0), 1);
    admin.batch_execute("ALTER ROLE ada PASSWORD 'other'").await.expect("altered");
    assert!(connect(served.running.address, "ada", "pencil").await.is_err());
    assert!(connect(served.running.address, "ada", "other").await.is_ok());
    admin.batch_execute("REVOKE ALL ON t FROM ada").await.expect("revoked");
    admin.batch_execute("DROP ROLE ada").await.expect("dropped");
    let gone = ada.query("SELECT 1", &[]).await.expect_err("the role is gone");
    assert_eq!(gone.code(), Some(&SqlState::UNDEFINED_OBJECT), "{gone}");
    drop((ada, admin));
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_role_takes_as_long_as_a_wrong_password() {
    let served = Served::start(false, true).await;
    let mut longest = [0.0_f64; 2];
    let mut shortest = [f64::MAX; 2];
    for _ in 0..5 {
        for (at, role) in ["ada", "nosuch"].into_iter().enumerate() {
            let began = Instant::now();
            assert!(connect(served.running.address, role, "wrong").await.is_err());
            let took = began.elapsed().as_secs_f64();
            longest[at] = longest[at].max(took);
            shortest[at] = shortest[at].min(took);
        }
    }
    // Both logins are delayed; any difference is within the noise.
    assert!(shortest.iter().all(|took| *took > 0.2), "{shortest:?}");
    assert!((shortest[0] - shortest[1]).abs() < 0.1, "{shortest:?} {longest:?}");
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_asked_for_and_bound_to_the_login() {
    if !has_psql() {
        return;
    }
    let served = Served::start(true, true).await;
    let root = served.directory.path().join("cert.pem");
    let verified = format!("sslmode=verify-full sslrootcert={}", root.display());
    let select = "SELECT current_user";
    for binding in ["require", "prefer", "disable"] {
        let options = format!("{verified} channel_binding={binding}");
        let (out, errors) = texts(&served.psql("ada", "pencil", &options, select).await);
        assert_eq!((out.as_str(), errors.as_str()), ("ada", ""), "{binding}");
    }
    let (_, errors) = texts(&served.psql("ada", "wrong", &verified, select).await);
    assert!(errors.contains("password authentication failed for user \"ada\""), "{errors}");
    let (_, errors) = texts(&served.psql("ada", "pencil", "sslmode=disable", select).await);
    assert!(errors.contains("sslmode=require"), "{errors}");
    // Another certificate, as after a renewal.
    certificate_in(served.directory.path());
    served.tls.as_ref().expect("TLS").reload().expect("read again");
    let (out, errors) = texts(&served.psql("ada", "pencil", &verified, select).await);
    assert_eq!((out.as_str(), errors.as_str()), ("ada", ""));
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_before_the_handshake_are_refused() {
    let served = Served::start(true, true).await;
    let mut stream = TcpStream::connect(served.running.address).await.expect("connected");
    // SSLRequest, then a start-up message that must not pass for one received over TLS.
    let mut sent = [0, 0, 0, 8, 4, 210, 22, 47].to_vec();
    sent.extend([0, 0, 0, 17, 0, 3, 0, 0]);
    sent.extend(b"user\0ada\0");
    stream.write_all(&sent).await.expect("sent");
    let mut answer = Vec::new();
    let _reset = stream.read_to_end(&mut answer).await;
    assert_eq!(answer.first(), Some(&b'S'));
    assert!(answer[1..].is_empty() || answer[1] == b'E', "{answer:?}");
    served.end().await;
}

#[tokio::test]
async fn other_machines_are_served_with_tls_and_logins_alone() {
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    for (with_tls, with_roles) in [(false, true), (true, false), (true, true)] {
        let served = Served::start(with_tls, with_roles).await;
        let server =
            Server::new(served.running.engine.clone(), Limits::default(), served.tls.clone());
        let listener = Listener::tcp(everywhere, &server.expect("a server")).await;
        match (with_tls, with_roles) {
            (false, _) => assert!(matches!(listener, Err(ServerError::NoTls(_)))),
            (true, false) => assert!(matches!(listener, Err(ServerError::NoLogins(_)))),
            (true, true) => assert!(listener.is_ok(), "{listener:?}"),
        }
        served.end().await;
    }
}
