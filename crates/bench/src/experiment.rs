//! Experiments by name.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use serde::Serialize;
use terrace_sql::{Encoding, EngineConfig};

use crate::chart::Bars;
use crate::error::{BenchError, Result};
use crate::grid::Grid;
use crate::objects::ObjectOptions;
use crate::paged_scan::ample_dram;
use crate::pages::PageOptions;
use crate::pages::workloads::Kind;
use crate::picture::Picture;
use crate::report::Report;
use crate::segments::SegmentOptions;
use crate::server::ServerOptions;
use crate::suite::feed::Generator;
use crate::tenants::TenantOptions;
use crate::{
    adaptive, allocations, clients, dram_curve, encodings, hash_index, market, migration, objects,
    operators, out_of_core, paged_scan, pages, region, segments, server, suspend, tenants, tiers,
};

/// Parameters of an experiment.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Configuration of the engine: budget, tiers, directory and threads.
    pub engine: EngineConfig,
    /// True if the user gave the budget, so that an experiment must not choose its own.
    pub dram_is_named: bool,
    /// True if the user gave the number of threads.
    pub threads_is_named: bool,
    /// TPC-H scale factor.
    pub scale: f64,
    /// Number of rounds; medians count.
    pub rounds: NonZeroUsize,
    /// Numbers of the TPC-H queries.
    pub queries: Vec<u32>,
    /// Encoding of tables that are loaded; `None` selects the experiment's default.
    pub encoding: Option<Encoding>,
    /// Number of key-value pairs of an index.
    pub pairs: u64,
    /// Number of allocations of the largest run of `allocations`, or of objects of `objects`.
    pub objects: u64,
    /// Options of the experiment over small objects.
    pub small_objects: ObjectOptions,
    /// Options of the experiments over pages of the pool.
    pub pages: PageOptions,
    /// Options of the experiment over segments.
    pub segments: SegmentOptions,
    /// Options of the experiment over the server.
    pub server: ServerOptions,
    /// Options of the experiment over tenants.
    pub tenants: TenantOptions,
    /// Reports of the lab, which `migration` shows beside its own measurements.
    pub lab: Vec<PathBuf>,
    /// Path of this program, which generates tables in a child process.
    pub program: PathBuf,
}

/// Conditions of an experiment, as its report has them.
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

    /// Returns the configuration of an engine whose budget holds everything at this scale, unless
    /// the user gave another budget.
    pub(crate) fn ample_engine(&self) -> EngineConfig {
        let mut engine = self.engine.clone();
        if !self.dram_is_named {
            engine.dram_bytes = ample_dram(self.scale);
        }
        engine
    }

    /// Returns the conditions with this engine over tables of this encoding.
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

/// An experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// [`market`].
    Market,
    /// [`paged_scan`].
    PagedScan,
    /// [`tiers`].
    Tiers,
    /// [`hash_index`].
    HashIndex,
    /// [`out_of_core`].
    OutOfCore,
    /// [`clients`].
    Clients,
    /// [`adaptive`].
    Adaptive,
    /// [`encodings`].
    Encodings,
    /// [`operators`].
    PagedOperators,
    /// [`dram_curve`].
    DramCurve,
    /// [`suspend`].
    Suspend,
    /// [`tenants`].
    Tenants,
    /// [`pages::workloads`].
    Pages(Kind),
    /// [`pages::sweep`].
    NTier,
    /// [`pages::cost`].
    Cost,
    /// [`pages::background`].
    Background,
    /// [`migration`].
    Migration,
    /// [`region`].
    Region,
    /// [`segments`].
    Segments,
    /// [`allocations`].
    Allocations,
    /// [`objects`].
    Objects,
    /// [`server`].
    Server,
}

impl Experiment {
    /// Every experiment.
    pub const ALL: [Experiment; 24] = [
        Experiment::Market,
        Experiment::PagedScan,
        Experiment::Tiers,
        Experiment::HashIndex,
        Experiment::OutOfCore,
        Experiment::Clients,
        Experiment::Adaptive,
        Experiment::Encodings,
        Experiment::PagedOperators,
        Experiment::DramCurve,
        Experiment::Suspend,
        Experiment::Tenants,
        Experiment::Pages(Kind::Tpcc),
        Experiment::Pages(Kind::RandomRead),
        Experiment::Pages(Kind::Ycsb),
        Experiment::NTier,
        Experiment::Cost,
        Experiment::Background,
        Experiment::Migration,
        Experiment::Region,
        Experiment::Segments,
        Experiment::Allocations,
        Experiment::Objects,
        Experiment::Server,
    ];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Experiment::Market => "market",
            Experiment::PagedScan => "paged-scan",
            Experiment::Tiers => "tiers",
            Experiment::HashIndex => "hash-index",
            Experiment::OutOfCore => "out-of-core",
            Experiment::Clients => "clients",
            Experiment::Adaptive => "adaptive",
            Experiment::Encodings => "encodings",
            Experiment::PagedOperators => "paged-operators",
            Experiment::DramCurve => "dram-curve",
            Experiment::Suspend => "suspend",
            Experiment::Tenants => "tenants",
            Experiment::Pages(kind) => kind.name(),
            Experiment::NTier => "n-tier",
            Experiment::Cost => "cost",
            Experiment::Background => "background",
            Experiment::Migration => "migration",
            Experiment::Region => "region",
            Experiment::Segments => "segments",
            Experiment::Allocations => "allocations",
            Experiment::Objects => "objects",
            Experiment::Server => "server",
        }
    }

    /// Returns the question that the experiment answers, in one line.
    pub fn question(self) -> &'static str {
        match self {
            Experiment::Market => "does a market of memory lower what slowness costs?",
            Experiment::PagedScan => {
                "with ample DRAM, are our tables as fast as DataFusion's in-memory ones?"
            }
            Experiment::Tiers => "does a tier between DRAM and the store ever cost time?",
            Experiment::HashIndex => "do hints keep an index fast as threads grow?",
            Experiment::OutOfCore => {
                "what does less DRAM cost us, DuckDB with the same limit, and DataFusion?"
            }
            Experiment::Clients => "what do clients cost each other, here and in DuckDB?",
            Experiment::Adaptive => "what does a grant that shrinks and grows cost an operator?",
            Experiment::Encodings => "what do compact tables cost in time and save in bytes?",
            Experiment::PagedOperators => {
                "with ample DRAM, what do operators in pages cost over DataFusion's?"
            }
            Experiment::DramCurve => "what does each halving of DRAM cost?",
            Experiment::Suspend => "what does a suspended query leave to others?",
            Experiment::Tenants => "does the market lower what slowness costs live tenants?",
            Experiment::Pages(Kind::Tpcc) => "how many transactions do trees over pages give?",
            Experiment::Pages(Kind::RandomRead) => "how many random look-ups, one by one or not?",
            Experiment::Pages(Kind::Ycsb) => "how do trees over pages serve YCSB?",
            Experiment::NTier => "does remote memory below DRAM ever cost throughput?",
            Experiment::Cost => "from which size on does remote memory pay?",
            Experiment::Background => "does migration in the background delay who reads?",
            Experiment::Migration => "what does it cost to move pages to another memory node?",
            Experiment::Region => "what does memory over a file cost, block by block?",
            Experiment::Segments => {
                "what do tables in a heap cost, and does it matter where its metadata are?"
            }
            Experiment::Allocations => "does it matter where an allocator keeps its metadata?",
            Experiment::Objects => "what does a small object cost in bytes, and what in time?",
            Experiment::Server => {
                "do many clients finish in little memory, and what does the protocol cost?"
            }
        }
    }

    /// Returns the experiment with this name.
    ///
    /// # Errors
    /// [`BenchError::Input`] with the valid names if there is none.
    pub fn named(name: &str) -> Result<Experiment> {
        Experiment::ALL.into_iter().find(|experiment| experiment.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Experiment::ALL.iter().map(|known| known.name()).collect();
            BenchError::input(format!(
                "there is no experiment {name:?}; there are {}",
                names.join(", ")
            ))
        })
    }

    /// Runs the experiment and reports its progress to `observe`.
    ///
    /// # Errors
    /// Errors of the experiment.
    pub async fn run(self, setting: &Setting, observe: &mut dyn FnMut(&str)) -> Result<Finding> {
        match self {
            Experiment::Market => Box::pin(market::run(setting, observe)).await,
            Experiment::PagedScan => Box::pin(paged_scan::run(setting, observe)).await,
            Experiment::Tiers => Box::pin(tiers::run(setting, observe)).await,
            Experiment::HashIndex => hash_index::run(setting, observe),
            Experiment::OutOfCore => Box::pin(out_of_core::run(setting, observe)).await,
            Experiment::Clients => Box::pin(clients::run(setting, observe)).await,
            Experiment::Adaptive => Box::pin(adaptive::run(setting, observe)).await,
            Experiment::Encodings => Box::pin(encodings::run(setting, observe)).await,
            Experiment::PagedOperators => Box::pin(operators::run(setting, observe)).await,
            Experiment::DramCurve => Box::pin(dram_curve::run(setting, observe)).await,
            Experiment::Suspend => Box::pin(suspend::run(setting, observe)).await,
            Experiment::Tenants => Box::pin(tenants::run(setting, observe)).await,
            Experiment::Pages(kind) => pages::workloads::run(kind, setting, observe),
            Experiment::NTier => pages::sweep::run(setting, observe),
            Experiment::Cost => pages::cost::run(setting, observe),
            Experiment::Background => pages::background::run(setting, observe),
            Experiment::Migration => migration::run(setting, observe),
            Experiment::Region => region::run(setting, observe),
            Experiment::Segments => Box::pin(segments::run(setting, observe)).await,
            Experiment::Allocations => allocations::run(setting, observe),
            Experiment::Objects => objects::run(setting, observe),
            Experiment::Server => Box::pin(server::run(setting, observe)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_experiments() {
        for experiment in Experiment::ALL {
            assert_eq!(Experiment::named(experiment.name()).expect("known"), experiment);
        }
        let message = Experiment::named("x").expect_err("unknown").to_string();
        assert!(message.contains("paged-scan") && message.contains("tiers"), "{message}");
    }
}
