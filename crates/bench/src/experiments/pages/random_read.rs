//! Look-ups of random tuples in a B-tree over pages, one by one and in batches.

use clap::{Args, value_parser};

use super::Load;
use super::workloads::{self, TUPLES, WorkloadOptions};
use crate::error::Result;
use crate::experiment::{Common, Experiment};
use crate::setting::{Finding, Setting};

/// Default number of look-ups in a batch: as many reads as keep a device busy.
const BATCH: usize = 128;

/// Options of the experiment.
#[derive(Args, Clone, Debug)]
pub(crate) struct RandomReadOptions {
    /// Number of tuples of random-read; by default 10 million
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    tuples: Option<u64>,

    /// Number of look-ups in a batch of random-read; 1 and 128 by default
    #[arg(long, value_name = "N")]
    batch: Option<usize>,

    #[command(flatten)]
    workload: WorkloadOptions,
}

/// Experiment `random-read`: look-ups of random tuples.
pub(crate) struct RandomRead;

impl Experiment for RandomRead {
    const NAME: &'static str = "random-read";
    const QUESTION: &'static str = "how many random look-ups, one by one or not?";
    const COMMON: &'static [Common] = &[Common::Rounds];
    type Options = RandomReadOptions;

    /// Runs the experiment.
    ///
    /// # Errors
    /// Fails if a run fails or leaves inconsistent data.
    async fn run(
        setting: &Setting,
        options: &RandomReadOptions,
        observe: &mut dyn FnMut(&str),
    ) -> Result<Finding> {
        let tuples = options.tuples.unwrap_or(TUPLES);
        let batches = options.batch.map_or(vec![1, BATCH], |batch| vec![batch]);
        let loads = batches.into_iter().map(|batch| Load::RandomRead { tuples, batch });
        let loads: Vec<Load> = loads.collect();
        workloads::run(RandomRead::NAME, &loads, setting, &options.workload, observe)
    }
}
