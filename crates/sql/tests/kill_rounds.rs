//! Kills a writing process at random moments, repeatedly on the same directory. Afterwards all
//! acknowledged statements are present, at most the one statement or transaction under way in
//! addition, entirely, and no space is leaked.
//!
//! The process re-executes itself as the victim. `TERRACE_SOAK_ROUNDS` sets the number of rounds,
//! `TERRACE_SOAK_SEED` the seed.

#![allow(clippy::print_stdout, reason = "the victim acknowledges its statements by it")]

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::AsArray as _;
use datafusion::arrow::datatypes::Int64Type;
use terrace_sql::catalog::LABEL_BYTES;
use terrace_sql::table::Table;
use terrace_sql::{Engine, EngineConfig, Session};
use terrace_testkit::{Rng, soak_rounds, with_seed};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

const VICTIM: &str = "TERRACE_KILL_VICTIM";
const ROUNDS_DEFAULT: u64 = 40;
/// Number of statements after which inserted rows are deleted.
const LIFETIME: i64 = 12;

fn main() -> Result<()> {
    if let Ok(victim) = std::env::var(VICTIM) {
        let (first, directory) = victim.split_once(' ').ok_or("first statement and directory")?;
        return runtime()?.block_on(write_for_ever(Path::new(directory), first.parse()?));
    }
    let rounds = soak_rounds(ROUNDS_DEFAULT);
    with_seed(|seed| {
        let statements = runtime().and_then(|runtime| runtime.block_on(kill(seed, rounds)));
        let statements = statements.unwrap_or_else(|error| panic!("{error}"));
        println!("{rounds} kills, {statements} statements, nothing lost, shown or leaked");
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

/// A schema that is created and dropped repeatedly. Names of tables in the other schema sort before
/// it.
const SCHEMA: &str = "s";

/// Rows per tag of `t`, and rows of every other table; the schema counts as one without rows.
type State = (BTreeMap<i64, i64>, BTreeMap<String, i64>);

/// Number of rows that statement `number` writes: sometimes one, sometimes more than two chunks.
fn rows(number: i64) -> i64 {
    match number % 4 {
        0 => 140_000 + number % 1_000,
        1 => 1,
        _ => 1_000 * (number % 30) + 1,
    }
}

/// The text of statement `number`, which is applied to the state.
fn statement(number: i64, state: &mut State) -> String {
    let (tags, tables) = state;
    let source = format!(
        "SELECT {number} AS tag, value AS i, concat('row ', value, ' of {number}') AS s \
         FROM generate_series(1, {})",
        rows(number)
    );
    // Half of the statements on the schema drop it with its contents.
    match number % 10 {
        0 if tables.contains_key(SCHEMA) => {
            tables.retain(|name, _| !name.starts_with(SCHEMA));
            format!("DROP SCHEMA {SCHEMA} CASCADE")
        }
        0 => {
            tables.insert(SCHEMA.to_owned(), 0);
            format!("CREATE SCHEMA {SCHEMA}")
        }
        2 | 4 if tables.contains_key(SCHEMA) => {
            tables.insert(format!("{SCHEMA}.c{number}"), rows(number));
            format!("CREATE TABLE {SCHEMA}.c{number} WITH (encoding = 'compact') AS {source}")
        }
        3 | 8 => {
            tables.insert(format!("c{number}"), rows(number));
            format!("CREATE TABLE c{number} AS {source}")
        }
        5 | 7 if tables.keys().filter(|name| name.starts_with('c')).count() > 2 => {
            let (table, _) = tables.pop_first().expect("more than two");
            format!("DROP TABLE {table}")
        }
        6 => {
            tags.retain(|tag, _| *tag >= number - LIFETIME);
            format!("DELETE FROM t WHERE tag < {}", number - LIFETIME)
        }
        9 if number % 7 == 0 => {
            tags.clear();
            tags.insert(number, rows(number));
            format!("INSERT OVERWRITE t {source}")
        }
        _ => {
            tags.insert(number, rows(number));
            format!("INSERT INTO t {source}")
        }
    }
}

/// The state after the first `last` statements.
fn state_after(last: i64) -> State {
    let mut state = State::default();
    (1..=last).for_each(|number| drop(statement(number, &mut state)));
    state
}

/// The last statement of the transaction that begins with statement `first`, or `first` itself.
fn last_together(first: i64) -> i64 {
    if first % 5 == 1 { first + 2 } else { first }
}

/// A transaction that is rolled back.
const UNDONE: &str = "BEGIN; UPDATE t SET i = 0 WHERE tag % 2 = 0; CREATE TABLE undone AS \
                      SELECT * FROM t; TRUNCATE t; INSERT INTO t SELECT 0, value, 'undone' FROM \
                      generate_series(1, 1000); ROLLBACK";

/// The victim: prints the number of each acknowledged statement; for a transaction, the number of
/// its last one.
async fn write_for_ever(directory: &Path, first: i64) -> Result<()> {
    let (_engine, session) = open(directory)?;
    let mut state = state_after(first - 1);
    let mut number = first;
    loop {
        let last = last_together(number);
        if last == number {
            session.sql(&statement(number, &mut state)).await?;
        } else {
            session.sql(UNDONE).await?;
            session.begin(None)?;
            for number in number..=last {
                session.sql(&statement(number, &mut state)).await?;
            }
            session.commit().await?;
        }
        println!("{last}");
        std::io::stdout().flush()?;
        number = last + 1;
    }
}

async fn kill(seed: u64, rounds: u64) -> Result<i64> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("data");
    let (engine, session) = open(&path)?;
    session
        .sql("CREATE TABLE t (tag BIGINT, i BIGINT, s VARCHAR) WITH (encoding = 'compact')")
        .await?;
    drop((session, engine));
    let mut rng = Rng::new(seed);
    let mut last = 0;
    for round in 0..rounds {
        let patience = Duration::from_millis(20 + rng.below(400));
        let acknowledged = victim(&path, last + 1, patience)?.unwrap_or(last);
        let (engine, session) = open(&path).map_err(|error| format!("round {round}: {error}"))?;
        let found = state(&engine, &session).await?;
        last = match found {
            found if found == state_after(acknowledged) => acknowledged,
            found if found == state_after(last_together(acknowledged + 1)) => {
                last_together(acknowledged + 1)
            }
            found => {
                let expected = state_after(acknowledged);
                return Err(format!("round {round}: {found:?} after {expected:?}").into());
            }
        };
        assert_no_leak(&engine);
    }
    Ok(last)
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

/// Reads every row of the database.
async fn state(engine: &Engine, session: &Session) -> Result<State> {
    let outputs = session
        .sql(
            "SELECT tag, count(DISTINCT i), max(i), min(length(s)) FROM t GROUP BY tag \
             ORDER BY tag",
        )
        .await?;
    let mut tags = BTreeMap::new();
    for batch in outputs.iter().flat_map(|output| &output.batches) {
        let [tag, count, max, _] = batch.columns() else { return Err("four columns".into()) };
        let numbers = |column: usize| batch.column(column).as_primitive::<Int64Type>().values();
        assert_eq!(count, max, "rows 1 to n of {tag:?}");
        tags.extend(numbers(0).iter().copied().zip(numbers(1).iter().copied()));
    }
    let mut tables = BTreeMap::new();
    if engine.catalog().has_schema(SCHEMA) {
        tables.insert(SCHEMA.to_owned(), 0);
    }
    for table in all_tables(engine).filter(|table| table.full_name() != "public.t") {
        let text = format!("SELECT count(DISTINCT concat(tag, i, s)) FROM {}", table.full_name());
        let outputs = session.sql(&text).await?;
        let count = outputs[0].batches[0].column(0).as_primitive::<Int64Type>().value(0);
        tables.insert(table.full_name().trim_start_matches("public.").to_owned(), count);
    }
    Ok((tags, tables))
}

fn all_tables(engine: &Engine) -> impl Iterator<Item = Arc<Table>> {
    let schemas = engine.catalog().schemas().into_iter();
    schemas.flat_map(|schema| engine.catalog().tables(&schema))
}

/// Asserts that the store holds exactly the extents of the catalog, after any merge under way.
fn assert_no_leak(engine: &Engine) {
    let named = || all_tables(engine).map(|table| table.snapshot().extent_bytes()).sum::<u64>();
    let store = || engine.pool().store().expect("a store").stats();
    let deadline = Instant::now() + Duration::from_secs(20);
    while store().used_bytes != named() + LABEL_BYTES {
        assert!(Instant::now() < deadline, "{} used, {} named", store().used_bytes, named());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(store().double_frees, 0);
}
