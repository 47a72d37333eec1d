//! Faults, and what they say of the blocks to come.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use terrace_sys::size::PAGE_BYTES;
use terrace_sys::userfault::Fault;

use super::Pager;
use crate::block::Place;
use crate::region::Command;

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

    fn answer_one(&mut self, fault: Fault, now: Instant) {
        let at = fault.address.wrapping_sub(self.shared.mapping.as_ptr().addr());
        if at >= self.shared.len {
            // Staging memory has pages wherever somebody looks.
            tracing::error!(region = self.shared.name, "a fault outside of the region");
            return;
        }
        let block = at / self.shared.block_bytes;
        self.shared.counters.faults.add(1);
        match self.place(block) {
            Place::Absent => {
                let state = self.block(block);
                (state.dirty, state.faulted, state.marker) = (fault.write, true, false);
                self.look_ahead(block);
                self.begin(block, now);
            }
            Place::Queued(_) | Place::Filling(..) => {
                let state = self.block(block);
                state.dirty |= fault.write;
                // The first who waits is the one whose time counts.
                if !std::mem::replace(&mut state.faulted, true)
                    && let Place::Filling(_, since) = &mut state.place
                {
                    *since = now;
                }
            }
            Place::Resident if fault.protected => {
                self.block(block).dirty = true;
                self.protect(block, false);
            }
            Place::Unmapped if fault.protected => {
                let done = self.fault.protect(&self.shared.mapping, at, PAGE_BYTES, false);
                self.warn_of(done, "protecting");
            }
            // Somebody dropped pages of it, or it has come meanwhile.
            Place::Resident | Place::Unmapped => self.mend_page(at),
            Place::Aside(slot) => {
                self.aside_count -= 1;
                self.shared.counters.returned.add(1);
                let state = self.block(block);
                let is_marker = std::mem::take(&mut state.marker);
                state.hot = !is_marker;
                if is_marker {
                    self.ask_window(self.last.wrapping_add(1));
                } else {
                    self.look_ahead(block);
                }
                self.put_back(block, Some(slot));
                self.record(now);
            }
            Place::Writing(slot, _) if slot.is_some() || fault.protected => {
                self.block(block).place = Place::Writing(slot, true);
            }
            Place::Writing(slot, _) => {
                // Who writes to the page that is filled now is not noticed: it counts as changed.
                self.mend_page(at);
                self.block(block).place = Place::Writing(slot, true);
            }
            Place::Poisoned => {
                // Somebody dropped the poison.
                let _ = self.fault.poison(&self.shared.mapping, at, PAGE_BYTES);
                self.wake(block);
            }
        }
    }

    /// Fills a hole in a block that is in place, which somebody made by `madvise`, with zeros;
    /// wakes who waited where there is none.
    fn mend_page(&mut self, at: usize) {
        let shared = Arc::clone(&self.shared);
        shared.counters.spurious.add(1);
        if self.fault.zero(&shared.mapping, at, PAGE_BYTES).is_ok() {
            // The page is not protected.
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

    /// The region's memory is no longer as it was mapped: somebody unmapped it.
    pub(super) fn warn_of(&self, done: io::Result<()>, what: &str) {
        if let Err(error) = done {
            tracing::error!(region = self.shared.name, %error, "{what} pages: is it unmapped?");
        }
    }

    pub(super) fn record(&self, since: Instant) {
        let ns = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.shared.recorders[self.number].record(ns);
    }

    /// Asks for the blocks after one that follows the one before.
    fn look_ahead(&mut self, block: usize) {
        let (last, most) = (self.last, self.shared.ahead_blocks);
        self.last = block;
        let follows = block > last && block - last <= most + 1;
        self.in_a_row = if follows { self.in_a_row + 1 } else { 0 };
        if self.in_a_row < 2 || most == 0 || !self.shared.looks_ahead.load(Ordering::Relaxed) {
            return;
        }
        self.ask_window(block + 1);
    }

    /// Asks for some blocks ahead. Blocks in place are touched without a fault, so the first one is
    /// kept out of its place: who touches it asks for the blocks after these.
    fn ask_window(&mut self, first: usize) {
        let end = first.saturating_add(self.shared.ahead_blocks).min(self.shared.words.len());
        if first >= end {
            return;
        }
        let (own, others): (Vec<usize>, Vec<usize>) =
            (first..end).partition(|block| self.shared.pager_of(*block) == self.number);
        if own.first() == Some(&first) && matches!(self.place(first), Place::Absent) {
            let state = self.block(first);
            state.marker = state.stored;
        }
        // What reads as zero is made as fast as it is asked for.
        let stored: Vec<usize> =
            own.into_iter().filter(|block| self.blocks[self.local(*block)].stored).collect();
        self.ahead.extend(stored);
        self.shared.send_parts(others, Command::Ahead);
        self.last = end - 1;
    }
}
