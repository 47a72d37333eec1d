//! Child's side of a peer that is this program: Terrace, or unmodified DataFusion.

use std::io::{BufRead, Write};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Mutex};

use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use terrace_sql::{Engine, EngineConfig, Session, stock};
use terrace_sys::sync::lock;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::error::{BenchError, Result};
use crate::peer::{Reply, Request};
use crate::suite::load::refused;
use crate::suite::table::Generated;
use crate::suite::timing::{Timed, ours, theirs};
use crate::tpch::table::Table;

/// Name of the subcommand with which a program runs [`serve_ours`] or [`serve_datafusion`].
pub const PEER_COMMAND: &str = "benchmark-peer";

/// A session that runs queries.
enum Runner {
    Ours(Box<Session>),
    DataFusion(Box<SessionContext>),
}

impl Runner {
    async fn run(&self, sql: &str) -> Result<Timed> {
        match self {
            Runner::Ours(session) => ours(session, sql).await,
            Runner::DataFusion(context) => theirs(context, sql).await,
        }
    }
}

/// Answers queries over Terrace's tables until the input ends.
///
/// # Errors
/// Fails if the engine cannot be opened.
pub async fn serve_ours(
    config: &EngineConfig,
    clients: usize,
    input: impl BufRead + Send + 'static,
    output: impl Write + Send + 'static,
) -> Result<()> {
    let engine = Engine::open(config).map_err(refused)?;
    let session = || engine.session().map(|session| Runner::Ours(Box::new(session)));
    let runners: Result<Vec<Runner>> = (0..clients).map(|_| session().map_err(refused)).collect();
    serve(runners?, input, output).await;
    Ok(())
}

/// Serves the TPC-H tables in a directory of Parquet files by plain DataFusion until the input
/// ends, with a memory pool of `dram_bytes` that its spilling operators share fairly. Literals with
/// a point are decimals, as in the other engines, so that answers are the same.
///
/// # Errors
/// Fails if a table cannot be read.
pub async fn serve_datafusion(
    (directory, dram_bytes, threads): (&Path, usize, NonZeroUsize),
    clients: usize,
    input: impl BufRead + Send + 'static,
    output: impl Write + Send + 'static,
) -> Result<()> {
    let pool = Arc::new(FairSpillPool::new(dram_bytes));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc()?;
    let config = SessionConfig::new()
        .set_bool("datafusion.sql_parser.parse_float_as_decimal", true)
        .with_target_partitions(threads.get());
    let context = SessionContext::new_with_config_rt(config, runtime);
    for table in Table::ALL {
        let path = directory.join(format!("{table}.parquet"));
        stock::register_parquet(&context, table.name(), &path.to_string_lossy()).await?;
    }
    let runner = || Runner::DataFusion(Box::new(context.clone()));
    serve((0..clients).map(|_| runner()).collect(), input, output).await;
    Ok(())
}

async fn serve(
    runners: Vec<Runner>,
    input: impl BufRead + Send + 'static,
    output: impl Write + Send + 'static,
) {
    let output: Arc<Mutex<dyn Write + Send>> = Arc::new(Mutex::new(output));
    let (senders, receivers): (Vec<_>, Vec<_>) =
        runners.iter().map(|_| unbounded_channel()).unzip();
    std::thread::spawn(move || deal(input, &senders));
    let clients = runners.into_iter().zip(receivers).enumerate();
    let tasks: Vec<_> = clients
        .map(|(client, (runner, requests))| {
            tokio::spawn(attend(client, runner, requests, Arc::clone(&output)))
        })
        .collect();
    for task in tasks {
        // A panic was reported on standard error, and the client gets no reply.
        let _ = task.await;
    }
}

/// Runs the queries of one client. Ends with the input, or when the reader of the replies is gone.
async fn attend(
    client: usize,
    runner: Runner,
    mut requests: UnboundedReceiver<Request>,
    output: Arc<Mutex<dyn Write + Send>>,
) {
    let mut reply = Reply { client, ..Reply::default() };
    while say(&output, &reply).is_ok() {
        let Some(request) = requests.recv().await else { return };
        reply = answer(&runner, &request).await.unwrap_or_else(|error| Reply {
            client,
            error: Some(error.to_string()),
            ..Reply::default()
        });
    }
}

/// Runs a query. The conversion of rows to text is not part of its time.
async fn answer(runner: &Runner, request: &Request) -> Result<Reply> {
    let timed = runner.run(&request.sql).await?;
    let answer = request.answer.then(|| timed.answer()).transpose()?;
    let (client, seconds, rows) = (request.client, timed.seconds, timed.rows());
    Ok(Reply { client, seconds, rows, error: None, answer })
}

fn say(output: &Mutex<dyn Write + Send>, reply: &Reply) -> Result<()> {
    let mut line = serde_json::to_string(reply).map_err(|error| unsaid(&error))?;
    line.push('\n');
    let mut output = lock(output);
    let written = output.write_all(line.as_bytes()).and_then(|()| output.flush());
    written.map_err(|error| unsaid(&error))
}

fn unsaid(error: &dyn std::fmt::Display) -> BenchError {
    BenchError::Peer(format!("reply: {error}"))
}

/// Reads requests from `input` and passes each to its client, until the input ends or a request is
/// invalid.
fn deal(input: impl BufRead, senders: &[UnboundedSender<Request>]) {
    for line in input.lines().map_while(std::io::Result::ok) {
        let Ok(request) = serde_json::from_str::<Request>(&line) else { return };
        if let Some(sender) = senders.get(request.client) {
            // A client that is gone needs no request.
            let _ = sender.send(request);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::measure::Scratch;
    use crate::suite::export::write_files;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("unpoisoned").write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn every_client_is_answered_in_order() {
        let files = Scratch::of(None, "peer").expect("made");
        write_files::<Table>(files.path(), 0.001, NonZeroUsize::MIN).expect("written");
        let ask = |client, sql: &str| {
            serde_json::to_string(&Request { client, sql: sql.into(), answer: client == 1 })
                .expect("json")
                + "\n"
        };
        let input = ask(1, "SELECT * FROM region")
            + &ask(0, "SELECT * FROM nowhere")
            + &ask(1, "SELECT * FROM nation");
        let output = Written::default();
        let config = (files.path(), 64 << 20, NonZeroUsize::MIN);
        let served = serve_datafusion(config, 2, Cursor::new(input), output.clone());
        served.await.expect("served");
        let text = String::from_utf8(output.0.lock().expect("unpoisoned").clone()).expect("text");
        let replies: Vec<Reply> =
            text.lines().map(|line| serde_json::from_str(line).expect("a reply")).collect();
        let of = |client| replies.iter().filter(move |reply| reply.client == client);
        assert_eq!(of(1).map(|reply| reply.rows).collect::<Vec<_>>(), [0, 5, 25]);
        let errors: Vec<bool> = of(0).map(|reply| reply.error.is_some()).collect();
        assert_eq!(errors, [false, true]);
        let rows = |reply: &Reply| reply.answer.as_ref().map(|answer| answer.rows.len());
        assert_eq!(of(1).map(rows).collect::<Vec<_>>(), [None, Some(5), Some(25)]);
    }
}
