//! Statistics of ended queries: counts and latencies for each tenant.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_market::sla::Request;

/// Upper limits of the latency buckets, in seconds.
pub const LATENCY_SECONDS: [f64; 15] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 300.0];

/// Time for which a finished query counts as recent.
pub const RECENT: Duration = Duration::from_secs(600);

/// Maximum number of recent queries kept for a tenant (32 KiB); the oldest are dropped.
const RECENT_MAX: usize = 1024;

/// Maximum number of tenants counted separately. Queries of further tenants are counted with those
/// without a tenant.
const TENANTS_MAX: usize = 1000;

/// Outcome of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Its last row was read.
    Finished,
    /// An error ended it.
    Failed,
    /// Its user cancelled it, or its rows were not read to the end.
    #[default]
    Cancelled,
}

/// Counts and latencies of a tenant's ended queries.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// The tenant; `None` for queries without one.
    pub tenant: Option<Arc<str>>,
    /// Number of queries whose last row was read.
    pub finished: u64,
    /// Number of queries that an error ended.
    pub failed: u64,
    /// Number of queries that were cancelled, or whose rows were not read to the end.
    pub cancelled: u64,
    /// Sum of the latencies of finished queries, in seconds.
    pub seconds: f64,
    /// Number of finished queries in each latency bucket: those within that element of
    /// [`LATENCY_SECONDS`] and in no earlier bucket.
    pub buckets: [u64; LATENCY_SECONDS.len()],
    recent: VecDeque<(Instant, Request)>,
}

impl Requests {
    /// Returns the finished queries of the last ten minutes ([`RECENT`]), at most 1024.
    pub fn recent(&self) -> impl Iterator<Item = Request> {
        let now = Instant::now();
        let is_recent = move |at: &Instant| now.saturating_duration_since(*at) <= RECENT;
        self.recent.iter().filter(move |(at, _)| is_recent(at)).map(|(_, request)| *request)
    }

    /// Returns the given quantile of the recent queries' latency in seconds, such as 0.95; `None`
    /// if there are no recent queries.
    #[must_use]
    pub fn quantile_seconds(&self, part: f64) -> Option<f64> {
        let mut seconds: Vec<f64> = self.recent().map(|request| request.seconds).collect();
        seconds.sort_by(f64::total_cmp);
        #[expect(clippy::cast_possible_truncation, reason = "at most their number")]
        #[expect(clippy::cast_sign_loss, reason = "at least zero")]
        let rank = (seconds.len() as f64 * part.clamp(0.0, 1.0)).ceil() as usize;
        seconds.get(rank.saturating_sub(1)).copied()
    }

    fn count(&mut self, outcome: Outcome, request: Request) {
        match outcome {
            Outcome::Failed => self.failed += 1,
            Outcome::Cancelled => self.cancelled += 1,
            Outcome::Finished => {
                self.finished += 1;
                self.seconds += request.seconds;
                let within = LATENCY_SECONDS.iter().position(|limit| request.seconds <= *limit);
                if let Some(bucket) = within.and_then(|index| self.buckets.get_mut(index)) {
                    *bucket += 1;
                }
                if self.recent.len() >= RECENT_MAX {
                    self.recent.pop_front();
                }
                self.recent.push_back((Instant::now(), request));
            }
        }
    }
}

/// Totals of an engine's running and ended queries.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Counts for each tenant that had queries.
    pub requests: Vec<Requests>,
    /// Bytes that queries have spilled.
    pub spilled_bytes: u64,
    /// Files that queries have spilled to.
    pub spill_files: u64,
    /// Rows that queries have returned.
    pub rows: u64,
}

/// Bytes and files that a query has spilled, and rows that it has returned, so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) spilled_bytes: u64,
    pub(super) spill_files: u64,
    pub(super) rows: u64,
}

/// Totals of an engine's ended queries.
#[derive(Debug, Default)]
pub(super) struct Ended {
    tenants: BTreeMap<Option<Arc<str>>, Requests>,
    spilled_bytes: u64,
    spill_files: u64,
    rows: u64,
}

impl Ended {
    /// Counts a query that ends now.
    pub(super) fn count(
        &mut self,
        tenant: Option<Arc<str>>,
        outcome: Outcome,
        request: Request,
        work: Work,
    ) {
        self.add(work);
        let is_known = self.tenants.contains_key(&tenant) || self.tenants.len() < TENANTS_MAX;
        let tenant = tenant.filter(|_| is_known);
        let requests = self.tenants.entry(tenant.clone()).or_default();
        requests.tenant = tenant;
        requests.count(outcome, request);
    }

    fn add(&mut self, work: Work) {
        self.spilled_bytes += work.spilled_bytes;
        self.spill_files += work.spill_files;
        self.rows += work.rows;
    }

    /// Returns the totals, including those of the running queries.
    pub(super) fn with(&self, running: impl Iterator<Item = Work>) -> Totals {
        let mut sum = Self {
            tenants: BTreeMap::new(),
            spilled_bytes: self.spilled_bytes,
            spill_files: self.spill_files,
            rows: self.rows,
        };
        running.for_each(|work| sum.add(work));
        Totals {
            requests: self.tenants.values().cloned().collect(),
            spilled_bytes: sum.spilled_bytes,
            spill_files: sum.spill_files,
            rows: sum.rows,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_counted_once_and_judged_by_rank() {
        let mut requests = Requests::default();
        assert_eq!(requests.quantile_seconds(0.95), None);
        for hundredth in 1..=100_u32 {
            let seconds = f64::from(hundredth) / 100.0;
            requests.count(Outcome::Finished, Request { seconds, ios: 0.0 });
        }
        requests.count(Outcome::Finished, Request { seconds: 1e9, ios: 0.0 });
        requests.count(Outcome::Failed, Request { seconds: 0.001, ios: 0.0 });
        requests.count(Outcome::Cancelled, Request { seconds: 0.001, ios: 0.0 });
        assert_eq!((requests.finished, requests.failed, requests.cancelled), (101, 1, 1));
        assert_eq!(requests.buckets.iter().sum::<u64>(), 100, "one is beyond all limits");
        assert_eq!(requests.buckets[..8], [0, 0, 0, 1, 1, 3, 5, 15]);
        assert_eq!(requests.quantile_seconds(0.5), Some(0.51));
        assert_eq!(requests.quantile_seconds(0.0), Some(0.01));
        assert_eq!(requests.quantile_seconds(1.0), Some(1e9));
    }

    #[test]
    fn the_oldest_recent_query_makes_way() {
        let mut requests = Requests::default();
        for index in 0..=RECENT_MAX {
            let seconds = if index == 0 { 100.0 } else { 1.0 };
            requests.count(Outcome::Finished, Request { seconds, ios: 0.0 });
        }
        assert_eq!(requests.recent().count(), RECENT_MAX);
        assert_eq!(requests.quantile_seconds(1.0), Some(1.0));
    }
}
