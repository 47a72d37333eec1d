//! Allocation of frames under the cap and the budget, and their release.

use std::sync::atomic::Ordering;

use terrace_sys::size::to_u64;

use super::{FRAMES_MIN, Pager};
use crate::block::{Place, Slot};
use crate::config::Method;

impl Pager {
    /// Allocates a frame with pages for `len` bytes, if the cap, the budget and memory allow it.
    pub(super) fn grow(&mut self, len: usize) -> Option<Slot> {
        if !self.reserve() {
            return None;
        }
        let index = self.empty_fresh.pop();
        let slot = index.map(|index| Slot { fresh: true, index });
        let has_pages = slot.filter(|slot| {
            let (mapping, at) = self.memory(*slot);
            mapping.populate(at, len).is_ok()
        });
        if has_pages.is_none() {
            slot.into_iter().for_each(|slot| self.clear_slot(slot));
            self.lose_frame();
            return None;
        }
        slot
    }

    /// Charges a frame to the cap and the budget; false if either refuses.
    fn reserve(&mut self) -> bool {
        let (bytes, consumer) = (to_u64(self.shared.block_bytes), &self.shared.consumer);
        let granted = if self.frames < FRAMES_MIN {
            consumer.grow_or_owe(bytes);
            true
        } else {
            let cap = self.cap();
            let has_room = self.frames < cap;
            let is_owed = self.frames > cap && self.owed >= 2 && !self.wanted.is_empty();
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
        self.frames = self.frames.saturating_add_signed(more);
        match more > 0 {
            true => self.shared.frames.fetch_add(more.unsigned_abs(), Ordering::Relaxed),
            false => self.shared.frames.fetch_sub(more.unsigned_abs(), Ordering::Relaxed),
        };
    }

    /// Frees the pages of a frame and releases its budget.
    pub(super) fn drop_frame(&mut self, slot: Slot) {
        let bytes = self.shared.block_bytes;
        let (mapping, at) = self.memory(slot);
        if let Err(error) = mapping.decommit(at, bytes) {
            tracing::warn!(region = self.shared.name, %error, "a frame stays in memory");
        }
        self.clear_slot(slot);
        self.lose_frame();
    }

    /// Frees a frame as [`Pager::drop_frame`] does, but keeps the last `FRAMES_MIN` frames.
    pub(super) fn give_back(&mut self, slot: Slot, len: usize) {
        if self.frames <= FRAMES_MIN && len == self.shared.block_bytes {
            self.free.push(slot);
        } else {
            self.drop_frame(slot);
        }
    }

    pub(super) fn lose_frame(&mut self) {
        self.count_frames(-1);
        self.shared.consumer.shrink(to_u64(self.shared.block_bytes));
        self.is_full = false;
        let is_beyond = self.shared.method == Method::Copy && self.frames > self.cap();
        self.owed = if is_beyond { (2 * self.wanted.len()).min(self.owed + 1) } else { 0 };
    }

    /// Takes a frame with pages for a block of `len` bytes: a free one, a new one, or that of the
    /// oldest block aside. Where blocks are copied, the frame is the buffer to copy from, and the
    /// bytes of another frame are reserved for the block itself.
    pub(super) fn take_frame(&mut self, len: usize) -> Option<Slot> {
        let bytes = self.shared.block_bytes;
        if self.shared.method == Method::Copy {
            // Without room, copy buffers are freed until one is left.
            while !self.reserve() {
                if self.free.len() < 2 {
                    return None;
                }
                self.free.pop().into_iter().for_each(|spare| self.drop_frame(spare));
            }
            let slot = self.free.pop().or_else(|| self.grow(bytes));
            if slot.is_none() {
                self.lose_frame();
                self.is_full = true;
            }
            return slot;
        }
        if len == bytes {
            let slot = self.free.pop();
            return slot.or_else(|| self.grow(len)).or_else(|| self.take_aside());
        }
        // The frame of a short last block has only the pages that it needs, and fits no other
        // block.
        if let Some(slot) = self.grow(len) {
            return Some(slot);
        }
        let slot = self.free.pop().or_else(|| self.take_aside())?;
        let (mapping, at) = self.memory(slot);
        self.warn_of(mapping.decommit(at + len, bytes - len), "dropping");
        Some(slot)
    }

    /// Evicts the oldest block aside and takes its frame. A block that a sequential reader will
    /// touch soon is kept while there are others.
    pub(super) fn take_aside(&mut self) -> Option<Slot> {
        let mut kept = 0;
        while let Some(block) = self.aside.pop_front() {
            self.block(block).listed = false;
            let Place::Aside(slot) = self.place(block) else { continue };
            if self.is_awaited(block) && kept < self.aside.len() {
                kept += 1;
                self.block(block).listed = true;
                self.aside.push_back(block);
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
        self.blocks[self.local(block)].marker && self.streams.awaits(block)
    }

    /// Evicts a block that is aside: from here on it is only in the source.
    pub(super) fn forget(&mut self, block: usize) {
        self.aside_count -= 1;
        self.block(block).place = Place::Absent;
        self.block(block).hot = false;
        self.block(block).marker = false;
        self.shared.counters.evicted.add(1);
    }
}
