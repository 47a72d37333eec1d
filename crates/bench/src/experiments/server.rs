//! The server under load: many clients with heavy queries, short queries with a priority
//! concurrently with them, and the cost of the protocol.
//!
//! Each server runs in a separate process, in a control group that limits its memory and page cache
//! if groups can be created. Clients are sessions of psql outside of the group (`psql`). The same
//! queries run on PostgreSQL, if it is installed, and on DuckDB, which has no server: in one Python
//! process with a thread for each client, and in a process for each client.
//!
//! All answers are compared: with the specification's at scale 1, and with those of the first
//! engine.

mod backend;
mod config;
mod load;
mod options;
mod postgres;
mod priority;
mod psql;
mod report;
mod wire;

use terrace_sys::size::{MIB, format_bytes};

use crate::duckdb::package::DUCKDB;
use crate::error::Result;
use crate::experiment::{Common, Experiment};
use crate::peer::comparison::Comparison;
use crate::peer::engine::{Arena, Contender};
use crate::setting::{Finding, Setting};
pub(crate) use backend::{Backend, Budget, serve};
use config::Config;
use load::Engine;
use options::Part;
pub(crate) use options::ServerOptions;
use postgres::Postgres;
pub(crate) use psql::Psql;
use report::{Measured, finding};

/// Memory budget of PostgreSQL while tables are loaded.
const LOAD_DRAM_BYTES: u64 = 1024 * MIB;

/// Experiment `server`: a server under load, and the cost of its protocol.
pub(crate) struct Server;

impl Experiment for Server {
    const NAME: &'static str = "server";
    const QUESTION: &'static str =
        "do many clients finish in little memory, and what does the protocol cost?";
    const COMMON: &'static [Common] = &Common::ALL;
    type Options = ServerOptions;

    /// Runs the experiment.
    ///
    /// # Errors
    /// Fails if psql is missing, tables cannot be loaded, or a server of Terrace does not start.
    /// Failed queries and wrong answers are counted.
    async fn run(
        setting: &Setting,
        options: &ServerOptions,
        observe: &mut dyn FnMut(&str),
    ) -> Result<Finding> {
        let mut config = Config::of(setting, options);
        config.versions.push(psql::version().await?);
        let postgres = match Postgres::create().await {
            Ok(postgres) => {
                config.versions.push(postgres.version().to_owned());
                Some(postgres)
            }
            Err(error) => {
                let text =
                    format!("PostgreSQL is missing, so nothing is compared with it: {error}");
                config.missing.push(text);
                None
            }
        };
        let mut measured = Measured::default();
        if config.has(Part::Load) || config.has(Part::Priority) {
            let arena = Arena::prepare(setting, "server", observe).await?;
            config.encoding = arena.encoding().to_owned();
            let limit = format_bytes(config.limit_bytes);
            config.memory_limit = arena.memory_limit(&format!(
                "each server, or all processes of an engine without one, in a control group of \
                 {limit}"
            ));
            config.missing.extend(arena.missing());
            if arena.missing().is_none() {
                config.versions.push(format!("DuckDB {}", DUCKDB.version));
            }
            if config.has(Part::Load) {
                load(&arena, postgres.as_ref(), &config, &mut measured, observe).await?;
            }
            if config.has(Part::Priority) {
                measured.priority = priority::run(&arena, &config, observe).await?;
            }
        }
        if config.has(Part::Wire) {
            measured.wire = wire(postgres.as_ref(), &config, observe).await?;
        }
        finding(Server::NAME, &config, &measured)
    }
}

async fn load(
    arena: &Arena,
    postgres: Option<&Postgres>,
    config: &Config,
    measured: &mut Measured,
    observe: &mut dyn FnMut(&str),
) -> Result<()> {
    if let Some(postgres) = postgres {
        let budget = Budget { dram_bytes: LOAD_DRAM_BYTES, ..config.budget() };
        let ours = serve(&config.program, Some(&arena.tables()), &[], budget, None)?;
        let theirs = postgres.start(budget, None).await?;
        postgres.load(&ours.address, &theirs.address, observe).await?;
    }
    let mut comparison = Comparison::new(config.scale);
    for engine in Engine::ALL {
        let is_there = match engine {
            Engine::Terrace => true,
            Engine::Postgres => postgres.is_some(),
            _ => arena.has(Contender::DuckDb),
        };
        if !is_there {
            continue;
        }
        observe(&format!("{} clients on {}", config.options.clients, engine.name()));
        let row = match load::run((arena, postgres), engine, config, &mut comparison).await {
            // An engine other than Terrace that cannot start under the limit counts as having
            // answered no query.
            Err(error) if engine != Engine::Terrace => load::LoadRow::none(engine, config, &error),
            row => row?,
        };
        measured.load.push(row);
    }
    Ok(())
}

async fn wire(
    postgres: Option<&Postgres>,
    config: &Config,
    observe: &mut dyn FnMut(&str),
) -> Result<Vec<wire::WireRow>> {
    let budget = Budget { clients: config.options.clients.max(40), ..config.budget() };
    let mut servers: Vec<(Engine, Backend)> =
        vec![(Engine::Terrace, serve(&config.program, None, &[], budget, None)?)];
    if let Some(postgres) = postgres {
        servers.push((Engine::Postgres, postgres.start(budget, None).await?));
    }
    wire::run(&servers, config, observe).await
}
