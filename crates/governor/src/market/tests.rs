//! Tests of rounds over queries whose operators follow their limits.

use std::time::Duration;

use datafusion::execution::runtime_env::RuntimeEnv;
use terrace_exec::Grant;
use terrace_ledger::Ledger;
use terrace_pool::{Pool, PoolConfig};
use terrace_store::{MemoryBlocks, Store};
use terrace_sys::size::MIB;

use super::*;
use crate::memory::{Reserve, Watch};
use crate::pins::PagePins;
use crate::query::QueryState;
use crate::running::{QueryResources, RunningQuery};

const BUDGET: u64 = 256 * MIB;

/// A pool that holds nothing, so that all of the budget is free.
#[derive(Debug)]
struct Nothing;

impl Reserve for Nothing {
    fn release(&self, _bytes: u64) -> u64 {
        0
    }

    fn release_by_writing(&self, _bytes: u64) -> u64 {
        0
    }

    fn releasable(&self) -> u64 {
        0
    }

    fn held(&self) -> u64 {
        0
    }
}

struct Setting {
    queries: Arc<Queries>,
    resources: QueryResources,
}

/// A query with one sort that has seen `seen` bytes and pins as many of them as it can.
struct Sorting {
    running: RunningQuery,
    grant: Arc<dyn Grant>,
}

impl Setting {
    fn new(kind: MarketKind) -> Self {
        let ledger = Ledger::new(BUDGET);
        let store = Store::open(Arc::new(MemoryBlocks::new(BUDGET)), "memory", BUDGET);
        let pool = Pool::new(PoolConfig {
            store: Some(Arc::new(store.expect("a store"))),
            ..PoolConfig::new("pool", ledger.clone())
        });
        let pool = pool.expect("a pool");
        let budget = Arc::new(MemoryBudget::new(ledger, Arc::new(Nothing)));
        let queries = Arc::new(Queries::default());
        let market = Arc::new(Market::without_thread(&queries, &budget, None));
        market.choose(kind);
        let pins = Arc::new(PagePins::new(MIB));
        let watch = Arc::new(Watch::start(&budget, None, None).expect("no thread is needed"));
        Self { queries, resources: QueryResources { budget, pool, pins, market, watch } }
    }

    fn sort(&self, sla: Option<&str>, seen: u64) -> Sorting {
        let sla = sla.map(|text| Arc::new(text.parse().expect("an SLA")));
        let claim = Claim { tenant: None, sla };
        let base = RuntimeEnv::default();
        let begun =
            RunningQuery::begin(&self.queries, &self.resources, &base, "sort".into(), claim, None);
        let running = begun.expect("begins");
        let sorting = Sorting { grant: running.paged_memory().register("PagedSort[0]"), running };
        sorting.grow();
        let held = sorting.grant.held_bytes();
        sorting.grant.count_spilled(seen.saturating_sub(held));
        sorting
    }

    fn look(&self) {
        self.resources.market.look(true, Instant::now());
    }

    /// Runs enough rounds for the limits to settle.
    fn settle(&self, sorts: &[&Sorting]) {
        for _ in 0..8 {
            self.look();
            sorts.iter().for_each(|sort| sort.obey());
        }
    }
}

impl Sorting {
    /// Takes what it is granted, a MiB at a time.
    fn grow(&self) {
        while self.grant.try_grow(MIB) {}
    }

    /// Acts as an operator at its next batch: releases the excess and grows.
    fn obey(&self) {
        self.grant.shrink(self.grant.excess_bytes());
        self.grow();
    }

    fn limit(&self) -> Option<u64> {
        self.running.query().memory().limit()
    }

    fn state(&self) -> QueryState {
        self.running.query().state()
    }
}

const STEEP: Option<&str> = Some("latency 1ms penalty 100 per 1ms");

#[test]
fn memory_moves_to_the_steeper_sla_and_comes_back() {
    for kind in [MarketKind::Exchange, MarketKind::Price, MarketKind::Auction] {
        let setting = Setting::new(kind);
        let calm = setting.sort(None, 200 * MIB);
        setting.look();
        assert_eq!(calm.limit(), None, "{kind}: who is alone has no limit");
        assert!(calm.grant.held_bytes() > BUDGET / 2);
        let steep = setting.sort(STEEP, 150 * MIB);
        let before = steep.grant.held_bytes();
        setting.settle(&[&calm, &steep]);
        let (limits, held) = ([&calm, &steep].map(Sorting::limit), steep.grant.held_bytes());
        assert!(limits[0] < limits[1], "{kind}: {limits:?}");
        assert!(held > before && held > calm.grant.held_bytes(), "{kind}: {before} {held}");
        assert!(limits.into_iter().flatten().sum::<u64>() <= BUDGET, "{kind}: {limits:?}");
        assert_eq!(calm.grant.excess_bytes(), 0, "{kind}: within one batch");
        drop(steep.grant);
        drop(steep.running);
        setting.look();
        assert_eq!(calm.limit(), None, "{kind}: alone again");
    }
}

#[test]
fn fair_shares_and_those_who_said_nothing_have_no_limits() {
    for (kind, sla) in [(MarketKind::Fair, STEEP), (MarketKind::Auction, None)] {
        let setting = Setting::new(kind);
        let sorts = [setting.sort(sla, 200 * MIB), setting.sort(None, 200 * MIB)];
        setting.settle(&[&sorts[0], &sorts[1]]);
        assert_eq!(sorts.each_ref().map(Sorting::limit), [None, None], "{kind}");
    }
}

#[test]
fn the_market_can_be_left_while_it_limits() {
    let setting = Setting::new(MarketKind::Auction);
    let sorts = [setting.sort(STEEP, 200 * MIB), setting.sort(None, 200 * MIB)];
    setting.settle(&[&sorts[0], &sorts[1]]);
    assert!(sorts.iter().all(|sort| sort.limit().is_some()));
    setting.resources.market.choose(MarketKind::Fair);
    setting.look();
    assert!(sorts.iter().all(|sort| sort.limit().is_none()));
}

#[test]
fn every_query_keeps_a_floor() {
    let setting = Setting::new(MarketKind::Auction);
    let calm = setting.sort(Some("none"), 300 * MIB);
    let steep: Vec<Sorting> = (0..3).map(|_| setting.sort(STEEP, 600 * MIB)).collect();
    let all: Vec<&Sorting> = steep.iter().chain([&calm]).collect();
    setting.settle(&all);
    assert!(calm.limit() >= Some(MIB), "{:?}", calm.limit());
    calm.grant.shrink(calm.grant.held_bytes());
    assert!(calm.grant.try_grow(MIB / 2), "the first bytes are never refused");
}

#[test]
fn memory_is_shared_by_the_queries_that_run() {
    let setting = Setting::new(MarketKind::Auction);
    let sorts = [STEEP, None, None].map(|sla| setting.sort(sla, 200 * MIB));
    let [steep, calm, paused] = &sorts;
    setting.settle(&[steep, calm, paused]);
    let limits = || sorts.each_ref().map(Sorting::limit);
    assert!(limits().iter().all(Option::is_some), "{:?}", limits());
    let before: u64 = limits()[..2].iter().flatten().sum();
    paused.running.query().outbid(true);
    setting.look();
    assert!(paused.limit().is_some(), "a pause for a look-up moves no memory");
    std::thread::sleep(Duration::from_millis(1100));
    setting.look();
    assert_eq!(paused.limit(), None, "it has no use for memory");
    assert!(paused.grant.suspended().is_some(), "it is to unpin what others would use");
    paused.grant.shrink(paused.grant.held_bytes());
    setting.settle(&[steep, calm]);
    let after: u64 = limits().iter().flatten().sum();
    assert!(after > before, "{before} before, {after} after: {:?}", limits());
    assert_eq!(after, BUDGET, "{:?}", limits());
    paused.running.query().outbid(false);
    setting.settle(&[steep, calm, paused]);
    assert!(paused.limit().is_some(), "it goes on");
}

#[test]
fn the_rows_say_who_traded_with_whom() {
    let setting = Setting::new(MarketKind::Auction);
    let calm = setting.sort(None, 200 * MIB);
    let steep = setting.sort(STEEP, 150 * MIB);
    setting.settle(&[&calm, &steep]);
    let rows = setting.resources.market.rows();
    let [calm, steep] = [calm, steep].map(|sort| {
        let name = sort.running.query().memory().query().to_owned();
        rows.iter().find(|row| row.consumer == name).cloned().expect("a row")
    });
    let trade = steep.last_trade.expect("it got something");
    assert!(trade.bytes > 0, "{trade:?}");
    let given = calm.last_trade.expect("it gave something");
    assert_eq!((given.bytes < 0, given.with), (true, Some(steep.consumer)));
    assert!(steep.gain_per_mib.is_some() && steep.loss_per_mib > calm.loss_per_mib);
}

#[test]
fn a_starved_query_of_a_higher_priority_suspends_the_lowest() {
    let setting = Setting::new(MarketKind::Auction);
    let low = setting.sort(Some("none"), 0);
    low.grant.grow(BUDGET - low.grant.held_bytes());
    let peer = setting.sort(Some("none"), 0);
    let high = setting.sort(Some("none, priority 1"), 0);
    assert!(!high.grant.try_grow(MIB), "there is nothing left");
    setting.look();
    assert_eq!((low.state(), peer.state()), (QueryState::Preempted, QueryState::Running));
    assert!(low.grant.suspended().is_some());
    low.grant.shrink(low.grant.held_bytes());
    assert!(high.grant.try_grow(MIB), "which came back");
    setting.look();
    assert_eq!(low.state(), QueryState::Running);
    drop(peer);
}

#[test]
fn a_query_that_people_suspended_is_not_resumed_by_the_market() {
    let setting = Setting::new(MarketKind::Auction);
    let low = setting.sort(None, 0);
    let high = setting.sort(Some("latency 0ms penalty 1, priority 1"), 0);
    setting.look();
    assert_eq!(low.state(), QueryState::Preempted);
    low.running.query().suspend();
    drop(high);
    setting.look();
    assert_eq!(low.state(), QueryState::Suspended);
    low.running.query().resume();
    assert_eq!(low.state(), QueryState::Running);
}
