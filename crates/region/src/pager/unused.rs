//! Blocks that nobody needs leave memory without being written, and are not read again.

use super::{FRAMES_MIN, Pager};
use crate::block::{Place, Slot};
use crate::config::{DEPTH_MAX, Method};
use crate::inbox::Inbox;
use crate::lock;

impl Pager {
    /// Drops what users have said that they do not need.
    pub(super) fn drop_unused(&mut self, inbox: &Inbox) {
        let mut ranges = std::mem::take(&mut self.unused);
        inbox.swap_unused(&mut ranges);
        for block in ranges.drain(..).flatten() {
            if self.shared.pager_of(block) == self.number && self.shared.words[block].is_unused() {
                self.drop_block(block);
                self.drop_spare();
            }
        }
        self.unused = ranges;
    }

    /// Gives frames back that nobody waits for.
    fn drop_spare(&mut self) {
        while self.shared.method == Method::Move
            && self.free.len() > self.wanted.len().min(DEPTH_MAX)
            && self.frames > FRAMES_MIN
            && let Some(slot) = self.free.pop()
        {
            self.drop_frame(slot);
        }
    }

    fn drop_block(&mut self, block: usize) {
        match self.place(block) {
            Place::Absent => self.block(block).lose_bytes(),
            Place::Aside(slot) => {
                self.forget(block);
                self.lose_bytes_of(block, slot);
            }
            Place::Resident => {
                self.take_out(block);
            }
            Place::Poisoned => {
                let (at, len) = (self.offset(block), self.shared.block_len(block));
                self.warn_of(self.shared.mapping.decommit(at, len), "dropping");
                self.block(block).place = Place::Absent;
                self.block(block).lose_bytes();
            }
            // They are looked at when they leave, or have been lost.
            Place::Queued(_) | Place::Filling(..) | Place::Writing(..) | Place::Unmapped => {}
        }
    }

    /// A block that was taken out of its place is needed by nobody.
    pub(super) fn lose_bytes(&mut self, block: usize, slot: Slot) {
        self.block(block).place = Place::Absent;
        self.shared.counters.evicted.add(1);
        self.lose_bytes_of(block, slot);
    }

    /// A block that left has no bytes any more.
    pub(super) fn note_lost(&mut self, block: usize) {
        self.shared.counters.discarded.add(1);
        if self.stuck.remove(&block).is_some() && self.stuck.is_empty() {
            *lock(&self.shared.counters.latched) = None;
        }
        self.block(block).lose_bytes();
    }

    fn lose_bytes_of(&mut self, block: usize, slot: Slot) {
        self.note_lost(block);
        if self.shared.block_len(block) == self.shared.block_bytes {
            self.free.push(slot);
        } else {
            self.drop_frame(slot);
        }
    }
}
