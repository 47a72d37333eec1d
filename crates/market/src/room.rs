//! The one word that decides every grant: what is left of the budget.
//!
//! `room = budget - everything held`. It is signed: below zero it is the debt. Grants, returns and
//! changes of the budget all move this word, so no interleaving of them can grant more than the
//! budget; a pair of counters (budget, granted) would let a grant checked against the old budget
//! land after the budget was lowered.
//!
//! While the word is negative it changes only under the ledger's lock, which keeps the debts of
//! the consumers equal to it. The operations that need no lock therefore refuse to start from, or
//! arrive at, a negative word.

use crate::sync::{AtomicI64, Ordering};

/// The largest budget and the largest debt, in bytes: 4 EiB, so that no sum of the two overflows.
pub(crate) const LIMIT_BYTES: u64 = 1 << 62;

/// What is left of the budget, in bytes; below zero, what is owed.
#[derive(Debug)]
pub(crate) struct Room(AtomicI64);

impl Room {
    /// The room of a ledger of which nothing is held. `budget` is at most [`LIMIT_BYTES`].
    pub(crate) fn new(budget: u64) -> Self {
        Self(AtomicI64::new(signed(budget)))
    }

    /// The word itself.
    pub(crate) fn get(&self) -> i64 {
        self.0.load(Ordering::Acquire)
    }

    /// Takes all of `bytes`, or nothing and says what there is. Lock-free.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), u64> {
        let mut room = self.0.load(Ordering::Relaxed);
        loop {
            let free = free_bytes(room);
            if bytes > free {
                return Err(free);
            }
            match self.0.compare_exchange_weak(
                room,
                room - signed(bytes),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(now) => room = now,
            }
        }
    }

    /// Gives `bytes` back if nothing is owed; false, with nothing done, if something is. Lock-free.
    pub(crate) fn give(&self, bytes: u64) -> bool {
        let mut room = self.0.load(Ordering::Relaxed);
        while room >= 0 {
            match self.0.compare_exchange_weak(
                room,
                room + signed(bytes),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => room = now,
            }
        }
        false
    }

    /// Takes `bytes` whether there is room or not and returns the part that is owed.
    ///
    /// The caller holds the ledger's lock. The debt stops at [`LIMIT_BYTES`], more than any
    /// address space holds; `taken` says what was counted.
    pub(crate) fn take_or_owe(&self, bytes: u64) -> Overdraft {
        let mut room = self.0.load(Ordering::Relaxed);
        loop {
            let floor = room.saturating_add_unsigned(LIMIT_BYTES).max(0).unsigned_abs();
            let taken = bytes.min(floor);
            let owed = taken - taken.min(free_bytes(room));
            match self.0.compare_exchange_weak(
                room,
                room - signed(taken),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Overdraft { taken, owed },
                Err(now) => room = now,
            }
        }
    }

    /// Gives `bytes` back whether something is owed or not and returns the debt it pays.
    ///
    /// The caller holds the ledger's lock.
    pub(crate) fn give_and_pay(&self, bytes: u64) -> u64 {
        let before = self.0.fetch_add(signed(bytes), Ordering::AcqRel);
        debt_bytes(before).min(bytes)
    }
}

/// What a forced take did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overdraft {
    /// The bytes counted.
    pub(crate) taken: u64,
    /// How many of them no budget covers.
    pub(crate) owed: u64,
}

/// The free bytes that a value of the word means.
pub(crate) fn free_bytes(room: i64) -> u64 {
    room.max(0).unsigned_abs()
}

/// The owed bytes that a value of the word means.
pub(crate) fn debt_bytes(room: i64) -> u64 {
    room.min(0).unsigned_abs()
}

/// A byte count as a signed number. Every count is bounded by what was taken from the word
/// before, hence by twice [`LIMIT_BYTES`].
fn signed(bytes: u64) -> i64 {
    debug_assert!(bytes <= 2 * LIMIT_BYTES, "{bytes} bytes are more than a ledger can count");
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn takes_all_or_nothing() {
        let room = Room::new(10);
        assert_eq!(room.take(11), Err(10));
        assert_eq!(room.take(10), Ok(()));
        assert_eq!(room.take(1), Err(0));
        assert_eq!(room.take(0), Ok(()));
    }

    #[test]
    fn gives_without_the_lock_only_when_nothing_is_owed() {
        let room = Room::new(10);
        assert_eq!(room.take_or_owe(15), Overdraft { taken: 15, owed: 5 });
        assert!(!room.give(15));
        assert_eq!(room.give_and_pay(15), 5);
        assert!(room.take(10).is_ok() && room.give(10));
    }

    #[test]
    fn pays_no_more_than_it_gives() {
        let room = Room::new(0);
        assert_eq!(room.take_or_owe(8).owed, 8);
        assert_eq!(room.give_and_pay(3), 3);
        assert_eq!(room.get(), -5);
    }

    #[test]
    fn debt_has_a_limit() {
        let room = Room::new(1);
        assert_eq!(room.take_or_owe(u64::MAX).taken, LIMIT_BYTES + 1);
        assert_eq!(room.take_or_owe(1), Overdraft { taken: 0, owed: 0 });
        assert_eq!(debt_bytes(room.get()), LIMIT_BYTES);
    }
}
