//! A server for tests, and clients of it.

use std::future::Future;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;

use terrace_server::{Limits, Listener, Server};
use terrace_sql::{Engine, EngineConfig};
use terrace_testkit::needs;
use terrace_tier::store::MemoryBlocks;
use tokio::sync::oneshot;
use tokio_postgres::{Client, NoTls};

const DRAM: u64 = 64 << 20;
const STORE_BYTES: u64 = 1 << 30;

pub fn engine() -> Engine {
    let config = EngineConfig { threads: 2, ..EngineConfig::new(DRAM) };
    let blocks = Arc::new(MemoryBlocks::new(STORE_BYTES));
    Engine::over_blocks(&config, blocks, STORE_BYTES).expect("an engine")
}

/// Runs a test beside a server, and sees that the server lets go of the engine afterwards.
pub async fn with_server<T: Future<Output = ()>>(
    limits: Limits,
    test: impl FnOnce(SocketAddr) -> T,
) {
    let engine = engine();
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::new(engine.clone(), limits, None).expect("a server");
    let listener = Listener::tcp(address, &server).await.expect("an address");
    let Listener::Tcp(tcp) = &listener else { panic!("not by TCP") };
    let address = tcp.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(server.run(vec![listener], async { drop(stopped.await) }));
    test(address).await;
    drop(stop);
    server.await.expect("the server ends");
    engine.close().expect("the engine is free");
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
