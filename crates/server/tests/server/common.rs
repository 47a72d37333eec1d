//! A server for tests, and clients of it.

use std::future::Future;
use std::net::SocketAddr;
use std::process::Command;

use terrace_server::Limits;
use terrace_testkit::needs;
use tokio_postgres::{Client, NoTls};

use crate::running::{Running, engine};

/// Runs a test against a server, and checks that the server releases the engine afterwards.
pub async fn with_server<T: Future<Output = ()>>(
    limits: Limits,
    test: impl FnOnce(SocketAddr) -> T,
) {
    let running = Running::start(engine(), limits).await;
    test(running.address).await;
    running.end().await.close().expect("the engine is free");
}

pub async fn connect(address: SocketAddr) -> Client {
    let url = format!("postgres://someone@{address}/main?application_name=test");
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.expect("connected");
    tokio::spawn(connection);
    client
}

pub fn psql(address: SocketAddr, text: &str) -> (String, String) {
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let output = Command::new("psql")
        .env("PGTZ", "Europe/Berlin")
        .args(["-X", "-A", "-t", "-h", &host, "-p", &port, "-d", "main", "-c", text])
        .output()
        .expect("psql runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    (text(&output.stdout), text(&output.stderr))
}

pub fn has_psql() -> bool {
    let found = Command::new("psql").arg("--version").output();
    needs::or_skip("psql", found.map_err(|error| error.to_string())).is_some()
}
