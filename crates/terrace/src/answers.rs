//! The engine whose answers are right, as the command line names it.

use clap::ValueEnum;
use terrace_bench::suite::oracle::Oracle;

/// The engine whose answers are right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Answers {
    /// DuckDB's where it is there or can be installed, DataFusion's otherwise
    #[default]
    Auto,
    /// DuckDB's, from a Python package
    Duckdb,
    /// DataFusion's
    Datafusion,
}

impl From<Answers> for Oracle {
    fn from(answers: Answers) -> Oracle {
        match answers {
            Answers::Auto => Oracle::Auto,
            Answers::Duckdb => Oracle::DuckDb,
            Answers::Datafusion => Oracle::DataFusion,
        }
    }
}
