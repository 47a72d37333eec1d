//! Frame descriptors and the table of all frames.

use std::io;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering,
};

use crate::array::{Zeroed, ZeroedArray};
use crate::owner::Owner;
use crate::page::{FrameId, PAGE_MIN_BYTES, PageId};
use terrace_latch::Latch;

/// Descriptor of a frame, in one cache line. All zero bytes are a frame never used.
///
/// `page` and all fields below it change only under the exclusive latch, with two exceptions. The
/// thread that writes the page back changes `dirty` and `writing` under a shared hold. Fields
/// called marks are hints that any thread may set, with or without the latch, so a mark may stem
/// from the frame's previous page.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Frame {
    pub(crate) latch: Latch,
    /// Page id + 1, or 0 if the frame is empty. Read without the latch to check a hint.
    page: AtomicU64,
    data: AtomicPtr<u8>,
    /// Time of the last fix, in MiB of frames handed out. A mark, also set by optimistic readers.
    last_fix: AtomicU32,
    space: AtomicU32,
    /// Index of the frame's slot in the tier's arena, in a mapped pool.
    slot: AtomicU32,
    len_units: AtomicU16,
    committed_units: AtomicU16,
    tier: AtomicU8,
    class: AtomicU8,
    /// Fixes since the page came into this frame, up to 255, halved with every epoch. A mark.
    fixes: AtomicU8,
    /// The epoch of the last fix, modulo 256. A mark.
    epoch: AtomicU8,
    /// True if the page differs from its copy on the store, or has none.
    dirty: AtomicBool,
    /// True if a scan brought the page in and it was not fixed again: a preferred victim. A mark.
    cold: AtomicBool,
    /// True if the page is queued for promotion. A mark.
    queued: AtomicBool,
    /// True if the page's state word may be doomed: the thread that releases the last hold checks.
    /// Set without the latch, so possibly when the page it was meant for has just left.
    doomed: AtomicBool,
    /// True while a thread writes the page to the store, under a shared hold.
    writing: AtomicBool,
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

    /// True if the frame's page belongs to this space, judged by the space's id alone. Ids are
    /// reused when the last page of a dropped space has left memory.
    #[inline]
    pub(crate) fn is_of(&self, owner: Owner) -> bool {
        self.space() == owner.space()
    }

    fn set_page(&self, page: Option<PageId>) {
        self.page.store(page.map_or(0, |page| page.0 + 1), Ordering::SeqCst);
    }

    /// Makes the thread that releases the last hold check whether the page is doomed.
    pub(crate) fn doom(&self) {
        self.doomed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn may_be_doomed(&self) -> bool {
        self.doomed.load(Ordering::SeqCst)
    }

    fn clear_doom(&self) {
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

    fn set_len(&self, bytes: usize) {
        self.len_units.store(units(bytes), Ordering::Relaxed);
    }

    /// Bytes of this frame that are charged to its tier.
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

    pub(crate) fn set_tier(&self, tier: u8) {
        self.tier.store(tier, Ordering::Relaxed);
    }

    pub(crate) fn class(&self) -> usize {
        usize::from(self.class.load(Ordering::Relaxed))
    }

    pub(crate) fn set_class(&self, class: usize) {
        // There are 13 classes, so a class fits a byte.
        self.class.store(u8::try_from(class).unwrap_or(u8::MAX), Ordering::Relaxed);
    }

    /// Returns the id of the space of the frame's page.
    #[inline]
    pub(crate) fn space(&self) -> u32 {
        self.space.load(Ordering::Relaxed)
    }

    /// Returns the index of the frame's slot in the tier's arena, in a mapped pool.
    pub(crate) fn slot(&self) -> u32 {
        self.slot.load(Ordering::Relaxed)
    }

    pub(crate) fn set_slot(&self, index: u32) {
        self.slot.store(index, Ordering::Relaxed);
    }

    /// True if the page differs from its copy on the store, or has none.
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty.load(Ordering::Relaxed)
    }

    /// Marks the page dirty, under the exclusive latch.
    pub(crate) fn set_dirty(&self) {
        self.dirty.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_cold(&self) -> bool {
        self.cold.load(Ordering::Relaxed)
    }

    pub(crate) fn set_cold(&self, cold: bool) {
        self.cold.store(cold, Ordering::Relaxed);
    }

    /// True if the page is queued for promotion.
    pub(crate) fn is_queued(&self) -> bool {
        self.queued.load(Ordering::Relaxed)
    }

    pub(crate) fn set_queued(&self, queued: bool) {
        self.queued.store(queued, Ordering::Relaxed);
    }

    /// True while a thread writes the page to the store.
    pub(crate) fn is_writing(&self) -> bool {
        self.writing.load(Ordering::Relaxed)
    }

    /// Claims the right to write a dirty page to the store, under a shared hold. False if the page
    /// is clean or another thread is writing it.
    pub(crate) fn begin_write(&self) -> bool {
        if self.writing.swap(true, Ordering::SeqCst) {
            return false;
        }
        let is_dirty = self.is_dirty_still();
        if !is_dirty {
            self.end_write();
        }
        is_dirty
    }

    /// Like [`Frame::is_dirty`], for a thread that could not claim the right to write: false after
    /// the write of another thread.
    pub(crate) fn is_dirty_still(&self) -> bool {
        self.dirty.load(Ordering::SeqCst)
    }

    /// Marks the page clean, for the thread that wrote it.
    pub(crate) fn set_clean(&self) {
        self.dirty.store(false, Ordering::SeqCst);
    }

    /// Releases the right to write the page to the store.
    pub(crate) fn end_write(&self) {
        self.writing.store(false, Ordering::SeqCst);
    }

    /// Assigns the frame to a page of `len` bytes of `space`, at time `now` in `epoch`, under the
    /// exclusive latch.
    pub(crate) fn begin_page(
        &self,
        page: PageId,
        space: u32,
        len: usize,
        (now, epoch): (u32, u8),
        cold: bool,
    ) {
        self.set_len(len);
        self.space.store(space, Ordering::Relaxed);
        self.begin_fixes(now, epoch);
        self.set_cold(cold);
        self.set_queued(false);
        self.dirty.store(false, Ordering::Relaxed);
        self.clear_doom();
        self.set_page(Some(page));
    }

    /// Takes the page from the frame, under the exclusive latch.
    pub(crate) fn end_page(&self) {
        self.set_page(None);
        self.clear_doom();
        self.dirty.store(false, Ordering::Relaxed);
    }

    /// Copies the dirty flag and the time of the last fix from `source`, whose page was copied to
    /// this frame. Both frames are held exclusively.
    pub(crate) fn continue_page(&self, source: &Frame) {
        self.dirty.store(source.dirty.load(Ordering::Relaxed), Ordering::Relaxed);
        self.last_fix.store(source.last_fix.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Returns the time from the last fix to `now`.
    pub(crate) fn age(&self, now: u32) -> u32 {
        now.wrapping_sub(self.last_fix.load(Ordering::Relaxed))
    }

    /// Resets the count of fixes: those so far were not accesses by the page's owner, as after
    /// readahead.
    pub(crate) fn forget_fixes(&self) {
        self.fixes.store(0, Ordering::Relaxed);
    }

    /// Resets the count of fixes, so that the page can be queued for promotion once it was fixed as
    /// often again. Changes marks only: if the frame has another page by now, that page is promoted
    /// a little later.
    pub(crate) fn forget_promotion(&self) {
        self.forget_fixes();
        self.set_queued(false);
    }

    /// Records a fix at time `now`, in `epoch`.
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
        // An update lost between two readers does no harm: the count only has to tell pages fixed
        // again from pages fixed once.
        self.fixes.store(fixes.saturating_add(1), Ordering::Relaxed);
        if fixes >= 1 && self.cold.load(Ordering::Relaxed) {
            self.cold.store(false, Ordering::Relaxed);
        }
    }

    /// Number of fixes as of `epoch`: halved for every epoch that has passed, but at least 1 for a
    /// page that was fixed.
    pub(crate) fn fixes_by(&self, epoch: u8) -> u8 {
        let fixes = self.fixes.load(Ordering::Relaxed);
        let passed = epoch.wrapping_sub(self.epoch.load(Ordering::Relaxed));
        fixes.checked_shr(u32::from(passed)).unwrap_or(0).max(fixes.min(1))
    }

    /// Starts the count of fixes of a page that came at time `now`, in `epoch`.
    fn begin_fixes(&self, now: u32, epoch: u8) {
        self.last_fix.store(now, Ordering::Relaxed);
        self.fixes.store(0, Ordering::Relaxed);
        self.epoch.store(epoch, Ordering::Relaxed);
    }

    /// Returns the page's bytes.
    ///
    /// # Safety
    /// The caller holds the latch shared or exclusive, for at least `'a`, while the frame has a
    /// page; no thread writes the bytes meanwhile.
    pub(crate) unsafe fn bytes<'a>(&self) -> &'a [u8] {
        // SAFETY: `data` points at this frame's room in its arena, whose mapping lives as long as
        // the pool; `len` never exceeds the room; the hold keeps the page and writers away.
        unsafe { std::slice::from_raw_parts(self.data(), self.len()) }
    }

    /// Returns the page's bytes for writing.
    ///
    /// # Safety
    /// The caller holds the latch exclusively for at least `'a` and makes no other reference to
    /// the bytes meanwhile.
    pub(crate) unsafe fn bytes_mut<'a>(&self) -> &'a mut [u8] {
        // SAFETY: as for `bytes`; the exclusive hold makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.data(), self.len()) }
    }
}

/// Descriptors of all frames of all tiers.
#[derive(Debug)]
pub(crate) struct FrameTable(ZeroedArray<Frame>);

impl FrameTable {
    pub(crate) fn reserve(frames: usize) -> io::Result<Self> {
        Ok(Self(ZeroedArray::reserve(frames)?))
    }

    /// Returns the frame with this id, or `None` if there is no such frame, as for a forged hint.
    #[inline]
    pub(crate) fn find(&self, frame: FrameId) -> Option<&Frame> {
        self.0.get(frame.0 as usize)
    }
}

impl std::ops::Index<FrameId> for FrameTable {
    type Output = Frame;

    /// # Panics
    /// If the id is out of range, which only a bug in the pool can cause.
    #[inline]
    fn index(&self, frame: FrameId) -> &Frame {
        match self.find(frame) {
            Some(frame) => frame,
            None => unreachable!("{frame:?} of {}", self.0.len()),
        }
    }
}

const _: () = assert!(size_of::<Frame>() == 64);
