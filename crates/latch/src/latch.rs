//! A latch: one 8-byte word with shared and exclusive holders and a version.
//!
//! ```text
//! bits 63..19  version, +1 at every exclusive release
//! bit  18      writer first: a writer has waited so long that it goes before new readers
//! bit  17      parked: threads sleep for this latch
//! bit  16      exclusive
//! bits 15..0   shared holders
//! ```
//!
//! A pin is a shared hold that outlives the call that took it, so holds may be released by another
//! thread than took them.
//!
//! # Fairness
//!
//! A writer waits for a moment without readers, which a stream of short holds may never leave. One
//! that has waited for [`PRECEDENCE_AFTER`] sets *writer first*: readers then wait until it has had
//! the latch, so that it gets in when the present holds end. A reader that has let writers go first
//! for some milliseconds in vain takes its hold past them: it may be that the writer waits for a
//! hold of the same thread, which a strictly fair latch turns into a deadlock. The times are those
//! of [`crate::precedence`]. Optimistic readers hold nothing and take no part in this. Writers have
//! no order among themselves.

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

/// Looks at a busy latch before its thread sleeps: about a microsecond, the length of a short hold.
/// None under loom, which lets no other thread in between before a thread that gave way.
const SPINS: u32 = if cfg!(loom) { 0 } else { 64 };

/// A latch word. All zero bytes are an open latch of version 0.
///
/// It does not own what it guards: who holds it, and what may be touched meanwhile, is the business
/// of its users.
#[derive(Debug)]
pub struct Latch(AtomicU64);

/// Whether there are as many readers as a latch word can count.
fn is_full(word: u64) -> bool {
    word & SHARED_MASK == SHARED_MASK
}

/// Whether a latch word keeps out a reader that lets waiting writers go first.
fn busy_for_shared(word: u64) -> bool {
    word & (EXCLUSIVE | WRITER_FIRST) != 0 || is_full(word)
}

/// Whether a latch word keeps out every reader.
fn closed_for_shared(word: u64) -> bool {
    word & EXCLUSIVE != 0 || is_full(word)
}

/// Whether a latch word keeps out whoever wants the exclusive hold.
fn busy_for_exclusive(word: u64) -> bool {
    word & (EXCLUSIVE | SHARED_MASK) != 0
}

/// Stands between taking the exclusive hold and writing, so that an optimistic reader who sees any
/// of the writes sees the hold too. Pairs with the fence of [`Latch::is_still`].
fn before_writing() {
    fence(Ordering::Release);
}

/// The version an optimistic reader saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(u64);

impl Default for Latch {
    fn default() -> Self {
        Self::new()
    }
}

impl Latch {
    /// An open latch. Zero bytes are one as well.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Whether anybody holds the latch, shared or exclusive.
    #[must_use]
    #[inline]
    pub fn is_held(&self) -> bool {
        busy_for_exclusive(self.0.load(Ordering::Relaxed))
    }

    /// Takes a shared hold unless the latch is held exclusively, or a writer has waited long.
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

    /// Takes the exclusive hold if nobody holds the latch.
    ///
    /// Sequentially consistent with the releases: of a thread that dooms a page and then tries its
    /// latch, and one that releases it and then looks for doom, one sees the other.
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

    /// Takes a shared hold, sleeping while the latch is busy and `wanted`; whether it was taken, or
    /// `None` when `deadline` passed. Lets writers go first that have waited long, within limits:
    /// see the module.
    ///
    /// `wanted` may turn false only under the exclusive hold. Without that question a thread would
    /// go on waiting for whoever has the latch next, for another page: and in a circle, where that
    /// one waits for a page which the first thread holds.
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
                // The wait for a writer that goes first has a limit, that for a holder has none.
                let closed = closed_for_shared(word);
                let sleep = || if closed { Look::Sleep } else { yields.sleep() };
                if let Some(look) = self.look_busy(word, busy, PARKED, &wanted, sleep) {
                    return look;
                }
            }
        })
    }

    /// Takes the exclusive hold as [`Latch::shared_while`] takes a shared one. New readers wait for
    /// a writer that has waited for 100 microseconds.
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

    /// Takes the exclusive hold, however long that takes.
    pub fn exclusive(&self, lot: &ParkingLot) {
        // Without a deadline, and wanted always, it is taken.
        let _ = self.exclusive_while(lot, None, || true);
    }

    fn spin(&self, take: impl Fn(&Self) -> bool) -> bool {
        for _ in 0..SPINS {
            if take(self) {
                return true;
            }
            // A reader that a waiting writer keeps out has to wait for longer than a short hold.
            if self.0.load(Ordering::Relaxed) & WRITER_FIRST != 0 {
                return false;
            }
            relax();
        }
        false
    }

    /// What a thread does that found the latch busy in `word`: sleeps once `bits` are set, or is
    /// done when it wants the latch no more. `None` when the word has changed: look again.
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
        // After the word was read: the release that ends the hold under which `wanted` turned false
        // changes the word, so that it either shows here or wakes the sleeper.
        if !wanted() {
            return Some(Look::Done(false));
        }
        (word & bits == bits || self.swap(word, word | bits)).then(sleep)
    }

    /// Lets readers in again that wait for a writer whose deadline has passed. Other writers that
    /// have waited long wake as well, and go first again.
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

    /// Gives a shared hold back. True when it was the last.
    #[inline]
    pub fn release_shared(&self, lot: &ParkingLot) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            debug_assert!(word & SHARED_MASK != 0, "a shared latch was released twice");
            let last = word & SHARED_MASK == 1;
            // A full count keeps readers out as well, and those who wait for one hold to go.
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

    /// Gives the exclusive hold back under a new version.
    #[inline]
    pub fn release_exclusive(&self, lot: &ParkingLot) {
        self.leave_exclusive(lot, 0);
    }

    /// Turns the exclusive hold into a shared one without a gap, under a new version.
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

    /// Turns a shared hold into the exclusive one if it is the only hold.
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

    /// Takes the exclusive hold if nobody holds the latch and no writer came since `seen`.
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

    /// The version, for whoever holds the latch shared.
    #[must_use]
    #[inline]
    pub fn shared_version(&self) -> Version {
        Version(self.0.load(Ordering::Acquire) & VERSION_MASK)
    }

    /// Whether no writer came since `seen`, for whoever holds the latch exclusively.
    #[must_use]
    #[inline]
    pub fn has_version(&self, seen: Version) -> bool {
        self.0.load(Ordering::Relaxed) & VERSION_MASK == seen.0
    }

    /// The version to read under, or `None` while a writer is at work.
    #[must_use]
    #[inline]
    pub fn version(&self) -> Option<Version> {
        let word = self.0.load(Ordering::Acquire);
        (word & EXCLUSIVE == 0).then_some(Version(word & VERSION_MASK))
    }

    /// Whether what was read since `seen` is what stands there: no writer came between.
    #[must_use]
    #[inline]
    pub fn is_still(&self, seen: Version) -> bool {
        fence(Ordering::Acquire);
        self.version() == Some(seen)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
