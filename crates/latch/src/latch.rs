//! A latch: one 8-byte word with shared and exclusive holders and a version.
//!
//! ```text
//! bits 63..18  version, +1 at every exclusive release
//! bit  17      parked: somebody sleeps for this latch
//! bit  16      exclusive
//! bits 15..0   shared holders
//! ```
//!
//! A pin is a shared hold that outlives the call that took it, so holds may be released by another
//! thread than took them. Readers are not held up by a waiting writer: a thread that holds a page
//! may fix it again while a writer waits, which a fair latch would turn into a deadlock.

use std::time::Instant;

use crate::park::{Look, ParkingLot};
use crate::sync::{AtomicU64, Ordering, fence, relax, total_order};

const SHARED_MASK: u64 = 0xFFFF;
const EXCLUSIVE: u64 = 1 << 16;
const PARKED: u64 = 1 << 17;
const VERSION_ONE: u64 = 1 << 18;
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

/// Whether a latch word keeps out whoever wants a shared hold. Readers alone do not, unless there
/// are as many as the word can count.
fn busy_for_shared(word: u64) -> bool {
    word & EXCLUSIVE != 0 || word & SHARED_MASK == SHARED_MASK
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

    /// Takes a shared hold unless the latch is held exclusively.
    #[must_use]
    #[inline]
    pub fn try_shared(&self) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        while !busy_for_shared(word) {
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
    /// `None` when `deadline` passed.
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
        self.acquire(lot, deadline, Self::try_shared, busy_for_shared, wanted)
    }

    /// Takes the exclusive hold as [`Latch::shared_while`] takes a shared one.
    #[must_use]
    pub fn exclusive_while(
        &self,
        lot: &ParkingLot,
        deadline: Option<Instant>,
        wanted: impl Fn() -> bool,
    ) -> Option<bool> {
        self.acquire(lot, deadline, Self::try_exclusive, busy_for_exclusive, wanted)
    }

    /// Takes the exclusive hold, however long that takes.
    pub fn exclusive(&self, lot: &ParkingLot) {
        // Without a deadline, and wanted always, it is taken.
        let _ = self.exclusive_while(lot, None, || true);
    }

    fn acquire(
        &self,
        lot: &ParkingLot,
        deadline: Option<Instant>,
        take: impl Fn(&Self) -> bool,
        busy: impl Fn(u64) -> bool,
        wanted: impl Fn() -> bool,
    ) -> Option<bool> {
        for _ in 0..SPINS {
            if take(self) {
                return Some(true);
            }
            relax();
        }
        lot.park(self.key(), deadline, || {
            loop {
                if take(self) {
                    return Look::Done(true);
                }
                let word = self.0.load(Ordering::SeqCst);
                if !busy(word) {
                    continue;
                }
                // After the word was read: the release that ends the hold under which `wanted`
                // turned false changes the word, so that it either shows here or wakes the sleeper.
                if !wanted() {
                    return Look::Done(false);
                }
                if word & PARKED != 0 || self.swap(word, word | PARKED) {
                    return Look::Sleep;
                }
            }
        })
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
            let wakes = last || busy_for_shared(word);
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
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use super::*;

    #[test]
    fn holds_exclude_each_other() {
        let (latch, lot) = (Latch::new(), ParkingLot::new());
        assert!(latch.try_shared() && latch.try_shared());
        assert!(!latch.try_exclusive() && !latch.try_upgrade());
        assert!(!latch.release_shared(&lot));
        assert!(latch.try_upgrade() && !latch.try_shared());
        latch.downgrade(&lot);
        assert!(latch.try_shared());
        assert!(!latch.release_shared(&lot) && latch.release_shared(&lot));
        assert!(latch.try_exclusive() && latch.is_held());
        latch.release_exclusive(&lot);
        assert!(!latch.is_held());
    }

    #[test]
    fn versions_tell_writers_only() {
        let (latch, lot) = (Latch::new(), ParkingLot::new());
        let seen = latch.version().expect("no writer");
        assert!(latch.try_shared());
        latch.release_shared(&lot);
        assert!(latch.is_still(seen));
        assert!(latch.try_exclusive());
        assert!(latch.version().is_none() && !latch.is_still(seen));
        latch.release_exclusive(&lot);
        assert!(!latch.is_still(seen));
    }

    #[test]
    fn a_deadline_ends_the_wait() {
        let (latch, lot) = (Latch::new(), ParkingLot::new());
        assert!(latch.try_exclusive());
        let soon = Instant::now() + Duration::from_millis(5);
        assert_eq!(latch.shared_while(&lot, Some(soon), || true), None);
        latch.release_exclusive(&lot);
        let taken = latch.shared_while(&lot, Some(soon), || true);
        assert_eq!(taken, Some(true), "an open latch is taken whatever the clock says");
    }

    #[test]
    fn nobody_waits_for_the_next_holder_of_a_frame_whose_page_left() {
        for _ in 0..200 {
            let (latch, lot) = (Latch::new(), ParkingLot::new());
            let here = AtomicBool::new(true);
            assert!(latch.try_exclusive());
            let late = Instant::now() + Duration::from_secs(10);
            let wait = || latch.exclusive_while(&lot, Some(late), || here.load(Ordering::SeqCst));
            std::thread::scope(|scope| {
                let waiter = scope.spawn(wait);
                std::thread::sleep(Duration::from_micros(200));
                here.store(false, Ordering::SeqCst);
                latch.release_exclusive(&lot);
                // Mostly faster than the waiter wakes: it must not wait for this hold.
                let next = latch.try_exclusive();
                let taken = waiter.join().expect("no panic");
                assert_eq!(taken, Some(!next));
            });
        }
    }

    #[test]
    fn the_shared_count_has_a_limit() {
        let (latch, lot) = (Latch::new(), ParkingLot::new());
        for _ in 0..SHARED_MASK {
            assert!(latch.try_shared());
        }
        assert!(!latch.try_shared(), "a full count must not run into the exclusive bit");
        let late = Instant::now() + Duration::from_secs(5);
        let wait = || latch.shared_while(&lot, Some(late), || true);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(wait);
            std::thread::sleep(Duration::from_millis(5));
            latch.release_shared(&lot);
            assert_eq!(waiter.join().expect("no panic"), Some(true), "one hold gone is enough");
        });
        assert!(Instant::now() < late);
        for _ in 0..SHARED_MASK {
            latch.release_shared(&lot);
        }
        assert!(latch.try_exclusive());
    }
}
