//! State of a block: the atomic word that all threads share, and the private state of its pager.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Instant;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering, fence};

/// Shared state of a block: a residency flag, advice flags and a pin count in one atomic word.
///
/// A thread pins a block only while the block is in place, and the pager takes a block out of its
/// place only while the pin count is zero. Each does so by one compare-and-swap of the word.
#[derive(Debug, Default)]
pub(crate) struct Word(AtomicU32);

const IN_PLACE: u32 = 1;
/// The bytes never change from here on ([`Advice::Immutable`](crate::Advice::Immutable)).
const IMMUTABLE: u32 = 2;
/// The bytes are not needed ([`Advice::Unused`](crate::Advice::Unused)).
const UNUSED: u32 = 4;
/// The bytes were declared unused, and the pager has not acknowledged it yet; stays set when the
/// block is used again.
const LOST: u32 = 8;
const PIN: u32 = 16;

impl Word {
    /// Takes a pin if the block is in place.
    pub(crate) fn try_pin(&self) -> bool {
        let step = |word: u32| (word & IN_PLACE != 0).then(|| word.checked_add(PIN)).flatten();
        self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, step).is_ok()
    }

    /// Releases a pin.
    pub(crate) fn unpin(&self) {
        let before = self.0.fetch_sub(PIN, Ordering::Release);
        debug_assert!(before >= PIN, "unpinned more often than pinned");
    }

    /// Marks the block as in place, and takes `pins` pins for the threads that wait for it.
    pub(crate) fn publish(&self, pins: u32) {
        self.0.fetch_add(IN_PLACE + pins * PIN, Ordering::Release);
    }

    /// Marks the block as out of its place, unless it is pinned; false if it is pinned or absent.
    pub(crate) fn withdraw(&self) -> bool {
        let step = |word: u32| (word & IN_PLACE != 0 && word < PIN).then_some(word & !IN_PLACE);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, step).is_ok()
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= PIN
    }

    pub(crate) fn set_immutable(&self, immutable: bool) {
        match immutable {
            true => self.0.fetch_or(IMMUTABLE, Ordering::Relaxed),
            false => self.0.fetch_and(!IMMUTABLE, Ordering::Relaxed),
        };
    }

    pub(crate) fn is_immutable(&self) -> bool {
        self.0.load(Ordering::Relaxed) & IMMUTABLE != 0
    }

    /// Declares the bytes of the block unused.
    pub(crate) fn set_unused(&self) {
        self.0.fetch_or(UNUSED | LOST, Ordering::SeqCst);
    }

    /// Declares the bytes of the block used, before they are written to. The pager reads the flags
    /// after it has taken the block out of its place, so a block that it then finds unused has not
    /// been written to since.
    pub(crate) fn set_used(&self) {
        self.0.fetch_and(!(UNUSED | IMMUTABLE), Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// True if the bytes of the block are unused now.
    pub(crate) fn is_unused(&self) -> bool {
        self.0.load(Ordering::SeqCst) & UNUSED != 0
    }

    /// True if the bytes were declared unused since the pager last acknowledged it: the source's
    /// copy, or a frame that is out of its place, must not be read again.
    pub(crate) fn is_lost(&self) -> bool {
        self.0.load(Ordering::SeqCst) & LOST != 0
    }

    /// Acknowledges [`Word::is_lost`]; called by the block's pager alone.
    pub(crate) fn take_lost(&self) -> Lost {
        fence(Ordering::SeqCst);
        let word = self.0.fetch_and(!LOST, Ordering::SeqCst);
        Lost { unused: word & UNUSED != 0, lost: word & LOST != 0 }
    }
}

/// Advice flags that a pager finds in the word of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    /// The bytes are unused now: the mapped pages may be discarded.
    pub(crate) unused: bool,
    /// The bytes were unused for a while: a copy in the source or in a frame may be discarded.
    pub(crate) lost: bool,
}

/// A frame of staging memory, as large as a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// True if the frame belongs to the mapping that new frames come from.
    pub(crate) fresh: bool,
    pub(crate) index: usize,
}

/// State of a block in its life cycle; see the diagram of [`crate::pager`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum BlockState {
    /// Only in the source.
    Absent,
    /// Requested, and waiting for a frame since the instant.
    Queued(Instant),
    /// Being read into a frame; the fault or request began at the instant.
    Filling(Slot, Instant),
    Resident,
    /// Moved out to a staging frame for a second chance; the source has the same bytes.
    Aside(Slot),
    /// Being written back, from a staging frame or (`None`) from its mapped pages; true if a thread
    /// has faulted on it meanwhile.
    Writing(Option<Slot>, bool),
    /// Could not be read; its pages are poisoned.
    Poisoned,
    /// Unmapped by the process, whole or in part; the remaining pages stay mapped.
    Unmapped,
}

/// Pager's private state of a block.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) place: BlockState,
    /// True if the source has bytes of the block.
    pub(crate) stored: bool,
    /// Fingerprint of the bytes in the source, or of zeros; `None` until it is computed. It stays
    /// valid until the block is written back, because no other writer has access to the source.
    pub(crate) fingerprint: Option<u128>,
    /// Fingerprint of the bytes that are being written back.
    pub(crate) next_fingerprint: u128,
    /// Dirty: written to since it was read, as far as faults tell. Used where blocks are copied.
    pub(crate) dirty: bool,
    /// A thread has faulted on the block.
    pub(crate) faulted: bool,
    /// First block of a readahead window: it stays in its staging frame, so that its first touch
    /// faults and triggers the next window.
    pub(crate) marker: bool,
    /// Touched again while it was aside (second chance).
    pub(crate) hot: bool,
    /// The source's copy is wrong, whatever the fingerprint says: it holds part of a failed write,
    /// or bytes that were declared unused.
    pub(crate) torn: bool,
    /// True if the block is in the pager's eviction queue; `listed`: in its second-chance list.
    pub(crate) queued: bool,
    pub(crate) listed: bool,
    /// Consecutive transfers that failed.
    pub(crate) failures: u32,
    /// Consecutive reads that returned less than a page.
    pub(crate) short_reads: u32,
    /// Bytes of the current transfer that are done.
    pub(crate) done: usize,
}

impl Block {
    /// Forgets the source's copy, which must not be read again. If the source outlives the region
    /// (`lasts`), zeros must be written over it.
    pub(crate) fn lose_bytes(&mut self, lasts: bool) {
        (self.stored, self.torn, self.fingerprint) = (false, lasts, None);
        (self.hot, self.marker) = (false, false);
    }

    /// True if the block is known to be dirty without a comparison of fingerprints. Where blocks
    /// are copied this is exact.
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty || self.torn
    }

    pub(crate) fn new(stored: bool) -> Self {
        Self {
            place: BlockState::Absent,
            stored,
            fingerprint: None,
            next_fingerprint: 0,
            dirty: false,
            faulted: false,
            marker: false,
            hot: false,
            torn: false,
            queued: false,
            listed: false,
            failures: 0,
            short_reads: 0,
            done: 0,
        }
    }
}
