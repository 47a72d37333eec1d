//! Parameters of the runs.

use std::time::Duration;

use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Config {
    pub(super) objects: u64,
    /// Duration of one run.
    pub(super) seconds: f64,
    pub(super) rounds: usize,
    /// Number of threads that the rates are measured with, in addition to one thread.
    pub(super) threads: usize,
}

impl Config {
    pub(super) fn lasts(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}
