//! Options of a run.

use std::path::PathBuf;

use clap::Args;

/// The options of `sqltest fuzz`.
#[derive(Args, Clone, Debug)]
pub struct FuzzOptions {
    /// Time to search for differences, in seconds
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub seconds: u64,
    /// Seed of the first case; a fresh one by default
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Run one case alone
    #[arg(long, value_name = "N")]
    pub case: Option<u64>,
    /// Number of groups that run at a time
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Number of failures after which the run ends
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub failures: u64,
    /// Seconds that shrinking a failing case may take
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub shrink_seconds: u64,
    /// Print an example for each reason of a refusal
    #[arg(long)]
    pub examples: bool,
    /// File in which the child process records the cases that run
    #[arg(long, hide = true)]
    pub(super) journal: Option<PathBuf>,
}
