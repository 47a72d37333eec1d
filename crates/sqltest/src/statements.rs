//! `sqltest statements`: generated scripts over the whole surface of SQL, run in Terrace and
//! PostgreSQL 15, and where PostgreSQL lacks the syntax in DuckDB.
//!
//! A script is expanded from `statements/grammar` by a seed and its number. Terrace runs as a
//! server, so that both are asked over one protocol by one client. Of each statement the rows, the
//! types of the columns, the number of changed rows and the SQLSTATE of a refusal are compared;
//! statements after the first difference are not compared, since their differences may follow from
//! it. Differences that are known are listed with their reasons in `statements/known.txt`; any
//! other is shrunk and printed.

mod base;
mod databases;
mod difference;
mod grammar;
mod reply;
mod shrink;
mod tally;
mod terrace;
mod wire;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;

use crate::error::{CheckError, Result};
use crate::known::Known;
use databases::Databases;
use grammar::Grammar;
use tally::Tally;

/// The list of the known differences.
const KNOWN: &str = "statements/known.txt";

/// The options of `sqltest statements`.
#[derive(Args, Clone, Debug)]
pub struct StatementsOptions {
    /// Number of scripts
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub count: u64,
    /// Seed of the scripts
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Run one script alone
    #[arg(long, value_name = "N")]
    pub script: Option<u64>,
    /// Number of differences that are shrunk
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub shrunk: usize,
    /// Seconds that shrinking a difference may take
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub shrink_seconds: u64,
    /// Print the scripts, and the known differences
    #[arg(long)]
    pub show: bool,
    /// Read the known differences from this file
    #[arg(long, value_name = "FILE")]
    pub known: Option<PathBuf>,
}

/// Runs the scripts and prints what differs.
///
/// # Errors
/// [`CheckError::Found`] for a difference that is not known, or an entry of the list that no longer
/// differs in a run of all scripts.
pub async fn run(options: &StatementsOptions) -> Result<()> {
    let began = Instant::now();
    let grammar = Grammar::read()?;
    let known = Known::read(KNOWN, include_str!("statements/known.txt"), options.known.as_deref())?;
    let mut databases = Databases::start().await?;
    let mut tally = Tally::default();
    let numbers = match options.script {
        Some(number) => number..number + 1,
        None => 0..options.count,
    };
    for number in numbers {
        let script = grammar.script(options.seed, number);
        if options.show {
            println!("-- {number} {}", script.statements().join("; "));
        }
        let verdict = databases.verdict(script.judges(), &script.statements()).await?;
        tally.count(&verdict);
        for difference in verdict.differences {
            let line = difference.line();
            if known.has(&line) {
                tally.known();
                if options.show {
                    println!("-- known: {line}");
                }
                continue;
            }
            let is_first = tally.is_first(&difference);
            if !is_first || tally.printed() >= options.shrunk {
                continue;
            }
            let limit = Duration::from_secs(options.shrink_seconds);
            let shrunk = shrink::shrink(&mut databases, &script, difference, limit).await?;
            tally.print_difference(options.seed, number, &shrunk);
        }
    }
    // An entry matches statements of these scripts; others may lack them.
    let is_whole = options.script.is_none() && options.seed == 1 && options.count == 2000;
    let unused: Vec<_> = if is_whole { known.unused().collect() } else { Vec::new() };
    match tally.print(&unused, began.elapsed()) {
        0 => Ok(()),
        failed => Err(CheckError::Found(format!(
            "statements: {failed} differences are not known; seed {}",
            options.seed
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_can_be_read() {
        Known::read(KNOWN, include_str!("statements/known.txt"), None).expect("the list");
    }
}
