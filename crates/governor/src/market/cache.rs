//! Cached tables as consumers: for each SLA, a sample of the pages that its queries read.
//!
//! Pages have no owner. What the cache is worth to a class of queries follows from the pages that
//! it touches; so each class has a miss-ratio curve of its own touches, as if its pages were
//! separate from those of the others. That approximates the pool: pages that a scan brings in are
//! cold until they are needed again, and are evicted before those that are read repeatedly.
//!
//! Cached files of other machines are one class more: blocks are shared by all queries, and a miss
//! takes as long as the server's answer, which is measured.

use std::sync::{Arc, Mutex, MutexGuard};

use terrace_ledger::Class;
use terrace_market::{Performance, Sampler, Standing, Tail, Touched};
use terrace_sys::sync::lock;

use super::claim::Claim;
use super::device::Device;
use super::number::{count, float};

/// Number of pages sampled for each class; the error of the curve is some hundredths.
const SAMPLES_MAX: usize = 1024;

/// Half-life of the observations.
const HALF_LIFE_SECONDS: f64 = 1.0;

/// Weight of a new latency in the moving average.
const WEIGHT: f64 = 0.3;

/// First id of classes; those of queries are below.
const FIRST_ID: u64 = 1 << 63;

/// The queries with one SLA, as readers of tables; or all queries, as readers of files of other
/// machines.
#[derive(Debug)]
pub struct CacheClass {
    id: u64,
    name: Arc<str>,
    claim: Claim,
    /// True for files of other machines.
    is_of_files: bool,
    sampler: Sampler,
    seen: Mutex<Seen>,
}

/// Observations of the queries of a class.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Number of queries, with the same decay as the touches.
    requests: f64,
    /// Mean latency, and its I/O part; zero while no query has ended.
    seconds: f64,
    io_seconds: f64,
    /// Mean time to fetch a block from a server; zero for tables, and while none was fetched.
    fetch_seconds: f64,
}

impl CacheClass {
    pub(super) fn new(number: u64, claim: Claim) -> Self {
        let name = match (&claim.tenant, &claim.sla) {
            (Some(tenant), _) => format!("table cache of {tenant}"),
            (None, Some(sla)) => format!("table cache of `{sla}`"),
            (None, None) => "table cache".to_owned(),
        };
        Self {
            id: FIRST_ID + number,
            name: name.into(),
            claim,
            is_of_files: false,
            sampler: Sampler::new(SAMPLES_MAX),
            seen: Mutex::default(),
        }
    }

    /// The class of cached files of other machines.
    pub(super) fn of_files(number: u64) -> Self {
        let claim = Claim { tenant: None, sla: None };
        Self { name: "remote files".into(), is_of_files: true, ..Self::new(number, claim) }
    }

    pub(super) fn is_of_files(&self) -> bool {
        self.is_of_files
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Returns the name of the class, as shown in reports.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Records that a query of the class has read page `page` of a table, or block `page` of a
    /// file, of `bytes` bytes.
    pub fn touch(&self, page: u64, bytes: u64) {
        self.sampler.touch(page, bytes);
    }

    /// Returns the sampled touches.
    pub(super) fn touched(&self) -> Touched {
        self.sampler.touched()
    }

    /// Counts a part of a request, for a running query.
    pub(super) fn note(&self, requests: f64) {
        self.seen().requests += requests;
    }

    /// Records a query that has ended, with its duration and the bytes it read from the store.
    pub(super) fn ended(&self, requests: f64, seconds: f64, store_bytes: u64, device: &Device) {
        let mean_bytes = self.sampler.touched().mean_bytes.max(1.0);
        let ios = float(store_bytes) / mean_bytes;
        let io = (ios * device.io_seconds(mean_bytes)).min(seconds);
        let mut seen = self.seen();
        seen.requests += requests;
        let weight = if seen.seconds == 0.0 { 1.0 } else { WEIGHT };
        seen.seconds += weight * (seconds - seen.seconds);
        seen.io_seconds += weight * (io - seen.io_seconds);
    }

    /// Records a read of blocks of files that has ended: its duration, the number of blocks fetched
    /// from a server during it, and the part of its duration that fetching them took.
    pub fn read(&self, seconds: f64, fetched_blocks: u64, fetch_seconds: f64) {
        let mut seen = self.seen();
        seen.requests += 1.0;
        let average = |mean: &mut f64, new: f64, is_first: bool| {
            *mean += if is_first { new } else { WEIGHT * (new - *mean) };
        };
        let is_first = seen.seconds == 0.0;
        average(&mut seen.seconds, seconds, is_first);
        average(&mut seen.io_seconds, fetch_seconds.min(seconds), is_first);
        if fetched_blocks > 0 {
            let is_first = seen.fetch_seconds == 0.0;
            average(&mut seen.fetch_seconds, fetch_seconds / float(fetched_blocks), is_first);
        }
    }

    /// Returns the expected latency of a query that has run for `elapsed` seconds.
    pub(super) fn expected_seconds(&self, elapsed: f64) -> f64 {
        self.seen().seconds.max(elapsed)
    }

    /// Decays the observations as time passes.
    pub(super) fn age(&self, seconds: f64) {
        let factor = 0.5_f64.powf(seconds / HALF_LIFE_SECONDS);
        self.sampler.age(factor);
        self.seen().requests *= factor;
    }

    /// Returns true if the class has read nothing for some seconds.
    pub(super) fn is_idle(&self) -> bool {
        self.sampler.touched().touches < 0.5
    }

    /// Describes the class to the broker for an interval in seconds.
    pub(super) fn standing(
        &self,
        touched: &Touched,
        held: u64,
        interval: f64,
        device: &Device,
    ) -> Standing {
        let seen = *self.seen();
        // With a half-life of a second, a steady rate sums up to the rate divided by ln 2.
        let rate = std::f64::consts::LN_2 / HALF_LIFE_SECONDS;
        let requests = seen.requests.max(1e-3);
        let each = touched.touches / requests;
        let performance = Performance {
            ios: touched.miss_ratio.scaled(each),
            base_seconds: (seen.seconds - seen.io_seconds).max(seen.seconds * 0.1),
            seconds_per_io: match seen.fetch_seconds {
                0.0 => device.io_seconds(touched.mean_bytes),
                seconds => seconds,
            },
            tail: Tail::Certain,
        };
        Standing {
            held_bytes: held,
            // Distances are counted in steps, so that all pages fit only slightly above their size.
            demand_bytes: count(touched.footprint_bytes).max(touched.miss_ratio.useful_bytes()),
            performance: Some(performance),
            sla: self.claim.sla.clone(),
            requests: requests * rate * interval,
            ..Standing::new(self.id, Arc::clone(&self.name), Class::Pool)
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_slow_servers_are_worth_more_memory() {
        let device = Device::new(None);
        let worth = |fetch_seconds: f64| {
            let class = CacheClass::of_files(7);
            for round in 0..10 {
                (0..64).for_each(|block| class.touch(block, 256 << 10));
                let fetched = if round == 0 { 64 } else { 0 };
                let fetching = if round == 0 { fetch_seconds } else { 0.0 };
                class.read(0.001 + fetching, fetched, fetching);
            }
            let standing = class.standing(&class.touched(), 0, 0.1, &device);
            let performance = standing.performance.expect("known");
            assert!(standing.demand_bytes >= 16 << 20, "{}", standing.demand_bytes);
            let ios = &performance.ios;
            assert!(ios.at(0) > 4.0 * ios.at(standing.demand_bytes), "{ios:?}");
            (ios.at(0) - ios.at(standing.demand_bytes)) * performance.seconds_per_io
        };
        let (near, far) = (worth(0.064), worth(6.4));
        assert!(far > 50.0 * near && near > 0.0, "{near} {far}");
    }

    #[test]
    fn a_class_pays_for_what_it_reads_again() {
        let claim = Claim {
            tenant: None,
            sla: Some(Arc::new("latency 10ms penalty 1 per 10ms".parse().expect("an SLA"))),
        };
        let (class, device) = (CacheClass::new(0, claim), Device::new(None));
        assert!(class.is_idle());
        for _ in 0..10 {
            (0..64).for_each(|page| class.touch(page, 1 << 20));
            class.ended(1.0, 0.020, 0, &device);
        }
        let standing = class.standing(&class.touched(), 0, 0.1, &device);
        assert!((64 << 20..80 << 20).contains(&standing.demand_bytes), "{}", standing.demand_bytes);
        let performance = standing.performance.expect("known");
        let sla = standing.sla.expect("named");
        let penalty = sla.curve(&performance, standing.requests);
        let (none, all) = (penalty.at(0), penalty.at(standing.demand_bytes));
        assert!(none > 3.0 * all && all > 0.0, "{none} without a cache, {all} with all of it");
        (0..20).for_each(|_| class.age(1.0));
        assert!(class.is_idle());
    }
}
