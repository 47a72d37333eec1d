//! Engine on which a trace is replayed: in this process, or a server that clients connect to.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use terrace_sql::{Engine, EngineConfig, Session};
use terrace_sys::sync::lock;
use tokio::sync::Semaphore;

use super::rule::{Rule, TENANTS};
use crate::error::{BenchError, Result};
use crate::experiments::server::{Backend, Budget, Psql, serve};
use crate::suite::load::refused;
use crate::suite::run::start;
use crate::tpch::database::Database;

/// Number of connections of each tenant before the first request; more are opened while all of them
/// are busy.
const READY: usize = 12;

/// Maximum number of connections of a tenant. A request waits for one while all of them are busy.
const CLIENTS_MAX: usize = 128;

/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(600);

/// Factory of engines over the same tables, each of which starts with cold caches.
pub(super) enum EngineFactory<'a> {
    /// Opens engines in this process.
    Local(&'a Database),
    /// Starts `terrace serve`, with the program at this path.
    Wire(PathBuf, &'a EngineConfig),
}

impl EngineFactory<'_> {
    /// Opens an engine with a policy for sharing memory, and [`READY`] connections of each tenant.
    ///
    /// # Errors
    /// Fails if the engine does not open, the server does not start, or a statement is refused.
    pub(super) async fn open(&self, rule: Rule) -> Result<TenantEngine> {
        let engine = match self {
            Self::Local(database) => Access::Local(database.open()?),
            Self::Wire(program, config) => {
                let budget = Budget {
                    dram_bytes: config.dram_bytes,
                    threads: config.threads,
                    clients: CLIENTS_MAX * TENANTS.len(),
                };
                let data = config.data_dir.as_deref();
                Access::Wire(Box::new(serve(program, data, &config.tiers, budget, None)?))
            }
        };
        let idle = TENANTS.map(|_| Mutex::default());
        let free = TENANTS.map(|_| Semaphore::new(CLIENTS_MAX));
        let stage = TenantEngine { engine, rule, idle, free };
        for tenant in 0..TENANTS.len() {
            for _ in 0..READY {
                let connection = stage.connect(tenant).await?;
                stage.idle(tenant).push(connection);
            }
        }
        stage.run(0, &format!("SET terrace.market = '{}'", rule.market)).await?;
        Ok(stage)
    }
}

enum Access {
    Local(Engine),
    Wire(Box<Backend>),
}

/// An engine and the connections of its tenants. A request takes an idle connection of its tenant,
/// or opens one.
pub(super) struct TenantEngine {
    engine: Access,
    rule: Rule,
    idle: [Mutex<Vec<Connection>>; TENANTS.len()],
    /// A permit for each connection that is idle or not opened yet.
    free: [Semaphore; TENANTS.len()],
}

impl TenantEngine {
    /// Runs a statement of a tenant on one of its connections and reads all of its rows.
    ///
    /// # Errors
    /// Fails if a connection cannot be opened; otherwise errors of the engine.
    pub(super) async fn run(&self, tenant: usize, sql: &str) -> Result<()> {
        // The semaphore is never closed.
        let permit = self.free[tenant].acquire().await;
        let _permit = permit.map_err(|closed| BenchError::Engine(closed.to_string()))?;
        let idle = self.idle(tenant).pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => self.connect(tenant).await?,
        };
        let ran = connection.run(sql).await;
        self.idle(tenant).push(connection);
        ran
    }

    /// Closes the engine.
    ///
    /// # Errors
    /// Fails if the engine does not close.
    pub(super) fn end(self) -> Result<()> {
        drop(self.idle);
        match self.engine {
            Access::Local(engine) => engine.close().map_err(refused),
            Access::Wire(_) => Ok(()),
        }
    }

    fn idle(&self, tenant: usize) -> MutexGuard<'_, Vec<Connection>> {
        lock(&self.idle[tenant])
    }

    async fn connect(&self, tenant: usize) -> Result<Connection> {
        let mut connection = match &self.engine {
            Access::Local(engine) => {
                let session = engine.session().map_err(refused)?;
                Connection::Local(Box::new(session))
            }
            Access::Wire(server) => Connection::Wire(Psql::start(&server.address)?),
        };
        let priority = self.rule.priority.filter(|_| tenant == 0);
        let priority = priority.map_or(String::new(), |it| format!(", priority {it}"));
        let (_, sla) = TENANTS[tenant];
        connection.run(&format!("SET terrace.sla = '{sla}{priority}'")).await?;
        Ok(connection)
    }
}

/// A connection of a tenant.
enum Connection {
    Local(Box<Session>),
    Wire(Psql),
}

impl Connection {
    async fn run(&mut self, sql: &str) -> Result<()> {
        match self {
            Self::Local(session) => {
                start(session, sql).await?.collect().await.map_err(refused)?;
                Ok(())
            }
            Self::Wire(psql) => match psql.ask(sql, Instant::now() + REQUEST_TIMEOUT).await.error {
                Some(error) => Err(BenchError::Engine(error)),
                None => Ok(()),
            },
        }
    }
}
