//! The mixes of YCSB over a tree in pages.

use clap::{Args, value_parser};
use terrace_workload::ycsb::Mix;

use super::workloads::{self, TUPLES, WorkloadOptions};
use super::{Load, theta};
use crate::error::Result;
use crate::experiment::{Common, Experiment};
use crate::setting::{Finding, Setting};

/// Options of the experiment.
#[derive(Args, Clone, Debug)]
pub(crate) struct YcsbOptions {
    /// Number of records of YCSB; by default 10 million
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    tuples: Option<u64>,

    /// Mixes of YCSB, a to f
    #[arg(long = "mix", value_name = "LIST", value_delimiter = ',', default_value = "a,b,c,d,e,f")]
    mixes: Vec<Mix>,

    /// Skew of YCSB; 0 for none
    #[arg(long, value_name = "THETA", default_value_t = 0.99, value_parser = theta)]
    theta: f64,

    #[command(flatten)]
    workload: WorkloadOptions,
}

/// Experiment `ycsb`: the mixes of YCSB over a B-tree in pages.
pub(crate) struct Ycsb;

impl Experiment for Ycsb {
    const NAME: &'static str = "ycsb";
    const QUESTION: &'static str = "how do trees over pages serve YCSB?";
    const COMMON: &'static [Common] = &[Common::Rounds];
    type Options = YcsbOptions;

    /// Runs the experiment.
    ///
    /// # Errors
    /// Fails if a run fails or leaves inconsistent data.
    async fn run(
        setting: &Setting,
        options: &YcsbOptions,
        observe: &mut dyn FnMut(&str),
    ) -> Result<Finding> {
        let (records, theta) = (options.tuples.unwrap_or(TUPLES), options.theta);
        let load = |mix: &Mix| Load::Ycsb { mix: *mix, records, theta, shift_seconds: None };
        let loads: Vec<Load> = options.mixes.iter().map(load).collect();
        workloads::run(Ycsb::NAME, &loads, setting, &options.workload, observe)
    }
}
