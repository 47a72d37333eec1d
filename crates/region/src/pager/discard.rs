//! Blocks declared unused: they leave memory without write-back and are not read again.

use super::Pager;
use super::limits::FRAMES_MIN;
use crate::block::{BlockState, Lost, Slot};
use crate::command_queue::CommandQueue;
use crate::config::{Contents, DEPTH_MAX, Method};

/// Blocks dropped, and blocks checked, before faults are handled again.
const DROPS: usize = 32;
const LOOKS: usize = 16 << 10;

impl Pager {
    /// Drops blocks that callers have declared unused, a bounded number at a time; the rest stays
    /// in the list.
    pub(super) fn drop_unused(&mut self, command_queue: &CommandQueue) {
        let (mut drops, mut looks) = (DROPS, LOOKS);
        loop {
            if self.unused.is_empty() && !command_queue.swap_unused(&mut self.unused) {
                self.unused.clear();
                self.unused.push(0..self.shared.words.len());
            }
            let Some(blocks) = self.unused.pop() else { return };
            let mut block = self.next_own(blocks.start);
            while block < blocks.end {
                if drops == 0 || looks == 0 {
                    self.unused.push(block..blocks.end);
                    return;
                }
                looks -= 1;
                if self.shared.words[block].is_lost() {
                    drops -= 1;
                    self.drop_block(block);
                    self.drop_spare();
                }
                block = self.next_own(block + 1);
            }
        }
    }

    /// Returns the first block from `block` on that belongs to this pager, possibly beyond the last
    /// one.
    fn next_own(&self, block: usize) -> usize {
        let (stripe, pagers) = (self.shared.stripe_blocks, self.shared.pagers);
        let others = (self.number + pagers - self.shared.pager_of(block)) % pagers;
        if others == 0 { block } else { (block / stripe + others) * stripe }
    }

    /// Frees spare frames that no block waits for.
    pub(super) fn drop_spare(&mut self) {
        // The last copy buffer is kept.
        let kept =
            self.wanted.len().min(DEPTH_MAX) + usize::from(self.shared.method == Method::Copy);
        while self.frames.free() > kept
            && self.frames.count() > FRAMES_MIN
            && let Some(slot) = self.frames.pop_free()
        {
            self.drop_frame(slot);
        }
    }

    fn drop_block(&mut self, block: usize) {
        match self.place(block) {
            BlockState::Absent => {
                self.take_lost(block);
                self.lose_bytes(block);
            }
            BlockState::Aside(slot) => {
                self.take_lost(block);
                self.forget(block);
                self.lose_frame_of(block, slot);
            }
            // A block that was declared used again may have been written to and must stay.
            BlockState::Resident if self.shared.words[block].is_unused() => {
                self.take_out(block);
            }
            BlockState::Poisoned => {
                self.take_lost(block);
                let (at, len) = (self.offset(block), self.shared.block_len(block));
                self.warn_of(self.shared.mapping.decommit(at, len), "dropping");
                self.block(block).place = BlockState::Absent;
                self.lose_bytes(block);
            }
            // These blocks are checked when their fill or write-back ends, or cannot be dropped.
            BlockState::Resident
            | BlockState::Queued(_)
            | BlockState::Filling(..)
            | BlockState::Writing(..)
            | BlockState::Unmapped => {}
        }
    }

    pub(super) fn take_lost(&self, block: usize) -> Lost {
        self.shared.words[block].take_lost()
    }

    /// Forgets the source's copy of a block, which must not be read again.
    pub(super) fn lose_bytes(&mut self, block: usize) {
        let lasts = self.shared.source.contents == Contents::Stored;
        self.refusals.end(block);
        self.block(block).lose_bytes(lasts);
    }

    /// Discards an unused block that is out of its place.
    pub(super) fn discard(&mut self, block: usize, slot: Slot) {
        self.block(block).place = BlockState::Absent;
        self.shared.counters.evicted.add(1);
        self.lose_frame_of(block, slot);
    }

    fn lose_frame_of(&mut self, block: usize, slot: Slot) {
        self.shared.counters.discarded.add(1);
        self.lose_bytes(block);
        if self.shared.block_len(block) == self.shared.block_bytes {
            self.frames.push_free(slot);
        } else {
            self.drop_frame(slot);
        }
    }
}
