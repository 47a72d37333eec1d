//! Frames: the descriptor of each, and the table of all.

use std::io;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering,
};

use crate::array::{Zeroed, ZeroedArray};
use crate::page::{FrameId, PAGE_MIN_BYTES, PageId};
use crate::space::Owner;
use terrace_latch::Latch;

/// What the pool knows of a frame, in one cache line. All zero bytes are a frame never used.
///
/// `page` and everything below it change only under the exclusive latch, except the marks that
/// say so.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Frame {
    pub(crate) latch: Latch,
    /// Page id + 1, or 0. Read without the latch to check a hint.
    page: AtomicU64,
    data: AtomicPtr<u8>,
    /// When the page was last fixed, in MiB of frames handed out. Set by whoever looks at the page,
    /// held or not, like the other marks below that say so: a mark may be that of the page before.
    pub(crate) last_fix: AtomicU32,
    pub(crate) space: AtomicU32,
    /// Place in the tier's arena, of a mapped frame.
    pub(crate) slot: AtomicU32,
    len_units: AtomicU16,
    committed_units: AtomicU16,
    pub(crate) tier: AtomicU8,
    pub(crate) class: AtomicU8,
    /// Fixes since the page came into this frame, up to 255, halved with every epoch. A mark.
    pub(crate) fixes: AtomicU8,
    /// The epoch of the last fix, modulo 256. A mark.
    epoch: AtomicU8,
    /// The page differs from its copy on the store, or has none.
    pub(crate) dirty: AtomicBool,
    /// Brought in by a scan and not fixed again since: the first to go. A mark.
    pub(crate) cold: AtomicBool,
    /// The page waits to be promoted. A mark.
    pub(crate) asked: AtomicBool,
    /// The page may be doomed, as its word says: whoever gives the last hold back looks. Set
    /// without the latch, so possibly when the page it was meant for has just left.
    doomed: AtomicBool,
    /// Somebody is writing the page to the store, under a shared hold.
    pub(crate) writing: AtomicBool,
}

// SAFETY: atomics and a pointer, valid as zeroes (open latch, no page, null), nothing to drop.
unsafe impl Zeroed for Frame {}

fn units(bytes: usize) -> u16 {
    // Frames are at most 16 MiB, 4,096 units.
    u16::try_from(bytes / PAGE_MIN_BYTES).unwrap_or(u16::MAX)
}

impl Frame {
    pub(crate) fn page(&self) -> Option<PageId> {
        self.page.load(Ordering::SeqCst).checked_sub(1).map(PageId)
    }

    #[inline]
    pub(crate) fn holds(&self, page: PageId) -> bool {
        self.page.load(Ordering::SeqCst) == page.0 + 1
    }

    /// Whether the frame's page belongs to this space, as far as its id tells. Ids are used again
    /// when the last page of a dropped space has left memory.
    #[inline]
    pub(crate) fn is_of(&self, owner: Owner) -> bool {
        self.space.load(Ordering::Relaxed) == owner.0
    }

    pub(crate) fn set_page(&self, page: Option<PageId>) {
        self.page.store(page.map_or(0, |page| page.0 + 1), Ordering::SeqCst);
    }

    /// Asks whoever releases the last hold to look whether the page is doomed.
    pub(crate) fn doom(&self) {
        self.doomed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn may_be_doomed(&self) -> bool {
        self.doomed.load(Ordering::SeqCst)
    }

    pub(crate) fn clear_doom(&self) {
        self.doomed.store(false, Ordering::SeqCst);
    }

    #[inline]
    pub(crate) fn data(&self) -> *mut u8 {
        self.data.load(Ordering::Relaxed)
    }

    pub(crate) fn set_data(&self, data: *mut u8) {
        self.data.store(data, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        usize::from(self.len_units.load(Ordering::Relaxed)) * PAGE_MIN_BYTES
    }

    pub(crate) fn set_len(&self, bytes: usize) {
        self.len_units.store(units(bytes), Ordering::Relaxed);
    }

    /// Bytes of this frame that are counted against its tier.
    pub(crate) fn committed(&self) -> usize {
        usize::from(self.committed_units.load(Ordering::Relaxed)) * PAGE_MIN_BYTES
    }

    pub(crate) fn set_committed(&self, bytes: usize) {
        self.committed_units.store(units(bytes), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn tier(&self) -> usize {
        usize::from(self.tier.load(Ordering::Relaxed))
    }

    pub(crate) fn class(&self) -> usize {
        usize::from(self.class.load(Ordering::Relaxed))
    }

    /// Lets the page ask for promotion again when it was fixed as often again. Marks alone: when
    /// the frame has another page by now, that one asks a little later.
    pub(crate) fn forget_promotion(&self) {
        self.fixes.store(0, Ordering::Relaxed);
        self.asked.store(false, Ordering::Relaxed);
    }

    /// Notes a fix at `now`, in `epoch`.
    #[inline]
    pub(crate) fn touch(&self, now: u32, epoch: u8) {
        if self.last_fix.load(Ordering::Relaxed) != now {
            self.last_fix.store(now, Ordering::Relaxed);
        }
        let before = self.fixes.load(Ordering::Relaxed);
        let fixes = self.fixes_by(epoch);
        if self.epoch.load(Ordering::Relaxed) != epoch {
            self.epoch.store(epoch, Ordering::Relaxed);
        }
        if fixes == u8::MAX && before == u8::MAX {
            return;
        }
        // A lost count between two readers does no harm: the number only has to tell pages fixed
        // again from pages fixed once.
        self.fixes.store(fixes.saturating_add(1), Ordering::Relaxed);
        if fixes >= 1 && self.cold.load(Ordering::Relaxed) {
            self.cold.store(false, Ordering::Relaxed);
        }
    }

    /// Fixes as they count in `epoch`: half as much for every epoch that passed, but a page that
    /// was fixed stays one.
    pub(crate) fn fixes_by(&self, epoch: u8) -> u8 {
        let fixes = self.fixes.load(Ordering::Relaxed);
        let passed = epoch.wrapping_sub(self.epoch.load(Ordering::Relaxed));
        fixes.checked_shr(u32::from(passed)).unwrap_or(0).max(fixes.min(1))
    }

    /// Begins to count the fixes of a page that came at `now`, in `epoch`.
    pub(crate) fn begin_fixes(&self, now: u32, epoch: u8) {
        self.last_fix.store(now, Ordering::Relaxed);
        self.fixes.store(0, Ordering::Relaxed);
        self.epoch.store(epoch, Ordering::Relaxed);
    }

    /// The page's bytes, for whoever holds the latch.
    ///
    /// # Safety
    /// The caller holds the latch shared or exclusive, for at least `'a`, while the frame has a
    /// page; nobody writes the bytes meanwhile.
    pub(crate) unsafe fn bytes<'a>(&self) -> &'a [u8] {
        // SAFETY: `data` points at this frame's room in its arena, whose mapping lives as long as
        // the pool; `len` never exceeds the room; the hold keeps the page and writers away.
        unsafe { std::slice::from_raw_parts(self.data(), self.len()) }
    }

    /// The page's bytes to write, for whoever holds the latch exclusively.
    ///
    /// # Safety
    /// The caller holds the latch exclusively for at least `'a` and makes no other reference to
    /// the bytes meanwhile.
    pub(crate) unsafe fn bytes_mut<'a>(&self) -> &'a mut [u8] {
        // SAFETY: as for `bytes`; the exclusive hold makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.data(), self.len()) }
    }
}

/// The descriptors of every frame of every tier.
#[derive(Debug)]
pub(crate) struct FrameTable(ZeroedArray<Frame>);

impl FrameTable {
    pub(crate) fn reserve(frames: usize) -> io::Result<Self> {
        Ok(Self(ZeroedArray::reserve(frames)?))
    }

    /// The frame with this id, or `None` for an id that no frame has, as in a made-up hint.
    #[inline]
    pub(crate) fn find(&self, frame: FrameId) -> Option<&Frame> {
        self.0.get(frame.0 as usize)
    }
}

impl std::ops::Index<FrameId> for FrameTable {
    type Output = Frame;

    /// # Panics
    /// When the pool itself made up an id.
    #[inline]
    fn index(&self, frame: FrameId) -> &Frame {
        match self.find(frame) {
            Some(frame) => frame,
            None => unreachable!("{frame:?} of {}", self.0.len()),
        }
    }
}

const _: () = assert!(size_of::<Frame>() == 64);
