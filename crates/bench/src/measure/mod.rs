//! Tools of measurements: peak memory, statistics and working directories.

mod meter;
mod scratch;
mod statistic;

pub use meter::{Meter, Reading, TierBytes};
pub use scratch::Scratch;
pub use statistic::{Estimate, RateRatio, confidence_95, geometric_mean, mean, median, percentile};
pub(crate) use statistic::{by_case, median_of};
