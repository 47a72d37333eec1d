//! What is left to a pager that cannot go on: nothing that is absent may read as zero, and nobody
//! may wait for it.

use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;

use terrace_sys::userfault::Fault;

use super::{LOOK_AGAIN, Pager};
use crate::block::Place;
use crate::config::Method;
use crate::inbox::{Command, Want};
use crate::lock;
use crate::waiter::Waiter;

impl Pager {
    /// Answers until the region ends.
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
        // Else the descriptor stays open: who touches what is absent waits, and reads no zeros.
    }

    /// Puts what is in memory in its place, where everybody may write to it.
    fn give_up(&mut self, why: &str) {
        lock(&self.shared.broken).get_or_insert_with(|| why.to_owned());
        self.shared.counters.break_for(format!("a pager cannot go on: {why}"));
        for block in 0..self.shared.words.len() {
            if self.shared.pager_of(block) != self.number {
                continue;
            }
            match self.place(block) {
                Place::Aside(slot) => {
                    self.move_in(block, slot);
                    self.settle(block);
                }
                Place::Writing(Some(slot), _) => {
                    // Its transfer goes on, and is of what the frame has.
                    self.copy_pages(block, slot, 0..self.shared.block_len(block), false);
                    self.wake(block);
                    self.settle(block);
                }
                Place::Writing(None, _) => {
                    self.protect(block, false);
                    self.settle(block);
                }
                Place::Resident if self.shared.method == Method::Copy => self.protect(block, false),
                Place::Queued(_) | Place::Filling(..) => self.lose(block),
                Place::Absent | Place::Resident | Place::Poisoned | Place::Unmapped => {}
            }
        }
        let waiters = std::mem::take(&mut self.waiters);
        for (block, waiters) in waiters {
            waiters
                .into_iter()
                .for_each(|(want, waiter)| self.refuse_one(want, block, &waiter, why));
        }
        self.asked.take_orders().for_each(|(want, blocks, waiter)| {
            blocks.for_each(|block| self.refuse_one(want, block, &waiter, why));
        });
        tracing::error!(region = self.shared.name, why, "a pager cannot go on");
    }

    /// Has who waits for a block go on, and get a signal.
    fn lose(&mut self, block: usize) {
        self.block(block).place = Place::Poisoned;
        let (at, len) = (self.offset(block), self.shared.block_len(block));
        self.warn_of(self.fault.poison(&self.shared.mapping, at, len), "poisoning");
        self.wake(block);
    }

    /// Answers until the region ends, without the ring.
    fn refuse(&mut self, why: &str) {
        let shared = Arc::clone(&self.shared);
        let mut faults = Vec::new();
        while !shared.stop.load(Ordering::Acquire) {
            thread::sleep(LOOK_AGAIN);
            // What cannot be read now is read the next time.
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
            Some((block, Place::Absent)) => self.lose(block),
            _ => self.answer_one(fault, Instant::now()),
        }
    }

    fn refuse_one(&self, want: Want, block: usize, waiter: &Waiter, why: &str) {
        let is_there = matches!(self.place(block), Place::Resident);
        let word = &self.shared.words[block];
        let message = format!("its pager cannot go on: {why}");
        let result = match want {
            Want::Pin if word.try_pin() => Ok(()),
            Want::Pin => Err(self.unreadable(block, &message)),
            // What is not there has not been written to.
            Want::Evict | Want::Flush | Want::Save if !is_there => Ok(()),
            Want::Evict | Want::Flush | Want::Save => Err(self.unwritable(block, &message)),
        };
        let is_pinned = want == Want::Pin && result.is_ok();
        if !waiter.done(block, result) && is_pinned {
            word.unpin();
        }
    }

    /// Ends, but for what the kernel or a thread may still use.
    fn leave(self) {
        let Self { mut waiting, transfers, .. } = self;
        transfers.leave();
        if waiting.ring().is_some_and(|ring| ring.transfers() > 0) {
            // It has the memory of its transfers.
            let _used = ManuallyDrop::new(waiting);
        }
    }
}
