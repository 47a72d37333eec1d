//! Frames of a pager: their memory, their number under the cap and the budget, and the free ones.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use terrace_sys::map::Mapping;
use terrace_sys::size::to_u64;
use terrace_sys::userfault::Userfault;

use super::limits::{ASIDE, FRAMES_MIN};
use crate::block::Slot;
use crate::config::{DEPTH_MAX, Method};
use crate::error::RegionError;
use crate::state::{Shared, system};

/// Frames that blocks are moved or copied from: those being read into, and some to spare.
const FRESH_MAX: usize = 2 * DEPTH_MAX;

/// Frames of a pager: pieces of memory as large as a block, which blocks are read into, moved out
/// to, or copied from.
pub(super) struct Frames {
    shared: Arc<Shared>,
    /// Frames that pages are moved out to; registered, so that a touch of an empty one faults
    /// instead of mapping a zero page.
    staging: Arc<Mapping>,
    /// Frames that pages are moved or copied from.
    fresh: Arc<Mapping>,
    empty_staging: Vec<usize>,
    /// Pages of empty staging frames that the kernel faulted on, see [`Frames::note_refused`].
    refused_pages: Vec<usize>,
    empty_fresh: Vec<usize>,
    /// Frames that have pages but hold no block.
    free: Vec<Slot>,
    /// Number of frames held, each charged to the ledger.
    count: usize,
    /// True if the budget or the cap has refused a frame and none has been given back since.
    is_full: bool,
    /// Frames given back beyond the cap while blocks waited for one, where blocks are copied. Two
    /// of them allow one frame to be taken, so that waiting blocks make progress before the cap is
    /// met.
    owed: usize,
}

impl Frames {
    /// Reserves the memory of all frames; none has pages yet.
    pub(super) fn open(shared: &Arc<Shared>, fault: &Userfault) -> Result<Self, RegionError> {
        let (name, bytes) = (&shared.name, shared.block_bytes);
        let slots = FRESH_MAX + 2 * ASIDE.1;
        let reserve = |slots, huge| {
            reserve_memory(slots * bytes, huge).map_err(system(name, "reserving staging memory"))
        };
        let staging = reserve(slots, false)?;
        let fresh = reserve(FRESH_MAX, shared.has_huge_pages())?;
        if shared.method == Method::Move {
            fault
                .register(&staging, 0, staging.len(), false)
                .map_err(system(name, "registering the region"))?;
        }
        Ok(Self {
            staging,
            fresh,
            empty_staging: (0..slots).rev().collect(),
            refused_pages: Vec::new(),
            empty_fresh: (0..FRESH_MAX).rev().collect(),
            free: Vec::new(),
            count: 0,
            is_full: false,
            owed: 0,
            shared: Arc::clone(shared),
        })
    }

    /// Maximum number of frames.
    pub(super) fn cap(&self) -> usize {
        self.shared.cap_frames.load(Ordering::Relaxed)
    }

    /// Number of frames held.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn is_beyond_cap(&self) -> bool {
        self.count > self.cap()
    }

    /// True if the cap or the budget has refused a frame lately.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Permits requests for frames again, since the cap has changed.
    pub(super) fn retry(&mut self) {
        self.is_full = false;
    }

    /// Records that the cap, the budget or the kernel refused a frame.
    pub(super) fn set_full(&mut self) {
        self.is_full = true;
    }

    /// Number of frames that have pages but hold no block.
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    pub(super) fn pop_free(&mut self) -> Option<Slot> {
        self.free.pop()
    }

    pub(super) fn push_free(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// Number of frames that a block may be moved out to.
    pub(super) fn empty_staging(&self) -> usize {
        self.empty_staging.len()
    }

    /// Takes a frame without pages that a block may be moved out to.
    pub(super) fn take_staging(&mut self) -> Option<Slot> {
        self.empty_staging.pop().map(|index| Slot { fresh: false, index })
    }

    /// Puts back a frame that has no pages any more.
    pub(super) fn clear(&mut self, slot: Slot) {
        let empty = if slot.fresh { &mut self.empty_fresh } else { &mut self.empty_staging };
        empty.push(slot.index);
    }

    /// Returns the mapping that a frame lies in, and the frame's offset there in bytes.
    pub(super) fn memory(&self, slot: Slot) -> (&Arc<Mapping>, usize) {
        let mapping = if slot.fresh { &self.fresh } else { &self.staging };
        (mapping, slot.index * self.shared.block_bytes)
    }

    /// Returns the bytes of a frame.
    ///
    /// # Safety
    /// The frame has pages for `len` bytes, and no transfer uses it.
    pub(super) unsafe fn bytes(&mut self, slot: Slot, len: usize) -> &mut [u8] {
        let (mapping, at) = self.memory(slot);
        debug_assert!(at + len <= mapping.len());
        // SAFETY: the range is inside of a mapping that this thread alone reads and writes, except
        // for transfers, which the caller rules out; the slice borrows the frames.
        unsafe { std::slice::from_raw_parts_mut(mapping.as_ptr().add(at), len) }
    }

    /// Returns the memory that pages are moved out to.
    pub(super) fn staging(&self) -> &Arc<Mapping> {
        &self.staging
    }

    /// Records that a page of an empty staging frame was poisoned: the kernel faulted on it.
    pub(super) fn note_refused(&mut self, at: usize) {
        self.refused_pages.push(at);
    }

    /// Takes the offsets of the pages that [`Frames::note_refused`] recorded.
    pub(super) fn take_refused(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.refused_pages)
    }

    /// Allocates a frame with pages for `len` bytes, if the cap, the budget and memory allow it.
    /// `waiting` is the number of blocks that wait for a frame.
    pub(super) fn grow(&mut self, len: usize, waiting: usize) -> Option<Slot> {
        if !self.reserve(waiting) {
            return None;
        }
        let index = self.empty_fresh.pop();
        let slot = index.map(|index| Slot { fresh: true, index });
        let has_pages = slot.filter(|slot| {
            let (mapping, at) = self.memory(*slot);
            mapping.populate(at, len).is_ok()
        });
        if has_pages.is_none() {
            slot.into_iter().for_each(|slot| self.clear(slot));
            self.lose(waiting);
            return None;
        }
        slot
    }

    /// Charges a frame to the cap and the budget; false if either refuses.
    pub(super) fn reserve(&mut self, waiting: usize) -> bool {
        let (bytes, consumer) = (to_u64(self.shared.block_bytes), &self.shared.consumer);
        let granted = if self.count < FRAMES_MIN {
            consumer.grow_or_owe(bytes);
            true
        } else {
            let cap = self.cap();
            let has_room = self.count < cap;
            let is_owed = self.count > cap && self.owed >= 2 && waiting > 0;
            let may = has_room || is_owed;
            let granted = may && consumer.try_grow(bytes).is_ok();
            if granted {
                self.owed = if has_room { 0 } else { self.owed - 2 };
            }
            self.shared.counters.denied.add(u64::from(may && !granted));
            granted
        };
        self.is_full = !granted;
        if granted {
            self.count_frames(1);
        }
        granted
    }

    fn count_frames(&mut self, more: isize) {
        self.count = self.count.saturating_add_signed(more);
        match more > 0 {
            true => self.shared.frames.fetch_add(more.unsigned_abs(), Ordering::Relaxed),
            false => self.shared.frames.fetch_sub(more.unsigned_abs(), Ordering::Relaxed),
        };
    }

    /// Frees the pages of a frame and releases its budget.
    pub(super) fn drop_frame(&mut self, slot: Slot, waiting: usize) {
        let bytes = self.shared.block_bytes;
        let (mapping, at) = self.memory(slot);
        if let Err(error) = mapping.decommit(at, bytes) {
            tracing::warn!(region = self.shared.name, %error, "a frame stays in memory");
        }
        self.clear(slot);
        self.lose(waiting);
    }

    /// Releases the budget of a frame that has no pages.
    pub(super) fn lose(&mut self, waiting: usize) {
        self.count_frames(-1);
        self.shared.consumer.shrink(to_u64(self.shared.block_bytes));
        self.is_full = false;
        let is_beyond = self.shared.method == Method::Copy && self.is_beyond_cap();
        self.owed = if is_beyond { (2 * waiting).min(self.owed + 1) } else { 0 };
    }
}

/// Reserves memory for frames. `UFFDIO_MOVE` requires that both sides are locked or that neither
/// is; this memory and the region's are unlocked.
fn reserve_memory(bytes: usize, huge: bool) -> io::Result<Arc<Mapping>> {
    let mapping = Mapping::reserve(bytes)?;
    mapping.unlock()?;
    // Fails on kernels without huge pages, where there is nothing to request or to decline.
    let _ = mapping.advise_huge(huge);
    mapping.leave_out_of_forks()?;
    Ok(Arc::new(mapping))
}
