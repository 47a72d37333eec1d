//! The room of a ledger: one atomic word with the free bytes of the budget, which decides every
//! grant.
//!
//! `room = budget - everything held`. It is signed: below zero it is the debt. Grants, returns and
//! changes of the budget all update this word, so no interleaving of them can grant more than the
//! budget. With two counters (budget, granted), a grant checked against the old budget could take
//! effect after the budget was lowered.
//!
//! While the word is negative it changes only under the ledger's lock, which keeps the debts of the
//! consumers equal to it. The lock-free operations therefore refuse to start from, or to arrive at,
//! a negative word.

use crate::sync::{AtomicI64, Ordering};

/// Largest budget and largest debt in bytes: 4 EiB, so that no sum of the two overflows.
pub(crate) const LIMIT_BYTES: u64 = 1 << 62;

/// Free bytes of the budget; below zero, the debt.
#[derive(Debug)]
pub(crate) struct Room(AtomicI64);

impl Room {
    /// Returns the room of a ledger without holdings. `budget` is at most [`LIMIT_BYTES`].
    pub(crate) fn new(budget: u64) -> Self {
        Self(AtomicI64::new(signed(budget)))
    }

    /// Returns the word.
    pub(crate) fn get(&self) -> i64 {
        self.0.load(Ordering::Acquire)
    }

    /// Takes all of `bytes`, or takes nothing and returns the free bytes as the error. Lock-free.
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

    /// Gives `bytes` back and returns true if there is no debt; otherwise does nothing. Lock-free.
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

    /// Takes `bytes` even if fewer are free, and returns the bytes taken and the part of them that
    /// is owed.
    ///
    /// The caller holds the ledger's lock. The debt is capped at [`LIMIT_BYTES`], more than any
    /// address space holds; `taken` is the part that was counted.
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

    /// Gives `bytes` back even if there is debt, and returns the debt that they pay.
    ///
    /// The caller holds the ledger's lock.
    pub(crate) fn give_and_pay(&self, bytes: u64) -> u64 {
        let before = self.0.fetch_add(signed(bytes), Ordering::AcqRel);
        debt_bytes(before).min(bytes)
    }
}

/// Result of a forced take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overdraft {
    /// Bytes counted.
    pub(crate) taken: u64,
    /// Bytes of `taken` that the budget does not cover.
    pub(crate) owed: u64,
}

/// Returns the free bytes that a value of the word stands for.
pub(crate) fn free_bytes(room: i64) -> u64 {
    room.max(0).unsigned_abs()
}

/// Returns the owed bytes that a value of the word stands for.
pub(crate) fn debt_bytes(room: i64) -> u64 {
    room.min(0).unsigned_abs()
}

/// Returns a byte count as a signed number. Every count is bounded by what was taken from the word
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
