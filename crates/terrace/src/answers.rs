//! Choice of the reference engine on the command line.

use clap::ValueEnum;
use terrace_bench::duckdb::oracle::Oracle;

/// The engine whose answers are taken as correct.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Answers {
    /// DuckDB's if it is installed or can be installed, DataFusion's otherwise
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
