//! Interface of workloads.

use crate::error::Result;

/// A workload: the operations that each thread of a run repeats.
pub trait Workload: Sync {
    /// Per-thread state that lives from one step to the next, such as a random number generator.
    type Worker;

    /// Names of the kinds of operations, at most [`KINDS_MAX`](super::KINDS_MAX); [`Step::kind`] is
    /// an index into them.
    fn kinds(&self) -> &'static [&'static str];

    /// Sampling rate of latencies: the latency of one step in this many is taken.
    fn latency_every(&self) -> u32;

    /// Creates the state of one more thread.
    fn worker(&self) -> Self::Worker;

    /// Performs one or more operations.
    ///
    /// # Errors
    /// Returns the error that ends the run.
    fn step(&self, worker: &mut Self::Worker) -> Result<Step>;
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Kind of the operations, as an index into [`Workload::kinds`].
    pub kind: usize,
    /// Number of operations of the step.
    pub operations: u64,
}
