//! State of the market, and one round of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use terrace_ledger::Class;
use terrace_market::{Broker, BrokerConfig, MarketRow, Run, Sla, Standing};

use super::admission::Admission;
use super::cache::CacheClass;
use super::claim::Claim;
use super::device::Device;
use super::estimate::{Estimates, Expected, Used};
use super::kind::MarketKind;
use super::model::{Corrections, PAGE_BYTES, Work};
use super::number::{count, float};
use super::preempt::{Need, Preemption, Runner};
use super::report::{LastTrade, MarketReport, Row};
use super::schedule::{Job, Schedule};
use super::trades::Trades;
use crate::memory::MemoryBudget;
use crate::query::{Queries, Query, QueryState};

/// A query whose state is below 1 / `SMALL_PART` of the budget does not trade: the pool has room
/// for it at once, and other queries need not spill for short-lived state.
const SMALL_PART: u64 = 32;

/// Memory is short if less than 1 / `SHORT_PART` of the budget is obtainable.
const SHORT_PART: u64 = 8;

/// Duration of a pause after which a query unpins what it holds if memory is short. Most pauses
/// last some milliseconds, for which unpinning and reading again would cost more than they save.
const PAUSE_LONG: Duration = Duration::from_secs(1);

/// Duration of a pause after which a query does not trade: memory is of use to running queries.
/// Pauses for a look-up are shorter, and the query continues with what it has.
const PAUSE_TRADED: Duration = Duration::from_millis(300);

/// Minimum time between two rounds when the signal is urgent.
const HURRY: Duration = Duration::from_millis(30);

/// A query needs time when 1 / `PATIENCE_PART` of what its SLA allows has passed: other queries are
/// paused at their next batch, and it must have time left by then.
const PATIENCE_PART: f64 = 4.0;

/// Minimum part of a query's work that is considered left: what remains when its scans are done.
const LEFT_MIN: f64 = 0.1;

/// State of the market.
pub(super) struct State {
    kind: MarketKind,
    broker: Broker,
    device: Device,
    classes: Vec<Arc<CacheClass>>,
    next_class: u64,
    corrections: Corrections,
    preemption: Preemption,
    admission: Admission,
    schedule: Schedule,
    estimates: Estimates,
    used: Used,
    /// Queries running since `last_tick`, as far as the schedule lets them.
    at_work: Vec<u64>,
    last_tick: Instant,
    last_round: Instant,
    /// Round and time of each consumer's last trade.
    traded: BTreeMap<u64, (u64, SystemTime)>,
    /// Names of consumers, for those that others traded with.
    names: BTreeMap<u64, String>,
    trades: Trades,
    /// Queries that have a limit now.
    limited: BTreeSet<u64>,
    /// True if a running query would use more memory than it was given in the last round.
    is_wanted: bool,
    has_work: bool,
    /// SLA of queries whose session set none.
    default_sla: Arc<Sla>,
}

/// A query that takes part in trading.
struct Trader {
    query: Arc<Query>,
    work: Work,
}

impl State {
    pub(super) fn new(device: Device, now: Instant) -> Self {
        Self {
            kind: MarketKind::default(),
            broker: Broker::new(config(MarketKind::default())),
            device,
            classes: Vec::new(),
            next_class: 0,
            corrections: Corrections::default(),
            preemption: Preemption::default(),
            admission: Admission::default(),
            schedule: Schedule::new(std::thread::available_parallelism().map_or(1, usize::from)),
            estimates: Estimates::default(),
            used: Used::default(),
            at_work: Vec::new(),
            last_tick: now,
            last_round: now,
            traded: BTreeMap::new(),
            names: BTreeMap::new(),
            trades: Trades::default(),
            limited: BTreeSet::new(),
            is_wanted: false,
            has_work: false,
            default_sla: Arc::new(config(MarketKind::default()).default_sla),
        }
    }

    pub(super) fn kind(&self) -> MarketKind {
        self.kind
    }

    pub(super) fn choose(&mut self, kind: MarketKind) {
        self.kind = kind;
        if let Some(mechanism) = kind.mechanism() {
            self.broker.set_mechanism(mechanism);
        }
    }

    pub(super) fn class(&mut self, claim: &Claim) -> Arc<CacheClass> {
        let mut known = self.classes.iter().filter(|class| !class.is_of_files());
        match known.find(|class| class.claim() == claim) {
            Some(class) => Arc::clone(class),
            None => self.add(CacheClass::new(self.next_class, claim.clone())),
        }
    }

    /// Adds a class of cached files of other machines.
    pub(super) fn files(&mut self) -> Arc<CacheClass> {
        self.add(CacheClass::of_files(self.next_class))
    }

    fn add(&mut self, class: CacheClass) -> Arc<CacheClass> {
        let class = Arc::new(class);
        self.next_class += 1;
        self.classes.push(Arc::clone(&class));
        class
    }

    /// Learns from a query that has ended.
    pub(super) fn ended(&mut self, query: &Query) {
        query.memory().ended_operators().iter().for_each(|it| self.corrections.learn(it));
        let seconds = query.began().elapsed().as_secs_f64();
        let left = 1.0 - query.credited();
        query.class().ended(left.max(0.0), seconds, query.progress().store_bytes, &self.device);
        self.pass(Instant::now());
        if let Some(used) = self.used.take(query.id()) {
            self.estimates.learn(query.text(), query.known_rows(), used);
        }
        self.at_work.retain(|id| *id != query.id());
    }

    /// Counts the elapsed time for the queries at work.
    fn pass(&mut self, now: Instant) {
        let seconds = now.saturating_duration_since(self.last_tick).as_secs_f64();
        self.last_tick = now;
        self.used.count(&self.at_work, self.schedule.slots(), seconds);
    }

    /// Returns true if it is time for a round.
    pub(super) fn is_due(&self, now: Instant, hurry: bool) -> bool {
        let interval = if hurry { HURRY } else { self.broker.config().interval };
        now.saturating_duration_since(self.last_round) >= interval
    }

    /// Makes all decisions about queries that must wait, and runs a round if `full`. Returns the
    /// time after which to look again; `None` while there are no queries and no cached tables in
    /// use.
    pub(super) fn tick(
        &mut self,
        queries: &Queries,
        budget: &MemoryBudget,
        full: bool,
        now: Instant,
    ) -> Option<Duration> {
        let running = queries.running();
        let runs = |query: &&Arc<Query>| {
            matches!(query.state(), QueryState::Running | QueryState::Preempted)
        };
        let gives_out_time = self.gives_out_time();
        let runs = running.iter().filter(runs);
        let runners: Vec<Runner> = runs.map(|query| runner(query, gives_out_time, now)).collect();
        self.thin_out(&running, &runners, budget, now);
        // Freeing CPU does not help a query that is blocked on memory.
        let at_work = runners.into_iter().map(|runner| match self.admission.holds(runner.id) {
            true => Runner { need: None, late_in: None, ..runner },
            false => runner,
        });
        let at_work: Vec<Runner> = at_work.collect();
        let again = self.preempt(&running, &at_work, now);
        self.schedule(&running, now);
        // Running queries need the memory that paused ones hold.
        let is_short = budget.obtainable_bytes() < budget.ledger().budget() / SHORT_PART;
        if is_short || self.is_wanted {
            running.iter().for_each(|query| query.unpin_paused(PAUSE_LONG));
        }
        if full {
            self.round(&running, budget, now);
        }
        if running.is_empty() && !self.has_work {
            return None;
        }
        let round =
            (self.last_round + self.broker.config().interval).saturating_duration_since(now);
        Some(again.map_or(round, |again| again.min(round)).max(Duration::from_millis(1)))
    }

    /// Admission control: suspends queries when memory cannot hold the minimum of all of them.
    fn thin_out(
        &mut self,
        running: &[Arc<Query>],
        runners: &[Runner],
        budget: &MemoryBudget,
        now: Instant,
    ) {
        for query in running.iter().filter(|query| !query.is_crowded()) {
            self.admission.forget(query.id());
        }
        let room = (budget.obtainable_bytes(), budget.ledger().budget());
        let orders = self.admission.decide(runners, room, now);
        for query in running {
            if orders.resume.contains(&query.id()) {
                query.admission(false);
            } else if orders.suspend == Some(query.id()) {
                query.admission(true);
            }
        }
    }

    fn preempt(
        &mut self,
        running: &[Arc<Query>],
        runners: &[Runner],
        now: Instant,
    ) -> Option<Duration> {
        if self.kind.mechanism().is_none() {
            // The fair kind has no preemption.
            let stopped = running.iter().filter(|query| query.state() == QueryState::Preempted);
            stopped.for_each(|query| query.release());
            return None;
        }
        let orders = self.preemption.decide(runners, now);
        for query in running {
            if orders.resume.contains(&query.id()) {
                query.release();
            }
            for (_, need) in orders.stop.iter().filter(|(id, _)| *id == query.id()) {
                query.preempt(*need);
            }
        }
        orders.again_in
    }

    /// Returns true if the market decides which queries run.
    fn gives_out_time(&self) -> bool {
        self.kind.mechanism().is_some_and(|mechanism| mechanism.is_market())
    }

    /// Pauses queries while processor time is worth more to others.
    fn schedule(&mut self, running: &[Arc<Query>], now: Instant) {
        self.pass(now);
        let wants = |query: &&Arc<Query>| {
            let runs = matches!(query.state(), QueryState::Running | QueryState::Preempted);
            runs && query.is_read() && !query.is_crowded()
        };
        let wanting: Vec<&Arc<Query>> = running.iter().filter(wants).collect();
        let jobs = match self.gives_out_time() && wanting.len() > 1 && self.has_claims(running) {
            true => wanting.iter().map(|query| self.job(query, now)).collect(),
            false => Vec::new(),
        };
        let orders = self.schedule.decide(&jobs, now);
        for query in running {
            if orders.release.contains(&query.id()) {
                query.outbid(false);
            } else if orders.hold.contains(&query.id()) {
                query.outbid(true);
            }
        }
        let works = wanting.iter().filter(|query| !self.schedule.holds(query.id()));
        self.at_work = works.map(|query| query.id()).collect();
    }

    fn job(&self, query: &Query, now: Instant) -> Job {
        let (size, used) = (query.plan_size(), self.used.of(query.id()));
        let rows = size.and_then(|size| size.rows);
        let fraction = query.progress().fraction();
        let Expected { whole, left, spread } =
            self.estimates.predict(query.text(), rows, used, fraction);
        let claim = query.claim();
        Job {
            id: query.id(),
            priority: claim.priority(),
            sla: claim.sla.clone().unwrap_or_else(|| Arc::clone(&self.default_sla)),
            elapsed: now.saturating_duration_since(query.began()).as_secs_f64(),
            left,
            spread,
            whole,
            can_wait: can_wait(query),
        }
    }

    fn round(&mut self, running: &[Arc<Query>], budget: &MemoryBudget, now: Instant) {
        let passed = now.saturating_duration_since(self.last_round).as_secs_f64();
        self.last_round = now;
        self.broker.set_moving_penalty(1.0 / self.device.bytes_per_second());
        for query in running {
            let elapsed = now.saturating_duration_since(query.began()).as_secs_f64();
            let part = passed.min(elapsed) / query.class().expected_seconds(elapsed).max(1e-3);
            query.class().note(query.credit(part));
            query.memory().ended_operators().iter().for_each(|it| self.corrections.learn(it));
        }
        self.classes.iter().for_each(|class| class.age(passed));
        if !self.has_claims(running) {
            self.has_work = false;
            return self.lift(running);
        }
        let (traders, small_bytes) = self.traders(running, budget);
        self.classes.retain(|class| Arc::strong_count(class) > 1 || !class.is_idle());
        let readers: Vec<Arc<CacheClass>> =
            self.classes.iter().filter(|class| !class.is_idle()).cloned().collect();
        self.has_work = !readers.is_empty();
        if !self.is_needed(&traders, &readers) {
            return self.lift(running);
        }
        let standings = self.standings(&traders, &readers, budget, now);
        let room = budget.market_bytes().saturating_sub(small_bytes);
        let outcome = self.broker.round(room, &standings);
        self.remember(&standings);
        let interval = self.broker.config().interval.as_secs_f64();
        self.trades.add(&outcome.trades, &self.names, interval);
        let ids: BTreeSet<u64> = traders.iter().map(|trader| trader.query.id()).collect();
        for query in running.iter().filter(|query| !ids.contains(&query.id())) {
            query.limit(None);
        }
        self.is_wanted = false;
        for Trader { query, work } in &traders {
            let limit = self.broker.target(query.id()).grant_bytes();
            self.is_wanted |= limit < work.demand_bytes;
            query.limit(Some(limit));
        }
        self.limited = ids;
    }

    /// Returns the queries that trade, and the bytes that the others hold.
    fn traders(&self, running: &[Arc<Query>], budget: &MemoryBudget) -> (Vec<Trader>, u64) {
        let small = budget.ledger().budget() / SMALL_PART;
        let (mut traders, mut small_bytes) = (Vec::new(), 0);
        for query in running {
            let operators = query.memory().operator_states();
            let work = Work::of(&operators, query.progress().fraction(), &self.corrections);
            let state_bytes = work.held_bytes.saturating_add(work.spilled_bytes);
            // A stopped query has no use for memory meanwhile.
            let is_stopped = !matches!(query.state(), QueryState::Running | QueryState::Preempted)
                || self.admission.holds(query.id())
                || query.is_paused_for(PAUSE_TRADED);
            let is_small = state_bytes < small && !self.limited.contains(&query.id());
            if is_stopped || is_small {
                small_bytes += work.held_bytes;
            } else {
                traders.push(Trader { query: Arc::clone(query), work });
            }
        }
        (traders, small_bytes)
    }

    /// Returns true if a query or cache has an SLA, and the mechanism acts on it.
    fn has_claims(&self, running: &[Arc<Query>]) -> bool {
        let claims = running.iter().map(|query| query.claim());
        let mut claims = claims.chain(self.classes.iter().map(|class| class.claim()));
        self.kind.mechanism().is_some() && claims.any(|claim| claim.sla.is_some())
    }

    /// Returns true if there is contention to resolve: several consumers of memory, at least one of
    /// which has an SLA.
    fn is_needed(&self, traders: &[Trader], readers: &[Arc<CacheClass>]) -> bool {
        let Some(first) = traders.first() else { return false };
        let own = first.query.class().id();
        let others = traders.len() > 1 || readers.iter().any(|class| class.id() != own);
        let claims = traders.iter().map(|trader| trader.query.claim());
        let mut claims = claims.chain(readers.iter().map(|class| class.claim()));
        self.kind.mechanism().is_some() && others && claims.any(|claim| claim.sla.is_some())
    }

    /// Removes the limits of all queries.
    fn lift(&mut self, running: &[Arc<Query>]) {
        self.is_wanted = false;
        running.iter().for_each(|query| query.limit(None));
        if !self.limited.is_empty() {
            self.limited.clear();
            self.broker.round(0, &[]);
        }
    }

    fn standings(
        &self,
        traders: &[Trader],
        readers: &[Arc<CacheClass>],
        budget: &MemoryBudget,
        now: Instant,
    ) -> Vec<Standing> {
        let interval = self.broker.config().interval.as_secs_f64();
        let held = cached_bytes(readers, budget);
        let caches = readers
            .iter()
            .zip(held)
            .map(|(class, (touched, held))| class.standing(&touched, held, interval, &self.device));
        let queries = traders.iter().map(|trader| trader.standing(interval, now, &self.device));
        caches.chain(queries).collect()
    }

    fn remember(&mut self, standings: &[Standing]) {
        let now = SystemTime::now();
        for row in self.broker.rows().filter(|row| row.last_round > 0) {
            let known = self.traded.entry(row.id).or_insert((0, now));
            if known.0 != row.last_round {
                *known = (row.last_round, now);
            }
        }
        self.traded.retain(|id, _| standings.iter().any(|it| it.id == *id));
        // Partners of past trades may be gone, so old names are dropped only occasionally.
        if self.names.len() > 1024 {
            self.names.clear();
        }
        self.names.extend(standings.iter().map(|it| (it.id, it.name.to_string())));
    }

    /// Returns the current consumers.
    pub(super) fn rows(&self, queries: &Queries, budget: &MemoryBudget) -> Vec<Row> {
        let known: BTreeMap<u64, &MarketRow> =
            self.broker.rows().map(|row| (row.id, row)).collect();
        let readers: Vec<Arc<CacheClass>> =
            self.classes.iter().filter(|class| !class.is_idle()).cloned().collect();
        let held = cached_bytes(&readers, budget);
        let caches = readers.iter().zip(held).map(|(class, (_, held))| Row {
            target_bytes: known.get(&class.id()).map(|row| row.limit_bytes),
            ..self.row(
                class.name().to_string(),
                "cache",
                class.claim(),
                held,
                known.get(&class.id()),
            )
        });
        let running = queries.running();
        let queries = running.iter().map(|query| {
            let (name, held) = (query.memory().query().to_owned(), query.memory().held_bytes());
            Row {
                target_bytes: query.memory().limit(),
                spilled_bytes: Some(query.spilled().bytes()),
                ..self.row(name, "query", query.claim(), held, known.get(&query.id()))
            }
        });
        caches.chain(queries).collect()
    }

    /// Returns the current consumers, and the last trades.
    pub(super) fn report(&self, queries: &Queries, budget: &MemoryBudget) -> MarketReport {
        MarketReport {
            kind: self.kind,
            rows: self.rows(queries, budget),
            trades: self.trades.count(),
            traded_bytes: self.trades.bytes(),
            last_trades: self.trades.last(),
        }
    }

    fn row(
        &self,
        consumer: String,
        class: &'static str,
        claim: &Claim,
        held_bytes: u64,
        known: Option<&&MarketRow>,
    ) -> Row {
        let a_second = 1.0 / self.broker.config().interval.as_secs_f64();
        let last_trade = known.and_then(|row| {
            let (_, at) = self.traded.get(&row.id)?;
            let with = row.last_partner.and_then(|id| self.names.get(&id).cloned());
            Some(LastTrade { bytes: row.last_traded_bytes, with, at: *at })
        });
        Row {
            consumer,
            class,
            claim: claim.clone(),
            held_bytes,
            target_bytes: None,
            gain_per_mib: known.and_then(|row| row.gain_per_mib).map(|it| it * a_second),
            loss_per_mib: known.and_then(|row| row.loss_per_mib).map(|it| it * a_second),
            last_trade,
            spilled_bytes: None,
        }
    }
}

impl Trader {
    /// Describes the query to the broker for an interval in seconds: its remaining work, as a part
    /// of a request.
    fn standing(&self, interval: f64, now: Instant, device: &Device) -> Standing {
        let Self { query, work } = self;
        let elapsed = now.saturating_duration_since(query.began()).as_secs_f64();
        let left = (1.0 - query.progress().fraction().unwrap_or(0.5)).max(LEFT_MIN);
        let seconds_per_io = device.io_seconds(float(PAGE_BYTES));
        let whole = elapsed / (1.0 - left).max(LEFT_MIN);
        let io = work.ios.at(work.held_bytes) * seconds_per_io;
        let run = Run {
            ios: work.ios.clone(),
            cpu_seconds: (whole - io).max(whole / 4.0),
            seconds_per_io,
            done: 1.0 - left,
            elapsed_seconds: elapsed,
        };
        let name: Arc<str> = query.memory().query().into();
        Standing {
            held_bytes: work.held_bytes,
            floor_bytes: work.floor_bytes,
            demand_bytes: work.demand_bytes,
            performance: Some(run.performance()),
            sla: query.claim().sla.clone(),
            requests: run.requests(work.held_bytes, interval),
            ..Standing::new(query.id(), name, Class::Query)
        }
    }
}

/// Returns the touches of each class, and its part of the cached bytes in proportion to them.
fn cached_bytes(
    readers: &[Arc<CacheClass>],
    budget: &MemoryBudget,
) -> Vec<(terrace_market::Touched, u64)> {
    let touched: Vec<_> = readers.iter().map(|class| class.touched()).collect();
    let all: f64 = touched.iter().map(|it| it.footprint_bytes).sum();
    let cached = float(budget.cached_bytes());
    let part = |own: f64| count((own / all.max(1.0) * cached).min(own));
    touched.into_iter().map(|it| (it.clone(), part(it.footprint_bytes))).collect()
}

/// Returns true if the query may be paused until its turn comes: one that is being planned has no
/// operators to pause, and other queries may wait for one that writes.
fn can_wait(query: &Query) -> bool {
    query.plan_size().is_some_and(|size| !size.writes)
}

fn runner(query: &Query, gives_out_time: bool, now: Instant) -> Runner {
    let (memory, priority) = (query.memory(), query.claim().priority());
    let elapsed = now.saturating_duration_since(query.began());
    let patience = query.claim().sla.as_ref().and_then(|sla| sla.patience_seconds());
    let part = patience.map(|seconds| seconds / PATIENCE_PART);
    let part = part.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let late_in = part.map(|part| part.saturating_sub(elapsed));
    let will_be_late = late_in.filter(|_| query.is_awaited());
    let need = match late_in {
        _ if priority == 0 => None,
        _ if memory.is_starved() => Some(Need::Memory),
        Some(Duration::ZERO) if query.is_awaited() => Some(Need::Time),
        _ => None,
    };
    Runner {
        id: query.id(),
        priority,
        need,
        held_bytes: memory.paged_bytes(),
        late_in: will_be_late,
        is_scheduled: gives_out_time && can_wait(query) && query.is_read(),
    }
}

fn config(kind: MarketKind) -> BrokerConfig {
    BrokerConfig { mechanism: kind.mechanism().unwrap_or_default(), ..BrokerConfig::default() }
}
