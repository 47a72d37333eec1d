//! Scheduling of batches: foreground batches go before background batches.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use terrace_sys::sync::lock;

/// Maximum number of background batches in flight: one keeps the device busy while the next is
/// prepared.
const LATER_MAX: usize = 2;

/// Number of foreground batches that begin ahead of a waiting background batch before it stops
/// waiting for those in flight.
const PASSED_MAX: u64 = 1;

/// Scheduler of the batches of a store. A foreground batch has a caller waiting for it; a
/// background batch is readahead or write-back and can wait.
///
/// Devices serve transfers roughly in order of arrival. A page fault of a query would be served
/// after all earlier readahead and write-back, which takes tens of milliseconds on a volume of 250
/// MiB/s. So a background batch begins only when no foreground batch is in flight, or when another
/// foreground batch has begun since it started to wait.
///
/// A foreground batch takes no lock unless a background batch is waiting.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Foreground batches in flight, and the number of those that have ever begun.
    now: AtomicUsize,
    begun: AtomicU64,
    /// Background batches that are waiting.
    waiting: AtomicUsize,
    /// Background batches in flight.
    later: Mutex<usize>,
    changed: Condvar,
}

/// Guard of a batch in flight; ends its turn on drop.
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    is_later: bool,
}

impl Turns {
    /// Begins a foreground batch.
    pub(super) fn now(&self) -> Turn<'_> {
        self.now.fetch_add(1, Ordering::SeqCst);
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.tell();
        Turn { turns: self, is_later: false }
    }

    /// Waits for the turn of a background batch and begins it.
    pub(super) fn later(&self) -> Turn<'_> {
        let later = self.lock();
        // Must precede the loads of `begun` and `now`: other batches notify when they begin or end
        // only if they see this count.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let first = self.begun.load(Ordering::SeqCst);
        let has_to_wait = |later: &mut usize| {
            let passed = self.begun.load(Ordering::SeqCst) - first;
            let is_behind = self.now.load(Ordering::SeqCst) > 0 && passed < PASSED_MAX;
            is_behind || *later >= LATER_MAX
        };
        let waited = self.changed.wait_while(later, has_to_wait);
        *waited.unwrap_or_else(PoisonError::into_inner) += 1;
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        Turn { turns: self, is_later: true }
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        lock(&self.later)
    }

    /// Wakes the waiting background batches, if there are any.
    fn tell(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            // A batch that has checked its condition already is waiting once the lock is free.
            drop(self.lock());
            self.changed.notify_all();
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.is_later {
            *self.turns.lock() -= 1;
        } else {
            self.turns.now.fetch_sub(1, Ordering::SeqCst);
        }
        self.turns.tell();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    const LONG: Duration = Duration::from_secs(10);
    const SHORT: Duration = Duration::from_millis(30);

    /// Begins a background batch and reports that it has begun.
    fn tell_of_turn(turns: &Turns, began: &mpsc::Sender<()>) {
        let _turn = turns.later();
        began.send(()).expect("listens");
    }

    #[test]
    fn a_batch_that_can_wait_begins_after_those_that_are_waited_for() {
        let turns = Turns::default();
        let (sender, began) = mpsc::channel();
        let first = turns.now();
        thread::scope(|scope| {
            scope.spawn(|| tell_of_turn(&turns, &sender));
            assert!(began.recv_timeout(SHORT).is_err(), "one is under way");
            drop(first);
            began.recv_timeout(LONG).expect("none is under way");
        });
    }

    #[test]
    fn one_passes_a_batch_that_waits_and_no_more() {
        let turns = Turns::default();
        let (sender, began) = mpsc::channel();
        let first = turns.now();
        thread::scope(|scope| {
            scope.spawn(|| tell_of_turn(&turns, &sender));
            assert!(began.recv_timeout(SHORT).is_err());
            let second = turns.now();
            began.recv_timeout(LONG).expect("one has passed");
            drop((first, second));
        });
    }

    #[test]
    fn two_that_can_wait_are_under_way_at_a_time() {
        let turns = Turns::default();
        let (sender, began) = mpsc::channel();
        let (first, second) = (turns.later(), turns.later());
        thread::scope(|scope| {
            scope.spawn(|| tell_of_turn(&turns, &sender));
            assert!(began.recv_timeout(SHORT).is_err());
            drop(first);
            began.recv_timeout(LONG).expect("there is a turn");
        });
        drop(second);
    }
}
