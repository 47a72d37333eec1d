//! Handles page faults, and derives readahead from them.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use terrace_sys::size::PAGE_BYTES;
use terrace_sys::userfault::Fault;

use super::Pager;
use crate::block::BlockState;
use crate::command_queue::Command;

/// A readahead window is at most one in so many of the frames of the cap.
const WINDOW_SHARE: usize = 8;

impl Pager {
    pub(super) fn answer(&mut self) -> io::Result<()> {
        loop {
            let mut faults = std::mem::take(&mut self.faults);
            let result = self.fault.read(&mut faults);
            let told = faults.len();
            let now = Instant::now();
            faults.drain(..).for_each(|fault| self.answer_one(fault, now));
            self.faults = faults;
            result?;
            if told == 0 {
                return Ok(());
            }
        }
    }

    /// Handles the faults of transfers alone, which are on blocks being written from mapped pages.
    pub(super) fn answer_transfers(&mut self) -> io::Result<()> {
        let mut faults = std::mem::take(&mut self.faults);
        let result = self.fault.read(&mut faults);
        let now = Instant::now();
        for fault in faults.drain(..) {
            let block = self.block_at(fault);
            if block.is_some_and(|block| matches!(self.place(block), BlockState::Writing(None, _)))
            {
                self.answer_one(fault, now);
            }
        }
        self.faults = faults;
        result.map(drop)
    }

    fn at(&self, fault: Fault) -> usize {
        fault.address.wrapping_sub(self.shared.mapping.as_ptr().addr())
    }

    pub(super) fn block_at(&self, fault: Fault) -> Option<usize> {
        let at = self.at(fault);
        (at < self.shared.len).then_some(at / self.shared.block_bytes)
    }

    pub(super) fn answer_one(&mut self, fault: Fault, now: Instant) {
        let Some(block) = self.block_at(fault) else { return self.refuse_page(fault) };
        let at = self.at(fault);
        self.shared.counters.faults.add(1);
        match self.place(block) {
            BlockState::Absent => {
                let state = self.block(block);
                (state.dirty, state.faulted, state.marker) = (fault.write, true, false);
                self.look_ahead(block);
                self.begin(block, now);
            }
            BlockState::Queued(_) | BlockState::Filling(..) => {
                let state = self.block(block);
                state.dirty |= fault.write;
                // Latency counts from the first thread that faulted.
                if !std::mem::replace(&mut state.faulted, true) {
                    if let BlockState::Filling(_, since) = &mut state.place {
                        *since = now;
                    }
                    self.look_ahead(block);
                }
            }
            BlockState::Resident if fault.protected => {
                self.block(block).dirty = true;
                self.protect(block, false);
            }
            BlockState::Unmapped if fault.protected => {
                let done = self.fault.protect(&self.shared.mapping, at, PAGE_BYTES, false);
                self.warn_of(done, "protecting");
            }
            // The process dropped pages of the block, or the block came into place meanwhile.
            BlockState::Resident | BlockState::Unmapped => self.mend_page(at),
            BlockState::Aside(slot) => {
                self.aside.left();
                self.shared.counters.returned.add(1);
                let state = self.block(block);
                state.hot = !std::mem::take(&mut state.marker);
                self.put_back(block, Some(slot));
                self.look_ahead(block);
                self.record(now);
            }
            BlockState::Writing(slot, _) if slot.is_some() || fault.protected => {
                self.block(block).place = BlockState::Writing(slot, true);
            }
            BlockState::Writing(slot, _) => {
                // Writes to a page filled here are not detected, so the block counts as dirty.
                self.mend_page(at);
                self.block(block).place = BlockState::Writing(slot, true);
            }
            BlockState::Poisoned => {
                // The process has dropped the poison marker.
                let _ = self.fault.poison(&self.shared.mapping, at, PAGE_BYTES);
                self.wake(block);
            }
        }
    }

    /// Resolves a fault on a page of staging memory without providing the page. The kernel faults
    /// on pages of empty frames if this process locks all of its memory (`mlockall`), and a page
    /// there would block a later move. All other accesses are to pages that are present.
    fn refuse_page(&mut self, fault: Fault) {
        let staging = Arc::clone(self.frames.staging());
        let at = fault.address.wrapping_sub(staging.as_ptr().addr());
        if at >= staging.len() {
            tracing::error!(region = self.shared.name, "a fault outside of the region");
            return;
        }
        // Poison ends the kernel's fault with an error; the kernel then leaves the mapping alone.
        if self.fault.poison(&staging, at, PAGE_BYTES).is_ok() {
            self.frames.note_refused(at);
        }
        self.warn_of(self.fault.wake(&staging, at, PAGE_BYTES), "waking");
    }

    /// Drops the poison of refused pages, before a block is moved there.
    pub(super) fn clear_refused_pages(&mut self) {
        for at in self.frames.take_refused() {
            self.warn_of(self.frames.staging().decommit(at, PAGE_BYTES), "dropping");
        }
    }

    /// Fills a hole in a resident block, made by `madvise`, with zeros; if the page is present,
    /// wakes the threads that faulted on it.
    fn mend_page(&mut self, at: usize) {
        let shared = Arc::clone(&self.shared);
        shared.counters.spurious.add(1);
        if self.fault.zero(&shared.mapping, at, PAGE_BYTES).is_ok() {
            // The new page is not write-protected.
            self.block(at / shared.block_bytes).dirty = true;
        } else {
            self.warn_of(self.fault.wake(&shared.mapping, at, PAGE_BYTES), "waking");
        }
    }

    pub(super) fn wake(&self, block: usize) {
        let (at, len) = (self.offset(block), self.shared.block_len(block));
        self.warn_of(self.fault.wake(&self.shared.mapping, at, len), "waking");
    }

    pub(super) fn protect(&self, block: usize, protects: bool) {
        let (at, len) = (self.offset(block), self.shared.block_len(block));
        let done = self.fault.protect(&self.shared.mapping, at, len, protects);
        self.warn_of(done, "protecting");
    }

    /// Logs a failed operation on the region's memory; the usual cause is that it was unmapped.
    pub(super) fn warn_of(&self, done: io::Result<()>, what: &str) {
        if let Err(error) = done {
            tracing::error!(region = self.shared.name, %error, "{what} pages: is it unmapped?");
        }
    }

    pub(super) fn record(&self, since: Instant) {
        let ns = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.shared.recorders[self.number].record(ns);
    }

    /// Reads ahead if a touched block continues a sequential stream.
    fn look_ahead(&mut self, block: usize) {
        // Each stream holds up to two windows; the streams together must not hold all frames.
        let most = self.shared.ahead_blocks.min(self.frames.cap() / WINDOW_SHARE);
        if most == 0 || !self.shared.looks_ahead.load(Ordering::Relaxed) {
            return;
        }
        let Some(requested) = self.ahead.streams().touch(block, most) else { return };
        let Some(pager) = self.window_pager(&requested) else { return };
        if pager == self.number {
            self.ask_window(requested);
        } else {
            self.ahead.streams().leave(requested.start);
            self.shared.send(pager, Command::Follow(requested));
        }
    }

    /// Returns the pager of a window's first block; `None` beyond the end of the region.
    fn window_pager(&self, requested: &Range<usize>) -> Option<usize> {
        (requested.start < self.shared.words.len()).then(|| self.shared.pager_of(requested.start))
    }

    /// Takes over a sequential stream that began in another pager's stripe.
    pub(super) fn follow(&mut self, requested: Range<usize>) {
        self.ahead.streams().adopt(&requested);
        self.ask_window(requested);
    }

    /// Queues a window for readahead. Resident blocks are touched without a fault, so the window's
    /// first block is kept out of its place: its first touch faults and triggers the next window.
    fn ask_window(&mut self, requested: Range<usize>) {
        let requested = requested.start..requested.end.min(self.shared.words.len());
        let (own, others): (Vec<usize>, Vec<usize>) =
            requested.partition(|block| self.shared.pager_of(*block) == self.number);
        // Blocks of zeros are not read ahead: they are made as fast as they are requested.
        let absent = |block: &usize| {
            let state = &self.blocks[self.local(*block)];
            state.stored && matches!(state.place, BlockState::Absent)
        };
        let absent: Vec<usize> = own.into_iter().filter(absent).collect();
        absent.first().into_iter().for_each(|first| self.block(*first).marker = true);
        self.ahead.extend(absent);
        self.shared.send_parts(others, Command::Ahead);
    }
}
