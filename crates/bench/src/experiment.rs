//! The experiments by name.

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

/// What an experiment is told.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Budget, tiers, directory and threads.
    pub engine: EngineConfig,
    /// Whether the budget was named, so that an experiment must not choose its own.
    pub dram_is_named: bool,
    /// Whether the number of threads was named, as the budget may be.
    pub threads_is_named: bool,
    /// TPC-H scale factor.
    pub scale: f64,
    /// Rounds; medians count.
    pub rounds: NonZeroUsize,
    /// TPC-H queries.
    pub queries: Vec<u32>,
    /// The encoding of tables that are loaded; that of the experiment where none was named.
    pub encoding: Option<Encoding>,
    /// Key-value pairs of an index.
    pub pairs: u64,
    /// Allocations of the largest run of allocators.
    pub objects: u64,
    /// What the experiment over small objects is told.
    pub small_objects: ObjectOptions,
    /// What experiments over pages of the pool are told.
    pub pages: PageOptions,
    /// What the experiment over segments is told.
    pub segments: SegmentOptions,
    /// Options of the experiment over the server.
    pub server: ServerOptions,
    /// Options of the experiment over tenants.
    pub tenants: TenantOptions,
    /// Reports of the lab that migration shows beside its own.
    pub lab: Vec<PathBuf>,
    /// This program, which generates in a process of its own.
    pub program: PathBuf,
}

/// Under what an experiment ran, as its report has it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Conditions {
    pub(crate) scale: f64,
    pub(crate) dram_bytes: u64,
    pub(crate) threads: usize,
    pub(crate) rounds: usize,
    /// The encoding of the tables.
    pub(crate) encoding: String,
}

impl Setting {
    /// What generates the tables.
    pub(crate) fn generator(&self) -> Generator {
        let threads = NonZeroUsize::new(self.engine.threads).unwrap_or(NonZeroUsize::MIN);
        Generator { program: self.program.clone(), scale: self.scale, threads }
    }

    /// An engine with a budget for everything at this scale, unless another one was named.
    pub(crate) fn ample_engine(&self) -> EngineConfig {
        let mut engine = self.engine.clone();
        if !self.dram_is_named {
            engine.dram_bytes = ample_dram(self.scale);
        }
        engine
    }

    /// The conditions with this engine over tables of this encoding.
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

/// What an experiment gives: for the eye, for a file, and as a picture.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The rows.
    pub grid: Grid,
    /// Lines below them.
    pub notes: Vec<String>,
    /// The report.
    pub report: Report,
    /// The picture.
    pub picture: Bars,
    /// Queries of ours that failed or gave a wrong answer.
    pub failed: usize,
    /// More pictures, each in a file of its own.
    pub more: Vec<Picture>,
}

/// An experiment that can be run again.
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

    /// Its name on the command line.
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

    /// What it answers, in a line.
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

    /// The experiment of a name.
    ///
    /// # Errors
    /// [`BenchError::Input`] with the names there are.
    pub fn named(name: &str) -> Result<Experiment> {
        Experiment::ALL.into_iter().find(|experiment| experiment.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Experiment::ALL.iter().map(|known| known.name()).collect();
            BenchError::input(format!(
                "there is no experiment {name:?}; there are {}",
                names.join(", ")
            ))
        })
    }

    /// Runs it. `observe` is told what happens.
    ///
    /// # Errors
    /// What keeps it from giving a finding.
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
