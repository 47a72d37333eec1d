//! TPC-C over trees in pages.

use clap::{Args, value_parser};

use super::Load;
use super::workloads::{self, WorkloadOptions};
use crate::error::Result;
use crate::experiment::{Common, Experiment};
use crate::setting::{Finding, Setting};

/// Default number of warehouses, as published for a machine of this kind.
const WAREHOUSES: u32 = 2;

/// Options of the experiment.
#[derive(Args, Clone, Debug)]
pub(crate) struct TpccOptions {
    /// Number of TPC-C warehouses; by default 2
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    warehouses: Option<u32>,

    #[command(flatten)]
    workload: WorkloadOptions,
}

/// Experiment `tpcc`: TPC-C over B-trees in pages.
pub(crate) struct Tpcc;

impl Experiment for Tpcc {
    const NAME: &'static str = "tpcc";
    const QUESTION: &'static str = "how many transactions do trees over pages give?";
    const COMMON: &'static [Common] = &[Common::Rounds];
    type Options = TpccOptions;

    /// Runs the experiment.
    ///
    /// # Errors
    /// Fails if a run fails or leaves inconsistent data.
    async fn run(
        setting: &Setting,
        options: &TpccOptions,
        observe: &mut dyn FnMut(&str),
    ) -> Result<Finding> {
        let warehouses = options.warehouses.unwrap_or(WAREHOUSES);
        let loads = [Load::Tpcc { warehouses }];
        workloads::run(Tpcc::NAME, &loads, setting, &options.workload, observe)
    }
}
