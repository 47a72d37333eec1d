//! Tools of measurements: peak memory, statistics, working directories, pseudo-random numbers.

mod meter;
mod random;
mod scratch;
mod statistic;

pub use meter::{Meter, Reading, TierBytes};
pub(crate) use random::Chance;
pub use scratch::Scratch;
pub use statistic::{Estimate, RateRatio, confidence_95, geometric_mean, mean, median, percentile};
