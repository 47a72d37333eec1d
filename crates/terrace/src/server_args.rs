//! Options of `terrace bench server` and `terrace bench tenants`.

use clap::{Args, value_parser};
use terrace_bench::server::{Part, ServerOptions};
use terrace_bench::tenants::TenantOptions;

use crate::args::{seconds, size};

/// Options of server.
#[derive(Args, Debug)]
#[command(next_help_heading = "server")]
pub struct ServerBenchArgs {
    /// Parts to run: load (many clients with heavy queries), priority (short queries of a client
    /// with a priority beside them), wire (SELECT 1 by pgbench, and rows in binary)
    #[arg(
        long = "part",
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "load,priority,wire"
    )]
    pub parts: Vec<Part>,

    /// Number of clients of the load
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = value_parser!(u64).range(1..=1000))]
    pub clients: u64,

    /// Memory limit of a server, page cache included; by default 4/3 of the budget, which is 768MiB
    /// unless --dram is given
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub limit: Option<u64>,

    /// Seed of the order in which each client runs the queries; these are 3, 9, 18 and 21 unless
    /// --queries is given
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Maximum seconds of the load on each engine
    #[arg(long, value_name = "S", default_value_t = 240.0, value_parser = seconds)]
    pub load_seconds: f64,

    /// Duration in seconds of the short queries on an idle server, and beside the load
    #[arg(long, value_name = "S", default_value_t = 20.0, value_parser = seconds)]
    pub short_seconds: f64,

    /// Duration in seconds of each run of pgbench
    #[arg(long, value_name = "S", default_value_t = 3,
          value_parser = value_parser!(u64).range(1..=3600))]
    pub wire_seconds: u64,

    /// Number of rows that are fetched in binary
    #[arg(long, value_name = "N", default_value_t = 10_000_000,
          value_parser = value_parser!(u64).range(1..=1_000_000_000))]
    pub wire_rows: u64,
}

impl ServerBenchArgs {
    /// Returns the options, with these TPC-H queries.
    pub fn options(&self, queries: &[u32]) -> ServerOptions {
        ServerOptions {
            parts: self.parts.clone(),
            clients: usize::try_from(self.clients).unwrap_or(usize::MAX),
            queries: queries.to_vec(),
            limit_bytes: self.limit,
            seed: self.seed,
            load_seconds: self.load_seconds,
            short_seconds: self.short_seconds,
            wire_seconds: self.wire_seconds,
            wire_rows: self.wire_rows,
        }
    }
}

/// Options of tenants.
#[derive(Args, Debug)]
#[command(next_help_heading = "tenants")]
pub struct TenantBenchArgs {
    /// Run the tenants as psql clients of a server in a process of its own
    #[arg(long)]
    pub wire: bool,

    /// Duration in seconds of each trace; there is one for each round
    #[arg(long, value_name = "S", default_value_t = 30,
          value_parser = value_parser!(u64).range(1..=3600))]
    pub trace_seconds: u64,

    /// Factor for the rate of all requests of a trace
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = load)]
    pub trace_load: f64,
}

/// Parses a load from a hundredth to a hundred times.
fn load(text: &str) -> Result<f64, String> {
    let load = text.parse().ok().filter(|load| (0.01..=100.0).contains(load));
    load.ok_or_else(|| "a load is a number from 0.01 to 100".to_owned())
}

impl TenantBenchArgs {
    /// Returns the options of the experiment.
    pub fn options(&self) -> TenantOptions {
        let (wire, seconds, load) = (self.wire, self.trace_seconds, self.trace_load);
        TenantOptions { wire, seconds, load }
    }
}
