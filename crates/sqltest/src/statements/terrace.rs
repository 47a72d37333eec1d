//! Terrace as a server in this process.

use std::net::SocketAddr;

use futures::stream;
use terrace_server::{Limits, Listener, Server, ServerError};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_postgres::{Client, NoTls};

use crate::database::Database;
use crate::error::{CheckError, Result};

/// Memory budget of the engine in bytes.
const DRAM_BYTES: u64 = 128 << 20;
/// Partitions of each query.
const PARTITIONS: usize = 2;

/// A server, which ends when this value is dropped.
pub struct Terrace {
    address: SocketAddr,
    /// Dropped, it ends the server.
    _ends: UnboundedSender<()>,
    _database: Database,
}

impl Terrace {
    /// Starts a server over a fresh database.
    ///
    /// # Errors
    /// [`CheckError::Engine`], or [`CheckError::Input`] without a free port.
    pub async fn start() -> Result<Self> {
        let database = Database::open(DRAM_BYTES, PARTITIONS)?;
        let failed = |error: ServerError| CheckError::Input(format!("the server: {error}"));
        let engine = database.engine().clone();
        let server = Server::new(engine, Limits::default(), None).map_err(failed)?;
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = Listener::tcp(any, &server).await.map_err(failed)?;
        let Listener::Tcp(tcp) = &listener else {
            return Err(CheckError::Input("the server does not listen by TCP".to_owned()));
        };
        let address = tcp.local_addr();
        let address = address.map_err(|error| CheckError::Input(format!("no address: {error}")))?;
        let (ends, told) = unbounded_channel();
        let told = stream::unfold(told, async |mut told| Some((told.recv().await?, told)));
        tokio::spawn(server.run(vec![listener], told));
        Ok(Self { address, _ends: ends, _database: database })
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// [`CheckError::Input`] if the server refuses it.
    pub async fn connect(&self) -> Result<Client> {
        let url = format!("postgres://check@{}/main", self.address);
        let connected = tokio_postgres::connect(&url, NoTls).await;
        let (client, connection) =
            connected.map_err(|error| CheckError::Input(format!("no connection: {error}")))?;
        tokio::spawn(connection);
        Ok(client)
    }
}
