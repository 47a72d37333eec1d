//! Distribution of frames to waiting blocks, and choice of victims.

use std::time::Instant;

use super::Pager;
use super::limits::{ASIDE, AT_ONCE, FRAMES_MIN};
use crate::block::BlockState;
use crate::command_queue::Want;
use crate::config::Method;

/// Frames kept aside or in write-back: one in so many of the cap, within the bounds `ASIDE`.
const ASIDE_SHARE: usize = 16;
/// Maximum number of blocks checked to find a victim.
const LOOKS: usize = 16 << 10;

impl Pager {
    /// Hands frames to waiting blocks and to readahead, enforces the cap, and evicts ahead of
    /// demand. Returns true if it ran out of time.
    pub(super) fn balance(&mut self) -> bool {
        let end = Instant::now() + AT_ONCE;
        let is_late = self.serve_wanted(end) | self.shrink(end);
        self.keep_ready();
        is_late | self.serve_wanted(end) | self.serve_ahead(end)
    }

    fn serve_wanted(&mut self, end: Instant) -> bool {
        while let Some(block) = self.wanted.front().copied() {
            let BlockState::Queued(since) = self.place(block) else {
                self.wanted.pop_front();
                continue;
            };
            if !self.block(block).faulted && !self.has_waiter(block, Want::Pin) {
                // The caller that wanted to pin the block has stopped waiting.
                self.block(block).place = BlockState::Absent;
                self.wanted.pop_front();
                continue;
            }
            if self.filling_count >= self.shared.depth {
                return false;
            }
            let Some(slot) = self.take_frame(self.shared.block_len(block)) else { return false };
            self.wanted.pop_front();
            self.fill(block, slot, since);
            // Blocks of zeros complete without a transfer, so this loop is bounded by time.
            if Instant::now() > end {
                return !self.wanted.is_empty();
            }
        }
        false
    }

    fn serve_ahead(&mut self, end: Instant) -> bool {
        while let Some(block) = self.ahead.first() {
            if !matches!(self.place(block), BlockState::Absent) {
                self.ahead.pop();
                continue;
            }
            if !self.wanted.is_empty() || self.filling_count >= self.shared.depth {
                return false;
            }
            let len = self.shared.block_len(block);
            let slot = self.take_frame(len).or_else(|| {
                self.keep_ready();
                self.take_frame(len)
            });
            let Some(slot) = slot else {
                // Readahead waits for transfers in flight, but not for frames that other blocks
                // hold.
                if self.in_flight() == 0 {
                    self.ahead.clear();
                }
                return false;
            };
            self.ahead.pop();
            self.shared.counters.ahead.add(1);
            let state = self.block(block);
            (state.dirty, state.faulted) = (false, false);
            self.fill(block, slot, Instant::now());
            self.keep_ready();
            if Instant::now() > end {
                return !self.ahead.is_empty();
            }
        }
        false
    }

    /// Gives back frames beyond the cap. Returns true if it ran out of time.
    fn shrink(&mut self, end: Instant) -> bool {
        // Blocks in write-back leave soon and are not counted.
        while self.frames.count().saturating_sub(self.writing_count)
            > self.frames.cap().max(FRAMES_MIN)
        {
            if Instant::now() > end {
                return true;
            }
            let spare = self.frames.pop_free().or_else(|| self.take_aside());
            match spare {
                Some(slot) if self.shared.method == Method::Copy && self.frames.free() == 0 => {
                    // The last copy buffer is kept.
                    self.frames.push_free(slot);
                    if !self.take_out_next() {
                        return false;
                    }
                }
                Some(slot) => self.drop_frame(slot),
                None if self.take_out_next() => {}
                None => return false,
            }
        }
        false
    }

    /// Evicts ahead of demand, to keep spare frames ready for the next faults.
    fn keep_ready(&mut self) {
        if !self.frames.is_full() && self.frames.count() < self.frames.cap() {
            return;
        }
        let spare = (self.frames.cap() / ASIDE_SHARE).clamp(ASIDE.0, ASIDE.1);
        // Beyond the cap, `shrink` evicts as time permits; here only blocks for waiting ones are
        // evicted.
        let spare = if self.frames.is_beyond_cap() { 0 } else { spare };
        let target = spare + self.wanted.len();
        let ready = |pager: &Self| {
            let frames = &pager.frames;
            let free = match pager.shared.method {
                Method::Move => frames.free(),
                // Copy buffers are freed to make room, except for one.
                Method::Copy => (frames.free() + pager.filling_count).saturating_sub(1),
            };
            let room = frames.cap().saturating_sub(frames.count());
            let room = if frames.is_full() { 0 } else { room };
            pager.aside.count() + pager.writing_count + free + room
        };
        // Bounded: beyond the cap a dropped frame makes no room.
        for _ in 0..target {
            let is_ready = ready(self) >= target.min(self.frames.empty_staging());
            if is_ready || !self.take_out_next() {
                return;
            }
        }
    }

    /// Evicts the next victim; false if there is none, or none within `LOOKS` blocks.
    fn take_out_next(&mut self) -> bool {
        if self.shared.method == Method::Move && self.frames.empty_staging() == 0 {
            return false;
        }
        let now = Instant::now();
        for _ in 0..LOOKS.min(2 * self.queue.len()) {
            let Some(block) = self.queue.pop_front() else { return false };
            self.block(block).queued = false;
            if !matches!(self.place(block), BlockState::Resident) {
                continue;
            }
            let stuck = self.refusals.is_resting(block, now);
            let hot = std::mem::take(&mut self.block(block).hot);
            if stuck || hot || self.shared.words[block].is_pinned() || !self.take_out(block) {
                if !std::mem::replace(&mut self.block(block).queued, true) {
                    self.queue.push_back(block);
                }
                continue;
            }
            return true;
        }
        false
    }
}
