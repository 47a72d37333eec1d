//! Allocation of frames to blocks: free ones, new ones, and those of blocks aside.

use super::Pager;
use super::limits::FRAMES_MIN;
use crate::block::{BlockState, Slot};
use crate::config::Method;

impl Pager {
    /// Allocates a frame with pages for `len` bytes, if the cap, the budget and memory allow it.
    fn grow(&mut self, len: usize) -> Option<Slot> {
        self.frames.grow(len, self.wanted.len())
    }

    /// Frees the pages of a frame and releases its budget.
    pub(super) fn drop_frame(&mut self, slot: Slot) {
        self.frames.drop_frame(slot, self.wanted.len());
    }

    /// Frees a frame as [`Pager::drop_frame`] does, but keeps the last `FRAMES_MIN` frames.
    pub(super) fn give_back(&mut self, slot: Slot, len: usize) {
        if self.frames.count() <= FRAMES_MIN && len == self.shared.block_bytes {
            self.frames.push_free(slot);
        } else {
            self.drop_frame(slot);
        }
    }

    /// Releases the budget of a frame that has no pages.
    pub(super) fn lose_frame(&mut self) {
        self.frames.lose(self.wanted.len());
    }

    /// Takes a frame with pages for a block of `len` bytes: a free one, a new one, or that of the
    /// oldest block aside. Where blocks are copied, the frame is the buffer to copy from, and the
    /// bytes of another frame are reserved for the block itself.
    pub(super) fn take_frame(&mut self, len: usize) -> Option<Slot> {
        let bytes = self.shared.block_bytes;
        if self.shared.method == Method::Copy {
            // Without room, copy buffers are freed until one is left.
            while !self.frames.reserve(self.wanted.len()) {
                if self.frames.free() < 2 {
                    return None;
                }
                self.frames.pop_free().into_iter().for_each(|spare| self.drop_frame(spare));
            }
            let slot = self.frames.pop_free().or_else(|| self.grow(bytes));
            if slot.is_none() {
                self.lose_frame();
                self.frames.set_full();
            }
            return slot;
        }
        if len == bytes {
            let slot = self.frames.pop_free();
            return slot.or_else(|| self.grow(len)).or_else(|| self.take_aside());
        }
        // The frame of a short last block has only the pages that it needs, and fits no other
        // block.
        if let Some(slot) = self.grow(len) {
            return Some(slot);
        }
        let slot = self.frames.pop_free().or_else(|| self.take_aside())?;
        let (mapping, at) = self.memory(slot);
        self.warn_of(mapping.decommit(at + len, bytes - len), "dropping");
        Some(slot)
    }

    /// Evicts the oldest block aside and takes its frame. A block that a sequential reader will
    /// touch soon is kept while there are others.
    pub(super) fn take_aside(&mut self) -> Option<Slot> {
        let mut kept = 0;
        while let Some(block) = self.aside.pop() {
            self.block(block).listed = false;
            let BlockState::Aside(slot) = self.place(block) else { continue };
            if self.is_awaited(block) && kept < self.aside.listed() {
                kept += 1;
                self.block(block).listed = true;
                self.aside.push(block);
                continue;
            }
            self.forget(block);
            if self.shared.block_len(block) == self.shared.block_bytes {
                return Some(slot);
            }
            self.drop_frame(slot);
        }
        None
    }

    /// Evicts the oldest block aside and frees its frame; false if there is none.
    pub(super) fn drop_aside(&mut self) -> bool {
        let slot = self.take_aside();
        slot.into_iter().for_each(|slot| self.drop_frame(slot));
        slot.is_some()
    }

    fn is_awaited(&self, block: usize) -> bool {
        self.blocks[self.local(block)].marker && self.ahead.awaits(block)
    }

    /// Evicts a block that is aside: from here on it is only in the source.
    pub(super) fn forget(&mut self, block: usize) {
        self.aside.left();
        self.block(block).place = BlockState::Absent;
        self.block(block).hot = false;
        self.block(block).marker = false;
        self.shared.counters.evicted.add(1);
    }
}
