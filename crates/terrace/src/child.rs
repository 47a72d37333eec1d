//! Hidden commands: work that other processes of this program do for it.

use std::io::stdout;

use terrace_bench::tpch::feed::write_tables;
use terrace_bench::tpch::reference::write_answers;
use tokio::runtime::Runtime;

use crate::args::{GenerateArgs, ReferenceArgs};
use crate::error::Result;

/// Writes generated tables to standard output.
///
/// # Errors
/// When the reader is gone.
pub fn generate(args: &GenerateArgs) -> Result<()> {
    Ok(write_tables(stdout().lock(), args.scale, args.generator_threads, &args.tables)?)
}

/// Writes reference answers to standard output.
///
/// # Errors
/// When a query fails or the reader is gone.
pub fn reference(runtime: &Runtime, args: &ReferenceArgs) -> Result<()> {
    let queries = &args.queries;
    let answers = write_answers(stdout().lock(), args.scale, args.generator_threads, queries);
    Ok(runtime.block_on(Box::pin(answers))?)
}
