//! A server in this process.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::stream;
use terrace_server::{Limits, Listener, Server};
use terrace_sql::{Engine, EngineConfig};
use terrace_store::{Blocks, MemoryBlocks};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

pub const DRAM: u64 = 64 << 20;
pub const STORE_BYTES: u64 = 1 << 30;

/// Returns an engine over a store in memory.
pub fn engine() -> Engine {
    engine_over(Arc::new(MemoryBlocks::new(STORE_BYTES)))
}

/// Returns an engine over a device of [`STORE_BYTES`].
pub fn engine_over(blocks: Arc<dyn Blocks>) -> Engine {
    let config = EngineConfig { threads: 2, ..EngineConfig::new(DRAM) };
    Engine::over_blocks(&config, blocks, STORE_BYTES).expect("an engine")
}

/// A server that listens at a loopback address.
pub struct Running {
    pub engine: Engine,
    pub address: SocketAddr,
    /// Messages that shut the server down.
    pub ends: UnboundedSender<()>,
    server: JoinHandle<()>,
}

impl Running {
    pub async fn start(engine: Engine, limits: Limits) -> Self {
        let server = Server::new(engine.clone(), limits, None).expect("a server");
        Self::of(engine, server).await
    }

    /// Starts a server that was created by the caller.
    pub async fn of(engine: Engine, server: Server) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = Listener::tcp(any, &server).await.expect("an address");
        let Listener::Tcp(tcp) = &listener else { panic!("not by TCP") };
        let address = tcp.local_addr().expect("an address");
        let (ends, told) = unbounded_channel();
        let told = stream::unfold(told, async |mut told| Some((told.recv().await?, told)));
        let server = tokio::spawn(server.run(vec![listener], told));
        Self { engine, address, ends, server }
    }

    /// Shuts the server down. No part of it uses the returned engine any more.
    pub async fn end(self) -> Engine {
        drop(self.ends);
        self.server.await.expect("the server ends");
        self.engine
    }
}
