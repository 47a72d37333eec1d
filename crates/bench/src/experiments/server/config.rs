//! Conditions of a run of the experiment.

use std::path::PathBuf;

use serde::Serialize;
use terrace_sys::size::MIB;

use super::backend::Budget;
use super::options::{Part, ServerOptions};
use crate::setting::Setting;

/// Default memory budget.
const DRAM_BYTES: u64 = 768 * MIB;

/// TPC-H queries with large joins and groupings.
const HEAVY_QUERIES: [u32; 4] = [3, 9, 18, 21];

/// Conditions of a run, as in the report.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Config {
    pub(super) scale: f64,
    pub(super) dram_bytes: u64,
    /// Memory limit of a server, page cache included.
    pub(super) limit_bytes: u64,
    pub(super) threads: usize,
    pub(super) rounds: usize,
    pub(super) queries: Vec<u32>,
    pub(super) options: ServerOptions,
    pub(super) encoding: String,
    pub(super) memory_limit: String,
    /// Versions of the clients and of the compared engines.
    pub(super) versions: Vec<String>,
    /// Missing engines, with the reasons.
    pub(super) missing: Vec<String>,
    #[serde(skip)]
    pub(super) program: PathBuf,
}

impl Config {
    /// Returns the conditions for the parameters and options of a run.
    pub(super) fn of(setting: &Setting, options: &ServerOptions) -> Config {
        let mut options = options.clone();
        if setting.queries_are_named {
            options.queries.clone_from(&setting.queries);
        }
        let named = setting.dram_is_named;
        let dram_bytes = if named { setting.engine.dram_bytes } else { DRAM_BYTES };
        let queries = match options.queries.as_slice() {
            [] => HEAVY_QUERIES.to_vec(),
            named => named.to_vec(),
        };
        Config {
            scale: setting.scale,
            dram_bytes,
            limit_bytes: options.limit_bytes.unwrap_or(dram_bytes / 3 * 4),
            threads: setting.engine.threads,
            rounds: setting.rounds.get(),
            queries,
            options,
            encoding: String::new(),
            memory_limit: String::new(),
            versions: Vec::new(),
            missing: Vec::new(),
            program: setting.program.clone(),
        }
    }

    /// Returns the budget of a server.
    pub(super) fn budget(&self) -> Budget {
        let (dram_bytes, threads) = (self.dram_bytes, self.threads);
        Budget { dram_bytes, threads, clients: self.options.clients }
    }

    /// Returns true if a part is measured.
    pub(super) fn has(&self, part: Part) -> bool {
        self.options.parts.contains(&part)
    }
}
