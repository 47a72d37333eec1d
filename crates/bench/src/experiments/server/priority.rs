//! Short queries of a client with a priority, on an idle server and concurrently with the load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::future::{join, join_all};
use serde::Serialize;

use super::backend::{Backend, serve};
use super::config::Config;
use super::load::{Engine, SLACK, psql_clients, questions};
use super::psql::Psql;
use crate::error::{BenchError, Result};
use crate::experiments::clients::short_questions;
use crate::measure::percentile;
use crate::peer::comparison::{Comparison, Question};
use crate::peer::engine::Arena;

/// SLA of the client with short queries.
const SLA: &str = "SET terrace.sla = 'latency 50ms penalty 10 per 50ms, priority 1'";

/// Timeout of a short query, or of a query of the load.
const PATIENCE: Duration = Duration::from_secs(120);

/// Latencies of short queries under one condition.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PriorityRow {
    /// True if measured concurrently with the load, false if on an idle server.
    pub(super) beside_load: bool,
    /// True if the client has a priority.
    pub(super) has_priority: bool,
    pub(super) answered: usize,
    pub(super) failed: usize,
    pub(super) p50_seconds: Option<f64>,
    pub(super) p95_seconds: Option<f64>,
    /// Number of queries of the load that were answered during the measurement.
    pub(super) load_answered: usize,
    pub(super) load_failed: usize,
    /// The first error.
    pub(super) error: Option<String>,
}

/// Answers and the first error of some queries.
#[derive(Default)]
struct Seen {
    seconds: Vec<f64>,
    failed: usize,
    error: Option<String>,
}

impl Seen {
    async fn ask(&mut self, client: &mut Psql, question: &Question, comparison: &mut Comparison) {
        let reply = client.ask(&question.text, Instant::now() + PATIENCE).await;
        let verdict = comparison.judge(question, Engine::Terrace.name(), &reply);
        match reply.error.or(verdict.err().map(|error| error.to_string())) {
            None => self.seconds.push(reply.seconds),
            Some(error) => {
                self.failed += 1;
                self.error.get_or_insert(error);
            }
        }
    }

    fn row(self, (beside_load, has_priority): (bool, bool), load: &Seen) -> PriorityRow {
        PriorityRow {
            beside_load,
            has_priority,
            answered: self.seconds.len(),
            failed: self.failed,
            p50_seconds: percentile(&self.seconds, 50),
            p95_seconds: percentile(&self.seconds, 95),
            load_answered: load.seconds.len(),
            load_failed: load.failed,
            error: self.error.or_else(|| load.error.clone()),
        }
    }
}

/// Measures short queries with a priority on an idle server, with a priority during the load, and
/// without one during the load.
///
/// # Errors
/// Fails if the server cannot be started or the priority cannot be set.
pub(super) async fn run(
    arena: &Arena,
    config: &Config,
    observe: &mut dyn FnMut(&str),
) -> Result<Vec<PriorityRow>> {
    let group = arena.group(config.limit_bytes)?;
    let server = serve(&config.program, Some(&arena.tables()), &[], config.budget(), group)?;
    let time = Duration::from_secs_f64(config.options.short_seconds);
    let mut urgent = client(&server, true).await?;
    // One pass that is not measured, so that all measurements start with the data of the queries in
    // memory.
    short(&mut urgent, config, Duration::ZERO, &AtomicBool::new(false)).await?;
    observe("short queries on an idle server");
    let idle = short(&mut urgent, config, time, &AtomicBool::new(false)).await?;
    let mut rows = vec![idle.row((false, true), &Seen::default())];
    for has_priority in [true, false] {
        let words = if has_priority { "with" } else { "without" };
        observe(&format!("short queries {words} a priority beside the load"));
        let mut client = client(&server, has_priority).await?;
        rows.push(beside(&server, &mut client, config, has_priority).await?);
    }
    Ok(rows)
}

async fn client(server: &Backend, has_priority: bool) -> Result<Psql> {
    let mut client = Psql::start(&server.address)?;
    let text = if has_priority { SLA } else { "SELECT 1" };
    match client.ask(text, Instant::now() + PATIENCE).await.error {
        Some(error) => Err(BenchError::Engine(format!("{text}: {error}"))),
        None => Ok(client),
    }
}

/// Runs short queries during the load, which continues until they have ended.
async fn beside(
    server: &Backend,
    client: &mut Psql,
    config: &Config,
    has_priority: bool,
) -> Result<PriorityRow> {
    let time = Duration::from_secs_f64(config.options.short_seconds);
    let is_over = AtomicBool::new(false);
    let sessions = psql_clients(&server.address, config.options.clients)?;
    let load = sessions.into_iter().enumerate();
    let load = join_all(load.map(|(number, session)| heavy(session, number, config, &is_over)));
    let (seen, load) = join(short(client, config, time, &is_over), load).await;
    let mut all = Seen::default();
    for seen in load {
        let seen = seen?;
        all.seconds.extend(seen.seconds);
        all.failed += seen.failed;
        all.error = all.error.or(seen.error);
    }
    Ok(seen?.row((true, has_priority), &all))
}

/// Runs the short queries in turns until the time is over.
async fn short(
    client: &mut Psql,
    config: &Config,
    time: Duration,
    is_over: &AtomicBool,
) -> Result<Seen> {
    let questions = short_questions(config.scale)?;
    let mut comparison = Comparison::new(config.scale);
    let (began, mut seen) = (Instant::now(), Seen::default());
    loop {
        for question in &questions {
            seen.ask(client, question, &mut comparison).await;
        }
        if began.elapsed() >= time || seen.failed > questions.len() {
            is_over.store(true, Ordering::Relaxed);
            return Ok(seen);
        }
    }
}

/// Runs the heavy queries of a client repeatedly until the short queries have ended; the query that
/// runs then is abandoned.
async fn heavy(
    mut session: Psql,
    number: usize,
    config: &Config,
    is_over: &AtomicBool,
) -> Result<Seen> {
    let questions = questions(config, number)?;
    let mut comparison = Comparison::new(config.scale);
    let mut seen = Seen::default();
    for question in questions.iter().cycle() {
        let asked = seen.ask(&mut session, question, &mut comparison);
        let over = async {
            while !is_over.load(Ordering::Relaxed) {
                tokio::time::sleep(SLACK).await;
            }
        };
        let is_over = tokio::select! {
            biased;
            () = over => true,
            () = asked => false,
        };
        // A lost connection fails at once.
        if is_over || seen.failed > questions.len() {
            return Ok(seen);
        }
    }
    Ok(seen)
}
