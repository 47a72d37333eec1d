//! Shutdown of a failed pager: no absent block may read as zero, and no thread may wait for one
//! forever.

use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;

use terrace_sys::sync::lock;
use terrace_sys::userfault::Fault;

use super::Pager;
use super::limits::LOOK_AGAIN;
use crate::block::BlockState;
use crate::command_queue::{Command, Want};
use crate::config::Method;
use crate::waiter::Waiter;

impl Pager {
    /// Runs the pager until the region is dropped.
    pub(crate) fn run(mut self) {
        let why = match catch_unwind(AssertUnwindSafe(|| self.serve())) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it has panicked".to_owned(),
        };
        let mut broken = ManuallyDrop::new(self);
        let refused = catch_unwind(AssertUnwindSafe(|| {
            broken.give_up(&why);
            broken.refuse(&why);
        }));
        if refused.is_ok() {
            ManuallyDrop::into_inner(broken).leave();
        }
        // If that panicked, the descriptor stays open: threads that touch absent blocks block
        // forever instead of reading zeros.
    }

    /// Puts all blocks in memory back in their place, writable, poisons those that are queued or
    /// being read, and fails all requests.
    fn give_up(&mut self, why: &str) {
        lock(&self.shared.broken).get_or_insert_with(|| why.to_owned());
        self.shared.counters.break_for(format!("a pager cannot go on: {why}"));
        for block in 0..self.shared.words.len() {
            if self.shared.pager_of(block) != self.number {
                continue;
            }
            match self.place(block) {
                BlockState::Aside(slot) => {
                    self.move_in(block, slot);
                    self.settle(block);
                }
                BlockState::Writing(Some(slot), _) => {
                    // The write continues from the frame, whose bytes are copied into place.
                    self.copy_pages(block, slot, 0..self.shared.block_len(block), false);
                    self.wake(block);
                    self.settle(block);
                }
                BlockState::Writing(None, _) => {
                    self.protect(block, false);
                    self.settle(block);
                }
                BlockState::Resident if self.shared.method == Method::Copy => {
                    self.protect(block, false)
                }
                BlockState::Queued(_) | BlockState::Filling(..) => self.lose(block),
                BlockState::Absent
                | BlockState::Resident
                | BlockState::Poisoned
                | BlockState::Unmapped => {}
            }
        }
        for (block, waiters) in self.waiters.take_all() {
            waiters
                .into_iter()
                .for_each(|(want, waiter)| self.refuse_one(want, block, &waiter, why));
        }
        self.requests.take_orders().for_each(|(want, blocks, waiter)| {
            blocks.for_each(|block| self.refuse_one(want, block, &waiter, why));
        });
        tracing::error!(region = self.shared.name, why, "a pager cannot go on");
    }

    /// Poisons a block and wakes every thread that faulted on it; each receives SIGBUS.
    fn lose(&mut self, block: usize) {
        self.block(block).place = BlockState::Poisoned;
        let (at, len) = (self.offset(block), self.shared.block_len(block));
        self.warn_of(self.fault.poison(&self.shared.mapping, at, len), "poisoning");
        self.wake(block);
    }

    /// Fails faults on absent blocks, and requests, until the region is dropped; works without the
    /// ring.
    fn refuse(&mut self, why: &str) {
        let shared = Arc::clone(&self.shared);
        let mut faults = Vec::new();
        while !shared.stop.load(Ordering::Acquire) {
            thread::sleep(LOOK_AGAIN);
            // Faults that cannot be read now are read in the next round.
            let _ = self.fault.read(&mut faults);
            faults.drain(..).for_each(|fault| self.answer_broken(fault));
            for command in shared.inboxes[self.number].take() {
                let Command::Want(want, blocks, waiter) = command else { continue };
                for block in blocks {
                    self.refuse_one(want, block, &waiter, why);
                }
            }
        }
    }

    fn answer_broken(&mut self, fault: Fault) {
        let block = self.block_at(fault);
        match block.map(|block| (block, self.place(block))) {
            Some((block, BlockState::Absent)) => self.lose(block),
            _ => self.answer_one(fault, Instant::now()),
        }
    }

    fn refuse_one(&self, want: Want, block: usize, waiter: &Waiter, why: &str) {
        let is_there = matches!(self.place(block), BlockState::Resident);
        let word = &self.shared.words[block];
        let message = format!("its pager cannot go on: {why}");
        let result = match want {
            Want::Pin if word.try_pin() => Ok(()),
            Want::Pin => Err(self.unreadable(block, &message)),
            // A block that is not resident has no unwritten changes.
            Want::Evict | Want::Flush | Want::Save if !is_there => Ok(()),
            Want::Evict | Want::Flush | Want::Save => Err(self.unwritable(block, &message)),
        };
        let is_pinned = want == Want::Pin && result.is_ok();
        if !waiter.done(block, result) && is_pinned {
            word.unpin();
        }
    }

    /// Drops the pager, except for memory that the kernel or a thread may still use.
    fn leave(self) {
        let Self { mut waiting, transfers, .. } = self;
        transfers.leave();
        if waiting.ring().is_some_and(|ring| ring.transfers() > 0) {
            // The ring owns the memory of its transfers in flight.
            let _used = ManuallyDrop::new(waiting);
        }
    }
}
