//! Interleavings of operations on a latch, explored by loom.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p terrace-latch --release --test loom`

#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread;

use terrace_latch::{Latch, ParkingLot};

struct Guarded {
    latch: Latch,
    lot: ParkingLot,
    value: UnsafeCell<u64>,
}

// SAFETY: `value` is accessed only under `latch`. The tests check this: loom reports any access
// that the latch lets overlap with a write.
unsafe impl Sync for Guarded {}

impl Guarded {
    fn new() -> Arc<Self> {
        Self::over(ParkingLot::new())
    }

    fn over(lot: ParkingLot) -> Arc<Self> {
        Arc::new(Self { latch: Latch::new(), lot, value: UnsafeCell::new(0) })
    }

    fn write(&self) {
        self.latch.exclusive(&self.lot);
        self.add();
        self.latch.release_exclusive(&self.lot);
    }

    fn shared(&self) {
        assert_eq!(self.latch.shared_while(&self.lot, None, || true), Some(true));
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
fn writers_exclude_each_other_and_no_thread_sleeps_for_ever() {
    loom::model(|| {
        let shared = Guarded::new();
        let other = Arc::clone(&shared);
        let writer = thread::spawn(move || {
            other.latch.exclusive(&other.lot);
            other.add();
            other.latch.release_exclusive(&other.lot);
        });
        shared.latch.exclusive(&shared.lot);
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
            other.shared();
            let seen = (other.get(), other.get());
            assert_eq!(seen.0, seen.1);
            other.latch.release_shared(&other.lot);
        });
        shared.latch.exclusive(&shared.lot);
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
            shared.shared();
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
            other.shared();
            if other.latch.try_upgrade() {
                other.add();
                other.latch.downgrade(&other.lot);
            }
            let _ = other.get();
            other.latch.release_shared(&other.lot);
        });
        shared.shared();
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
fn a_reader_does_not_sleep_behind_readers() {
    loom::model(|| {
        let shared = Guarded::new();
        let other = Arc::clone(&shared);
        assert!(shared.latch.try_exclusive());
        let reader = thread::spawn(move || {
            other.shared();
            other.latch.release_shared(&other.lot);
        });
        shared.latch.downgrade(&shared.lot);
        // The shared hold is kept until the other reader has released its own.
        reader.join().expect("reader");
        shared.latch.release_shared(&shared.lot);
    });
}

/// A page leaves its frame, and the frame's next holder waits for the thread that waited for the
/// page: that thread must end its wait.
#[test]
fn no_thread_waits_for_the_next_holder_of_a_frame_whose_page_left() {
    loom::model(|| {
        let shared = Guarded::new();
        let here = Arc::new(AtomicBool::new(true));
        assert!(shared.latch.try_exclusive());
        let (other, page) = (Arc::clone(&shared), Arc::clone(&here));
        let waiter = thread::spawn(move || {
            let here = || page.load(Ordering::SeqCst);
            other.latch.exclusive_while(&other.lot, None, here).expect("no deadline")
        });
        here.store(false, Ordering::SeqCst);
        shared.latch.release_exclusive(&shared.lot);
        let next = shared.latch.try_exclusive();
        assert_ne!(waiter.join().expect("waiter"), next);
    });
}

/// Overlapping shared holds leave no moment without a holder; they end once a writer has waited.
///
/// The preemption bound limits the reader's runs between two steps of the writer. Without it the
/// writer's compare-exchanges could fail forever, as in every such loop.
#[test]
fn a_stream_of_readers_ends_for_a_writer_that_waits() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Guarded::new();
        let other = Arc::clone(&shared);
        assert!(shared.latch.try_shared());
        let writer = thread::spawn(move || other.write());
        while shared.latch.try_shared() {
            shared.latch.release_shared(&shared.lot);
            thread::yield_now();
        }
        shared.latch.release_shared(&shared.lot);
        writer.join().expect("writer");
        assert!(shared.latch.try_shared(), "nothing is left of the writer's precedence");
    });
}

#[test]
fn a_reader_that_yields_to_a_writer_wakes_after_it() {
    loom::model(|| {
        let shared = Guarded::new();
        let (writer, reader) = (Arc::clone(&shared), Arc::clone(&shared));
        assert!(shared.latch.try_shared());
        let writer = thread::spawn(move || writer.write());
        let reader = thread::spawn(move || {
            reader.shared();
            reader.latch.release_shared(&reader.lot);
        });
        shared.latch.release_shared(&shared.lot);
        writer.join().expect("writer");
        reader.join().expect("reader");
        assert!(!shared.latch.is_held());
    });
}

#[test]
fn a_reader_takes_a_second_hold_past_a_writer_that_waits_for_its_first() {
    loom::model(|| {
        let shared = Guarded::over(ParkingLot::with_passing_readers());
        let other = Arc::clone(&shared);
        shared.shared();
        let writer = thread::spawn(move || other.write());
        shared.shared();
        shared.latch.release_shared(&shared.lot);
        shared.latch.release_shared(&shared.lot);
        writer.join().expect("writer");
        assert!(!shared.latch.is_held());
    });
}

#[test]
fn a_reader_wakes_when_the_writer_that_it_yields_to_gives_up() {
    loom::model(|| {
        let shared = Guarded::new();
        let (writer, reader) = (Arc::clone(&shared), Arc::clone(&shared));
        let past = std::time::Instant::now();
        shared.shared();
        let writer = thread::spawn(move || {
            let taken = writer.latch.exclusive_while(&writer.lot, Some(past), || true);
            assert_eq!(taken, None, "the other hold stays");
        });
        let reader = thread::spawn(move || {
            reader.shared();
            reader.latch.release_shared(&reader.lot);
        });
        writer.join().expect("writer");
        reader.join().expect("reader");
        shared.latch.release_shared(&shared.lot);
        assert!(shared.latch.try_exclusive());
    });
}

fn optimistic(take: fn(&Latch, &ParkingLot) -> bool) {
    loom::model(move || {
        let latch = Arc::new((Latch::new(), ParkingLot::new()));
        let halves = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
        let (other, written) = (Arc::clone(&latch), Arc::clone(&halves));
        let writer = thread::spawn(move || {
            assert!(take(&other.0, &other.1));
            written.0.store(1, Ordering::Relaxed);
            written.1.store(1, Ordering::Relaxed);
            other.0.release_exclusive(&other.1);
        });
        if let Some(seen) = latch.0.version() {
            let read = (halves.0.load(Ordering::Relaxed), halves.1.load(Ordering::Relaxed));
            if latch.0.is_still(seen) {
                assert_eq!(read.0, read.1);
            }
        }
        writer.join().expect("writer");
    });
}

#[test]
fn an_optimistic_reader_believes_whole_versions_only() {
    optimistic(|latch, lot| latch.exclusive_while(lot, None, || true) == Some(true));
}

#[test]
fn an_optimistic_reader_notices_an_upgrade() {
    optimistic(|latch, _lot| latch.try_shared() && latch.try_upgrade());
}

#[test]
fn an_optimistic_reader_notices_another_that_became_a_writer() {
    optimistic(|latch, _lot| latch.version().is_some_and(|seen| latch.try_exclusive_if(seen)));
}

/// If two optimistic writers have seen the same version, one of them fails and must restart.
#[test]
fn of_two_optimistic_writers_of_one_version_one_is_refused() {
    loom::model(|| {
        let shared = Arc::new((Latch::new(), ParkingLot::new()));
        let seen = shared.0.version().expect("no writer");
        let write = move |shared: &(Latch, ParkingLot)| {
            let taken = shared.0.try_exclusive_if(seen);
            if taken {
                shared.0.release_exclusive(&shared.1);
            }
            taken
        };
        let other = Arc::clone(&shared);
        let writer = thread::spawn(move || write(&other));
        let first = write(&shared);
        assert_ne!(first, writer.join().expect("writer"));
    });
}
