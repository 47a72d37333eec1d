//! Room: who waits for a frame, and which blocks go.

use std::time::Instant;

use super::{ASIDE, ASIDE_SHARE, AT_ONCE, FRAMES_MIN, Pager};
use crate::block::Place;
use crate::config::Method;
use crate::inbox::Want;

/// Blocks that are looked at for one that may go.
const LOOKS: usize = 16 << 10;

impl Pager {
    /// Serves who waits for a frame, and keeps frames ready for who will; true when there is more
    /// to do than there is time for.
    pub(super) fn balance(&mut self) -> bool {
        let end = Instant::now() + AT_ONCE;
        let is_late = self.serve_wanted(end) | self.shrink(end);
        self.keep_ready();
        is_late | self.serve_wanted(end) | self.serve_ahead(end)
    }

    fn serve_wanted(&mut self, end: Instant) -> bool {
        while let Some(block) = self.wanted.front().copied() {
            let Place::Queued(since) = self.place(block) else {
                self.wanted.pop_front();
                continue;
            };
            if !self.block(block).faulted && !self.has_waiter(block, Want::Pin) {
                // Who wanted to pin it waits no longer.
                self.block(block).place = Place::Absent;
                self.wanted.pop_front();
                continue;
            }
            if self.filling_count >= self.shared.depth {
                return false;
            }
            let Some(slot) = self.take_frame(self.shared.block_len(block)) else { return false };
            self.wanted.pop_front();
            self.fill(block, slot, since);
            // What reads as zero comes without a transfer, one after the other.
            if Instant::now() > end {
                return !self.wanted.is_empty();
            }
        }
        false
    }

    fn serve_ahead(&mut self, end: Instant) -> bool {
        while let Some(block) = self.ahead.front().copied() {
            if !matches!(self.place(block), Place::Absent) {
                self.ahead.pop_front();
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
                // A hint is worth no waiting for others, but for what it has begun itself.
                if self.in_flight() == 0 {
                    self.ahead.clear();
                }
                return false;
            };
            self.ahead.pop_front();
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

    /// Gives frames beyond the cap back.
    fn shrink(&mut self, end: Instant) -> bool {
        // What is being written leaves soon.
        while self.frames - self.writing_count.min(self.frames) > self.cap().max(FRAMES_MIN) {
            if Instant::now() > end {
                return true;
            }
            let spare = self.free.pop().or_else(|| self.take_aside());
            match spare {
                Some(slot) if self.shared.method == Method::Copy && self.free.is_empty() => {
                    // The last one to copy from stays.
                    self.free.push(slot);
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

    /// Takes blocks out of their place before somebody needs their frames.
    fn keep_ready(&mut self) {
        if !self.is_full && self.frames < self.cap() {
            return;
        }
        let spare = (self.cap() / ASIDE_SHARE).clamp(ASIDE.0, ASIDE.1);
        // Beyond the cap blocks leave as time lets them, and others only for who waits.
        let spare = if self.frames > self.cap() { 0 } else { spare };
        let target = spare + self.wanted.len();
        let ready = |pager: &Self| {
            let free = match pager.shared.method {
                Method::Move => pager.free.len(),
                // What is copied from becomes room, but for one frame.
                Method::Copy => (pager.free.len() + pager.filling_count).saturating_sub(1),
            };
            let room = pager.cap().saturating_sub(pager.frames);
            let room = if pager.is_full { 0 } else { room };
            pager.aside_count + pager.writing_count + free + room
        };
        // Beyond the cap what is dropped makes no room.
        for _ in 0..target {
            let is_ready = ready(self) >= target.min(self.empty_staging.len());
            if is_ready || !self.take_out_next() {
                return;
            }
        }
    }

    /// Takes the next block out that may go; false when there is none, or none was found soon.
    fn take_out_next(&mut self) -> bool {
        if self.shared.method == Method::Move && self.empty_staging.is_empty() {
            return false;
        }
        let now = Instant::now();
        for _ in 0..LOOKS.min(2 * self.queue.len()) {
            let Some(block) = self.queue.pop_front() else { return false };
            self.block(block).queued = false;
            if !matches!(self.place(block), Place::Resident) {
                continue;
            }
            let stuck = self.stuck.get(&block).is_some_and(|until| *until > now);
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
