//! Simulation of a trace under one policy.

use terrace_market::sla::Request;
use terrace_market::{Broker, BrokerConfig, Kind, Standing};
use terrace_sys::number::float;
use terrace_sys::size::to_u64;

use super::cache::Cache;
use super::lru::Lru;
use super::queue::Queue;
use super::trace::{Tenant, Trace, Work};

/// Policies that divide memory among consumers.
#[derive(Clone, Debug, PartialEq)]
pub enum Policy {
    /// A broker with this mechanism.
    Broker(Kind),
    /// Fixed sizes in bytes, in the order of [`Sample::limits`].
    Fixed(Vec<u64>),
    /// Demand: sorts get what they demand, and all caches share one LRU list over the rest, as in
    /// engines with one buffer pool that evicts for any request.
    SharedLru,
}

/// Configuration of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulationConfig {
    /// Memory budget shared by all consumers, in bytes.
    pub budget_bytes: u64,
    /// Policy that divides the budget.
    pub policy: Policy,
    /// Configuration of the broker; its interval applies to all policies.
    pub broker: BrokerConfig,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// Sum of all penalties.
    pub penalty: f64,
    /// Results by tenant, in the order of the trace.
    pub tenants: Vec<TenantScore>,
    /// Total bytes taken from consumers that had been granted them.
    pub moved_bytes: u64,
    /// Names of the consumers, in the order of [`Sample::limits`]: the caches of the tenants, then
    /// their sorts.
    pub consumers: Vec<String>,
    /// Samples, one per interval.
    pub samples: Vec<Sample>,
}

/// Result of a run for one tenant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TenantScore {
    /// Name of the tenant.
    pub name: String,
    /// Number of finished requests.
    pub requests: u64,
    /// Sum of their penalties.
    pub penalty: f64,
    /// Mean latency in seconds.
    pub mean_seconds: f64,
    /// Longest latency in seconds.
    pub worst_seconds: f64,
}

/// Measurements of one interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Start of the interval in seconds since the beginning of the trace.
    pub seconds: f64,
    /// Limit of each consumer in bytes.
    pub limits: Vec<u64>,
    /// Penalty of the interval.
    pub penalty: f64,
}

/// Simulates a trace under one policy.
#[must_use]
pub fn run(trace: &Trace, config: &SimulationConfig) -> Score {
    let mut simulation = Simulation::new(trace, config);
    let interval = nanos(config.broker.interval).max(1);
    let (mut from, mut next) = (0, 0);
    for _ in 0..ROUNDS_MAX {
        let to = from + interval;
        simulation.decide(from);
        while let Some(event) = trace.events.get(next).filter(|event| event.at_nanos < to) {
            simulation.serve(event.tenant, event.at_nanos, &event.work);
            next += 1;
        }
        simulation.finish(from, to);
        from = to;
        if next >= trace.events.len() && simulation.queues.iter().all(Queue::is_idle) {
            break;
        }
    }
    simulation.score()
}

/// Maximum number of intervals of a run, whatever work is left: more than a day of intervals of 100
/// ms.
const ROUNDS_MAX: u32 = 1_000_000;

fn nanos(interval: std::time::Duration) -> u64 {
    u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX)
}

struct Simulation<'a> {
    trace: &'a Trace,
    config: &'a SimulationConfig,
    broker: Broker,
    caches: Vec<Cache>,
    /// One list per cache, or one for all caches.
    lrus: Vec<Lru>,
    queues: Vec<Queue>,
    samples: Vec<Sample>,
    tenants: Vec<TenantScore>,
    moved_bytes: u64,
}

impl<'a> Simulation<'a> {
    fn new(trace: &'a Trace, config: &'a SimulationConfig) -> Self {
        let shared = config.policy == Policy::SharedLru;
        let (mut caches, mut lrus, mut queues) = (Vec::new(), Vec::new(), Vec::new());
        let mut all = 0;
        for tenant in 0..trace.tenants.len() {
            let pages = trace.pages_of(tenant);
            if pages > 0 {
                caches.push(Cache::new(tenant, if shared { all } else { 0 }));
                lrus.push(Lru::new(if shared { 0 } else { pages }));
                all += pages;
            }
            if trace.sorts(tenant) {
                queues.push(Queue::new(tenant));
            }
        }
        if shared {
            lrus = vec![Lru::new(all)];
        }
        let named =
            |tenant: &Tenant| TenantScore { name: tenant.name.clone(), ..TenantScore::default() };
        let kind = match config.policy {
            Policy::Broker(kind) => kind,
            Policy::Fixed(_) | Policy::SharedLru => Kind::Static,
        };
        let broker = Broker::new(BrokerConfig { mechanism: kind, ..config.broker.clone() });
        let tenants = trace.tenants.iter().map(named).collect();
        let (samples, moved_bytes) = (Vec::new(), 0);
        Self { trace, config, broker, caches, lrus, queues, samples, tenants, moved_bytes }
    }

    /// Divides the budget for the interval that begins.
    fn decide(&mut self, now_nanos: u64) {
        let limits = match &self.config.policy {
            Policy::Broker(_) => self.ask_broker(now_nanos),
            Policy::Fixed(sizes) => sizes.clone(),
            Policy::SharedLru => self.by_demand(),
        };
        let page = self.trace.page_bytes.max(1);
        let mut each = limits.iter().copied();
        let caches = each.by_ref().take(self.caches.len());
        if self.config.policy == Policy::SharedLru {
            let all: u64 = caches.sum();
            self.lrus[..1].iter_mut().for_each(|lru| lru.resize(all / page));
        } else {
            for (lru, bytes) in self.lrus.iter_mut().zip(caches) {
                lru.resize(bytes / page);
            }
        }
        for (queue, bytes) in self.queues.iter_mut().zip(each) {
            queue.resize(self.trace, bytes);
        }
        self.samples.push(Sample { seconds: float(now_nanos) / 1e9, limits, penalty: 0.0 });
    }

    fn ask_broker(&mut self, now_nanos: u64) -> Vec<u64> {
        let page = self.trace.page_bytes;
        let seconds = self.config.broker.interval.as_secs_f64();
        let mut standings: Vec<Standing> = Vec::new();
        for (cache, lru) in self.caches.iter().zip(&self.lrus) {
            standings.push(cache.standing(self.trace, to_u64(standings.len()), lru.len() * page));
        }
        for queue in &self.queues {
            let id = to_u64(standings.len());
            standings.push(queue.standing(self.trace, id, now_nanos, seconds));
        }
        let outcome = self.broker.round(self.config.budget_bytes, &standings);
        self.moved_bytes += outcome.moved_bytes;
        let ids = 0..to_u64(standings.len());
        ids.map(|id| self.broker.target(id).grant_bytes()).collect()
    }

    /// Serves sorts first, in the order of the tenants; the shared list of the caches gets the
    /// rest.
    fn by_demand(&self) -> Vec<u64> {
        let mut left = self.config.budget_bytes;
        let mut sorts = Vec::new();
        for queue in &self.queues {
            let bytes = queue.demand_bytes().min(left);
            left -= bytes;
            sorts.push(bytes);
        }
        let first = self.caches.iter().enumerate().map(|(at, _)| if at == 0 { left } else { 0 });
        first.chain(sorts).collect()
    }

    fn serve(&mut self, tenant: usize, at_nanos: u64, work: &Work) {
        if let Work::Sort { pages } = work {
            let queue = self.queues.iter_mut().find(|queue| queue.tenant == tenant);
            return queue.into_iter().for_each(|queue| queue.push(self.trace, at_nanos, *pages));
        }
        if let Some(at) = self.caches.iter().position(|cache| cache.tenant == tenant) {
            let last = self.lrus.len() - 1;
            self.caches[at].serve(self.trace, &mut self.lrus[at.min(last)], work);
        }
    }

    /// Ends an interval: advances the sorts and charges every tenant.
    fn finish(&mut self, from_nanos: u64, to_nanos: u64) {
        let mut charged = 0.0;
        for cache in &mut self.caches {
            charged += charge(self.trace, &mut self.tenants, cache.tenant, &cache.requests);
            cache.tick();
        }
        for queue in &mut self.queues {
            queue.advance(from_nanos, to_nanos);
            charged += charge(self.trace, &mut self.tenants, queue.tenant, &queue.requests);
            queue.requests.clear();
        }
        if let Some(sample) = self.samples.last_mut() {
            sample.penalty = charged;
        }
    }

    fn score(mut self) -> Score {
        for tenant in &mut self.tenants {
            tenant.mean_seconds /= float(tenant.requests.max(1));
        }
        let name =
            |tenant: usize, what: &str| format!("{} {what}", self.trace.tenants[tenant].name);
        let caches = self.caches.iter().map(|cache| name(cache.tenant, "cache"));
        let consumers = caches.chain(self.queues.iter().map(|queue| name(queue.tenant, "sorts")));
        Score {
            penalty: self.tenants.iter().map(|tenant| tenant.penalty).sum(),
            consumers: consumers.collect(),
            tenants: self.tenants,
            moved_bytes: self.moved_bytes,
            samples: self.samples,
        }
    }
}

/// Charges the requests of one interval to their tenant and returns the penalty.
fn charge(trace: &Trace, scores: &mut [TenantScore], tenant: usize, requests: &[Request]) -> f64 {
    let penalty = trace.tenants[tenant].sla.charge(requests);
    let score = &mut scores[tenant];
    score.penalty += penalty;
    for request in requests {
        score.requests += 1;
        score.mean_seconds += request.seconds;
        score.worst_seconds = score.worst_seconds.max(request.seconds);
    }
    penalty
}
