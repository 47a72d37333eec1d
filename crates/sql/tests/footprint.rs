//! Memory of idle tables. The process re-executes itself, so that the measured process contains
//! nothing but the engine.

#![allow(clippy::print_stdout, reason = "the measured process tells by it")]

use std::error::Error;
use std::path::Path;
use std::process::Command;

use terrace_sql::{Engine, EngineConfig, Session};
use terrace_sys::process::anonymous_bytes;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

const MEASURED: &str = "TERRACE_FOOTPRINT";
const TABLES: u64 = 400;
const COLUMNS: usize = 20;
/// Maximum bytes of an empty table of 20 columns: 2,000 of them take less than 20 MiB.
const TABLE_BYTES_MAX: u64 = 10 << 10;

fn main() -> Result<()> {
    if let Ok(measured) = std::env::var(MEASURED) {
        let (what, directory) = measured.split_once(' ').ok_or("what and a directory")?;
        let builder = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build()?;
        println!("{}", builder.block_on(measure(what, Path::new(directory)))?);
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    let (full, empty) = (directory.path().join("full"), directory.path().join("empty"));
    let made = measured("make", &full)?;
    println!("a table that was just made takes {made} bytes");
    // The memory of an engine without tables is subtracted.
    measured("none", &empty)?;
    let opened = measured("open", &full)?.saturating_sub(measured("open", &empty)?);
    // The first process has created as many warm-up tables before the measured ones.
    let opened = opened / (2 * TABLES);
    println!("a table that was found takes {opened} bytes");
    assert!(made <= TABLE_BYTES_MAX, "{made} bytes for a table that was made");
    assert!(opened <= TABLE_BYTES_MAX, "{opened} bytes for a table that was found");
    // Test counters read this line, as the standard harness prints it.
    println!("test result: ok. 1 passed; 0 failed");
    Ok(())
}

/// Measures in a child process.
fn measured(what: &str, directory: &Path) -> Result<u64> {
    let mut command = Command::new(std::env::current_exe()?);
    let output = command.env(MEASURED, format!("{what} {}", directory.display())).output()?;
    let text = String::from_utf8(output.stdout)?;
    let failed = || format!("{what}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text.trim().parse().map_err(|_| failed().into())
}

fn engine(directory: &Path) -> Result<(Engine, Session)> {
    let data_dir = Some(directory.to_owned());
    let config = EngineConfig { data_dir, threads: 1, ..EngineConfig::new(64 << 20) };
    let engine = Engine::open(&config)?;
    let session = engine.session()?;
    Ok((engine, session))
}

async fn measure(what: &str, directory: &Path) -> Result<u64> {
    let before = anonymous_bytes()?;
    let (_engine, session) = engine(directory)?;
    if what == "make" {
        // The first tables fill caches of the planner, the catalog and the allocator.
        make(&session, "warm", TABLES).await?;
        let before = anonymous_bytes()?;
        make(&session, "t", TABLES).await?;
        return Ok(anonymous_bytes()?.saturating_sub(before) / TABLES);
    }
    // An opened database, and one statement: the rest is the same with and without tables.
    session.sql("SELECT 1").await?;
    Ok(anonymous_bytes()?.saturating_sub(before))
}

async fn make(session: &Session, name: &str, tables: u64) -> Result<()> {
    let columns: Vec<String> = (0..COLUMNS).map(|at| format!("column_{at} BIGINT")).collect();
    let columns = columns.join(", ");
    for number in 0..tables {
        session.sql(&format!("CREATE TABLE {name}_{number} ({columns})")).await?;
    }
    Ok(())
}
