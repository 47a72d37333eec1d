//! Throughput and latency of one sampling interval.

use std::time::Instant;

use terrace_pool::{Pool, PoolStats};

use super::meter::Meter;
use terrace_sys::histogram::{Histogram, Quantiles};

/// Measurements of one interval of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Seconds from the end of the warm-up to the end of the interval.
    pub end_seconds: f64,
    /// Length of the interval in seconds.
    pub seconds: f64,
    /// Operations of each kind.
    pub operations: Vec<u64>,
    /// Latencies of the steps whose latency was taken, one in
    /// [`Workload::latency_every`](super::Workload::latency_every).
    pub latency: Quantiles,
    /// The memory tiers, fastest first.
    pub tiers: Vec<TierSample>,
    /// Pages read from the store.
    pub loads: u64,
    /// Bytes of the pages read from the store.
    pub loaded_bytes: u64,
    /// Pages written to the store.
    pub write_backs: u64,
    /// Bytes of the pages written to the store.
    pub written_bytes: u64,
    /// Number of times that a thread had to wait for a frame.
    pub waits: u64,
}

/// Measurements of one memory tier in one interval of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierSample {
    /// The tier's name.
    pub name: String,
    /// Bytes of resident pages at the end of the interval.
    pub resident_bytes: u64,
    /// Fixes served from this tier.
    pub fixes: u64,
    /// Pages promoted into this tier.
    pub promoted: u64,
    /// Pages demoted into this tier.
    pub demoted: u64,
    /// Pages evicted from this tier, out of memory.
    pub evicted: u64,
}

impl Sample {
    /// Returns the number of operations of all kinds.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.operations.iter().sum()
    }

    /// Returns the throughput in operations per second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        self.count() as f64 / self.seconds.max(1e-9)
    }
}

/// Cumulative counts at one moment.
#[derive(Clone, Debug)]
struct Counts {
    at: Instant,
    operations: Vec<u64>,
    latencies: Histogram,
    pool: PoolStats,
}

/// Takes samples of a run.
#[derive(Debug)]
pub(super) struct Sampler<'a> {
    pool: &'a Pool,
    meters: &'a [Meter],
    kinds: usize,
    first: Counts,
    last: Counts,
}

impl<'a> Sampler<'a> {
    /// Starts sampling: the first interval begins now.
    pub(super) fn start(pool: &'a Pool, meters: &'a [Meter], kinds: usize) -> Self {
        let first = Counts {
            at: Instant::now(),
            operations: vec![0; kinds],
            latencies: Histogram::new(),
            pool: pool.stats(),
        };
        Self { pool, meters, kinds, last: first.clone(), first }
    }

    /// Ends the current interval, returns its sample, and begins the next one.
    pub(super) fn sample(&mut self) -> Sample {
        let mut operations = vec![0; self.kinds];
        let mut latencies = Histogram::new();
        for meter in self.meters {
            meter.add_to(&mut operations, &mut latencies);
        }
        let at = Instant::now();
        let now = Counts { at, operations, latencies, pool: self.pool.stats() };
        let sample = between(&self.first, &self.last, &now);
        let before = std::mem::replace(&mut self.last, now);
        // Carries the maximum over from before, since a histogram has the maximum of one interval
        // only.
        self.last.latencies.stretch(&before.latencies);
        sample
    }

    /// Returns one sample over all intervals that have ended.
    pub(super) fn total(&self) -> Sample {
        between(&self.first, &self.first, &self.last)
    }
}

fn between(first: &Counts, then: &Counts, now: &Counts) -> Sample {
    let operations = now.operations.iter().zip(&then.operations);
    let tiers = now.pool.tiers.iter().zip(&then.pool.tiers);
    Sample {
        end_seconds: (now.at - first.at).as_secs_f64(),
        seconds: (now.at - then.at).as_secs_f64(),
        operations: operations.map(|(now, then)| now - then).collect(),
        latency: now.latencies.since(&then.latencies).quantiles(),
        tiers: tiers
            .map(|(now, then)| TierSample {
                name: now.name.clone(),
                resident_bytes: now.page_bytes,
                fixes: now.fixes - then.fixes,
                promoted: now.promoted - then.promoted,
                demoted: now.demoted - then.demoted,
                evicted: now.evicted - then.evicted,
            })
            .collect(),
        loads: now.pool.loads - then.pool.loads,
        loaded_bytes: now.pool.loaded_bytes - then.pool.loaded_bytes,
        write_backs: now.pool.write_backs - then.pool.write_backs,
        written_bytes: now.pool.written_bytes - then.pool.written_bytes,
        waits: now.pool.waits - then.pool.waits,
    }
}
