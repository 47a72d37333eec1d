//! Commands of callers: pin, evict, flush, save and readahead of blocks.

use std::time::Instant;

use super::Pager;
use super::request_queue::Progress;
use crate::block::BlockState;
use crate::command_queue::{Command, Want};
use crate::config::Method;

const UNMAPPED: &str = "it was unmapped, or a part of it";

impl Pager {
    pub(super) fn has_waiter(&self, block: usize, wanted: Want) -> bool {
        self.waiters.has(block, wanted)
    }

    pub(super) fn obey(&mut self, command: Command) {
        match command {
            Command::Look => self.frames.retry(),
            Command::Ahead(blocks) => {
                let most = self.shared.blocks_ahead_max().saturating_sub(self.ahead.len());
                self.ahead.extend(blocks.into_iter().take(most));
            }
            Command::Follow(requested) => self.follow(requested),
            Command::Want(want, blocks, waiter) => {
                if want == Want::Evict {
                    // An eviction cancels earlier readahead of the same blocks. The blocks of a
                    // command are sorted.
                    self.ahead.cancel(&blocks);
                }
                self.requests.add_order(want, blocks, waiter);
            }
        }
    }

    /// Advances the requests that wait for a block, as far as its place allows.
    pub(super) fn go_on_with(&mut self, block: usize, now: Instant) -> Progress {
        if !self.waiters.retain(block, |(_, waiter)| !waiter.is_over()) {
            return Progress::Done;
        }
        match self.place(block) {
            BlockState::Absent if self.has_waiter(block, Want::Pin) => {
                let state = self.block(block);
                (state.faulted, state.marker) = (false, false);
                self.begin(block, now);
            }
            BlockState::Absent => self.waiters.end(block),
            BlockState::Poisoned => self.end_waiters_of_poisoned(block, "it could not be read"),
            BlockState::Unmapped => self.tell_unmapped(block),
            BlockState::Aside(slot) if self.has_waiter(block, Want::Pin) => {
                self.aside.left();
                self.block(block).marker = false;
                self.put_back(block, Some(slot));
            }
            BlockState::Aside(slot) => {
                if self.has_waiter(block, Want::Evict) {
                    self.forget(block);
                    self.give_back(slot, self.shared.block_len(block));
                }
                self.waiters.end(block);
            }
            BlockState::Resident => return self.serve_resident(block),
            BlockState::Queued(_) | BlockState::Filling(..) | BlockState::Writing(..) => {}
        }
        self.progress(block)
    }

    fn progress(&self, block: usize) -> Progress {
        if self.waiters.has_any(block) { Progress::NotYet } else { Progress::Done }
    }

    fn serve_resident(&mut self, block: usize) -> Progress {
        if self.has_waiter(block, Want::Pin) {
            // The block became resident without these waiters, for example before the pin was
            // requested.
            self.open_for_system_calls(block);
            let word = &self.shared.words[block];
            self.waiters.retain(block, |(want, waiter)| {
                if *want == Want::Pin && word.try_pin() && !waiter.done(block, Ok(())) {
                    word.unpin();
                }
                *want != Want::Pin
            });
        }
        if !self.waiters.has_any(block) {
            return Progress::Done;
        }
        if self.has_waiter(block, Want::Save) {
            let saved = self.save(block);
            for (_, waiter) in self.waiters.take(block) {
                waiter.done(block, saved.clone().map_err(|text| self.unwritable(block, &text)));
            }
            return Progress::Done;
        }
        let clean = self.shared.method == Method::Copy && !self.block(block).is_dirty();
        if clean && !self.has_waiter(block, Want::Evict) {
            self.waiters.end(block);
            return Progress::Done;
        }
        if !self.has_room_to_take_out(block) {
            return Progress::NoRoom;
        }
        if !self.take_out(block) {
            return Progress::NotYet;
        }
        match self.place(block) {
            BlockState::Aside(slot) if self.has_waiter(block, Want::Evict) => {
                self.forget(block);
                self.give_back(slot, self.shared.block_len(block));
                self.waiters.end(block);
            }
            BlockState::Aside(slot) => {
                self.aside.left();
                let waiters = self.waiters.take(block);
                self.put_back(block, Some(slot));
                self.waiters.put_back(block, waiters);
                self.waiters.end(block);
            }
            BlockState::Absent => {
                self.drop_spare();
                self.waiters.end(block);
            }
            BlockState::Unmapped => self.tell_unmapped(block),
            _ => {}
        }
        self.progress(block)
    }

    /// Ends the requests on a poisoned block: pins fail, and there is nothing to write back or
    /// evict.
    pub(super) fn end_waiters_of_poisoned(&mut self, block: usize, message: &str) {
        for (want, waiter) in self.waiters.take(block) {
            let result = match want {
                Want::Pin => Err(self.unreadable(block, message)),
                Want::Evict | Want::Flush | Want::Save => Ok(()),
            };
            waiter.done(block, result);
        }
    }

    fn tell_unmapped(&mut self, block: usize) {
        for (want, waiter) in self.waiters.take(block) {
            let error = match want {
                Want::Pin => self.unreadable(block, UNMAPPED),
                Want::Flush | Want::Evict | Want::Save => self.unwritable(block, UNMAPPED),
            };
            waiter.done(block, Err(error));
        }
    }
}
