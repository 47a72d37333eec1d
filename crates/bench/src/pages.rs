//! Workloads over pages of a pool, without SQL: what the experiments of the n-tier buffer pool
//! share.
//!
//! Every run has a pool, a store and data of its own, so that no run finds what another has
//! brought into memory.

pub mod background;
pub mod cost;
pub mod sweep;
pub mod workloads;

mod case;
mod plot;

use std::path::PathBuf;

use terrace_pool::{Placement, Policy};
use terrace_tier::TierSpec;
use terrace_workload::ycsb::Mix;

use crate::error::{BenchError, Result};
use crate::experiment::Setting;
use crate::scratch::Scratch;
pub(crate) use case::{Case, Load, Measured, Ready};

/// What the experiments over pages are told beside what all are told.
#[derive(Clone, Debug)]
pub struct PageOptions {
    /// Where pages are, in turn.
    pub placements: Vec<Placement>,
    /// Which pages stay.
    pub policy: Policy,
    /// Workloads of a sweep.
    pub workloads: Vec<String>,
    /// TPC-C warehouses.
    pub warehouses: Option<u32>,
    /// Tuples of random-read, records of YCSB.
    pub tuples: Option<u64>,
    /// Look-ups of a batch of random-read.
    pub batch: Option<usize>,
    /// Mixes of YCSB.
    pub mixes: Vec<Mix>,
    /// Skew of YCSB, 0 for none.
    pub theta: f64,
    /// Seconds that are measured.
    pub seconds: f64,
    /// Seconds before them.
    pub warm_up_seconds: f64,
    /// File for samples, one line a second.
    pub csv: Option<PathBuf>,
    /// What bytes cost.
    pub prices: cost::Prices,
}

/// Tiers of memory, and the store that was named among them, if any.
pub(crate) fn split_tiers(tiers: &[TierSpec]) -> (Vec<TierSpec>, Option<TierSpec>) {
    let memory = tiers.iter().filter(|tier| tier.is_memory()).cloned().collect();
    (memory, tiers.iter().find(|tier| !tier.is_memory()).cloned())
}

/// The load of a name: `tpcc`, `random-read`, or `ycsb-a` to `ycsb-f`; of these sizes where the
/// options name none.
pub(crate) fn load_of(name: &str, options: &PageOptions, sizes: &Sizes) -> Result<Load> {
    let tuples = options.tuples.unwrap_or(sizes.tuples);
    match name.split_once('-') {
        None if name == "tpcc" => {
            Ok(Load::Tpcc { warehouses: options.warehouses.unwrap_or(sizes.warehouses) })
        }
        Some(("random", "read")) => {
            Ok(Load::RandomRead { tuples, batch: options.batch.unwrap_or(1) })
        }
        Some(("ycsb", mix)) => {
            let mix = mix.parse().map_err(|error| BenchError::input(format!("{error}")))?;
            Ok(Load::Ycsb { mix, records: tuples, theta: options.theta, shift_seconds: None })
        }
        _ => Err(BenchError::input(format!(
            "there is no workload \"{name}\"; tpcc, random-read and ycsb-a to ycsb-f are"
        ))),
    }
}

/// How much data a workload has where nobody says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) warehouses: u32,
    pub(crate) tuples: u64,
}

/// A directory for stores, in the one that was named or that of the system.
pub(crate) fn home(setting: &Setting) -> Result<Scratch> {
    match &setting.engine.data_dir {
        Some(dir) => Scratch::below(dir, "pages"),
        None => Scratch::of(None, "pages"),
    }
}
