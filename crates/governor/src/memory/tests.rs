use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use datafusion::common::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use terrace_ledger::{Class, Consumer, Ledger};
use terrace_sys::size::{KIB, MIB, to_u64, to_usize};
use terrace_testkit::Rng;

use super::operators::PATIENCE_WITH_POOL;
use super::*;

/// A pool of clean frames that holds bytes of the ledger.
#[derive(Debug)]
struct Frames {
    consumer: Consumer,
    released: AtomicU64,
}

impl Frames {
    fn holding(ledger: &Ledger, bytes: u64) -> Arc<Self> {
        let consumer = ledger.register("pool", Class::Pool);
        assert!(consumer.try_grow(bytes).is_ok());
        Arc::new(Self { consumer, released: AtomicU64::new(0) })
    }
}

impl Reserve for Frames {
    fn release(&self, bytes: u64) -> u64 {
        let bytes = bytes.min(self.consumer.held());
        self.consumer.shrink(bytes);
        self.released.fetch_add(bytes, Ordering::Relaxed);
        bytes
    }

    fn release_by_writing(&self, bytes: u64) -> u64 {
        self.release(bytes)
    }

    fn releasable(&self) -> u64 {
        self.consumer.held()
    }

    fn held(&self) -> u64 {
        self.consumer.held()
    }
}

fn budget(ledger: &Ledger, frames: &Arc<Frames>) -> Arc<MemoryBudget> {
    Arc::new(MemoryBudget::new(ledger.clone(), Arc::clone(frames) as _))
}

fn query(ledger: &Ledger, frames: &Arc<Frames>) -> Arc<dyn MemoryPool> {
    Arc::new(QueryMemoryPool::new(&budget(ledger, frames), "query 1"))
}

fn bytes(bytes: u64) -> usize {
    to_usize(bytes)
}

#[test]
fn growth_takes_clean_frames_before_it_is_denied() -> Result<()> {
    let ledger = Ledger::new(64 * MIB);
    let frames = Frames::holding(&ledger, 60 * MIB);
    let pool = query(&ledger, &frames);
    let join = MemoryConsumer::new("HashJoinInput[0]").register(&pool);
    join.try_grow(bytes(32 * MIB))?;
    let released = frames.released.load(Ordering::Relaxed);
    assert!((28 * MIB..=29 * MIB).contains(&released), "{released}");
    assert!(ledger.granted() <= ledger.budget());
    Ok(())
}

#[test]
fn a_denial_names_who_asked_and_who_holds() -> Result<()> {
    let ledger = Ledger::new(16 * MIB);
    let frames = Frames::holding(&ledger, 0);
    let pool = query(&ledger, &frames);
    let sorter = MemoryConsumer::new("ExternalSorter[1]").with_can_spill(true).register(&pool);
    sorter.try_grow(bytes(6 * MIB))?;
    let join = MemoryConsumer::new("HashJoinInput[0]").register(&pool);
    let Err(error) = join.try_grow(bytes(12 * MIB)) else { panic!("12 of 10 MiB were granted") };
    let text = error.to_string();
    for part in ["HashJoinInput[0] of query 1", "12MiB", "16MiB", "ExternalSorter[1] 6MiB"] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    Ok(())
}

#[test]
fn idle_lease_is_one_lease_and_nothing_at_the_end() -> Result<()> {
    let ledger = Ledger::new(256 * MIB);
    let frames = Frames::holding(&ledger, 0);
    let pool = query(&ledger, &frames);
    let first = MemoryConsumer::new("a").register(&pool);
    let second = MemoryConsumer::new("b").register(&pool);
    second.try_grow(1)?;
    for _ in 0..1000 {
        first.try_grow(100_000)?;
    }
    assert!(ledger.granted() - to_u64(pool.reserved()) <= MIB);
    first.free();
    assert!(ledger.granted() <= 1 + MIB);
    second.free();
    assert_eq!(ledger.granted(), 0);
    Ok(())
}

#[test]
fn infallible_growth_becomes_debt_that_is_paid_first() -> Result<()> {
    let ledger = Ledger::new(8 * MIB);
    let frames = Frames::holding(&ledger, 0);
    let pool = query(&ledger, &frames);
    let one = MemoryConsumer::new("one").register(&pool);
    one.grow(bytes(12 * MIB));
    assert_eq!(ledger.debt(), 4 * MIB);
    let two = MemoryConsumer::new("two").register(&pool);
    assert!(two.try_grow(1).is_err());
    one.shrink(bytes(4 * MIB));
    assert_eq!((ledger.debt(), ledger.granted()), (0, 8 * MIB));
    one.free();
    two.try_grow(bytes(8 * MIB))
}

#[test]
fn an_operator_waits_for_another_query_that_gives_back() -> Result<()> {
    let ledger = Ledger::new(16 * MIB);
    let frames = Frames::holding(&ledger, 0);
    let budget = budget(&ledger, &frames);
    let first = Arc::new(QueryMemoryPool::new(&budget, "query 1"));
    let second: Arc<dyn MemoryPool> = Arc::new(QueryMemoryPool::new(&budget, "query 2"));
    let cancelled = Arc::clone(&first);
    let first: Arc<dyn MemoryPool> = first;
    let join = MemoryConsumer::new("HashJoinInput[0]").register(&first);
    let other = MemoryConsumer::new("HashJoinInput[0]").register(&second);
    join.try_grow(bytes(4 * MIB))?;
    other.try_grow(bytes(10 * MIB))?;
    thread::scope(|scope| {
        let waits = scope.spawn(|| join.try_grow(bytes(8 * MIB)));
        thread::sleep(Duration::from_millis(30));
        assert!(!waits.is_finished());
        other.shrink(bytes(6 * MIB));
        waits.join().expect("no panic")
    })?;
    // A request above the whole budget and one of a query that has ended are refused at once.
    let began = Instant::now();
    assert!(join.try_grow(bytes(5 * MIB)).is_err());
    cancelled.cancel();
    assert!(join.try_grow(bytes(3 * MIB)).is_err());
    assert!(began.elapsed() < PATIENCE_WITH_POOL);
    Ok(())
}

#[test]
fn what_a_sort_gives_back_is_kept_for_its_merge() -> Result<()> {
    let ledger = Ledger::new(16 * MIB);
    let frames = Frames::holding(&ledger, 0);
    let pool = query(&ledger, &frames);
    let sort = MemoryConsumer::new("ExternalSorter[0]").with_can_spill(true).register(&pool);
    let merge = MemoryConsumer::new("ExternalSorterMerge[0]").register(&pool);
    let greedy = MemoryConsumer::new("HashJoinInput[0]").register(&pool);
    sort.try_grow(bytes(8 * MIB))?;
    greedy.try_grow(bytes(8 * MIB))?;
    sort.shrink(bytes(4 * MIB));
    assert!(greedy.try_grow(bytes(MIB)).is_err());
    merge.try_grow(bytes(4 * MIB))?;
    assert!(merge.try_grow(bytes(MIB)).is_err());
    merge.free();
    sort.free();
    greedy.try_grow(bytes(8 * MIB))
}

#[test]
fn spillable_operators_leave_room_for_one_that_cannot_spill() -> Result<()> {
    let ledger = Ledger::new(64 * MIB);
    let frames = Frames::holding(&ledger, 16 * MIB);
    let pool = query(&ledger, &frames);
    let sorters: Vec<_> = (0..4)
        .map(|p| MemoryConsumer::new(format!("ExternalSorter[{p}]")).with_can_spill(true))
        .map(|consumer| consumer.register(&pool))
        .collect();
    for _ in 0..200 {
        for sorter in &sorters {
            let _denied_when_full = sorter.try_grow(bytes(512 * KIB));
        }
    }
    let merge = MemoryConsumer::new("SortPreservingMergeExec[0]").register(&pool);
    merge.try_grow(bytes(8 * MIB))?;
    let least = sorters.iter().map(MemoryReservation::size).min();
    assert!(least.is_some_and(|least| least >= bytes(8 * MIB)), "{least:?}");
    Ok(())
}

#[test]
fn everything_comes_back_whatever_the_interleaving() {
    let ledger = Ledger::new(32 * MIB);
    let frames = Frames::holding(&ledger, 8 * MIB);
    let budget = MemoryBudget::new(ledger.clone(), Arc::clone(&frames) as _);
    let budget = Arc::new(budget.with_patience(Duration::from_millis(1)));
    let pools = (0..3).map(|n| Arc::new(QueryMemoryPool::new(&budget, format!("query {n}"))) as _);
    let pools: Vec<Arc<dyn MemoryPool>> = pools.collect();
    thread::scope(|scope| {
        for (seed, pool) in pools.iter().cycle().take(6).enumerate() {
            let ledger = &ledger;
            scope.spawn(move || churn(pool, ledger, to_u64(seed)));
        }
    });
    assert!(pools.iter().all(|pool| pool.reserved() == 0));
    assert_eq!(ledger.granted(), frames.consumer.held());
    drop(pools);
    // The frames, the heap of paged operators, the sessions, and unaccounted bytes.
    assert_eq!(ledger.consumers().len(), 4);
}

/// Grows, splits and shrinks at random; the ledger must never grant more than its budget.
fn churn(pool: &Arc<dyn MemoryPool>, ledger: &Ledger, seed: u64) {
    let spills = seed.is_multiple_of(2);
    let consumer = MemoryConsumer::new(format!("op[{seed}]")).with_can_spill(spills);
    let reservation = consumer.register(pool);
    let mut rng = Rng::new(seed);
    for _ in 0..5_000 {
        let amount = bytes(rng.below(2 * MIB));
        match rng.below(4) {
            0 => reservation.shrink(amount.min(reservation.size())),
            1 => drop(reservation.split(amount.min(reservation.size()))),
            _ => _ = reservation.try_grow(amount),
        }
        assert!(ledger.granted() <= ledger.budget());
    }
}

#[test]
fn what_no_consumer_accounts_for_pushes_frames_out_and_fails_no_query() -> Result<()> {
    let ledger = Ledger::new(256 * MIB);
    let frames = Frames::holding(&ledger, 200 * MIB);
    let budget = budget(&ledger, &frames);
    let named = |name: &str| ledger.consumers().into_iter().find(|c| &*c.name == name);
    let charged = || named("unaccounted").map_or(0, |consumer| consumer.held_bytes);
    budget.charge_unaccounted(100 * MIB);
    assert_eq!((charged(), ledger.debt()), (100 * MIB, 0));
    assert_eq!(frames.held(), 156 * MIB, "frames are given up for it");
    // It always leaves half of the budget, so that debt does not last.
    budget.charge_unaccounted(10_000 * MIB);
    assert_eq!((charged(), ledger.debt(), frames.held()), (128 * MIB, 0, 128 * MIB));
    let pool: Arc<dyn MemoryPool> = Arc::new(QueryMemoryPool::new(&budget, "query 1"));
    let sorter = MemoryConsumer::new("ExternalSorter[0]").with_can_spill(true).register(&pool);
    sorter.try_grow(bytes(8 * MIB))?;
    assert!(sorter.try_grow(bytes(120 * MIB)).is_err(), "one that can spill does");
    let join = MemoryConsumer::new("HashJoinInput[0]").register(&pool);
    join.try_grow(bytes(200 * MIB))?;
    assert!(ledger.debt() > 0, "one that cannot goes on, as debt");
    assert!(join.try_grow(bytes(150 * MIB)).is_err(), "beyond the budget it would fail anyway");
    join.free();
    // The charge falls when the memory is freed.
    budget.charge_unaccounted(0);
    assert_eq!((charged(), ledger.debt()), (0, 0));
    sorter.try_grow(bytes(100 * MIB))
}

#[test]
fn the_smallest_budget_is_not_charged() {
    let ledger = Ledger::new(32 * MIB);
    let budget = budget(&ledger, &Frames::holding(&ledger, 0));
    budget.charge_unaccounted(10_000 * MIB);
    assert_eq!(ledger.granted(), 0);
}

#[test]
fn what_sessions_hold_leaves_half_of_the_budget() {
    let ledger = Ledger::new(256 * MIB);
    let frames = Frames::holding(&ledger, 256 * MIB);
    let budget = budget(&ledger, &frames);
    budget.hold_for_sessions(100 * MIB);
    assert_eq!((budget.sessions_bytes(), ledger.debt(), frames.held()), (100 * MIB, 0, 156 * MIB));
    budget.hold_for_sessions(1_000 * MIB);
    assert_eq!((budget.sessions_bytes(), ledger.debt(), frames.held()), (128 * MIB, 0, 128 * MIB));
    assert_eq!(budget.held_beside(0), 0, "no operator waits for it to come back");
    // Unaccounted bytes get no additional part of the budget.
    budget.charge_unaccounted(100 * MIB);
    assert_eq!(ledger.granted(), 256 * MIB);
    budget.release_of_sessions(1_050 * MIB);
    assert_eq!(budget.sessions_bytes(), 50 * MIB);
    budget.charge_unaccounted(100 * MIB);
    assert_eq!(ledger.granted(), (128 + 50 + 78) * MIB);
    budget.release_of_sessions(50 * MIB);
    assert_eq!(budget.sessions_bytes(), 0);
}

#[test]
fn the_memory_of_the_process_is_read_while_queries_run() {
    let ledger = Ledger::new(256 * MIB);
    let budget = budget(&ledger, &Frames::holding(&ledger, 0));
    let (held, readings) = (Arc::new(AtomicU64::new(500 * MIB)), Arc::new(AtomicU64::new(0)));
    let (of_reading, counted) = (Arc::clone(&held), Arc::clone(&readings));
    let reading = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Some(of_reading.load(Ordering::Relaxed))
    };
    let ended: Arc<Mutex<Vec<String>>> = Arc::default();
    let end_query = {
        let ended = Arc::clone(&ended);
        Box::new(move |why| {
            ended.lock().expect("no panic").push(why);
            true
        })
    };
    let limit = Some(ProcessLimit { bytes: 1, end_query });
    let watch = Watch::start(&budget, Some(Box::new(reading)), limit).expect("a thread");
    let eventually = |what: &str, holds: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !holds() {
            assert!(began.elapsed() < Duration::from_secs(10), "not within ten seconds: {what}");
            thread::sleep(Duration::from_millis(1));
        }
    };
    // The baseline at the start is not charged, nor is a small excess.
    held.store(530 * MIB, Ordering::Relaxed);
    let query = watch.query();
    eventually("it is read", &|| readings.load(Ordering::Relaxed) > 2);
    assert_eq!(ledger.granted(), 0);
    assert!(ended.lock().expect("no panic").is_empty(), "what is accounted for ends no query");
    held.store(500 * MIB + watch::BESIDE_BYTES + 100 * MIB, Ordering::Relaxed);
    eventually("the growth is charged", &|| ledger.granted() == 100 * MIB);
    eventually("a query ends", &|| !ended.lock().expect("no panic").is_empty());
    let why = ended.lock().expect("no panic")[0].clone();
    assert!(why.contains("of them for plans") && why.contains("--memory-limit"), "{why}");
    drop(query);
    held.store(500 * MIB, Ordering::Relaxed);
    eventually("what a query held is given back after it", &|| ledger.granted() == 0);
    eventually("the last reading", &|| {
        let before = readings.load(Ordering::Relaxed);
        thread::sleep(Duration::from_millis(200));
        readings.load(Ordering::Relaxed) == before
    });
}

/// A pool whose frames are held by operators: it lends some when the test asks for it.
#[derive(Debug)]
struct Lending(AtomicU64);

impl Reserve for Lending {
    fn release(&self, _: u64) -> u64 {
        0
    }

    fn release_by_writing(&self, _: u64) -> u64 {
        0
    }

    fn releasable(&self) -> u64 {
        0
    }

    fn held(&self) -> u64 {
        0
    }

    fn lent_frames(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn the_charge_yields_to_operators_that_need_frames() {
    let ledger = Ledger::new(256 * MIB);
    let pool = Arc::new(Lending(AtomicU64::new(0)));
    let budget = Arc::new(MemoryBudget::new(ledger.clone(), Arc::clone(&pool) as _));
    let held = Arc::new(AtomicU64::new(0));
    let of_reading = Arc::clone(&held);
    let reading = move || Some(of_reading.load(Ordering::Relaxed));
    let watch = Watch::start(&budget, Some(Box::new(reading)), None).expect("a thread");
    held.store(watch::BESIDE_BYTES + 100 * MIB, Ordering::Relaxed);
    let mut charged = Vec::new();
    for lent in [0, 1, 1, 3] {
        pool.0.store(lent, Ordering::Relaxed);
        watch.look();
        charged.push(ledger.granted() / MIB);
    }
    assert_eq!(charged, [100, 50, 50, 25]);
}
