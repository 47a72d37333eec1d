//! `sqltest functions`: calls of every function, compared with DuckDB and PostgreSQL.
//!
//! The functions are those of a session's registry. Each is called with arguments of the types that
//! it takes: typical ones, nulls, empty ones, negative and huge ones, NaN, infinities, and text
//! beyond ASCII; first as literals, then as columns of a table of several batches, which has to
//! give the same values. An answer is right if one of the other databases gives it. Differences
//! that are known are listed with their reasons in `functions/known.txt`; any other fails, and so
//! does an entry that no longer differs. A panic, an internal error and a call that takes seconds
//! always fail.

mod aggregates;
mod answer;
mod argument;
mod call;
mod peers;
mod registry;
mod run;
mod scalars;
mod shape;
mod tally;
mod terrace;
mod windows;
mod words;

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;

use crate::error::{CheckError, Result};
use crate::known::Known;
use peers::Peers;
use registry::Functions;
use run::Run;

/// The list of the known differences.
const KNOWN: &str = "functions/known.txt";

/// The options of `sqltest functions`.
#[derive(Args, Clone, Debug)]
pub struct FunctionsOptions {
    /// Call only the functions whose names contain this text
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// Maximum number of combinations of types that a function is called with
    #[arg(long, value_name = "N", default_value_t = SHAPES_MAX)]
    pub shapes: usize,
    /// Print the calls that Terrace alone refuses, and those that no other database knows
    #[arg(long)]
    pub show: bool,
    /// Read the known differences from this file
    #[arg(long, value_name = "FILE")]
    pub known: Option<PathBuf>,
}

/// Number of combinations of types that are enough to find all known differences.
const SHAPES_MAX: usize = 7;

impl FunctionsOptions {
    fn takes(&self, name: &str) -> bool {
        self.filter.as_deref().is_none_or(|filter| name.contains(filter))
    }
}

/// Calls the functions and prints what differs.
///
/// # Errors
/// [`CheckError::Found`] for a fault or a difference that is not known.
pub async fn run(options: &FunctionsOptions) -> Result<()> {
    let began = Instant::now();
    let peers = Peers::start().await;
    let known = Known::read(KNOWN, include_str!("functions/known.txt"), options.known.as_deref())?;
    let mut run = Run::open(peers, known, options.show).await?;
    let functions = Functions::of(run.session());
    for function in functions.scalars.iter().filter(|it| options.takes(it.name())) {
        scalars::check(&mut run, function, options.shapes).await?;
    }
    for function in functions.aggregates.iter().filter(|it| options.takes(it.name())) {
        aggregates::check(&mut run, function, options.shapes).await?;
    }
    for name in functions.windows.iter().filter(|name| options.takes(name)) {
        windows::check(&mut run, name).await?;
    }
    let is_whole = options.filter.is_none() && options.shapes >= SHAPES_MAX;
    let failed = run.finish(is_whole, began.elapsed());
    match failed {
        0 => Ok(()),
        failed => Err(CheckError::Found(format!("functions: {failed} failed"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_can_be_read() {
        Known::read(KNOWN, include_str!("functions/known.txt"), None).expect("the list");
    }
}
