//! Options of the experiment.

use std::str::FromStr;

use clap::builder::TypedValueParser;
use clap::{Args, value_parser};
use serde::Serialize;
use terrace_sys::size::{parse_bytes, to_usize};

use crate::error::BenchError;
use crate::flag::seconds;

/// A part of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Part {
    /// Many clients with heavy queries.
    Load,
    /// Short queries of a client with a priority, concurrently with the load.
    Priority,
    /// Cost of the protocol.
    Wire,
}

impl Part {
    /// All parts.
    pub const ALL: [Part; 3] = [Part::Load, Part::Priority, Part::Wire];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Part::Load => "load",
            Part::Priority => "priority",
            Part::Wire => "wire",
        }
    }
}

impl FromStr for Part {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Part, BenchError> {
        let found = Part::ALL.into_iter().find(|part| part.name() == text);
        found.ok_or_else(|| BenchError::input("there are the parts load, priority and wire"))
    }
}

/// Options of the experiment.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct ServerOptions {
    /// Parts to run: load (many clients with heavy queries), priority (short queries of a client
    /// with a priority beside them), wire (SELECT 1 by pgbench, and rows in binary)
    #[arg(
        long = "part",
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "load,priority,wire"
    )]
    pub(super) parts: Vec<Part>,

    /// Number of clients of the load
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = value_parser!(u64).range(1..=1000).map(to_usize))]
    pub(super) clients: usize,

    // Numbers of the TPC-H queries of the load, which the user gave for all experiments; heavy ones
    // if empty.
    #[arg(skip)]
    pub(super) queries: Vec<u32>,

    /// Memory limit of a server, page cache included; by default 4/3 of the budget, which is 768MiB
    /// unless --dram is given
    #[arg(long = "limit", value_name = "SIZE", value_parser = parse_bytes)]
    pub(super) limit_bytes: Option<u64>,

    /// Seed of the order in which each client runs the queries; these are 3, 9, 18 and 21 unless
    /// --queries is given
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,

    /// Maximum seconds of the load on each engine
    #[arg(long, value_name = "S", default_value_t = 240.0, value_parser = seconds)]
    pub(super) load_seconds: f64,

    /// Duration in seconds of the short queries on an idle server, and beside the load
    #[arg(long, value_name = "S", default_value_t = 20.0, value_parser = seconds)]
    pub(super) short_seconds: f64,

    /// Duration in seconds of each run of pgbench
    #[arg(long, value_name = "S", default_value_t = 3,
          value_parser = value_parser!(u64).range(1..=3600))]
    pub(super) wire_seconds: u64,

    /// Number of rows that are fetched in binary
    #[arg(long, value_name = "N", default_value_t = 10_000_000,
          value_parser = value_parser!(u64).range(1..=1_000_000_000))]
    pub(super) wire_rows: u64,
}
