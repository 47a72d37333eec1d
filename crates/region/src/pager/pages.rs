//! Pages of a region: the operations of the kernel on them, by userfaultfd.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use terrace_sys::size::PAGE_BYTES;
use terrace_sys::userfault::{Fault, Partial, Userfault};

use super::frames::Frames;
use crate::block::Slot;
use crate::config::Method;
use crate::error::RegionError;
use crate::state::{Shared, system};
use crate::userfault::open_fault;

/// Retries of a page copy while memory is exhausted, for all pages of a call, and the time between
/// them.
const COPY_TRIES: u32 = 100;
const COPY_AGAIN: Duration = Duration::from_millis(10);

/// State of a page of a block in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    There,
    /// The process dropped it (`madvise`); it has just been filled with zeros.
    Filled,
    /// The process unmapped it.
    Gone,
}

/// Pages of a region and of its pager's frames. A block is addressed as a whole; nothing here
/// depends on its state.
pub(super) struct Pages {
    shared: Arc<Shared>,
    fault: Userfault,
}

impl Pages {
    /// Registers the stripes of a pager for its faults.
    pub(super) fn open(shared: &Arc<Shared>, number: usize) -> Result<Self, RegionError> {
        let name = &shared.name;
        let fault = open_fault(name)?;
        let (bytes, blocks) = (shared.block_bytes, shared.words.len());
        let stripe = shared.stripe_blocks;
        let protects = shared.method == Method::Copy;
        let registering = || system(name, "registering the region");
        for first in (number * stripe..blocks).step_by(stripe * shared.pagers) {
            let at = first * bytes;
            let len = (stripe * bytes).min(shared.len - at);
            fault.register(&shared.mapping, at, len, protects).map_err(registering())?;
            // If this process locks its memory, the kernel has filled the range already; its zeros
            // would be read in place of the source's bytes.
            shared.mapping.decommit(at, len).map_err(system(name, "emptying the region"))?;
        }
        Ok(Self { shared: Arc::clone(shared), fault })
    }

    /// Returns the descriptor of the faults.
    pub(super) fn userfault(&self) -> &Userfault {
        &self.fault
    }

    /// Returns the offset of a fault in the region; beyond its end if it is outside.
    pub(super) fn offset_of(&self, fault: Fault) -> usize {
        fault.address.wrapping_sub(self.shared.mapping.as_ptr().addr())
    }

    /// Returns the block of a fault; `None` if it is outside of the region.
    pub(super) fn block_at(&self, fault: Fault) -> Option<usize> {
        let at = self.offset_of(fault);
        (at < self.shared.len).then_some(at / self.shared.block_bytes)
    }

    /// Wakes the threads that faulted on a block.
    pub(super) fn wake(&self, block: usize) {
        let (at, len) = self.range(block);
        self.warn_of(self.fault.wake(&self.shared.mapping, at, len), "waking");
    }

    /// Write-protects a block, or permits writes to it.
    pub(super) fn protect(&self, block: usize, protects: bool) {
        self.warn_of(self.try_protect(block, protects), "protecting");
    }

    /// As [`Pages::protect`]. Fails if other code has mapped a part of the block.
    pub(super) fn try_protect(&self, block: usize, protects: bool) -> io::Result<()> {
        let (at, len) = self.range(block);
        self.fault.protect(&self.shared.mapping, at, len, protects)
    }

    /// Permits writes to the page at an offset.
    pub(super) fn unprotect_page(&self, at: usize) {
        let done = self.fault.protect(&self.shared.mapping, at, PAGE_BYTES, false);
        self.warn_of(done, "protecting");
    }

    /// Poisons a block and wakes every thread that faulted on it; each receives SIGBUS.
    pub(super) fn poison(&self, block: usize) {
        let (at, len) = self.range(block);
        self.warn_of(self.fault.poison(&self.shared.mapping, at, len), "poisoning");
        self.wake(block);
    }

    /// Poisons a page of a poisoned block again, after the process has dropped the marker.
    pub(super) fn poison_again(&self, block: usize, at: usize) {
        let _ = self.fault.poison(&self.shared.mapping, at, PAGE_BYTES);
        self.wake(block);
    }

    /// Frees the pages of a block.
    pub(super) fn decommit(&self, block: usize) {
        let (at, len) = self.range(block);
        self.warn_of(self.shared.mapping.decommit(at, len), "dropping");
    }

    /// Fills the page at offset `at` of the region, a hole made by `madvise`, with zeros and
    /// returns true. If the page is present, wakes the threads that faulted on it and returns
    /// false.
    pub(super) fn fill_hole(&self, at: usize) -> bool {
        let shared = &self.shared;
        shared.counters.spurious.add(1);
        let is_filled = self.fault.zero(&shared.mapping, at, PAGE_BYTES).is_ok();
        if !is_filled {
            self.warn_of(self.fault.wake(&shared.mapping, at, PAGE_BYTES), "waking");
        }
        is_filled
    }

    /// Probes a page by `UFFDIO_ZEROPAGE`, which tells if the page still belongs to the region:
    /// after an unmap, other code of the process may have mapped another page there. Fills a hole
    /// with zeros.
    pub(super) fn probe(&self, page: usize) -> Page {
        match self.fault.zero(&self.shared.mapping, page, PAGE_BYTES) {
            Ok(()) => Page::Filled,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Page::Gone,
            Err(_) => Page::There,
        }
    }

    /// Fills a block's holes with zeros; true if a page of it is unmapped.
    pub(super) fn is_unmapped(&self, block: usize) -> bool {
        let (at, len) = self.range(block);
        (at..at + len).step_by(PAGE_BYTES).any(|page| self.probe(page) == Page::Gone)
    }

    /// Moves a block's pages to a frame, all or none of them. The kernel moves pages of a single
    /// mapping only: if the first page belongs to the region, so do all pages that it moves.
    pub(super) fn move_out(&self, frames: &mut Frames, block: usize, slot: Slot) -> bool {
        let (at, len) = self.range(block);
        if self.probe(at) == Page::Gone {
            return false;
        }
        let shared = &self.shared;
        let (mapping, to) = frames.memory(slot);
        let mut done = 0;
        for _ in 0..=len / PAGE_BYTES {
            let (target, source) = ((&**mapping, to + done), (&*shared.mapping, at + done));
            let Err(partial) = self.fault.move_pages(target, source, len - done, false) else {
                return true;
            };
            done += partial.done;
            // A hole made by `madvise` reads as zero, so filling it with zeros changes nothing.
            let is_hole = partial.error.kind() == io::ErrorKind::NotFound;
            if !is_hole || self.fault.zero(&shared.mapping, at + done, PAGE_BYTES).is_err() {
                tracing::debug!(region = shared.name, error = %partial.error, "a block stays");
                break;
            }
        }
        if done > 0
            && let Err(partial) =
                self.fault.move_pages((&shared.mapping, at), (mapping, to), done, true)
        {
            self.copy_rest(frames, block, slot, partial.done..done);
        }
        // The frame must be empty: a page left in it would make every later move to it fail.
        let (mapping, to) = frames.memory(slot);
        self.warn_of(mapping.decommit(to, len), "dropping");
        self.wake(block);
        false
    }

    /// Moves the pages of a frame to a block's place, and gives the empty frame back.
    pub(super) fn move_in(&self, frames: &mut Frames, block: usize, slot: Slot) {
        let (at, len) = self.range(block);
        let (mapping, from) = frames.memory(slot);
        let moved = self.fault.move_pages((&self.shared.mapping, at), (mapping, from), len, true);
        if let Err(Partial { done, error }) = moved {
            // The kernel still holds pages of the transfer, or a hole of the region was filled
            // meanwhile.
            tracing::debug!(region = self.shared.name, %error, done, "a block is copied in");
            self.shared.counters.copied.add(1);
            self.copy_rest(frames, block, slot, done..len);
        }
        // Pages beyond the end of a short last block are not needed.
        if len < self.shared.block_bytes {
            let (mapping, from) = frames.memory(slot);
            let rest = mapping.decommit(from + len, self.shared.block_bytes - len);
            self.warn_of(rest, "dropping");
        }
        frames.clear(slot);
    }

    /// Copies a frame to a block's place; the frame keeps its pages for the next block.
    pub(super) fn copy_in(&self, frames: &mut Frames, block: usize, slot: Slot, dirty: bool) {
        let (at, len) = self.range(block);
        let (mapping, from) = frames.memory(slot);
        // SAFETY: the range is inside of the frame, which has pages for the block, and no transfer
        // uses it.
        let bytes = unsafe { std::slice::from_raw_parts(mapping.as_ptr().add(from), len) };
        let copied = self.fault.copy_in(&self.shared.mapping, at, bytes, !dirty);
        if let Err(Partial { done, .. }) = copied {
            self.copy_pages(frames, block, slot, done..len, !dirty);
            self.wake(block);
        }
        frames.push_free(slot);
    }

    /// Copies pages of a frame to their place and wakes the threads that faulted on the block. The
    /// frame keeps its pages, from which a write may continue.
    pub(super) fn copy_back(&self, frames: &mut Frames, block: usize, slot: Slot) {
        let (_, len) = self.range(block);
        self.copy_pages(frames, block, slot, 0..len, false);
        self.wake(block);
    }

    /// Copies the pages that could not be moved, one by one, and drops them from the frame.
    fn copy_rest(&self, frames: &mut Frames, block: usize, slot: Slot, rest: Range<usize>) {
        self.copy_pages(frames, block, slot, rest.clone(), false);
        let (mapping, from) = frames.memory(slot);
        self.warn_of(mapping.decommit(from + rest.start, rest.len()), "dropping");
        self.wake(block);
    }

    /// Copies pages of a frame to their place, except those that are present there. While memory is
    /// exhausted it waits, at most one second for all pages together. A page that still cannot be
    /// copied is poisoned, because it must not read as anything else.
    fn copy_pages(
        &self,
        frames: &mut Frames,
        block: usize,
        slot: Slot,
        range: Range<usize>,
        protects: bool,
    ) {
        let (start, _) = self.range(block);
        let shared = &self.shared;
        let mut tries = 0;
        for at in range.step_by(PAGE_BYTES) {
            // SAFETY: the pages of the range are still in the frame, and no transfer uses it.
            let page = unsafe { frames.bytes(slot, at + PAGE_BYTES) }[at..].to_vec();
            loop {
                let copied = self.fault.copy_in(&shared.mapping, start + at, &page, protects);
                match copied {
                    Ok(()) => break,
                    Err(Partial { error, .. }) if error.kind() == io::ErrorKind::AlreadyExists => {
                        break;
                    }
                    Err(Partial { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                        // The page is unmapped.
                        break;
                    }
                    Err(Partial { error, .. }) if tries < COPY_TRIES && may_pass(&error) => {
                        tries += 1;
                        std::thread::sleep(COPY_AGAIN);
                    }
                    Err(Partial { error, .. }) => {
                        self.warn_of(Err(error), "copying");
                        let poisoned = self.fault.poison(&shared.mapping, start + at, PAGE_BYTES);
                        self.warn_of(poisoned, "poisoning");
                        break;
                    }
                }
            }
        }
    }

    /// Resolves a fault on a page of staging memory without providing the page. The kernel faults
    /// on pages of empty frames if this process locks all of its memory (`mlockall`), and a page
    /// there would block a later move. All other accesses are to pages that are present.
    pub(super) fn refuse_page(&self, frames: &mut Frames, fault: Fault) {
        let staging = Arc::clone(frames.staging());
        let at = fault.address.wrapping_sub(staging.as_ptr().addr());
        if at >= staging.len() {
            tracing::error!(region = self.shared.name, "a fault outside of the region");
            return;
        }
        // Poison ends the kernel's fault with an error; the kernel then leaves the mapping alone.
        if self.fault.poison(&staging, at, PAGE_BYTES).is_ok() {
            frames.note_refused(at);
        }
        self.warn_of(self.fault.wake(&staging, at, PAGE_BYTES), "waking");
    }

    /// Drops the poison of refused pages, before a block is moved there.
    pub(super) fn clear_refused(&self, frames: &mut Frames) {
        for at in frames.take_refused() {
            self.warn_of(frames.staging().decommit(at, PAGE_BYTES), "dropping");
        }
    }

    /// Logs a failed operation on the region's memory; the usual cause is that it was unmapped.
    pub(super) fn warn_of(&self, done: io::Result<()>, what: &str) {
        if let Err(error) = done {
            tracing::error!(region = self.shared.name, %error, "{what} pages: is it unmapped?");
        }
    }

    /// Returns the offset of a block and its length.
    fn range(&self, block: usize) -> (usize, usize) {
        (self.shared.offset(block), self.shared.block_len(block))
    }
}

/// True if the error may be transient: memory is exhausted, or the kernel asks to try again.
fn may_pass(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::OutOfMemory | io::ErrorKind::WouldBlock)
}
