//! The program `terrace`: parses the command line, starts the log and the runtime, and runs the
//! command.

mod allocator;
mod answers;
mod args;
mod bench;
mod bench_args;
mod child;
mod config;
mod doctor;
mod dram;
mod error;
mod interrupt;
mod log;
mod runtime;
mod serve;
mod serve_args;
mod settings;
mod sql;
mod suite;
mod text_table;
mod tpcds;
mod tpch;

use std::io::{Write, stderr};
use std::process::ExitCode;

use args::{Cli, Command};
use clap::Parser;
use error::{CliError, Result};
use settings::Settings;
use tokio::runtime::Runtime;

/// Exit codes of shells for a command ended by SIGINT (128 + 2) or by SIGPIPE (128 + 13).
const INTERRUPTED: u8 = 130;
const PIPE_CLOSED: u8 = 141;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let place = match &cli.command {
        Command::Sql(_) => log::Destination::File,
        Command::Serve(args) => log::Destination::Server(args.log_format),
        _ => log::Destination::Terminal,
    };
    log::start(cli.options.verbose, place);
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has closed the output; this is not an error.
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(CliError::Said) => ExitCode::FAILURE,
        Err(error) => {
            // Standard error may be closed too; there is no other place to report it.
            let _ = writeln!(stderr(), "error: {error}");
            match error {
                CliError::Interrupted => ExitCode::from(INTERRUPTED),
                CliError::Unread { .. } => ExitCode::from(PIPE_CLOSED),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let settings = Settings::resolve(&cli.options)?;
    let runtime = runtime::create("terrace-query", &settings)?;
    let result = dispatch(cli, &runtime, &settings);
    // A cancelled operator ends at its next await, which a join without keys may reach only after a
    // long time. The program does not wait for it.
    runtime.shutdown_timeout(runtime::SHUTDOWN);
    result
}

fn dispatch(cli: &Cli, runtime: &Runtime, settings: &Settings) -> Result<()> {
    match &cli.command {
        Command::Sql(args) => sql::run(runtime, settings, args),
        Command::Serve(args) => serve::run(runtime, settings, args),
        Command::Tpch(args) => tpch::run(runtime, settings, args),
        Command::Tpcds(args) => tpcds::run(runtime, settings, args),
        Command::Doctor(args) => doctor::run(settings, args),
        Command::Bench { choice } => bench::run(runtime, settings, choice.as_ref()),
        Command::Generate(args) => child::generate(args),
        Command::Export(args) => child::export(args),
        Command::Reference(args) => child::reference(runtime, args),
        Command::Peer(args) => child::peer(runtime, settings, args),
    }
}
