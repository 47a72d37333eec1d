//! Workloads over pages of a pool, without SQL: shared parts of the experiments of the n-tier
//! buffer pool.
//!
//! Every case has its own pool, store and data, so that no case finds pages in memory that another
//! case has read.

pub(crate) mod background;
pub(crate) mod cost;
pub(crate) mod random_read;
pub(crate) mod sweep;
pub(crate) mod tpcc;
pub(crate) mod ycsb;

mod case;
mod plot;
mod workloads;

use clap::Args;
use terrace_pool::Policy;
use terrace_tier::TierSpec;

use crate::flag::{seconds, within};
use case::{Case, Load, Measured, Ready};

/// Options of every run over pages.
#[derive(Args, Clone, Debug)]
struct RunOptions {
    /// Eviction and migration policy: score, adaptive, or spitfire: and the probabilities to
    /// promote on a read and on a write, to fetch below and to demote
    #[arg(long, value_name = "POLICY", default_value_t)]
    policy: Policy,

    /// Duration of the measurement in seconds
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = seconds)]
    seconds: f64,

    /// Duration of the warm-up in seconds
    #[arg(long = "warm-up", value_name = "S", default_value_t = 5.0, value_parser = seconds)]
    warm_up_seconds: f64,
}

/// Parses a Zipf skew from 0 to 0.999.
fn theta(text: &str) -> Result<f64, String> {
    within(text, 0.999, "a skew from 0 to 0.999")
}

/// Splits tiers into the memory tiers and the first store, if one was given.
fn split_tiers(tiers: &[TierSpec]) -> (Vec<TierSpec>, Option<TierSpec>) {
    let memory = tiers.iter().filter(|tier| tier.is_memory()).cloned().collect();
    (memory, tiers.iter().find(|tier| !tier.is_memory()).cloned())
}
