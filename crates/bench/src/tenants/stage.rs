//! The engine that a trace is played on: in this process, or a server that clients connect to.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use terrace_sql::{Engine, EngineConfig, Session};

use super::{Rule, TENANTS};
use crate::error::{BenchError, Result};
use crate::server::{Backend, Budget, Psql, serve};
use crate::suite::database::Database;
use crate::suite::load::refused;
use crate::suite::run::start;

/// Connections that each tenant has before the first request comes; more are made when all of them
/// have a request.
const READY: usize = 12;

/// The most connections of a server in this experiment.
const CLIENTS_MAX: usize = 512;

/// The longest time for one request.
const PATIENCE: Duration = Duration::from_secs(600);

/// Engines over the same tables, each of which finds nothing in memory.
pub(super) enum Theatre<'a> {
    /// In this process.
    Local(&'a Database),
    /// `terrace serve` with this program.
    Wire(PathBuf, &'a EngineConfig),
}

impl Theatre<'_> {
    /// An engine that shares memory by a rule, with connections of all tenants.
    ///
    /// # Errors
    /// An engine that does not open, a server that does not start, a statement that is refused.
    pub(super) async fn open(&self, rule: Rule) -> Result<Stage> {
        let engine = match self {
            Self::Local(database) => Place::Local(database.open()?),
            Self::Wire(program, config) => {
                let budget = Budget {
                    dram_bytes: config.dram_bytes,
                    threads: config.threads,
                    clients: CLIENTS_MAX,
                };
                let data = config.data_dir.as_deref();
                Place::Wire(Box::new(serve(program, data, &config.tiers, budget, None)?))
            }
        };
        let idle = TENANTS.map(|_| Mutex::default());
        let stage = Stage { engine, rule, idle };
        let mut first = stage.connect(0).await?;
        first.run(&format!("SET terrace.market = '{}'", rule.market)).await?;
        stage.give(0, first);
        for tenant in 0..TENANTS.len() {
            for _ in 0..READY {
                let connection = stage.connect(tenant).await?;
                stage.give(tenant, connection);
            }
        }
        Ok(stage)
    }
}

enum Place {
    Local(Engine),
    Wire(Box<Backend>),
}

/// An engine with the connections of its tenants: a request takes one that has none.
pub(super) struct Stage {
    engine: Place,
    rule: Rule,
    idle: [Mutex<Vec<Connection>>; TENANTS.len()],
}

impl Stage {
    /// A connection of a tenant without a request.
    ///
    /// # Errors
    /// One that cannot be made.
    pub(super) async fn take(&self, tenant: usize) -> Result<Connection> {
        let idle = self.idle(tenant).pop();
        match idle {
            Some(connection) => Ok(connection),
            None => self.connect(tenant).await,
        }
    }

    /// Gives a connection back.
    pub(super) fn give(&self, tenant: usize, connection: Connection) {
        self.idle(tenant).push(connection);
    }

    /// Ends the engine.
    ///
    /// # Errors
    /// One that does not close.
    pub(super) fn end(self) -> Result<()> {
        drop(self.idle);
        match self.engine {
            Place::Local(engine) => engine.close().map_err(refused),
            Place::Wire(_) => Ok(()),
        }
    }

    fn idle(&self, tenant: usize) -> MutexGuard<'_, Vec<Connection>> {
        self.idle[tenant].lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&self, tenant: usize) -> Result<Connection> {
        let mut connection = match &self.engine {
            Place::Local(engine) => Connection::Local(engine.session().map_err(refused)?),
            Place::Wire(server) => Connection::Wire(Psql::start(&server.address)?),
        };
        let priority = self.rule.priority.filter(|_| tenant == 0);
        let priority = priority.map_or(String::new(), |it| format!(", priority {it}"));
        let (_, sla) = TENANTS[tenant];
        connection.run(&format!("SET terrace.sla = '{sla}{priority}'")).await?;
        Ok(connection)
    }
}

/// A connection of a tenant.
pub(super) enum Connection {
    Local(Session),
    Wire(Psql),
}

impl Connection {
    /// Runs a statement and reads all of its rows.
    ///
    /// # Errors
    /// The error of the engine.
    pub(super) async fn run(&mut self, sql: &str) -> Result<()> {
        match self {
            Self::Local(session) => {
                start(session, sql).await?.collect().await.map_err(refused)?;
                Ok(())
            }
            Self::Wire(psql) => match psql.ask(sql, Instant::now() + PATIENCE).await.error {
                Some(error) => Err(BenchError::Engine(error)),
                None => Ok(()),
            },
        }
    }
}
