//! `sqltest`: runs the SQL checks; `cargo x slt`, `functions`, `statements` and `fuzz` start it.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use terrace_sqltest::error::{CheckError, Result};
use terrace_sqltest::{functions, fuzz, outcome, slt, statements};
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Stack of each thread that plans and runs queries.
const STACK_BYTES: usize = 16 << 20;

/// Checks Terrace's SQL against other databases.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the public sqllogictest suite
    Slt(slt::SltOptions),
    /// Runs random statements in Terrace and DuckDB and compares the results
    Fuzz(fuzz::FuzzOptions),
    /// Calls every function in Terrace, DuckDB and PostgreSQL and compares the results
    Functions(functions::FunctionsOptions),
    /// Runs scripts over all of SQL in Terrace, PostgreSQL and DuckDB and compares the results
    Statements(statements::StatementsOptions),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK_BYTES)
        .build()
        .map_err(|error| CheckError::Input(format!("no runtime: {error}")))?;
    outcome::remember_panics();
    match &cli.command {
        Command::Slt(options) => runtime.block_on(slt::run(options)),
        Command::Fuzz(options) => runtime.block_on(fuzz::run(options)),
        Command::Functions(options) => runtime.block_on(functions::run(options)),
        Command::Statements(options) => runtime.block_on(statements::run(options)),
    }
}
