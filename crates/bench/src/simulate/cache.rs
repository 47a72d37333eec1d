//! Page cache of a tenant, with its traffic and its miss-ratio curve.

use terrace_ledger::Class;
use terrace_market::sla::Request;
use terrace_market::{Performance, Shards, Standing, Tail};
use terrace_sys::number::{count, float};
use terrace_sys::size::to_u64;

use super::lru::Lru;
use super::trace::{Trace, Work};

/// Requests of one tenant that touch pages.
#[derive(Debug)]
pub(super) struct Cache {
    pub(super) tenant: usize,
    /// Offset of the tenant's pages in the LRU list.
    base: u64,
    shards: Shards,
    /// Traffic of the current interval.
    now: Traffic,
    /// Moving mean over all intervals.
    mean: Traffic,
    /// Latency and I/Os of each request of this interval.
    pub(super) requests: Vec<Request>,
}

/// Requests, pages and I/O time of one interval.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    requests: f64,
    pages: f64,
    /// I/O time if every page missed.
    io_nanos: f64,
}

/// Maximum number of pages sampled for the miss-ratio curve.
const SAMPLES_MAX: usize = 2048;
/// Weight of one interval in the moving mean: a mean over about 20 intervals; 5 % is left after 60.
const WEIGHT: f64 = 0.05;
/// Ageing factor of the miss-ratio samples per interval.
const MEMORY: f64 = 0.98;
/// Minimum size of a cache in pages; a smaller one has hardly any hits.
const FLOOR_PAGES: u64 = 16;

impl Cache {
    pub(super) fn new(tenant: usize, base: u64) -> Self {
        Self {
            tenant,
            base,
            shards: Shards::new(SAMPLES_MAX),
            now: Traffic::default(),
            mean: Traffic::default(),
            requests: Vec::new(),
        }
    }

    /// Executes a request.
    pub(super) fn serve(&mut self, trace: &Trace, lru: &mut Lru, work: &Work) {
        let (misses, pages, io_nanos) = match work {
            Work::Get(pages) => {
                let misses = pages.iter().filter(|page| !self.touch(trace, lru, **page)).count();
                (to_u64(misses), to_u64(pages.len()), trace.random_nanos)
            }
            Work::Scan { first, pages } => {
                let range = *first..first + pages;
                let misses = range.filter(|page| !self.touch(trace, lru, *page)).count();
                (to_u64(misses), *pages, trace.sequential_nanos)
            }
            Work::Sort { .. } => return,
        };
        let cpu = trace.tenants[self.tenant].cpu_nanos.saturating_mul(pages);
        let nanos = cpu.saturating_add(io_nanos.saturating_mul(misses));
        self.requests.push(Request { seconds: float(nanos) / 1e9, ios: float(misses) });
        self.now.requests += 1.0;
        self.now.pages += float(pages);
        self.now.io_nanos += float(io_nanos) * float(pages);
    }

    /// Touches a page; true if it was cached.
    fn touch(&mut self, trace: &Trace, lru: &mut Lru, page: u64) -> bool {
        self.shards.touch(page, trace.page_bytes);
        lru.touch(self.base + page)
    }

    /// Ends an interval.
    pub(super) fn tick(&mut self) {
        self.mean.follow(&self.now);
        self.now = Traffic::default();
        self.shards.age(MEMORY);
        self.requests.clear();
    }

    /// Returns the consumer's state for the broker, as an engine could measure it.
    pub(super) fn standing(&self, trace: &Trace, id: u64, held_bytes: u64) -> Standing {
        let tenant = &trace.tenants[self.tenant];
        let Traffic { requests, pages, io_nanos } = self.mean;
        let known = requests > 1e-6;
        let each = if known { pages / requests } else { 0.0 };
        let performance = Performance {
            ios: self.shards.miss_ratio().scaled(each),
            base_seconds: each * float(tenant.cpu_nanos) / 1e9,
            seconds_per_io: if known { io_nanos / pages.max(1e-9) / 1e9 } else { 0.0 },
            tail: Tail::Poisson,
        };
        Standing {
            held_bytes,
            floor_bytes: FLOOR_PAGES * trace.page_bytes,
            demand_bytes: count(self.shards.footprint_bytes()),
            performance: Some(performance),
            sla: Some(std::sync::Arc::new(tenant.sla.clone())),
            requests: if known { requests } else { 0.0 },
            ..Standing::new(id, tenant.name.as_str(), Class::Pool)
        }
    }
}

impl Traffic {
    fn follow(&mut self, now: &Self) {
        let follow = |mean: &mut f64, now: f64| *mean += WEIGHT * (now - *mean);
        follow(&mut self.requests, now.requests);
        follow(&mut self.pages, now.pages);
        follow(&mut self.io_nanos, now.io_nanos);
    }
}
