//! A block's state: what everybody sees, and what its pager knows.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Instant;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering, fence};

/// What everybody sees of a block: whether it is in place and how often it is pinned.
///
/// A pin can be taken while the block is in place; the pager takes a block out of its place only
/// while nobody has a pin. Both by one compare-and-swap of one word.
#[derive(Debug, Default)]
pub(crate) struct Word(AtomicU32);

const IN_PLACE: u32 = 1;
/// Its bytes never change from here on.
const IMMUTABLE: u32 = 2;
/// Nobody needs its bytes.
const UNUSED: u32 = 4;
/// Nobody has needed them for a while, and its pager has not taken note yet.
const LOST: u32 = 8;
const PIN: u32 = 16;

impl Word {
    /// Takes a pin if the block is in place.
    pub(crate) fn try_pin(&self) -> bool {
        let step = |word: u32| (word & IN_PLACE != 0).then(|| word.checked_add(PIN)).flatten();
        self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, step).is_ok()
    }

    /// Gives a pin back.
    pub(crate) fn unpin(&self) {
        let before = self.0.fetch_sub(PIN, Ordering::Release);
        debug_assert!(before >= PIN, "unpinned more often than pinned");
    }

    /// Says that the block is in place, with so many pins for those who wait for it.
    pub(crate) fn publish(&self, pins: u32) {
        self.0.fetch_add(IN_PLACE + pins * PIN, Ordering::Release);
    }

    /// Says that it is not, unless it is pinned.
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

    /// Says that nobody needs its bytes.
    pub(crate) fn set_unused(&self) {
        self.0.fetch_or(UNUSED | LOST, Ordering::SeqCst);
    }

    /// Says that its bytes are used, before they are written to. A pager looks once the block is
    /// out of its place, so what it then finds unused has not been written since.
    pub(crate) fn set_used(&self) {
        self.0.fetch_and(!(UNUSED | IMMUTABLE), Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Whether nobody needs its bytes now.
    pub(crate) fn is_unused(&self) -> bool {
        self.0.load(Ordering::SeqCst) & UNUSED != 0
    }

    /// Whether the bytes that the source has of it, or its frame out of its place, have become of
    /// no use to anybody since a pager last took note of that.
    pub(crate) fn is_lost(&self) -> bool {
        self.0.load(Ordering::SeqCst) & LOST != 0
    }

    /// Takes note of [`Word::is_lost`]; for its pager alone.
    pub(crate) fn take_lost(&self) -> Lost {
        fence(Ordering::SeqCst);
        let word = self.0.fetch_and(!LOST, Ordering::SeqCst);
        Lost { unused: word & UNUSED != 0, lost: word & LOST != 0 }
    }
}

/// What a pager finds in a block's word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    /// Nobody needs its bytes now: what is in its place is of no use.
    pub(crate) unused: bool,
    /// Nobody needed them for a while: what is out of its place is of no use.
    pub(crate) lost: bool,
}

/// A frame of staging memory, as large as a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Whether it is of the mapping that new frames come from.
    pub(crate) fresh: bool,
    pub(crate) index: usize,
}

/// Where a block is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// In the source alone.
    Absent,
    /// Wanted, and waits for a frame since.
    Queued(Instant),
    /// Being read into a frame since.
    Filling(Slot, Instant),
    Resident,
    /// Taken out of its place, with bytes that the source has.
    Aside(Slot),
    /// Being written, out of its place or where it is; whether somebody wants it meanwhile.
    Writing(Option<Slot>, bool),
    /// It could not be read.
    Poisoned,
    /// Somebody unmapped it or a part of it; what is left of it stays where it is.
    Unmapped,
}

/// What the pager knows of a block.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) place: Place,
    /// Whether the source has bytes of it.
    pub(crate) stored: bool,
    /// Of the bytes that the source has, or of zeros, once it was taken. It holds for as long as
    /// nothing is written: nobody else writes to the source.
    pub(crate) fingerprint: Option<u128>,
    /// Of the bytes that are being written.
    pub(crate) next_fingerprint: u128,
    /// Written to since it was read, as far as faults told; counts where blocks are copied.
    pub(crate) dirty: bool,
    /// Somebody waits for it.
    pub(crate) faulted: bool,
    /// The first of those that were asked for ahead: it stays aside, so that its touch is told.
    pub(crate) marker: bool,
    /// Wanted again while it was aside.
    pub(crate) hot: bool,
    /// What the source has is not what it should have, whatever the fingerprint says: a part of a
    /// write that failed, or bytes that nobody needed.
    pub(crate) torn: bool,
    /// Whether it is in the pager's queue, and in its list of blocks aside.
    pub(crate) queued: bool,
    pub(crate) listed: bool,
    /// Transfers that failed one after the other.
    pub(crate) failures: u32,
    /// Reads of less than a page, one after the other.
    pub(crate) short_reads: u32,
    /// Bytes of the transfer that are done.
    pub(crate) done: usize,
}

impl Block {
    /// What the source has of it, if anything, is not to be read again. Where the source outlives
    /// the region, zeros in its stead are to be written.
    pub(crate) fn lose_bytes(&mut self, lasts: bool) {
        (self.stored, self.torn, self.fingerprint) = (false, lasts, None);
        (self.hot, self.marker) = (false, false);
    }

    /// Whether the source does not have its bytes, as far as that is known without a look at them:
    /// where blocks are copied it is.
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty || self.torn
    }

    pub(crate) fn new(stored: bool) -> Self {
        Self {
            place: Place::Absent,
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
