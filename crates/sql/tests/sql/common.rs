//! Shared helpers of the tests: engines with an in-memory store, and results as text.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use terrace_pool::Placement;
use terrace_sql::{Engine, EngineConfig, Session, SqlError};
use terrace_store::MemoryBlocks;

pub const MIB: u64 = 1 << 20;

/// Bytes of the in-memory store of the test engines.
const STORE_BYTES: u64 = 4 << 30;

/// A configuration with two partitions and no data directory, in the placement given by the
/// environment.
pub fn config(dram_bytes: u64) -> EngineConfig {
    let named = std::env::var("TERRACE_TEST_PLACEMENT").ok();
    let placement = named.map_or(Placement::default(), |name| name.parse().expect("a placement"));
    EngineConfig { threads: 2, placement, ..EngineConfig::new(dram_bytes) }
}

/// An engine with an in-memory store.
pub fn engine(dram_bytes: u64) -> Engine {
    let blocks = Arc::new(MemoryBlocks::new(STORE_BYTES));
    Engine::over_blocks(&config(dram_bytes), blocks, STORE_BYTES).expect("engine")
}

/// An engine with its database in a directory.
pub fn engine_in(path: &Path, dram_bytes: u64) -> Engine {
    let data_dir = Some(path.to_owned());
    Engine::open(&EngineConfig { data_dir, ..config(dram_bytes) }).expect("engine in a directory")
}

/// Runs a text and returns its last result as text, see [`lines`].
pub async fn show(session: &Session, text: &str) -> String {
    match try_show(session, text).await {
        Ok(table) => table,
        Err(error) => panic!("{text}\n{error}"),
    }
}

/// Checks each query against its answer.
pub async fn check(session: &Session, cases: &[(&str, &str)]) {
    for (query, answer) in cases {
        assert_eq!(show(session, query).await, *answer, "{query}");
    }
}

pub async fn try_show(session: &Session, text: &str) -> Result<String, SqlError> {
    let outputs = session.sql(text).await?;
    let Some(last) = outputs.last() else { return Ok(String::new()) };
    Ok(last.batches.iter().flat_map(lines).collect::<Vec<_>>().join("\n"))
}

/// One line per row, with a space between columns.
pub fn lines(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default();
    let columns = batch.columns().iter();
    let columns = columns.map(|column| ArrayFormatter::try_new(column, &options).expect("format"));
    let columns: Vec<_> = columns.collect();
    let line = |row| columns.iter().map(|c| c.value(row).to_string()).collect::<Vec<_>>().join(" ");
    (0..batch.num_rows()).map(line).collect()
}

/// Runs a text that must fail and returns its error.
pub async fn error(session: &Session, text: &str) -> String {
    match try_show(session, text).await {
        Ok(table) => panic!("{text}\nshould fail and gave\n{table}"),
        Err(error) => error.to_string(),
    }
}

/// Waits until `holds` returns true: cancelled tasks release their resources a moment later.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "not within ten seconds: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A path in `directory`, and its quoted form for a statement.
pub fn quoted(directory: &Path, name: &str) -> (PathBuf, String) {
    let path = directory.join(name);
    let text = format!("'{}'", path.display());
    (path, text)
}
