//! Every interleaving of the latch and of a page's state word, explored by loom.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p terrace-pool --release --lib loom_tests`

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use crate::latch::Latch;
use crate::page::FrameId;
use crate::park::ParkingLot;
use crate::state::{PageState, StateWord};

struct Guarded {
    latch: Latch,
    lot: ParkingLot,
    value: UnsafeCell<u64>,
}

// SAFETY: `value` is touched only under `latch`, which is what the tests are about: loom reports
// any access that the latch lets overlap with a write.
unsafe impl Sync for Guarded {}

impl Guarded {
    fn new() -> Arc<Self> {
        let (latch, lot) = (Latch::new(), ParkingLot::new());
        Arc::new(Self { latch, lot, value: UnsafeCell::new(0) })
    }

    fn add(&self) {
        // SAFETY: the caller holds the latch exclusively.
        self.value.with_mut(|value| unsafe { *value += 1 });
    }

    fn get(&self) -> u64 {
        // SAFETY: the caller holds the latch.
        self.value.with(|value| unsafe { *value })
    }
}

#[test]
fn writers_exclude_each_other_and_nobody_sleeps_for_ever() {
    loom::model(|| {
        let shared = Guarded::new();
        let other = Arc::clone(&shared);
        let writer = thread::spawn(move || {
            assert!(other.latch.exclusive(&other.lot, None));
            other.add();
            other.latch.release_exclusive(&other.lot);
        });
        assert!(shared.latch.exclusive(&shared.lot, None));
        shared.add();
        shared.latch.release_exclusive(&shared.lot);
        writer.join().expect("writer");
        assert!(shared.latch.try_shared());
        assert_eq!(shared.get(), 2);
    });
}

#[test]
fn a_reader_keeps_a_writer_out_until_it_is_gone() {
    loom::model(|| {
        let shared = Guarded::new();
        let other = Arc::clone(&shared);
        let reader = thread::spawn(move || {
            assert!(other.latch.shared(&other.lot, None));
            let seen = (other.get(), other.get());
            assert_eq!(seen.0, seen.1);
            other.latch.release_shared(&other.lot);
        });
        assert!(shared.latch.exclusive(&shared.lot, None));
        shared.add();
        shared.latch.downgrade(&shared.lot);
        assert_eq!(shared.get(), 1);
        shared.latch.release_shared(&shared.lot);
        reader.join().expect("reader");
    });
}

#[test]
fn an_upgrade_is_the_only_hold_or_fails() {
    loom::model(|| {
        let shared = Guarded::new();
        let other = Arc::clone(&shared);
        let upgrade = move |shared: &Guarded| {
            assert!(shared.latch.shared(&shared.lot, None));
            if shared.latch.try_upgrade() {
                shared.add();
                shared.latch.release_exclusive(&shared.lot);
            } else {
                shared.latch.release_shared(&shared.lot);
            }
        };
        let thread = thread::spawn(move || upgrade(&other));
        upgrade(&shared);
        thread.join().expect("upgrader");
        assert!(!shared.latch.is_held());
    });
}

#[test]
fn an_upgrade_that_goes_back_is_seen_whole() {
    loom::model(|| {
        let shared = Guarded::new();
        let other = Arc::clone(&shared);
        let repairer = thread::spawn(move || {
            assert!(other.latch.shared(&other.lot, None));
            if other.latch.try_upgrade() {
                other.add();
                other.latch.downgrade(&other.lot);
            }
            let _ = other.get();
            other.latch.release_shared(&other.lot);
        });
        assert!(shared.latch.shared(&shared.lot, None));
        assert_eq!(shared.get(), shared.get());
        shared.latch.release_shared(&shared.lot);
        repairer.join().expect("repairer");
        assert!(!shared.latch.is_held());
    });
}

#[test]
fn of_a_doomer_and_the_last_holder_one_frees_the_page() {
    loom::model(|| {
        let shared = Guarded::new();
        let doomed = Arc::new(AtomicBool::new(false));
        assert!(shared.latch.try_shared());
        let (other, doom) = (Arc::clone(&shared), Arc::clone(&doomed));
        let free = |shared: &Guarded| {
            let taken = shared.latch.try_exclusive();
            if taken {
                shared.add();
            }
            taken
        };
        let holder = thread::spawn(move || {
            other.latch.release_shared(&other.lot);
            doom.load(Ordering::SeqCst) && free(&other)
        });
        doomed.store(true, Ordering::SeqCst);
        let mine = free(&shared);
        let theirs = holder.join().expect("holder");
        assert!(mine ^ theirs, "freed by doomer: {mine}, by holder: {theirs}");
    });
}

#[test]
fn one_of_two_loads_and_the_other_wakes() {
    loom::model(|| {
        let page = Arc::new((StateWord::new(), ParkingLot::new()));
        assert!(page.0.step(&page.1, PageState::Free, PageState::Stored));
        let there = PageState::Resident(FrameId(7));
        let fix = move |page: &(StateWord, ParkingLot)| {
            let loads = page.0.step(&page.1, PageState::Stored, PageState::Loading);
            if loads {
                assert!(page.0.step(&page.1, PageState::Loading, there));
            }
            assert_eq!(page.0.loaded(&page.1, None), Some(there));
            loads
        };
        let other = Arc::clone(&page);
        let thread = thread::spawn(move || fix(&other));
        let mine = fix(&page);
        assert!(mine ^ thread.join().expect("other"), "exactly one loads");
    });
}

#[test]
fn a_failed_load_lets_the_waiter_try() {
    loom::model(|| {
        let page = Arc::new((StateWord::new(), ParkingLot::new()));
        assert!(page.0.step(&page.1, PageState::Free, PageState::Stored));
        assert!(page.0.step(&page.1, PageState::Stored, PageState::Loading));
        let other = Arc::clone(&page);
        let waiter = thread::spawn(move || {
            assert_eq!(other.0.loaded(&other.1, None), Some(PageState::Stored));
            assert!(other.0.step(&other.1, PageState::Stored, PageState::Loading));
        });
        assert!(page.0.step(&page.1, PageState::Loading, PageState::Stored));
        waiter.join().expect("waiter");
        assert_eq!(page.0.get(), PageState::Loading);
    });
}
