//! Options of the experiment.

use std::str::FromStr;

use serde::Serialize;

use crate::error::BenchError;

/// A part of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Many clients with heavy queries.
    Load,
    /// Short queries of a client with a priority beside the load.
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

/// Options of the experiment, in addition to those of all experiments.
#[derive(Clone, Debug, Serialize)]
pub struct ServerOptions {
    /// Parts to run.
    pub parts: Vec<Part>,
    /// Number of clients of the load.
    pub clients: usize,
    /// Numbers of the TPC-H queries of the load; heavy ones if empty.
    pub queries: Vec<u32>,
    /// Memory limit of a server in bytes, page cache included; by default 4/3 of the budget.
    pub limit_bytes: Option<u64>,
    /// Seed of the order of the queries.
    pub seed: u64,
    /// Maximum seconds of the load on each engine.
    pub load_seconds: f64,
    /// Duration of the short queries in seconds, alone and beside the load.
    pub short_seconds: f64,
    /// Duration of each run of pgbench in seconds.
    pub wire_seconds: u64,
    /// Number of rows that are fetched.
    pub wire_rows: u64,
}
