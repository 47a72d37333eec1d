//! What users ask of blocks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Pager;
use crate::block::Place;
use crate::config::Method;
use crate::inbox::{Command, Want};

/// How long waiters are served before faults are, looked at after so many blocks.
const AT_ONCE: Duration = Duration::from_millis(5);
const LOOKS: usize = 16;
const UNMAPPED: &str = "somebody unmapped it, or a part of it";

impl Pager {
    pub(super) fn has_waiter(&self, block: usize, wanted: Want) -> bool {
        self.waiters.get(&block).is_some_and(|all| all.iter().any(|(want, _)| *want == wanted))
    }

    pub(super) fn obey(&mut self, command: Command) {
        match command {
            Command::Look => self.is_full = false,
            Command::Ahead(blocks) => self.ahead.extend(blocks),
            Command::Follow(asked) => self.follow(asked),
            Command::Want(want, blocks, waiter) => {
                if want == Want::Evict {
                    // Who asked for them ahead has changed their mind. Parts of a range are in
                    // order.
                    self.ahead.retain(|block| blocks.binary_search(block).is_err());
                }
                for block in blocks {
                    // Most blocks of a large range are not in memory: nothing is left to do.
                    if want != Want::Pin && matches!(self.place(block), Place::Absent) {
                        waiter.done(block, Ok(()));
                    } else {
                        let waiters = self.waiters.entry(block).or_default();
                        if waiters.is_empty() {
                            self.asked.push_back(block);
                        }
                        waiters.push((want, Arc::clone(&waiter)));
                    }
                }
            }
        }
    }

    /// Goes on with the blocks that somebody waits for; true when there are more of them than there
    /// is time for.
    pub(super) fn look_at_waiters(&mut self) -> bool {
        let now = Instant::now();
        for number in 1..=self.asked.len() {
            let Some(block) = self.asked.pop_front() else { break };
            if self.go_on_with(block, now) {
                self.asked.push_back(block);
            }
            if number % LOOKS == 0 && now.elapsed() > AT_ONCE {
                return true;
            }
        }
        false
    }

    /// Goes on with a block; whether somebody waits for it still.
    fn go_on_with(&mut self, block: usize, now: Instant) -> bool {
        let Some(waiters) = self.waiters.get_mut(&block) else { return false };
        waiters.retain(|(_, waiter)| !waiter.is_over());
        if waiters.is_empty() {
            self.waiters.remove(&block);
            return false;
        }
        match self.place(block) {
            Place::Absent if self.has_waiter(block, Want::Pin) => {
                let state = self.block(block);
                (state.faulted, state.marker) = (false, false);
                self.begin(block, now);
            }
            Place::Absent => self.end_waiters(block),
            Place::Poisoned => {
                for (_, waiter) in self.waiters.remove(&block).unwrap_or_default() {
                    waiter.done(block, Err(self.unreadable(block, "it could not be read")));
                }
            }
            Place::Unmapped => self.tell_unmapped(block),
            Place::Aside(slot) if self.has_waiter(block, Want::Pin) => {
                self.aside_count -= 1;
                self.block(block).marker = false;
                self.put_back(block, Some(slot));
            }
            Place::Aside(slot) => {
                if self.has_waiter(block, Want::Evict) {
                    self.forget(block);
                    self.give_back(slot, self.shared.block_len(block));
                }
                self.end_waiters(block);
            }
            Place::Resident => self.serve_resident(block),
            Place::Queued(_) | Place::Filling(..) | Place::Writing(..) => {}
        }
        self.waiters.contains_key(&block)
    }

    fn serve_resident(&mut self, block: usize) {
        if self.has_waiter(block, Want::Pin) {
            // It came without them, as when they asked while it was in place.
            let word = &self.shared.words[block];
            if let Some(waiters) = self.waiters.get_mut(&block) {
                waiters.retain(|(want, waiter)| {
                    if *want == Want::Pin && word.try_pin() && !waiter.done(block, Ok(())) {
                        word.unpin();
                    }
                    *want != Want::Pin
                });
            }
        }
        if self.waiters.get(&block).is_none_or(Vec::is_empty) {
            self.waiters.remove(&block);
            return;
        }
        let clean = self.shared.method == Method::Copy && !self.block(block).dirty;
        if clean && !self.has_waiter(block, Want::Evict) {
            return self.end_waiters(block);
        }
        if !self.take_out(block) {
            return;
        }
        match self.place(block) {
            Place::Aside(slot) if self.has_waiter(block, Want::Evict) => {
                self.forget(block);
                self.give_back(slot, self.shared.block_len(block));
                self.end_waiters(block);
            }
            Place::Aside(slot) => {
                self.aside_count -= 1;
                let waiters = self.waiters.remove(&block);
                self.put_back(block, Some(slot));
                waiters.into_iter().for_each(|all| drop(self.waiters.insert(block, all)));
                self.end_waiters(block);
            }
            Place::Absent => {
                self.drop_spare();
                self.end_waiters(block);
            }
            Place::Unmapped => self.tell_unmapped(block),
            _ => {}
        }
    }

    fn tell_unmapped(&mut self, block: usize) {
        for (want, waiter) in self.waiters.remove(&block).unwrap_or_default() {
            let error = match want {
                Want::Pin => self.unreadable(block, UNMAPPED),
                Want::Flush | Want::Evict => self.unwritable(block, UNMAPPED),
            };
            waiter.done(block, Err(error));
        }
    }

    fn end_waiters(&mut self, block: usize) {
        for (_, waiter) in self.waiters.remove(&block).unwrap_or_default() {
            waiter.done(block, Ok(()));
        }
    }

    pub(super) fn end_waiters_for(&mut self, block: usize, wanted: Want) {
        let Some(waiters) = self.waiters.get_mut(&block) else { return };
        waiters.retain(|(want, waiter)| {
            if *want == wanted {
                waiter.done(block, Ok(()));
            }
            *want != wanted
        });
        if waiters.is_empty() {
            self.waiters.remove(&block);
        }
    }
}
