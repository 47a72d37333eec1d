//! Frame arenas: the frames of one size class in one memory tier, and their free lists.
//!
//! In a mapped pool a page has its own addresses and frame for life; an arena is a table of slots
//! that hold the tier's pages: the candidates for eviction, and the limit of their number.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use terrace_sys::map::Mapping;
use terrace_tier::MemoryTier;

use crate::array::{Zeroed, ZeroedArray};
use crate::frame::FrameTable;
use crate::page::{FrameId, PageId, class_bytes};
use crate::sync::lock;

/// Location of the pages of one size class in one tier.
#[derive(Debug)]
enum Room {
    /// Framed: index `i` is frame `first + i`, whose bytes are the `i`th part of the mapping.
    Frames { mapping: Mapping, first: u32 },
    /// Mapped: index `i` is a slot with the frame of a page + 1, or 0; the bytes are at the page's
    /// own address.
    Slots { slots: ZeroedArray<AtomicU32>, range: Arc<Mapping> },
}

// SAFETY: an atomic, valid as zero, nothing to drop.
unsafe impl Zeroed for AtomicU32 {}

/// Maximum number of frames returned to the kernel in one call.
const RELEASE_BATCH: usize = 256;

/// The frames of one size class in one tier.
#[derive(Debug)]
pub(crate) struct Arena {
    room: Room,
    class: usize,
    /// Number of frames or slots reserved.
    count: u32,
    /// Number of indexes handed out at least once.
    begun: AtomicU32,
    /// Number of frames that hold a page.
    in_use: AtomicU32,
    warm: Mutex<Vec<FrameId>>,
    /// Indexes handed out before and free now, without memory.
    cold: Mutex<Vec<u32>>,
}

impl Arena {
    fn new(room: Room, class: usize, count: u32) -> Self {
        Self {
            room,
            class,
            count,
            begun: AtomicU32::new(0),
            in_use: AtomicU32::new(0),
            warm: Mutex::default(),
            cold: Mutex::default(),
        }
    }

    /// Reserves `count` frames with memory of their own, the first of which is `first`.
    pub(crate) fn framed(
        tier: &MemoryTier,
        class: usize,
        first: u32,
        count: u32,
    ) -> io::Result<Self> {
        let mapping = Mapping::reserve(count as usize * class_bytes(class))?;
        if let Some(node) = tier.node {
            mapping.bind(node)?;
        }
        decline_huge_pages(&mapping, &tier.name);
        Ok(Self::new(Room::Frames { mapping, first }, class, count))
    }

    /// Reserves `count` slots for pages whose addresses are in `range`.
    pub(crate) fn mapped(range: &Arc<Mapping>, class: usize, count: u32) -> io::Result<Self> {
        let slots = ZeroedArray::reserve(count as usize)?;
        Ok(Self::new(Room::Slots { slots, range: Arc::clone(range) }, class, count))
    }

    pub(crate) fn class(&self) -> usize {
        self.class
    }

    /// Number of frames or slots handed out at least once.
    pub(crate) fn begun(&self) -> u32 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Number of frames that hold a page.
    pub(crate) fn in_use(&self) -> u32 {
        self.in_use.load(Ordering::Relaxed)
    }

    /// Counts a page that came into a frame.
    pub(crate) fn came(&self) {
        self.in_use.fetch_add(1, Ordering::Relaxed);
    }

    /// Subtracts a page that left its frame.
    pub(crate) fn left(&self) {
        self.in_use.fetch_sub(1, Ordering::Relaxed);
    }

    fn offset(&self, frame: FrameId, first: u32) -> usize {
        (frame.0 - first) as usize * class_bytes(self.class)
    }

    /// Returns the address of the memory of a frame that was taken from this arena.
    pub(crate) fn address(&self, frame: FrameId) -> *mut u8 {
        let (mapping, offset) = match &self.room {
            Room::Frames { mapping, first } => (mapping, self.offset(frame, *first)),
            Room::Slots { range, .. } => (&**range, frame.mapped_offset()),
        };
        // SAFETY: the offset is below the mapping's length: the frame is one of the arena's
        // `count`, or that of a page id, all of which the range has room for.
        unsafe { mapping.as_ptr().add(offset) }
    }

    /// Returns the address of the page of the first frame, or of page 0 of a mapped pool.
    pub(crate) fn first_address(&self) -> *const u8 {
        match &self.room {
            Room::Frames { mapping, .. } => mapping.as_ptr().cast_const(),
            Room::Slots { range, .. } => range.as_ptr().cast_const(),
        }
    }

    /// Returns the frame of an index; `None` for an empty slot.
    pub(crate) fn frame(&self, index: u32) -> Option<FrameId> {
        match &self.room {
            Room::Frames { first, .. } => Some(FrameId(first + index)),
            Room::Slots { slots, .. } => {
                let frame = slots.get(index as usize)?.load(Ordering::Relaxed);
                frame.checked_sub(1).map(FrameId)
            }
        }
    }

    /// Takes a free index without memory: one used before, or the next.
    pub(crate) fn pop_cold(&self) -> Option<u32> {
        if let Some(index) = lock(&self.cold).pop() {
            return Some(index);
        }
        let begin = |begun| (begun < self.count).then_some(begun + 1);
        self.begun.fetch_update(Ordering::Relaxed, Ordering::Relaxed, begin).ok()
    }

    /// Frees an index without memory.
    pub(crate) fn push_cold(&self, index: u32) {
        lock(&self.cold).push(index);
    }

    /// Takes a free frame that still has its memory.
    pub(crate) fn pop_warm(&self) -> Option<FrameId> {
        lock(&self.warm).pop()
    }

    /// Frees a frame that keeps its memory.
    pub(crate) fn push_warm(&self, id: FrameId) {
        lock(&self.warm).push(id);
    }

    /// Assigns an index, which the caller has taken, to `page`, and returns its frame: the frame of
    /// the index, or in a mapped pool the page's own frame, which is entered in the slot.
    pub(crate) fn assign(&self, index: u32, page: PageId, frames: &FrameTable) -> FrameId {
        match &self.room {
            Room::Frames { first, .. } => FrameId(first + index),
            Room::Slots { slots, .. } => {
                let frame = page.mapped_frame();
                frames[frame].set_slot(index);
                if let Some(slot) = slots.get(index as usize) {
                    slot.store(frame.0 + 1, Ordering::Relaxed);
                }
                frame
            }
        }
    }

    /// Empties a slot and frees its index.
    pub(crate) fn clear(&self, index: u32) {
        if let Room::Slots { slots, .. } = &self.room
            && let Some(slot) = slots.get(index as usize)
        {
            slot.store(0, Ordering::Relaxed);
        }
        self.push_cold(index);
    }

    /// Returns `len` bytes of a frame's memory, from its byte `from` on, to the kernel. Returns
    /// false and does nothing in a mapped pool, whose slots have no memory of their own.
    ///
    /// # Errors
    /// The kernel's, if it keeps the memory.
    pub(crate) fn decommit(&self, frame: FrameId, from: usize, len: usize) -> io::Result<bool> {
        let Room::Frames { mapping, first } = &self.room else { return Ok(false) };
        mapping.decommit(self.offset(frame, *first) + from, len)?;
        Ok(true)
    }

    /// Returns the memory of warm frames to the kernel, batched into one system call if the kernel
    /// has one for that: at least `wanted` bytes, or what one batch has. Returns the number of
    /// bytes, after calling `freed` with it: other threads can take the frames only after that
    /// call.
    ///
    /// # Errors
    /// The kernel's, if it keeps the memory; the frames then stay warm.
    pub(crate) fn decommit_warm(
        &self,
        frames: &FrameTable,
        wanted: u64,
        freed: impl FnOnce(u64),
    ) -> io::Result<u64> {
        let Room::Frames { mapping, first } = &self.room else { return Ok(0) };
        let (mut taken, mut ranges, mut bytes) = (Vec::new(), Vec::new(), 0);
        {
            let mut warm = lock(&self.warm);
            while bytes < wanted && taken.len() < RELEASE_BATCH {
                let Some(id) = warm.pop() else { break };
                let had = frames[id].committed();
                ranges.push((self.offset(id, *first), had));
                taken.push(id);
                bytes += had as u64;
            }
        }
        if taken.is_empty() {
            return Ok(0);
        }
        if let Err(error) = mapping.decommit_batch(&ranges) {
            lock(&self.warm).extend(taken);
            return Err(error);
        }
        freed(bytes);
        taken.iter().for_each(|id| frames[*id].set_committed(0));
        lock(&self.cold).extend(taken.iter().map(|id| id.0 - first));
        Ok(bytes)
    }
}

/// Declines huge pages for a mapping. A frame is charged by the length of its page: a huge page
/// would be resident memory that no account is charged for. A kernel without huge pages refuses the
/// advice and needs none.
pub(crate) fn decline_huge_pages(mapping: &Mapping, whose: &str) {
    if let Err(error) = mapping.advise_huge(false) {
        tracing::debug!(whose, %error, "huge pages were not declined");
    }
}
