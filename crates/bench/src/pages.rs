//! Workloads over pages of a pool, without SQL: shared parts of the experiments of the n-tier
//! buffer pool.
//!
//! Every case has a pool, a store and data of its own, so that no case finds pages that another has
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

/// Options of the experiments over pages, in addition to those of all experiments.
#[derive(Clone, Debug)]
pub struct PageOptions {
    /// Placements of pages, measured alternately.
    pub placements: Vec<Placement>,
    /// Eviction and migration policy.
    pub policy: Policy,
    /// Names of the workloads of a sweep.
    pub workloads: Vec<String>,
    /// Number of TPC-C warehouses.
    pub warehouses: Option<u32>,
    /// Number of tuples of random-read and of records of YCSB.
    pub tuples: Option<u64>,
    /// Number of look-ups in a batch of random-read.
    pub batch: Option<usize>,
    /// Mixes of YCSB.
    pub mixes: Vec<Mix>,
    /// Skew of YCSB, 0 for none.
    pub theta: f64,
    /// Duration of the measurement in seconds.
    pub seconds: f64,
    /// Duration of the warm-up before it in seconds.
    pub warm_up_seconds: f64,
    /// CSV file for the samples, one line per second.
    pub csv: Option<PathBuf>,
    /// Prices of memory and storage.
    pub prices: cost::Prices,
}

/// Splits tiers into those of memory and the store, if one was given.
pub(crate) fn split_tiers(tiers: &[TierSpec]) -> (Vec<TierSpec>, Option<TierSpec>) {
    let memory = tiers.iter().filter(|tier| tier.is_memory()).cloned().collect();
    (memory, tiers.iter().find(|tier| !tier.is_memory()).cloned())
}

/// Returns the workload with a name: `tpcc`, `random-read`, or `ycsb-a` to `ycsb-f`; with these
/// sizes unless the options give others.
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

/// Default amount of data of a workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) warehouses: u32,
    pub(crate) tuples: u64,
}

/// Creates a temporary directory for stores, in the given data directory or in that of the system.
pub(crate) fn home(setting: &Setting) -> Result<Scratch> {
    match &setting.engine.data_dir {
        Some(dir) => Scratch::below(dir, "pages"),
        None => Scratch::of(None, "pages"),
    }
}
