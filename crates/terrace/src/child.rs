//! Hidden commands: work that other processes of this program do for it.

use std::io::{stdin, stdout};

use terrace_bench::suite::export::write_files;
use terrace_bench::suite::feed::write_tables;
use terrace_bench::suite::reference::write_answers;
use terrace_bench::suite::table::{Benchmark, Generated};
use terrace_bench::{tpcds, tpch};
use tokio::runtime::Runtime;

use crate::args::{ExportArgs, GenerateArgs, GeneratorArgs};
use crate::error::Result;

/// Writes generated tables to standard output.
///
/// # Errors
/// When the reader is gone.
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
/// When a file cannot be written.
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
/// When the input is no texts or the reader is gone.
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
