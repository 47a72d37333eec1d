//! Performance of work as a function of its memory.

use crate::Curve;

/// Distribution of the I/Os of single requests about the mean of a performance curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// All requests are alike: one run of an operator, whose I/O the model predicts.
    Certain,
    /// Many requests that each miss independently of the others: the number of I/Os follows a
    /// Poisson distribution. Of 100 requests with a mean of 0.1, 90 have none.
    Poisson,
}

/// I/O and latency of one request as functions of bytes (the "performance-memory model" of Otaki et
/// al., CIDR 2025, figure 2).
#[derive(Clone, Debug, PartialEq)]
pub struct Performance {
    /// Mean number of I/Os of a request, as a function of bytes.
    pub ios: Curve,
    /// Latency of a request without its I/Os, in seconds. For a running request it includes the
    /// time that has already passed.
    pub base_seconds: f64,
    /// Latency of one I/O, in seconds.
    pub seconds_per_io: f64,
    /// Distribution of requests about the mean.
    pub tail: Tail,
}

impl Performance {
    /// Returns the mean latency of a request with `bytes` of memory, in seconds.
    #[must_use]
    pub fn seconds(&self, bytes: u64) -> f64 {
        self.base_seconds + self.ios.at(bytes) * self.seconds_per_io
    }

    /// Returns the mean latency as a curve, in seconds.
    #[must_use]
    pub fn latency(&self) -> Curve {
        let base = Curve::flat(self.base_seconds.max(0.0));
        self.ios.scaled(self.seconds_per_io).plus(&base)
    }
}

/// A running operator: its total work and its progress.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// I/Os of the whole run as a function of bytes.
    pub ios: Curve,
    /// Duration of the whole run without its I/Os, in seconds.
    pub cpu_seconds: f64,
    /// Duration of one I/O, in seconds.
    pub seconds_per_io: f64,
    /// Finished fraction of the run, from 0 to 1.
    pub done: f64,
    /// Time since the statement arrived, in seconds.
    pub elapsed_seconds: f64,
}

impl Run {
    /// Returns the performance of the remaining work, as a request that began when the statement
    /// did.
    #[must_use]
    pub fn performance(&self) -> Performance {
        let left = self.left();
        Performance {
            ios: self.ios.scaled(left),
            base_seconds: self.elapsed_seconds + self.cpu_seconds * left,
            seconds_per_io: self.seconds_per_io,
            tail: Tail::Certain,
        }
    }

    /// Returns the seconds until the run is finished with `bytes` of memory.
    #[must_use]
    pub fn seconds_left(&self, bytes: u64) -> f64 {
        self.left() * self.seconds(bytes)
    }

    /// Returns the duration of the whole run with `bytes` of memory, in seconds.
    #[must_use]
    pub fn seconds(&self, bytes: u64) -> f64 {
        self.cpu_seconds + self.ios.at(bytes) * self.seconds_per_io
    }

    /// Returns the fraction of a request that the run counts for in one interval, at most 1.
    ///
    /// A run of ten intervals counts as a tenth of a request in each, so that its penalty compares
    /// with those of requests that begin and end within one interval.
    #[must_use]
    pub fn requests(&self, bytes: u64, interval_seconds: f64) -> f64 {
        let left = self.seconds_left(bytes);
        if left > interval_seconds { interval_seconds / left } else { 1.0 }
    }

    fn left(&self) -> f64 {
        (1.0 - self.done).clamp(0.0, 1.0)
    }
}
