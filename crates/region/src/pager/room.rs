//! Room: who waits for a frame, and which blocks go.

use std::time::Instant;

use super::{ASIDE, ASIDE_SHARE, FRAMES_MIN, Pager};
use crate::block::Place;
use crate::config::Method;
use crate::inbox::Want;

impl Pager {
    /// Serves who waits for a frame, and keeps frames ready for who will.
    pub(super) fn balance(&mut self) {
        self.serve_wanted();
        self.shrink();
        self.keep_ready();
        self.serve_wanted();
        self.serve_ahead();
    }

    fn serve_wanted(&mut self) {
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
                return;
            }
            let Some(slot) = self.take_frame(self.shared.block_len(block)) else { return };
            self.wanted.pop_front();
            self.fill(block, slot, since);
        }
    }

    fn serve_ahead(&mut self) {
        while let Some(block) = self.ahead.front().copied() {
            if !matches!(self.place(block), Place::Absent) {
                self.ahead.pop_front();
                continue;
            }
            if !self.wanted.is_empty() || self.filling_count >= self.shared.depth {
                return;
            }
            let Some(slot) = self.take_frame(self.shared.block_len(block)) else {
                // A hint is worth no waiting for others, but for what it has begun itself.
                self.keep_ready();
                if self.aside_count == 0 && self.in_flight() == 0 {
                    self.ahead.clear();
                }
                return;
            };
            self.ahead.pop_front();
            self.shared.counters.ahead.add(1);
            let state = self.block(block);
            (state.dirty, state.faulted) = (false, false);
            self.fill(block, slot, Instant::now());
            self.keep_ready();
        }
    }

    /// Gives frames beyond the cap back.
    fn shrink(&mut self) {
        // What is being written leaves soon.
        while self.frames - self.writing_count.min(self.frames) > self.cap().max(FRAMES_MIN) {
            let spare = self.free.pop().or_else(|| self.take_aside());
            match spare {
                Some(slot) if self.shared.method == Method::Copy && self.free.is_empty() => {
                    // The last one to copy from stays.
                    self.free.push(slot);
                    if !self.take_out_next() {
                        return;
                    }
                }
                Some(slot) => self.drop_frame(slot),
                None if self.take_out_next() => {}
                None => return,
            }
        }
    }

    /// Takes blocks out of their place before somebody needs their frames.
    fn keep_ready(&mut self) {
        if !self.is_full && self.frames < self.cap() {
            return;
        }
        let target = (self.cap() / ASIDE_SHARE).clamp(ASIDE.0, ASIDE.1) + self.wanted.len();
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
        while ready(self) < target.min(self.empty_staging.len()) && self.take_out_next() {}
    }

    /// Takes the next block out that may go; false when there is none.
    fn take_out_next(&mut self) -> bool {
        let now = Instant::now();
        for _ in 0..2 * self.queue.len() {
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
