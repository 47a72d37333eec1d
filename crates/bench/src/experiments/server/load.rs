//! The load: many clients that run heavy queries concurrently on one server with little memory.
//!
//! Each client runs every query once, in its own random order, and has finished when all of them
//! are answered correctly. Engines without a server run in Python processes, one for each client or
//! one for all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde::Serialize;
use terrace_workload::random::Random;

use super::backend::{Address, Backend, serve};
use super::config::Config;
use super::postgres::Postgres;
use super::psql::Psql;
use crate::error::{BenchError, Result};
use crate::measure::percentile;
use crate::peer::Reply;
use crate::peer::comparison::{Comparison, Question};
use crate::peer::control_group::ControlGroup;
use crate::peer::engine::{Arena, Contender};
use crate::peer::process::{Client, Peer, peak_resident_bytes};
use crate::tpch::query::Query;

/// Maximum number of kinds of errors that are reported for an engine.
const ERRORS_MAX: usize = 5;

/// Interval at which the end of a part is checked, and time before the deadline after which no
/// query starts.
pub(super) const SLACK: Duration = Duration::from_millis(20);

/// An engine, and the connection of the clients to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Engine {
    /// `terrace serve`.
    #[serde(rename = "terrace")]
    Terrace,
    /// One process of DuckDB with a connection for each client.
    #[serde(rename = "DuckDB, one process")]
    DuckDbShared,
    /// A process of DuckDB for each client, each with an equal share of the budget.
    #[serde(rename = "DuckDB, one process each, parts of the budget")]
    DuckDbParts,
    /// A process of DuckDB for each client, each with the whole budget, as without coordination.
    #[serde(rename = "DuckDB, one process each, the budget each")]
    DuckDbEach,
    /// A server of PostgreSQL.
    #[serde(rename = "PostgreSQL")]
    Postgres,
}

impl Engine {
    pub(super) const ALL: [Engine; 5] = [
        Engine::Terrace,
        Engine::DuckDbShared,
        Engine::DuckDbParts,
        Engine::DuckDbEach,
        Engine::Postgres,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Engine::Terrace => "terrace",
            Engine::DuckDbShared => "DuckDB, one process",
            Engine::DuckDbParts => "DuckDB, one process each, parts of the budget",
            Engine::DuckDbEach => "DuckDB, one process each, the budget each",
            Engine::Postgres => "PostgreSQL",
        }
    }

    fn is_duckdb(self) -> bool {
        !matches!(self, Engine::Terrace | Engine::Postgres)
    }
}

/// Outcome of the load on one engine.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LoadRow {
    pub(super) engine: Engine,
    pub(super) clients: usize,
    /// Number of clients all of whose queries were answered correctly.
    pub(super) finished: usize,
    pub(super) asked: usize,
    pub(super) answered: usize,
    /// Number of queries that failed, timed out, or were not sent before the deadline.
    pub(super) failed: usize,
    pub(super) wrong: usize,
    /// Number of processes that the kernel killed for lack of memory; `None` if it does not report
    /// that.
    pub(super) killed: Option<u64>,
    /// True if the server still runs at the end; `None` for engines without a server.
    pub(super) alive: Option<bool>,
    /// Peak bytes of the control group, page cache included.
    pub(super) peak_bytes: Option<u64>,
    /// Peak resident bytes of the server's process; `None` if there are several processes.
    pub(super) resident_bytes: Option<u64>,
    pub(super) wall_seconds: f64,
    pub(super) p50_seconds: Option<f64>,
    pub(super) p95_seconds: Option<f64>,
    /// Errors and their counts, the most frequent first.
    pub(super) errors: Vec<(String, usize)>,
}

impl LoadRow {
    /// Creates the row of an engine that could not be started: all of its queries have failed with
    /// `error`.
    pub(super) fn none(engine: Engine, config: &Config, error: &BenchError) -> LoadRow {
        let lost = |_| vec![failed(format!("not started: {error}")); config.queries.len()];
        let questions = |client: Vec<Reply>| {
            let replies = client.into_iter();
            replies.map(|reply| (Question::named("a query", ""), reply)).collect()
        };
        let clients: Vec<Vec<_>> = (0..config.options.clients).map(lost).map(questions).collect();
        judge(engine, &clients, &mut Comparison::new(config.scale))
    }
}

/// A client of any engine.
enum Session {
    Psql(Psql),
    Python(Client),
    /// A client that could not be started, with the reason.
    None(String),
}

impl Session {
    async fn ask(&mut self, sql: &str, deadline: Instant) -> Reply {
        match self {
            Session::Psql(psql) => psql.ask(sql, deadline).await,
            Session::Python(client) => {
                let patience = deadline.saturating_duration_since(Instant::now());
                let asked = client.ask_within(sql, true, patience).await;
                asked.unwrap_or_else(|error| failed(error.to_string()))
            }
            Session::None(error) => failed(error.clone()),
        }
    }
}

fn failed(error: String) -> Reply {
    Reply { error: Some(error), ..Reply::default() }
}

/// A running engine: its clients, its server or processes, and their control group.
struct Running {
    sessions: Vec<Session>,
    server: Option<Backend>,
    processes: Vec<Peer>,
    group: Option<Arc<ControlGroup>>,
}

/// Returns the queries in the random order of client number `client`.
pub(super) fn questions(config: &Config, client: usize) -> Result<Vec<Question>> {
    let question = |number: &u32| Ok(Question::of(Query::of(*number)?, config.scale));
    let mut questions = config.queries.iter().map(question).collect::<Result<Vec<_>>>()?;
    let client = u64::try_from(client).unwrap_or(u64::MAX);
    let mut random = Random::new(config.options.seed, client);
    for last in (1..questions.len()).rev() {
        let other = random.below(u64::try_from(last + 1).unwrap_or(1));
        questions.swap(last, usize::try_from(other).unwrap_or(0));
    }
    Ok(questions)
}

/// Starts clients of psql.
pub(super) fn psql_clients(address: &Address, count: usize) -> Result<Vec<Psql>> {
    (0..count).map(|_| Psql::start(address)).collect()
}

/// Runs the load on an engine.
///
/// # Errors
/// Fails if the engine cannot be started. Failures during the run are counted.
pub(super) async fn run(
    (arena, postgres): (&Arena, Option<&Postgres>),
    engine: Engine,
    config: &Config,
    comparison: &mut Comparison,
) -> Result<LoadRow> {
    let mut running = start((arena, postgres), engine, config).await?;
    let began = Instant::now();
    let deadline = began + Duration::from_secs_f64(config.options.load_seconds);
    let clients = running.sessions.drain(..).enumerate();
    let clients = clients.map(|(number, session)| client(session, number, config, deadline));
    let replies = join_all(clients).await.into_iter().collect::<Result<Vec<_>>>()?;
    let wall_seconds = began.elapsed().as_secs_f64();
    let mut row = judge(engine, &replies, comparison);
    row.wall_seconds = wall_seconds;
    let group = running.group.as_ref();
    row.killed = group.and_then(|group| group.kills());
    row.peak_bytes = group.and_then(|group| group.peak_bytes());
    if let Some(server) = &mut running.server {
        row.alive = Some(server.is_running());
        row.resident_bytes = (engine == Engine::Terrace)
            .then(|| peak_resident_bytes(server.process.0.id()))
            .flatten();
    }
    if let [process] = running.processes.as_slice() {
        row.resident_bytes = process.peak_resident_bytes().ok();
    }
    Ok(row)
}

async fn start(
    (arena, postgres): (&Arena, Option<&Postgres>),
    engine: Engine,
    config: &Config,
) -> Result<Running> {
    let group = arena.group(config.limit_bytes)?;
    let budget = config.budget();
    let mut running =
        Running { sessions: Vec::new(), server: None, processes: Vec::new(), group: group.clone() };
    if engine.is_duckdb() {
        arena.forget_files(Contender::DuckDb)?;
        start_duckdb(arena, engine, config, &mut running).await?;
        return Ok(running);
    }
    let server = match (engine, postgres) {
        (Engine::Terrace, _) => serve(&config.program, Some(&arena.tables()), &[], budget, group)?,
        (_, Some(postgres)) => postgres.start(budget, group).await?,
        _ => return Err(BenchError::Peer(format!("{} is missing", engine.name()))),
    };
    let sessions = psql_clients(&server.address, config.options.clients)?;
    running.sessions = sessions.into_iter().map(Session::Psql).collect();
    running.server = Some(server);
    Ok(running)
}

async fn start_duckdb(
    arena: &Arena,
    engine: Engine,
    config: &Config,
    running: &mut Running,
) -> Result<()> {
    let (clients, dram) = (config.options.clients, config.dram_bytes);
    let group = || running.group.clone();
    if engine == Engine::DuckDbShared {
        let (process, sessions) = arena.start_reader(dram, clients, group()).await?;
        running.sessions = sessions.into_iter().map(Session::Python).collect();
        running.processes.push(process);
        return Ok(());
    }
    let share = match engine {
        Engine::DuckDbParts => dram / u64::try_from(clients.max(1)).unwrap_or(1),
        _ => dram,
    };
    // All processes start at once, as clients would arrive; the kernel may kill some while others
    // start.
    let started = (0..clients).map(|_| arena.start_reader(share, 1, group()));
    for started in join_all(started).await {
        match started {
            Ok((process, sessions)) => {
                running.sessions.extend(sessions.into_iter().map(Session::Python));
                running.processes.push(process);
            }
            Err(error) => running.sessions.push(Session::None(error.to_string())),
        }
    }
    Ok(())
}

/// Runs the queries of a client. Returns the replies in order.
async fn client(
    mut session: Session,
    number: usize,
    config: &Config,
    deadline: Instant,
) -> Result<Vec<(Question, Reply)>> {
    let mut replies = Vec::new();
    for question in questions(config, number)? {
        let reply = match Instant::now() + SLACK < deadline {
            true => session.ask(&question.text, deadline).await,
            false => failed("not asked: the time was over".to_owned()),
        };
        replies.push((question, reply));
    }
    Ok(replies)
}

/// Counts replies, and compares the answers.
fn judge(
    engine: Engine,
    clients: &[Vec<(Question, Reply)>],
    comparison: &mut Comparison,
) -> LoadRow {
    let (mut finished, mut failed, mut wrong) = (0, 0, 0);
    let mut errors = BTreeMap::<String, usize>::new();
    let mut seconds = Vec::new();
    for replies in clients {
        let mut is_right = true;
        for (question, reply) in replies {
            let verdict = comparison.judge(question, engine.name(), reply);
            let error = match (&reply.error, verdict) {
                (Some(error), _) => {
                    failed += 1;
                    error.clone()
                }
                (None, Err(error)) => {
                    wrong += 1;
                    error.to_string()
                }
                (None, Ok(())) => {
                    seconds.push(reply.seconds);
                    continue;
                }
            };
            is_right = false;
            let line = error.lines().next().unwrap_or_default().to_owned();
            *errors.entry(line).or_default() += 1;
        }
        finished += usize::from(is_right);
    }
    let mut errors: Vec<_> = errors.into_iter().collect();
    errors.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    errors.truncate(ERRORS_MAX);
    LoadRow {
        engine,
        clients: clients.len(),
        finished,
        asked: clients.iter().map(Vec::len).sum(),
        answered: seconds.len() + wrong,
        failed,
        wrong,
        killed: None,
        alive: None,
        peak_bytes: None,
        resident_bytes: None,
        wall_seconds: 0.0,
        p50_seconds: percentile(&seconds, 50),
        p95_seconds: percentile(&seconds, 95),
        errors,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::answer::Answer;

    fn reply(rows: &[&[&str]]) -> Reply {
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(ToString::to_string).collect()).collect();
        Reply { rows: rows.len(), seconds: 1.0, answer: Some(Answer { rows }), ..Reply::default() }
    }

    #[test]
    fn a_client_with_a_wrong_answer_or_an_error_has_not_finished() -> Result<()> {
        let question = Question::of(Query::of(4)?, 0.01);
        let right = || (question.clone(), reply(&[&["1-URGENT", "93"]]));
        let wrong = (question.clone(), reply(&[&["1-URGENT", "94"]]));
        let lost = (question.clone(), failed("lost\nmore".to_owned()));
        let clients = [vec![right(), right()], vec![right(), wrong], vec![lost, right()]];
        let row = judge(Engine::Terrace, &clients, &mut Comparison::new(0.01));
        assert_eq!((row.finished, row.failed, row.wrong), (1, 1, 1));
        assert_eq!((row.asked, row.answered), (6, 5));
        assert!(row.errors.iter().any(|(error, count)| error == "lost" && *count == 1));
        Ok(())
    }
}
