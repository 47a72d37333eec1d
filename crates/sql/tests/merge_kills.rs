//! Kills a process that inserts single rows, updates and deletes at random moments, most of them
//! during merges of the resulting small chunks. Afterwards all acknowledged statements are present,
//! at most the one statement under way in addition, and no space is leaked.
//!
//! The process re-executes itself as the victim. `TERRACE_SOAK_ROUNDS` sets the number of rounds,
//! `TERRACE_SOAK_SEED` the seed.

#![allow(clippy::print_stdout, reason = "the victim acknowledges its statements by it")]

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use datafusion::arrow::array::AsArray as _;
use datafusion::arrow::datatypes::Int64Type;
use terrace_sql::catalog::LABEL_BYTES;
use terrace_sql::{Engine, EngineConfig, Session};
use terrace_testkit::{Rng, soak_rounds, with_seed};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

const VICTIM: &str = "TERRACE_MERGE_VICTIM";
const ROUNDS_DEFAULT: u64 = 12;
/// Maximum number of chunks after all worthwhile merges.
const CHUNKS_MAX: usize = 40;
/// Maximum time until all merges are done.
const PATIENCE: Duration = Duration::from_secs(20);

fn main() -> Result<()> {
    if let Ok(victim) = std::env::var(VICTIM) {
        let (first, directory) = victim.split_once(' ').ok_or("first statement and directory")?;
        return runtime()?.block_on(write_for_ever(Path::new(directory), first.parse()?));
    }
    let rounds = soak_rounds(ROUNDS_DEFAULT);
    with_seed(|seed| {
        let done = runtime().and_then(|runtime| runtime.block_on(kill(seed, rounds)));
        let (statements, most) = done.unwrap_or_else(|error| panic!("{error}"));
        println!("{rounds} kills, {statements} statements, up to {most} chunks found, none lost");
    });
    // Test counters read this line, as the standard harness prints it.
    println!("test result: ok. 1 passed; 0 failed");
    Ok(())
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok(builder.worker_threads(2).enable_all().build()?)
}

fn open(directory: &Path) -> Result<(Engine, Session)> {
    let data_dir = Some(directory.to_owned());
    let config = EngineConfig { data_dir, threads: 2, ..EngineConfig::new(64 << 20) };
    let engine = Engine::open(&config)?;
    let session = engine.session()?;
    Ok((engine, session))
}

/// Values by key.
type State = BTreeMap<i64, i64>;

/// The text of statement `number`, which is applied to the state.
fn statement(number: i64, state: &mut State) -> String {
    match number % 40 {
        19 => {
            state.retain(|i, _| i % 7 != number % 7);
            format!("DELETE FROM t WHERE i % 7 = {}", number % 7)
        }
        39 => {
            let changed = state.iter_mut().filter(|(i, _)| **i % 5 == number % 5);
            changed.for_each(|(_, v)| *v += number);
            format!("UPDATE t SET v = v + {number} WHERE i % 5 = {}", number % 5)
        }
        _ => {
            state.insert(number, 3 * number);
            format!("INSERT INTO t VALUES ({number}, {})", 3 * number)
        }
    }
}

/// The state after the first `last` statements.
fn state_after(last: i64) -> State {
    let mut state = State::default();
    (1..=last).for_each(|number| drop(statement(number, &mut state)));
    state
}

/// The victim: prints the number of each acknowledged statement.
async fn write_for_ever(directory: &Path, first: i64) -> Result<()> {
    let (_engine, session) = open(directory)?;
    let mut state = state_after(first - 1);
    for number in first.. {
        session.sql(&statement(number, &mut state)).await?;
        println!("{number}");
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// The number of statements, and the maximum number of chunks that a victim left.
async fn kill(seed: u64, rounds: u64) -> Result<(i64, usize)> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("data");
    let (engine, session) = open(&path)?;
    session.sql("CREATE TABLE t (i BIGINT NOT NULL, v BIGINT)").await?;
    drop((session, engine));
    let mut rng = Rng::new(seed);
    let (mut last, mut most) = (0, 0);
    for round in 0..rounds {
        let patience = Duration::from_millis(20 + rng.below(500));
        let acknowledged = victim(&path, last + 1, patience)?.unwrap_or(last);
        let (engine, session) = open(&path).map_err(|error| format!("round {round}: {error}"))?;
        most = most.max(chunks(&engine)?);
        let found = state(&session).await?;
        last = match found {
            found if found == state_after(acknowledged) => acknowledged,
            found if found == state_after(acknowledged + 1) => acknowledged + 1,
            found => {
                let expected = state_after(acknowledged);
                return Err(format!("round {round}: {found:?} after {expected:?}").into());
            }
        };
        settles(&engine)?;
        assert_eq!(state(&session).await?, state_after(last), "merges change no row");
    }
    Ok((last, most))
}

fn chunks(engine: &Engine) -> Result<usize> {
    let table = engine.catalog().table("public", "t").ok_or("no table")?;
    Ok(table.snapshot().chunks.len())
}

/// Waits until merges are done and the store holds exactly the extents of the catalog.
fn settles(engine: &Engine) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let table = engine.catalog().table("public", "t").ok_or("no table")?;
        let named = table.snapshot().extent_bytes() + LABEL_BYTES;
        let store = engine.pool().store().ok_or("a store")?.stats();
        assert_eq!(store.double_frees, 0);
        let chunks = table.snapshot().chunks.len();
        if store.used_bytes == named && chunks <= CHUNKS_MAX {
            return Ok(());
        }
        if Instant::now() > deadline {
            let used = store.used_bytes;
            return Err(format!("{chunks} chunks, {named} bytes named, {used} used").into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs a victim from statement `first` on, kills it, and returns its last acknowledged statement.
fn victim(path: &Path, first: i64, patience: Duration) -> Result<Option<i64>> {
    let mut victim = Command::new(std::env::current_exe()?)
        .env(VICTIM, format!("{first} {}", path.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    std::thread::sleep(patience);
    if let Some(status) = victim.try_wait()? {
        let mut why = String::new();
        victim.stderr.take().ok_or("no stderr")?.read_to_string(&mut why)?;
        return Err(format!("the victim ended by itself, {status}: {why}").into());
    }
    victim.kill()?;
    victim.wait()?;
    let output = BufReader::new(victim.stdout.take().ok_or("no stdout")?);
    let lines = output.lines().collect::<Result<Vec<_>, _>>()?;
    Ok(lines.last().map(|line| line.parse()).transpose()?)
}

/// Reads every row of the table.
async fn state(session: &Session) -> Result<State> {
    let outputs = session.sql("SELECT i, v FROM t").await?;
    let mut state = State::new();
    for batch in outputs.iter().flat_map(|output| &output.batches) {
        let column = |at: usize| batch.column(at).as_primitive::<Int64Type>().values();
        for (i, v) in column(0).iter().zip(column(1)) {
            assert_eq!(state.insert(*i, *v), None, "row {i} is there twice");
        }
    }
    Ok(state)
}
