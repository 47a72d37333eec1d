//! The order of batches: those that are waited for before those that can wait.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Batches that can wait and are under way at a time: one keeps the device at work while the next
/// is made ready.
const LATER_MAX: usize = 2;

/// Batches that are waited for and begin while another waits, at most.
const PASSED_MAX: u64 = 1;

/// The batches of a store that are under way.
///
/// Devices serve transfers about in the order in which they come. A page that a query waits for
/// would come after all that was read ahead and written back before, tens of milliseconds on a
/// volume of 250 MiB/s. So batches that can wait begin when none that is waited for is under way,
/// or when another of those has begun meanwhile.
///
/// A batch that is waited for takes no lock unless another waits for it.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Batches under way that are waited for, and the number of those that have ever begun.
    now: AtomicUsize,
    begun: AtomicU64,
    /// Batches that can wait and do.
    waiting: AtomicUsize,
    /// Batches under way that can wait.
    later: Mutex<usize>,
    changed: Condvar,
}

/// A batch under way, until this is dropped.
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    is_later: bool,
}

impl Turns {
    /// Begins a batch that is waited for.
    pub(super) fn now(&self) -> Turn<'_> {
        self.now.fetch_add(1, Ordering::SeqCst);
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.tell();
        Turn { turns: self, is_later: false }
    }

    /// Begins a batch that can wait, when it is its turn.
    pub(super) fn later(&self) -> Turn<'_> {
        let later = self.lock();
        // Before the others are looked at: they tell of their end if they see this.
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
        self.later.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes those that wait, if there are any.
    fn tell(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            // One that has looked already waits once the lock is free.
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

    /// Begins a batch that can wait, and says so.
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
