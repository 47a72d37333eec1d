//! Results of a run.

use super::sample::Sample;

/// Samples of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Names of the kinds of operations.
    pub kinds: &'static [&'static str],
    /// One sample per interval; the last interval can be shorter or longer than the others.
    pub samples: Vec<Sample>,
    /// Sample of the whole time from the end of the warm-up to the end of the run.
    pub total: Sample,
}
