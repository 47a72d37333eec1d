//! Stress test of many threads on one ledger, checked by counters outside of the ledger.
#![cfg(not(loom))]

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

use terrace_ledger::{Class, Ledger, Totals};

const BUDGET: u64 = 1 << 16;
/// Number of rounds of one thread, much less than a second of work.
const ROUNDS: u64 = if cfg!(miri) { 50 } else { 50_000 };

/// Returns [`ROUNDS`], or that many for every second of `TERRACE_SOAK_SECONDS`.
fn rounds() -> u64 {
    let seconds = std::env::var("TERRACE_SOAK_SECONDS").map_or(1, |text| {
        text.parse().unwrap_or_else(|_| panic!("TERRACE_SOAK_SECONDS is {text:?}, not a number"))
    });
    ROUNDS * seconds
}

/// Small generator, so that every thread has its own repeatable sequence.
struct Sequence(u64);

impl Sequence {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// Grows and shrinks at random; `outside` counts the bytes held and never exceeds those granted.
fn churn(ledger: &Ledger, seed: u64, outside: &AtomicU64) {
    let mut random = Sequence(seed);
    let consumer = ledger.register(format!("query {seed}"), Class::Query);
    let mut held = 0;
    for _ in 0..rounds() {
        let bytes = random.next(BUDGET / 4);
        if random.next(2) == 0 && consumer.try_grow(bytes).is_ok() {
            outside.fetch_add(bytes, SeqCst);
            held += bytes;
        } else {
            let back = held.min(bytes);
            outside.fetch_sub(back, SeqCst);
            consumer.shrink(back);
            held -= back;
        }
        assert_eq!(consumer.held(), held);
    }
    outside.fetch_sub(held, SeqCst);
}

/// Raises and lowers the budget at random. After a successful change, no more than the new budget
/// may be held.
fn move_budget(ledger: &Ledger, outside: &AtomicU64, moves: &AtomicU64, done: &AtomicBool) {
    let mut random = Sequence(77);
    while !done.load(SeqCst) {
        let budget = random.next(BUDGET);
        if ledger.set_budget(budget).is_ok() {
            let out = outside.load(SeqCst);
            assert!(out <= budget, "{out} bytes are out under a budget of {budget}");
            let totals = ledger.totals();
            assert!(totals.granted <= budget && totals.debt == 0, "{totals:?}");
            moves.fetch_add(1, SeqCst);
        }
    }
}

#[test]
fn the_budget_holds_while_it_moves() {
    let ledger = Ledger::new(BUDGET);
    let (outside, moves, done) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let deadline = Instant::now() + Duration::from_secs(30);
    thread::scope(|scope| {
        scope.spawn(|| move_budget(&ledger, &outside, &moves, &done));
        thread::scope(|inner| {
            for seed in 1..=4 {
                inner.spawn({
                    let (ledger, outside, moves) = (&ledger, &outside, &moves);
                    // On a busy machine all rounds may end before the budget has changed.
                    move || loop {
                        churn(ledger, seed, outside);
                        if moves.load(SeqCst) > 0 || Instant::now() > deadline {
                            break;
                        }
                    }
                });
            }
        });
        done.store(true, SeqCst);
    });
    assert!(moves.into_inner() > 0, "the budget never moved");
    assert_eq!(ledger.available(), ledger.budget());
}

/// Debts of several consumers add up at all times, and all debt is paid in the end.
#[test]
fn debts_add_up() {
    let ledger = Ledger::new(BUDGET / 8);
    let shared = ledger.register("shared", Class::Pool);
    thread::scope(|scope| {
        for seed in 1..=4_u64 {
            let (ledger, shared) = (&ledger, &shared);
            scope.spawn(move || {
                let mut random = Sequence(seed);
                let own = ledger.register(format!("query {seed}"), Class::Query);
                for _ in 0..rounds() / 4 {
                    let bytes = random.next(BUDGET / 8);
                    own.grow_or_owe(bytes);
                    shared.grow_or_owe(bytes);
                    assert!(own.debt() <= own.held());
                    shared.shrink(bytes);
                    own.shrink(own.held().min(bytes + random.next(64)));
                }
            });
        }
    });
    assert_eq!((shared.held(), shared.debt()), (0, 0));
    let budget = BUDGET / 8;
    assert_eq!(ledger.totals(), Totals { budget, granted: 0, debt: 0, available: budget });
}

/// Measures the cost of a grant and its return, for the figure in the documentation.
#[test]
#[expect(clippy::print_stdout, reason = "the figure is what the test is for")]
fn a_grant_is_cheap() {
    let ledger = Ledger::new(BUDGET);
    let consumer = ledger.register("pages", Class::Pool);
    let rounds = if cfg!(miri) { 100 } else { 1_000_000_u32 };
    let start = Instant::now();
    for _ in 0..rounds {
        assert!(consumer.try_grow(4096).is_ok());
        consumer.shrink(4096);
    }
    let each = start.elapsed() / rounds;
    println!("a grant and its return: {each:?}");
    // A lock, an allocation or a look-up on the path would exceed the bound; a slow machine does
    // not.
    let bound = if cfg!(miri) { u128::MAX } else { 20_000 };
    assert!(each.as_nanos() < bound, "a grant and its return took {each:?}");
}
