//! Options of a run.

use clap::Args;

/// The options of `sqltest slt`.
#[derive(Args, Clone, Debug)]
pub struct SltOptions {
    /// Run a fixed tenth of the generated scripts, by hash of the name, and all written by hand
    #[arg(long)]
    pub tenth: bool,
    /// Run one query in N of each script, by hash of its text; all statements run
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub sample: u32,
    /// Run the scripts whose name matches, such as '*/orderby/*'
    #[arg(long, value_name = "GLOB")]
    pub filter: Option<String>,
    /// Number of scripts that run at a time
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Number of wrong results to print
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub show: usize,
}
