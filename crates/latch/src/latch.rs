//! A latch: one 8-byte word with shared and exclusive holders and a version.
//!
//! ```text
//! bits 63..19  version, +1 at every exclusive release
//! bit  18      writer first: a writer has waited so long that it precedes new readers
//! bit  17      parked: threads sleep on this latch
//! bit  16      exclusive
//! bits 15..0   shared holders
//! ```
//!
//! A pin is a shared hold that outlives the call that acquired it, so a hold may be released by a
//! thread other than the one that acquired it.
//!
//! # Fairness
//!
//! A writer needs a moment without readers, which overlapping short holds may never allow. A writer
//! that has waited for [`PRECEDENCE_AFTER`] sets *writer first*: new readers then wait until it has
//! held the latch, so that it acquires the latch when the present holds end. A reader that has
//! yielded to writers for some milliseconds in vain acquires its hold ahead of them: the writer may
//! be waiting for a hold of the reader's own thread, which would be a deadlock under a strictly
//! fair latch. The limits are those of [`crate::precedence`]. Optimistic readers hold nothing and
//! are not affected. Writers have no order among themselves.

use std::time::Instant;

use crate::park::{Look, ParkingLot};
use crate::precedence::{PRECEDENCE_AFTER, Yield};
use crate::sync::{AtomicU64, Ordering, fence, relax, total_order};

const SHARED_MASK: u64 = 0xFFFF;
const EXCLUSIVE: u64 = 1 << 16;
const PARKED: u64 = 1 << 17;
const WRITER_FIRST: u64 = 1 << 18;
const VERSION_ONE: u64 = 1 << 19;
const VERSION_MASK: u64 = !(VERSION_ONE - 1);

/// Attempts on a busy latch before the thread sleeps: about a microsecond, the length of a short
/// hold. Zero under loom, where a spinning thread lets no other thread run in between.
const SPINS: u32 = if cfg!(loom) { 0 } else { 64 };

/// A latch word. All zero bytes are a free latch of version 0.
///
/// It does not own the data it guards, and gives no access to it: its users track their holds and
/// the data that each hold permits them to access.
#[derive(Debug)]
pub struct Latch(AtomicU64);

/// True if the count of shared holders is at its maximum.
fn is_full(word: u64) -> bool {
    word & SHARED_MASK == SHARED_MASK
}

/// True if a reader that yields to waiting writers cannot acquire a shared hold.
fn busy_for_shared(word: u64) -> bool {
    word & (EXCLUSIVE | WRITER_FIRST) != 0 || is_full(word)
}

/// True if no reader can acquire a shared hold.
fn closed_for_shared(word: u64) -> bool {
    word & EXCLUSIVE != 0 || is_full(word)
}

/// True if a writer cannot acquire the exclusive hold.
fn busy_for_exclusive(word: u64) -> bool {
    word & (EXCLUSIVE | SHARED_MASK) != 0
}

/// Orders the acquisition of the exclusive hold before the writes under it, so that an optimistic
/// reader that sees any of the writes sees the hold too. Pairs with the fence of
/// [`Latch::is_still`].
fn before_writing() {
    fence(Ordering::Release);
}

/// Version of a latch that a reader has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(u64);

impl Default for Latch {
    fn default() -> Self {
        Self::new()
    }
}

impl Latch {
    /// Creates a free latch, which consists of zero bytes.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// True if the latch is held, shared or exclusively.
    #[must_use]
    #[inline]
    pub fn is_held(&self) -> bool {
        busy_for_exclusive(self.0.load(Ordering::Relaxed))
    }

    /// Acquires a shared hold unless the latch is held exclusively, or a writer has precedence.
    #[must_use]
    #[inline]
    pub fn try_shared(&self) -> bool {
        self.try_shared_unless(busy_for_shared)
    }

    #[inline]
    fn try_shared_unless(&self, busy: impl Fn(u64) -> bool) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        while !busy(word) {
            match self.0.compare_exchange_weak(word, word + 1, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Acquires the exclusive hold if the latch is not held.
    ///
    /// Sequentially consistent with the releases. If one thread dooms a page and then tries its
    /// latch, and another releases the latch and then checks for doom, at least one sees the other.
    #[must_use]
    #[inline]
    pub fn try_exclusive(&self) -> bool {
        total_order();
        let mut word = self.0.load(Ordering::SeqCst);
        while !busy_for_exclusive(word) {
            match self.0.compare_exchange_weak(
                word,
                word | EXCLUSIVE,
                Ordering::SeqCst,
                Ordering::SeqCst,
            ) {
                Ok(_) => {
                    before_writing();
                    return true;
                }
                Err(now) => word = now,
            }
        }
        false
    }

    /// Acquires a shared hold, sleeping while the latch is busy and `wanted` returns true. Returns
    /// true if the hold was acquired, false if it is not wanted any more, or `None` if `deadline`
    /// has passed. Yields to writers that have waited long, within limits: see the module.
    ///
    /// `wanted` may turn false only under the exclusive hold. Without this check a thread would
    /// also wait for the latch's next holder, which uses it for another page; if that holder waits
    /// for a page that the first thread holds, this is a deadlock.
    #[must_use]
    pub fn shared_while(
        &self,
        lot: &ParkingLot,
        deadline: Option<Instant>,
        wanted: impl Fn() -> bool,
    ) -> Option<bool> {
        if self.spin(Self::try_shared) {
            return Some(true);
        }
        let mut yields = Yield::new(lot, deadline);
        lot.park(self.key(), deadline, || {
            loop {
                let word = self.0.load(Ordering::SeqCst);
                let writer_first = word & WRITER_FIRST != 0;
                let yielding = writer_first && !yields.is_over();
                let busy = if yielding { busy_for_shared } else { closed_for_shared };
                if self.try_shared_unless(busy) {
                    yields.end(writer_first);
                    return Look::Done(true);
                }
                // The wait for a writer with precedence is limited, the wait for a holder is not.
                let closed = closed_for_shared(word);
                let sleep = || if closed { Look::Sleep } else { yields.sleep() };
                if let Some(look) = self.look_busy(word, busy, PARKED, &wanted, sleep) {
                    return look;
                }
            }
        })
    }

    /// Acquires the exclusive hold as [`Latch::shared_while`] acquires a shared one. New readers
    /// wait for a writer that has waited for 100 microseconds.
    #[must_use]
    pub fn exclusive_while(
        &self,
        lot: &ParkingLot,
        deadline: Option<Instant>,
        wanted: impl Fn() -> bool,
    ) -> Option<bool> {
        if self.spin(Self::try_exclusive) {
            return Some(true);
        }
        let first_at = Instant::now() + PRECEDENCE_AFTER;
        let taken = lot.park(self.key(), deadline, || {
            loop {
                if self.try_exclusive() {
                    return Look::Done(true);
                }
                let word = self.0.load(Ordering::SeqCst);
                let first = Instant::now() >= first_at;
                let bits = if first { PARKED | WRITER_FIRST } else { PARKED };
                let sleep = || if first { Look::Sleep } else { Look::SleepUntil(first_at) };
                if let Some(look) = self.look_busy(word, busy_for_exclusive, bits, &wanted, sleep) {
                    return look;
                }
            }
        });
        if taken.is_none() {
            self.give_precedence_up(lot);
        }
        taken
    }

    /// Acquires the exclusive hold, waiting without a limit.
    pub fn exclusive(&self, lot: &ParkingLot) {
        // Without a deadline and with `wanted` always true, the hold is acquired.
        let _ = self.exclusive_while(lot, None, || true);
    }

    fn spin(&self, take: impl Fn(&Self) -> bool) -> bool {
        for _ in 0..SPINS {
            if take(self) {
                return true;
            }
            // A reader that yields to a waiting writer waits for longer than a short hold.
            if self.0.load(Ordering::Relaxed) & WRITER_FIRST != 0 {
                return false;
            }
            relax();
        }
        false
    }

    /// Decides the next step of a thread that found the latch busy in `word`: sleep once `bits` are
    /// set, or end the wait if the hold is not wanted any more. Returns `None` if `word` is not
    /// busy or the latch has changed: the caller tries again.
    fn look_busy(
        &self,
        word: u64,
        busy: impl Fn(u64) -> bool,
        bits: u64,
        wanted: impl Fn() -> bool,
        sleep: impl FnOnce() -> Look<bool>,
    ) -> Option<Look<bool>> {
        if !busy(word) {
            return None;
        }
        // Checked after the word was read: the release of the hold under which `wanted` turned
        // false changes the word, so the change either shows here or wakes the sleeper.
        if !wanted() {
            return Some(Look::Done(false));
        }
        (word & bits == bits || self.swap(word, word | bits)).then(sleep)
    }

    /// Clears the precedence of a writer whose deadline has passed and wakes the readers that wait
    /// for it. Other writers that have waited long wake as well and set their precedence again.
    fn give_precedence_up(&self, lot: &ParkingLot) {
        let mut word = self.0.load(Ordering::Relaxed);
        while word & WRITER_FIRST != 0 {
            if self.swap(word, word & !(WRITER_FIRST | PARKED)) {
                lot.unpark(self.key());
                return;
            }
            word = self.0.load(Ordering::Relaxed);
        }
    }

    fn swap(&self, from: u64, to: u64) -> bool {
        self.0.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Releases a shared hold. Returns true if it was the last.
    #[inline]
    pub fn release_shared(&self, lot: &ParkingLot) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            debug_assert!(word & SHARED_MASK != 0, "a shared latch was released twice");
            let last = word & SHARED_MASK == 1;
            // At the maximum count readers sleep too, until one hold is released.
            let wakes = last || is_full(word);
            let next = if wakes { (word - 1) & !PARKED } else { word - 1 };
            match self.0.compare_exchange_weak(word, next, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => {
                    total_order();
                    if wakes && word & PARKED != 0 {
                        lot.unpark(self.key());
                    }
                    return last;
                }
                Err(now) => word = now,
            }
        }
    }

    /// Releases the exclusive hold under a new version.
    #[inline]
    pub fn release_exclusive(&self, lot: &ParkingLot) {
        self.leave_exclusive(lot, 0);
    }

    /// Downgrades the exclusive hold to a shared one, under a new version, without releasing the
    /// latch in between.
    pub fn downgrade(&self, lot: &ParkingLot) {
        self.leave_exclusive(lot, 1);
    }

    #[inline]
    fn leave_exclusive(&self, lot: &ParkingLot, shared: u64) {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            debug_assert!(word & EXCLUSIVE != 0, "an exclusive latch was released twice");
            let version = (word & VERSION_MASK).wrapping_add(VERSION_ONE);
            match self.0.compare_exchange_weak(
                word,
                version | shared,
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    total_order();
                    if word & PARKED != 0 {
                        lot.unpark(self.key());
                    }
                    return;
                }
                Err(now) => word = now,
            }
        }
    }

    /// Upgrades a shared hold to the exclusive one if it is the only hold.
    #[must_use]
    #[inline]
    pub fn try_upgrade(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        let upgraded = word & (SHARED_MASK | EXCLUSIVE) == 1
            && self.swap(word, (word & !SHARED_MASK) | EXCLUSIVE);
        if upgraded {
            before_writing();
        }
        upgraded
    }

    /// Acquires the exclusive hold if the latch is not held and its version is still `seen`.
    #[must_use]
    #[inline]
    pub fn try_exclusive_if(&self, seen: Version) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        let taken = !busy_for_exclusive(word)
            && word & VERSION_MASK == seen.0
            && self.swap(word, word | EXCLUSIVE);
        if taken {
            before_writing();
        }
        taken
    }

    /// Returns the version; the caller holds the latch shared.
    #[must_use]
    #[inline]
    pub fn shared_version(&self) -> Version {
        Version(self.0.load(Ordering::Acquire) & VERSION_MASK)
    }

    /// True if no writer has held the latch since `seen`; the caller holds it exclusively.
    #[must_use]
    #[inline]
    pub fn has_version(&self, seen: Version) -> bool {
        self.0.load(Ordering::Relaxed) & VERSION_MASK == seen.0
    }

    /// Returns the version for an optimistic read, or `None` if the latch is held exclusively.
    #[must_use]
    #[inline]
    pub fn version(&self) -> Option<Version> {
        let word = self.0.load(Ordering::Acquire);
        (word & EXCLUSIVE == 0).then_some(Version(word & VERSION_MASK))
    }

    /// Validates an optimistic read: true if no writer has held the latch since `seen`.
    #[must_use]
    #[inline]
    pub fn is_still(&self, seen: Version) -> bool {
        fence(Ordering::Acquire);
        self.version() == Some(seen)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
