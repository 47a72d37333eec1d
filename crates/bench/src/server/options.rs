//! The options of the experiment.

use std::str::FromStr;

use serde::Serialize;

use crate::error::BenchError;

/// A part of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Many clients with heavy queries.
    Load,
    /// Short queries of a client with a priority beside them.
    Priority,
    /// The cost of the protocol.
    Wire,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 3] = [Part::Load, Part::Priority, Part::Wire];

    /// Its name on the command line.
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

/// Options of the experiment beside those that all experiments have.
#[derive(Clone, Debug, Serialize)]
pub struct ServerOptions {
    /// Parts to run.
    pub parts: Vec<Part>,
    /// Clients of the load.
    pub clients: usize,
    /// TPC-H queries of the load; heavy ones where none is given.
    pub queries: Vec<u32>,
    /// Limit of a server's memory in bytes, its page cache included; 4/3 of the budget where none
    /// is given.
    pub limit_bytes: Option<u64>,
    /// Seed of the order of the queries.
    pub seed: u64,
    /// Most seconds that each engine has for the load.
    pub load_seconds: f64,
    /// Seconds of short queries, alone and beside the load.
    pub short_seconds: f64,
    /// Seconds of each run of pgbench.
    pub wire_seconds: u64,
    /// Rows that are fetched.
    pub wire_rows: u64,
}
