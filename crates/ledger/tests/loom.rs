//! Model checking of small programs over the ledger in every interleaving.
//!
//! `cargo x loom` runs it: `RUSTFLAGS="--cfg loom" cargo test -p terrace-ledger --release --test
//! loom`.
#![cfg(loom)]

use loom::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
};
use terrace_ledger::{Class, Consumer, Ledger};

fn consumer(ledger: &Ledger, name: &str) -> Consumer {
    ledger.register(name, Class::Query)
}

fn check(program: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(program);
}

#[test]
fn two_grants_never_exceed_the_budget() {
    check(|| {
        let ledger = Ledger::new(3);
        let (a, b) = (consumer(&ledger, "a"), consumer(&ledger, "b"));
        let other = thread::spawn(move || b.try_grow(2).is_ok().then_some(b));
        let mine = a.try_grow(2).is_ok();
        let theirs = other.join().expect("no panic");
        assert!(mine ^ theirs.is_some(), "one of the two grants fits");
        assert_eq!((ledger.granted(), ledger.debt()), (2, 0));
    });
}

#[test]
fn a_lowered_budget_holds_for_grants_under_way() {
    check(|| {
        let ledger = Ledger::new(3);
        let a = consumer(&ledger, "a");
        let out = Arc::new(AtomicU64::new(0));
        let grower = thread::spawn({
            let out = Arc::clone(&out);
            move || {
                if a.try_grow(2).is_ok() {
                    out.store(2, SeqCst);
                    out.store(0, SeqCst);
                    a.shrink(2);
                }
                a.try_grow(3).is_ok().then_some(a)
            }
        });
        if ledger.set_budget(1).is_ok() {
            assert!(out.load(SeqCst) <= 1);
        }
        let kept = grower.join().expect("no panic");
        let totals = ledger.totals();
        assert_eq!(totals.granted, kept.map_or(0, |a| a.held()));
        assert!(totals.granted <= totals.budget);
    });
}

#[test]
fn debt_and_payment_meet() {
    check(|| {
        let ledger = Ledger::new(2);
        let (a, b) = (consumer(&ledger, "a"), consumer(&ledger, "b"));
        a.try_grow(2).expect("it fits");
        let payer = thread::spawn(move || {
            a.shrink(2);
            a
        });
        b.grow_or_owe(3);
        assert!(b.debt() <= 3);
        let a = payer.join().expect("no panic");
        assert_eq!((a.debt(), b.debt(), ledger.debt()), (0, 1, 1));
        drop(b);
        assert_eq!((ledger.debt(), ledger.available()), (0, 2));
    });
}

#[test]
fn two_debtors_and_a_raised_budget() {
    check(|| {
        let ledger = Ledger::new(0);
        let (a, b) = (consumer(&ledger, "a"), consumer(&ledger, "b"));
        let other = thread::spawn(move || {
            b.grow_or_owe(2);
            b.shrink(1);
            b
        });
        a.grow_or_owe(1);
        ledger.set_budget(1).expect("it covers what is held");
        let b = other.join().expect("no panic");
        assert_eq!(a.debt() + b.debt(), 1);
        assert_eq!((ledger.debt(), ledger.granted()), (1, 1));
    });
}

#[test]
fn consumers_come_and_go() {
    check(|| {
        let ledger = Ledger::new(2);
        let other = thread::spawn({
            let ledger = ledger.clone();
            move || {
                let query = consumer(&ledger, "query");
                query.grow_or_owe(3);
                assert!(query.fair_share() <= 2);
            }
        });
        let mine = consumer(&ledger, "mine");
        let granted = mine.try_grow(1).is_ok();
        other.join().expect("no panic");
        assert_eq!(ledger.totals().granted, u64::from(granted));
        assert_eq!((ledger.debt(), ledger.consumers().len()), (0, 1));
    });
}
