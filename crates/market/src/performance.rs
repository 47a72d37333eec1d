//! How fast work is, as a function of its memory.

use crate::Curve;

/// How the requests behind a curve of means are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// They are all alike: one run of an operator, whose I/O the model predicts.
    Certain,
    /// Many requests that each miss independently of the others: the number of I/Os follows
    /// Poisson. Of 100 requests with a mean of 0.1, 90 have none.
    Poisson,
}

/// I/O and latency of one request as functions of bytes (the "performance-memory model" of Otaki
/// et al., CIDR 2025, figure 2).
#[derive(Clone, Debug, PartialEq)]
pub struct Performance {
    /// Mean I/Os of a request.
    pub ios: Curve,
    /// What a request takes without any of them, in seconds; of a running one also what it has
    /// taken already.
    pub base_seconds: f64,
    /// What an I/O takes, in seconds.
    pub seconds_per_io: f64,
    /// How requests are spread about the mean.
    pub tail: Tail,
}

impl Performance {
    /// The mean latency of a request with `bytes`, in seconds.
    #[must_use]
    pub fn seconds(&self, bytes: u64) -> f64 {
        self.base_seconds + self.ios.at(bytes) * self.seconds_per_io
    }

    /// The mean latency as a curve, in seconds.
    #[must_use]
    pub fn latency(&self) -> Curve {
        let base = Curve::flat(self.base_seconds.max(0.0));
        self.ios.scaled(self.seconds_per_io).plus(&base)
    }
}

/// An operator under way: what it takes in all and how far it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// I/Os of the whole run as a function of bytes.
    pub ios: Curve,
    /// What the whole run takes without any of them, in seconds.
    pub cpu_seconds: f64,
    /// What an I/O takes, in seconds.
    pub seconds_per_io: f64,
    /// The part that is done, from 0 to 1.
    pub done: f64,
    /// What has passed since its statement arrived, in seconds.
    pub elapsed_seconds: f64,
}

impl Run {
    /// What is left of it, as a request that began when the statement did.
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

    /// Seconds until it is done with `bytes`.
    #[must_use]
    pub fn seconds_left(&self, bytes: u64) -> f64 {
        self.left() * self.seconds(bytes)
    }

    /// Seconds of the whole run with `bytes`.
    #[must_use]
    pub fn seconds(&self, bytes: u64) -> f64 {
        self.cpu_seconds + self.ios.at(bytes) * self.seconds_per_io
    }

    /// How much of a request it is for an interval: one that runs for ten intervals is a tenth of
    /// a request for each, so that its penalty compares with those of requests that come and go
    /// within an interval. Never more than one.
    #[must_use]
    pub fn requests(&self, bytes: u64, interval_seconds: f64) -> f64 {
        let left = self.seconds_left(bytes);
        if left > interval_seconds { interval_seconds / left } else { 1.0 }
    }

    fn left(&self) -> f64 {
        (1.0 - self.done).clamp(0.0, 1.0)
    }
}
