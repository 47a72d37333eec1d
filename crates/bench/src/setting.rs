//! Parameters and results that all experiments have in common.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use terrace_pool::Placement;
use terrace_sql::{Encoding, EngineConfig};
use terrace_sys::size::GIB;

use crate::error::Result;
use crate::measure::Scratch;
use crate::report::{Bars, Grid, Picture, Report};
use crate::suite::feed::Generator;

/// Budget per unit of scale: the tables take about 1.7 GiB in Arrow's layout, and must all stay in
/// DRAM beside the working memory of any query.
const DRAM_BYTES_PER_SCALE: u64 = 5 * GIB;

/// Parameters of all experiments.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Configuration of the engine: budget, tiers, directory, threads and placement.
    pub engine: EngineConfig,
    /// True if the user gave the budget, so that an experiment must not choose its own.
    pub dram_is_named: bool,
    /// True if the user gave the number of threads.
    pub threads_is_named: bool,
    /// True if the user gave the placement of pages.
    pub placement_is_named: bool,
    /// TPC-H scale factor.
    pub scale: f64,
    /// Number of rounds; medians count.
    pub rounds: NonZeroUsize,
    /// Numbers of the TPC-H queries.
    pub queries: Vec<u32>,
    /// True if the user gave the queries; otherwise they are all.
    pub queries_are_named: bool,
    /// Encoding of tables that are loaded; `None` selects the experiment's default.
    pub encoding: Option<Encoding>,
    /// Prices of memory and of the machine.
    pub prices: Prices,
    /// Path of this program, which generates tables in a child process.
    pub program: PathBuf,
}

/// Prices in dollars: per GiB of each kind of tier, and for the machine around them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Prices {
    /// Price of a GiB of DRAM.
    pub dram: f64,
    /// Price of a GiB of remote memory.
    pub remote: f64,
    /// Price of a GiB of a file or device.
    pub store: f64,
    /// Price of the machine without them.
    pub machine: f64,
}

impl Default for Prices {
    /// Prices per GiB of server DRAM of 2025, an expander with memory of the previous generation,
    /// and an NVMe device; the machine is left out, as in the study of vmcache^n.
    fn default() -> Self {
        Self { dram: 4.0, remote: 2.0, store: 0.1, machine: 0.0 }
    }
}

/// Conditions of an experiment, as in its report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Conditions {
    pub(crate) scale: f64,
    pub(crate) dram_bytes: u64,
    pub(crate) threads: usize,
    pub(crate) rounds: usize,
    /// Encoding of the tables.
    pub(crate) encoding: String,
}

impl Setting {
    /// Returns the generator of the tables.
    pub(crate) fn generator(&self) -> Generator {
        let threads = NonZeroUsize::new(self.engine.threads).unwrap_or(NonZeroUsize::MIN);
        Generator { program: self.program.clone(), scale: self.scale, threads }
    }

    /// Returns the configuration of an engine whose budget is enough for all tables and the working
    /// memory of any query at the scale, unless the user gave a budget.
    pub(crate) fn ample_engine(&self) -> EngineConfig {
        let mut engine = self.engine.clone();
        if !self.dram_is_named {
            engine.dram_bytes = ample_dram(self.scale);
        }
        engine
    }

    /// Returns the placements of pages to measure: the user's, or all.
    pub(crate) fn placements(&self) -> Vec<Placement> {
        match self.placement_is_named {
            true => vec![self.engine.placement],
            false => Placement::ALL.to_vec(),
        }
    }

    /// Creates a temporary directory for stores, in the given data directory or in that of the
    /// system.
    ///
    /// # Errors
    /// [`crate::BenchError::File`] if the directory cannot be created.
    pub(crate) fn scratch(&self) -> Result<Scratch> {
        match &self.engine.data_dir {
            Some(dir) => Scratch::below(dir, "pages"),
            None => Scratch::of(None, "pages"),
        }
    }

    /// Returns the conditions of a run on an engine with the configuration `engine`, over tables
    /// with `encoding`.
    pub(crate) fn conditions(&self, engine: &EngineConfig, encoding: &str) -> Conditions {
        Conditions {
            scale: self.scale,
            dram_bytes: engine.dram_bytes,
            threads: engine.threads,
            rounds: self.rounds.get(),
            encoding: encoding.to_owned(),
        }
    }
}

/// Returns the budget in bytes that is enough for all tables and the working memory of any query at
/// a scale.
pub(crate) fn ample_dram(scale: f64) -> u64 {
    let units = scale.max(1.0).ceil();
    (1..=100_000_u32)
        .find(|count| f64::from(*count) >= units)
        .map_or(DRAM_BYTES_PER_SCALE, |count| DRAM_BYTES_PER_SCALE.saturating_mul(u64::from(count)))
}

/// Result of an experiment: a table, a report, and pictures.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Table of the results.
    pub grid: Grid,
    /// Lines below the table.
    pub notes: Vec<String>,
    /// Report as JSON.
    pub report: Report,
    /// Main picture.
    pub picture: Bars,
    /// Number of Terrace's queries that failed or gave a wrong answer.
    pub failed: usize,
    /// Further pictures, each in a file of its own.
    pub more: Vec<Picture>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_grows_with_the_scale() {
        assert_eq!(ample_dram(0.01), 5 * GIB);
        assert_eq!(ample_dram(1.0), 5 * GIB);
        assert_eq!(ample_dram(2.5), 15 * GIB);
    }
}
