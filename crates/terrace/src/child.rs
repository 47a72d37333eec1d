//! Hidden commands, which this program runs in child processes of its own: generators of tables,
//! the reference engine, and the engines of a comparison.

use std::io::{BufReader, stdin, stdout};

use terrace_bench::peer::serve::{serve_datafusion, serve_ours};
use terrace_bench::suite::export::write_files;
use terrace_bench::suite::feed::write_tables;
use terrace_bench::suite::reference::write_answers;
use terrace_bench::suite::table::{Benchmark, Generated};
use terrace_bench::{tpcds, tpch};
use tokio::runtime::Runtime;

use crate::args::{ExportArgs, GenerateArgs, GeneratorArgs, PeerArgs, PeerEngine};
use crate::error::Result;
use crate::settings::Settings;

/// Writes generated tables to standard output.
///
/// # Errors
/// If the output is closed.
pub fn generate(args: &GenerateArgs) -> Result<()> {
    match args.generator.benchmark {
        Benchmark::TpcH => stream::<tpch::table::Table>(args),
        Benchmark::TpcDs => stream::<tpcds::table::Table>(args),
    }
}

fn stream<T: Generated>(args: &GenerateArgs) -> Result<()> {
    let tables: terrace_bench::Result<Vec<T>> =
        args.tables.iter().map(|name| T::named(name)).collect();
    let (scale, threads) = (args.generator.scale, args.generator.generator_threads);
    Ok(write_tables(stdout().lock(), scale, threads, &tables?)?)
}

/// Writes generated tables to a directory.
///
/// # Errors
/// If a file cannot be written.
pub fn export(args: &ExportArgs) -> Result<()> {
    let (scale, threads) = (args.generator.scale, args.generator.generator_threads);
    match args.generator.benchmark {
        Benchmark::TpcH => write_files::<tpch::table::Table>(&args.directory, scale, threads)?,
        Benchmark::TpcDs => write_files::<tpcds::table::Table>(&args.directory, scale, threads)?,
    }
    Ok(())
}

/// Writes reference answers to standard output.
///
/// # Errors
/// If the input is not a list of queries or the output is closed.
pub fn reference(runtime: &Runtime, args: &GeneratorArgs) -> Result<()> {
    match args.benchmark {
        Benchmark::TpcH => answer::<tpch::table::Table>(runtime, args),
        Benchmark::TpcDs => answer::<tpcds::table::Table>(runtime, args),
    }
}

fn answer<T: Generated>(runtime: &Runtime, args: &GeneratorArgs) -> Result<()> {
    let (input, output) = (stdin().lock(), stdout().lock());
    let answers = write_answers::<T>(input, output, args.scale, args.generator_threads);
    Ok(runtime.block_on(Box::pin(answers))?)
}

/// Answers queries from standard input until it ends.
///
/// # Errors
/// If the engine or the tables cannot be opened.
pub fn peer(runtime: &Runtime, settings: &Settings, args: &PeerArgs) -> Result<()> {
    // Standard input is not locked here, since another thread reads it.
    let (input, output) = (BufReader::new(stdin()), stdout());
    let config = settings.engine();
    let served = async {
        match args.engine {
            PeerEngine::Terrace => serve_ours(&config, args.clients, input, output).await,
            PeerEngine::Datafusion => {
                let dram_bytes = usize::try_from(settings.dram_bytes).unwrap_or(usize::MAX);
                let limits = (args.files.as_path(), dram_bytes, settings.threads);
                serve_datafusion(limits, args.clients, input, output).await
            }
        }
    };
    Ok(runtime.block_on(Box::pin(served))?)
}
