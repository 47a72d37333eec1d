//! Optimistic reads: read without holding the latch, then validate that no writer intervened.
//!
//! A reader may load a byte while a writer, which has the page as a plain `&mut [u8]`, stores to
//! it. Rust's memory model, like that of C++, makes such a race undefined, so this is outside of
//! what the language promises; so is every optimistic latch over plain memory (crossbeam's
//! `AtomicCell` reads the same way). The implementation relies on the following instead:
//!
//! - The reader's loads are atomic, aligned and at most 8 bytes wide. On the processors that Linux
//!   runs on in 64 bits such a load returns some value and has no other effect, and the compiler
//!   neither repeats it nor reasons about the value.
//! - No caller gets a reference to the bytes: they are copied out, within bounds whatever their
//!   values are.
//! - The writer's stores cannot be moved before the acquisition of its exclusive hold, nor behind
//!   the release: the latch has the fences of a sequence lock on both sides (Boehm, "Can seqlocks
//!   get along with programming language memory models?", MSPC 2012, section 4). A reader that saw
//!   any of them therefore finds another version, and discards what it read.

pub(crate) mod find;

use std::cmp::Ordering as Compared;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use terrace_latch::Version;

use crate::core::Core;
use crate::error::PoolError;
use crate::frame::Frame;
use crate::guard::{ReadGuard, WriteGuard, put_hint};
use crate::hold::{self, Hold};
use crate::page::{FrameId, PageId, PageRef};
use crate::recency::consider_promotion;
use crate::residency::Access;

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// An optimistic read of a page, without holding it (vmcache, SIGMOD 2023, section 3.3).
///
/// The values that its methods return may be used only if [`OptimisticGuard::is_valid`] says
/// afterwards that the page has not been written, moved or evicted since. Until then values may mix
/// two versions; an offset read from the page may be arbitrary, and the methods answer one out of
/// bounds with `None`.
pub struct OptimisticGuard<'a> {
    core: &'a Arc<Core>,
    frame: &'a Frame,
    id: FrameId,
    page: PageId,
    seen: Version,
    data: *const u8,
    len: usize,
}

macro_rules! load_at {
    ($(#[$doc:meta])* $name:ident, $int:ty, $atomic:ty) => {
        $(#[$doc])*
        #[inline]
        pub fn $name(&self, offset: usize) -> Option<$int> {
            const BYTES: usize = size_of::<$int>();
            if !offset.is_multiple_of(BYTES) || offset.checked_add(BYTES)? > self.len {
                return None;
            }
            // SAFETY: the value is within the frame's room, by the check above, and aligned, since
            // frames are page aligned; the room stays mapped as long as the pool, which this
            // borrows. A writer may race with the load: the module says what is relied on then.
            let value = unsafe { <$atomic>::from_ptr(self.data.add(offset).cast_mut().cast()) };
            Some(<$int>::from_le(value.load(Ordering::Relaxed)))
        }
    };
}

impl<'a> OptimisticGuard<'a> {
    #[inline]
    fn new(
        core: &'a Arc<Core>,
        frame: &'a Frame,
        id: FrameId,
        page: PageId,
        seen: Version,
    ) -> Self {
        Self { core, frame, id, page, seen, data: frame.data(), len: frame.len() }
    }

    /// True if everything read so far is of one version, and the page is still in its frame.
    #[inline]
    pub fn is_valid(&self) -> bool {
        self.frame.latch.is_still(self.seen)
    }

    /// Returns the page's id.
    pub fn id(&self) -> PageId {
        self.page
    }

    /// Returns the page's length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the page has no bytes, as an invalid read of a page that went away may find.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    load_at! {
        /// Returns the byte at `offset`; `None` beyond the page.
        u8_at, u8, AtomicU8
    }
    load_at! {
        /// Returns the little-endian number at `offset`, a multiple of 2; `None` beyond the page.
        u16_at, u16, AtomicU16
    }
    load_at! {
        /// Returns the little-endian number at `offset`, a multiple of 4; `None` beyond the page.
        u32_at, u32, AtomicU32
    }
    load_at! {
        /// Returns the little-endian number at `offset`, a multiple of 8; `None` beyond the page.
        u64_at, u64, AtomicU64
    }

    /// Counts the numbers below `bound` among the `count` little-endian numbers of 64 bits that
    /// begin at `offset`, a multiple of 8; `None` if they are not all within the page.
    ///
    /// The loads are independent of each other, so that their cache misses overlap.
    #[inline]
    pub fn count_below(&self, offset: usize, count: usize, bound: u64) -> Option<usize> {
        let end = count.checked_mul(size_of::<u64>())?.checked_add(offset)?;
        if !offset.is_multiple_of(size_of::<u64>()) || end > self.len {
            return None;
        }
        let below = (offset..end).step_by(size_of::<u64>()).fold(0, |below, at| {
            // SAFETY: as in `u64_at`: `at` is aligned, and the 8 bytes from there on end before
            // `end`, which is within the frame's room.
            let number = unsafe { AtomicU64::from_ptr(self.data.add(at).cast_mut().cast()) };
            below + usize::from(u64::from_le(number.load(Ordering::Relaxed)) < bound)
        });
        Some(below)
    }

    /// Returns up to 8 bytes from `offset` on, the first in the lowest byte. `offset + len` is
    /// within the page and `len` between 1 and 8; bytes above `len` are arbitrary.
    #[inline]
    fn bytes_at(&self, offset: usize, len: usize) -> u64 {
        let (start, shift) = (offset & !7, (offset & 7) * 8);
        // Pages are multiples of 8 long, so a word that begins in the page ends in it.
        let low = self.u64_at(start).unwrap_or(0) >> shift;
        if shift / 8 + len <= 8 {
            return low;
        }
        low | self.u64_at(start + 8).unwrap_or(0) << (64 - shift)
    }

    #[inline]
    fn has(&self, offset: usize, len: usize) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.len)
    }

    /// Copies the bytes from `offset` on to `into`. False if they are not all within the page.
    #[inline]
    pub fn copy(&self, offset: usize, into: &mut [u8]) -> bool {
        if !self.has(offset, into.len()) {
            return false;
        }
        // Whole words are stored as words: a copy of a length unknown at compile time is a function
        // call.
        let (words, rest) = into.as_chunks_mut::<8>();
        let shift = (offset & 7) * 8;
        let mut at = offset & !7;
        if shift == 0 {
            for word in words {
                *word = self.word_at(at).to_le_bytes();
                at += 8;
            }
        } else {
            let mut low = self.word_at(at);
            for word in words {
                at += 8;
                let high = self.word_at(at);
                *word = (low >> shift | high << (64 - shift)).to_le_bytes();
                low = high;
            }
        }
        if !rest.is_empty() {
            let mut word = self.bytes_at(at + shift / 8, rest.len());
            for byte in rest {
                [*byte, ..] = word.to_le_bytes();
                word >>= 8;
            }
        }
        true
    }

    /// Returns the word at `offset`, which is in the page and a multiple of 8.
    #[inline]
    fn word_at(&self, offset: usize) -> u64 {
        self.u64_at(offset).unwrap_or(0)
    }

    /// Prefetches the bytes from `offset` on into the processor's caches, for a read that follows
    /// soon.
    #[inline]
    pub fn approach(&self, offset: usize, len: usize) {
        for at in (0..len).step_by(LINE_BYTES) {
            approach_line(self.data.wrapping_add(offset + at));
        }
    }

    /// Compares `len` bytes from `offset` on with `other`, as byte strings. `None` if they are not
    /// all within the page.
    #[inline]
    pub fn compare(&self, offset: usize, len: usize, other: &[u8]) -> Option<Compared> {
        if !self.has(offset, len) {
            return None;
        }
        let common = len.min(other.len());
        let (words, rest) = other[..common].as_chunks::<8>();
        let mut at = offset;
        for word in words {
            match self.bytes_at(at, 8).swap_bytes().cmp(&u64::from_be_bytes(*word)) {
                Compared::Equal => at += 8,
                unequal => return Some(unequal),
            }
        }
        if !rest.is_empty() {
            let theirs = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            let mask = u64::MAX >> (64 - 8 * rest.len());
            let ours = self.bytes_at(at, rest.len()) & mask;
            match ours.swap_bytes().cmp(&theirs.swap_bytes()) {
                Compared::Equal => {}
                unequal => return Some(unequal),
            }
        }
        Some(len.cmp(&other.len()))
    }

    /// Overwrites the reference to `page` at `offset` with `page`, whose hint a fix has repaired,
    /// like [`ReadGuard::repair`]. False if another thread holds the page or wrote it since, or if
    /// `offset` does not hold a reference to `page`.
    pub fn repair(&self, offset: usize, page: PageRef) -> bool {
        if !self.frame.latch.try_exclusive_if(self.seen) {
            return false;
        }
        // SAFETY: the hold is the only one, and this guard gives no reference to the bytes.
        let bytes = unsafe { self.frame.bytes_mut() };
        let right = put_hint(bytes, offset, page);
        hold::release_exclusive(self.core, self.id);
        right
    }

    /// Returns the index of the memory tier that the page was in.
    pub fn tier(&self) -> usize {
        self.frame.tier()
    }

    /// Converts the read into a shared hold; `None` if the page was written or moved since. If a
    /// writer waits for the page, it has precedence: this call waits for it, for at most the pool's
    /// timeout, and then returns `None`, too, if the page was written or the time is over.
    pub fn hold(&self) -> Option<ReadGuard<'a>> {
        let deadline = Instant::now() + self.core.patience;
        let taken =
            || self.frame.latch.shared_while(&self.core.lot, Some(deadline), || self.is_valid());
        if !self.frame.latch.try_shared() && taken() != Some(true) {
            return None;
        }
        let held = ReadGuard::new(self.core, self.id);
        self.is_valid().then_some(held)
    }

    /// Converts the read into an exclusive hold; `None` if the page was written, moved or freed
    /// since. Waits for readers, so a caller that holds another page meanwhile must acquire the two
    /// in an order that all callers keep, or they may deadlock.
    ///
    /// # Errors
    /// [`PoolError::LatchTimeout`] if readers hold the page for the pool's timeout;
    /// [`PoolError::Durable`] for a durable page.
    pub fn upgrade(&self) -> Result<Option<WriteGuard<'a>>, PoolError> {
        if !self.frame.latch.try_exclusive_if(self.seen) && !self.wait_to_upgrade()? {
            return Ok(None);
        }
        if self.frame.tier() > 0 {
            consider_promotion(self.core, self.id, Access::Write);
        }
        WriteGuard::begin(self.core, self.page, self.id).map(Some)
    }

    /// Waits for readers to release the page. Returns true if the exclusive hold was acquired on
    /// the version that was read.
    #[cold]
    fn wait_to_upgrade(&self) -> Result<bool, PoolError> {
        if !self.is_valid() {
            return Ok(false);
        }
        let start = Instant::now();
        let deadline = start + self.core.patience;
        match hold::hold_until(self.core, self.id, Hold::Exclusive, self.page, deadline) {
            None => Err(self.core.latch_timeout(self.page, start.elapsed())),
            Some(false) => Ok(false),
            Some(true) if self.frame.latch.has_version(self.seen) => Ok(true),
            Some(true) => {
                hold::release_exclusive(self.core, self.id);
                Ok(false)
            }
        }
    }
}

impl fmt::Debug for OptimisticGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OptimisticGuard(page {}, {} bytes)", self.page, self.len)
    }
}

/// Prefetches the cache line of an address, valid or not, into the processor's caches.
#[inline(always)]
fn approach_line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and never faults, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
