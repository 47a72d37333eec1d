//! `terrace sql`: statements from the command line, from files, from a pipe, or at a prompt.

mod complete;
mod copy;
mod csv;
mod definition;
mod describe;
mod json;
mod meta;
mod names;
mod position;
mod print;
mod progress;
mod repl;
mod run;
mod split;

use std::fs;
use std::io::{IsTerminal, Read, Write, stderr, stdin};
use std::path::Path;

use terrace_sql::{Engine, EngineConfig, ProcessMemory};
use terrace_sys::size::format_bytes;
use tokio::runtime::Runtime;

use crate::args::SqlArgs;
use crate::error::{CliError, Result};
use crate::settings::Settings;
use print::Style;
use repl::Repl;
use run::{Next, Runner};

/// Runs the command.
///
/// # Errors
/// The first error of a statement of `-c`, `-f` or a pipe; at a prompt only an error that ends it.
pub fn run(runtime: &Runtime, settings: &Settings, args: &SqlArgs) -> Result<()> {
    // Files are read first, so that a missing one does not leave the work half done.
    let scripts = scripts(args)?;
    // The process runs only this engine, and jemalloc is its allocator.
    let process_memory = ProcessMemory::Allocator;
    let engine = Engine::open(&EngineConfig { process_memory, ..settings.engine() })?;
    let style = Style { format: args.format, rows: args.rows, is_expanded: false };
    let data = settings.data.as_ref();
    let data = data.map_or_else(|| "in memory".to_owned(), |path| path.display().to_string());
    let runner = {
        let _inside = runtime.enter();
        Runner::new(terrace_server::with_pg_catalog(engine.session()?), style, data)?
    };
    let outcome = if !scripts.is_empty() {
        run_scripts(runtime, runner, &scripts)
    } else if args.interactive || stdin().is_terminal() {
        greet(settings)?;
        Repl::new(runtime, runner).and_then(Repl::run)
    } else {
        let mut text = String::new();
        stdin().read_to_string(&mut text)?;
        run_scripts(runtime, runner, &[text])
    };
    let closed = engine.close();
    outcome?;
    Ok(closed?)
}

/// Returns the texts of `-c`, then those of `-f`.
fn scripts(args: &SqlArgs) -> Result<Vec<String>> {
    let read = |path: &Path| {
        fs::read_to_string(path)
            .map_err(|source| CliError::File { path: path.to_path_buf(), source })
    };
    let files = args.files.iter().map(|path| read(path));
    args.commands.iter().cloned().map(Ok).chain(files).collect()
}

fn run_scripts(runtime: &Runtime, mut runner: Runner, scripts: &[String]) -> Result<()> {
    let mut statements = scripts.iter().flat_map(|text| split::statements(text));
    while let Some(statement) = statements.next() {
        match runtime.block_on(runner.run(statement)) {
            // The output was closed, but the other statements may have effects besides their
            // output.
            Err(error) if error.is_broken_pipe() => match statements.count() {
                0 => return Err(error),
                left => return Err(CliError::Unread { left }),
            },
            done => match done? {
                Next::More => {}
                Next::Quit => return Ok(()),
            },
        }
    }
    Ok(())
}

fn greet(settings: &Settings) -> Result<()> {
    let dram = format_bytes(settings.dram_bytes);
    let why = if settings.dram_is_default { ", half of the memory; --dram changes it" } else { "" };
    let data = match &settings.data {
        Some(path) => format!("tables are kept in {}", path.display()),
        None => "tables go when you leave; --data DIR keeps them".to_string(),
    };
    let mut out = stderr();
    writeln!(out, "terrace {}: DRAM budget {dram}{why}", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "{data}; \\? for help")?;
    if let Some(warning) = settings.warning() {
        writeln!(out, "warning: {warning}")?;
    }
    Ok(())
}
