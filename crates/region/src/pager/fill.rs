//! Brings blocks into memory: reads them, or fills them with zeros, and puts them in place.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_sys::event_ring::Piece;
use terrace_sys::size::{PAGE_BYTES, to_u64, to_usize};
use terrace_sys::userfault::{FaultsOf, Partial};

use super::request_queue::Progress;
use super::{Pager, fingerprint};
use crate::block::{BlockState, Slot};
use crate::command_queue::Want;
use crate::config::Method;
use crate::error::RegionError;
use crate::transfers::Ended;

/// Immediate retries of a failed transfer.
const RETRIES: u32 = 3;
/// Retries of a page copy while memory is exhausted, for all pages of a call, and the time between
/// them.
const COPY_TRIES: u32 = 100;
const COPY_AGAIN: Duration = Duration::from_millis(10);

impl Pager {
    pub(super) fn begin(&mut self, block: usize, since: Instant) {
        let can = self.filling_count < self.shared.depth;
        let slot = if can { self.take_frame(self.shared.block_len(block)) } else { None };
        match slot {
            Some(slot) => self.fill(block, slot, since),
            None => {
                self.block(block).place = BlockState::Queued(since);
                self.wanted.push_back(block);
            }
        }
    }

    pub(super) fn fill(&mut self, block: usize, slot: Slot, since: Instant) {
        self.block(block).place = BlockState::Filling(slot, since);
        self.block(block).done = 0;
        self.filling_count += 1;
        if self.take_lost(block).lost {
            self.lose_bytes(block);
        }
        if self.block(block).stored {
            return self.transfer(block, false);
        }
        self.fill_with_zeros(block, slot, since);
    }

    fn fill_with_zeros(&mut self, block: usize, slot: Slot, since: Instant) {
        let len = self.shared.block_len(block);
        // SAFETY: the frame was taken with pages for the block, and no transfer uses it.
        unsafe { self.bytes(slot, len) }.fill(0);
        self.block(block).fingerprint = Some(self.fingerprint_of_zeros(len));
        self.shared.counters.zeroed.add(1);
        self.came(block, slot, since);
    }

    /// Starts the transfer of the rest of a block, in either direction.
    pub(super) fn transfer(&mut self, block: usize, is_write: bool) {
        let (done, len) = (self.block(block).done, self.shared.transfer_len(block));
        let (mapping, at) = match self.place(block) {
            BlockState::Filling(slot, _) | BlockState::Writing(Some(slot), _) => self.memory(slot),
            // Copied blocks are written from their mapped pages, which are write-protected.
            _ => (&self.shared.mapping, self.offset(block)),
        };
        let piece = Piece {
            mapping: Arc::clone(mapping),
            at: at + done,
            len: len - done,
            offset: self.shared.source.offset + to_u64(self.offset(block) + done),
            may_fault: Arc::ptr_eq(mapping, &self.shared.mapping),
        };
        let token = to_u64(block) << 1 | u64::from(is_write);
        if let Err(error) = self.transfers.start(&mut self.waiting, piece, is_write, token) {
            self.ended((token, Err(error)));
        }
    }

    pub(super) fn ended(&mut self, (token, result): Ended) {
        let (block, is_write) = (to_usize(token >> 1), token & 1 == 1);
        let len = self.shared.transfer_len(block);
        match result {
            Ok(moved) => {
                let counters = &self.shared.counters;
                let bytes = if is_write { &counters.written_bytes } else { &counters.read_bytes };
                bytes.add(to_u64(moved));
                let start = self.shared.source.offset + to_u64(self.offset(block));
                let file_end = self.shared.file_end.unwrap_or(u64::MAX);
                let state = self.block(block);
                let before = state.done;
                state.done = len.min(before + moved);
                let whole = state.done / PAGE_BYTES * PAGE_BYTES;
                let has_file_end = !is_write && start + to_u64(state.done) >= file_end;
                if state.done == len || has_file_end {
                    self.arrived(block, is_write);
                } else if whole > before {
                    state.done = whole;
                    self.transfer(block, is_write);
                } else if is_write {
                    state.done = before;
                    self.failed(block, is_write, &io::ErrorKind::WriteZero.into());
                } else if moved == 0 || state.short_reads == RETRIES {
                    // The file ends here; bytes beyond its end read as zero.
                    self.arrived(block, is_write);
                } else {
                    state.done = before;
                    state.short_reads += 1;
                    self.transfer(block, is_write);
                }
            }
            Err(error) => self.failed(block, is_write, &error),
        }
        if !self.waiters.has_any(block) {
            return;
        }
        // A block that is being evicted leaves at once, so that its frame serves the next one.
        let leaves = matches!(self.place(block), BlockState::Aside(_));
        if !leaves || self.go_on_with(block, Instant::now()) != Progress::Done {
            self.requests.look_at(block);
        }
    }

    fn arrived(&mut self, block: usize, is_write: bool) {
        self.block(block).short_reads = 0;
        if is_write { self.written(block) } else { self.read(block) }
    }

    fn failed(&mut self, block: usize, is_write: bool, error: &io::Error) {
        self.shared.counters.failures.add(1);
        let stops = self.stops();
        let state = self.block(block);
        state.failures += 1;
        if state.failures <= RETRIES && !stops {
            return self.transfer(block, is_write);
        }
        state.failures = 0;
        let (region, message) = (self.shared.name.clone(), error.to_string());
        let offset = to_u64(self.offset(block));
        tracing::error!(region, offset, message, is_write, "a block's transfer fails");
        if is_write {
            self.refused(block, &message);
        } else {
            self.poison(block, &message);
        }
    }

    fn read(&mut self, block: usize) {
        let BlockState::Filling(slot, since) = self.place(block) else { return };
        let (done, len) = (self.block(block).done, self.shared.block_len(block));
        let compares =
            self.shared.method == Method::Move && !self.shared.words[block].is_immutable();
        let is_new = compares && self.block(block).fingerprint.is_none();
        // SAFETY: the frame has pages for the block, and the block's transfer has ended.
        let bytes = unsafe { self.bytes(slot, len) };
        bytes[done..].fill(0);
        if is_new {
            let found = fingerprint(bytes);
            self.block(block).fingerprint = Some(found);
        }
        self.block(block).failures = 0;
        self.shared.counters.fills.add(1);
        self.came(block, slot, since);
    }

    /// Puts a block whose bytes are complete in a frame in its place, or aside if it marks a
    /// window.
    fn came(&mut self, block: usize, slot: Slot, since: Instant) {
        self.filling_count -= 1;
        let state = self.block(block);
        let waits = std::mem::take(&mut state.marker) && !state.faulted;
        if self.shared.method == Method::Copy {
            self.copy_in(block, slot);
        } else if waits && !self.waiters.has_any(block) {
            self.block(block).marker = true;
            return self.set_aside(block, slot);
        } else {
            self.move_in(block, slot);
        }
        self.settle(block);
        if self.block(block).faulted {
            self.record(since);
        }
    }

    pub(super) fn put_back(&mut self, block: usize, slot: Option<Slot>) {
        match slot {
            Some(slot) => self.move_in(block, slot),
            None => self.protect(block, !self.block_is_dirty(block)),
        }
        self.settle(block);
    }

    fn block_is_dirty(&self, block: usize) -> bool {
        self.blocks[self.local(block)].dirty
    }

    /// Marks a block as resident and completes the pins that wait for it.
    pub(super) fn settle(&mut self, block: usize) {
        self.block(block).place = BlockState::Resident;
        if !std::mem::replace(&mut self.block(block).queued, true) {
            self.queue.push_back(block);
        }
        let mut waiters = self.waiters.take(block);
        let pins = waiters.iter().filter(|(want, _)| *want == Want::Pin).count();
        if pins > 0 {
            self.open_for_system_calls(block);
        }
        self.shared.words[block].publish(u32::try_from(pins).unwrap_or(0));
        waiters.retain(|(want, waiter)| {
            if *want == Want::Pin && !waiter.done(block, Ok(())) {
                self.shared.words[block].unpin();
            }
            *want != Want::Pin
        });
        self.waiters.put_back(block, waiters);
    }

    /// Marks a block dirty and removes its write protection before it is pinned, if system calls
    /// cannot have their faults handled (`UFFD_USER_MODE_ONLY`): they must not fault on it.
    pub(super) fn open_for_system_calls(&mut self, block: usize) {
        let is_protected = self.shared.method == Method::Copy && !self.block(block).dirty;
        if is_protected && self.shared.faults == FaultsOf::UserCode {
            self.block(block).dirty = true;
            self.protect(block, false);
        }
    }

    pub(super) fn move_in(&mut self, block: usize, slot: Slot) {
        let (at, len) = (self.offset(block), self.shared.block_len(block));
        let (mapping, from) = self.memory(slot);
        let moved = self.fault.move_pages((&self.shared.mapping, at), (mapping, from), len, true);
        if let Err(Partial { done, error }) = moved {
            // The kernel still holds pages of the transfer, or a hole of the region was filled
            // meanwhile.
            tracing::debug!(region = self.shared.name, %error, done, "a block is copied in");
            self.shared.counters.copied.add(1);
            self.copy_rest(block, slot, done..len);
        }
        // Pages beyond the end of a short last block are not needed.
        if len < self.shared.block_bytes {
            let (mapping, from) = self.memory(slot);
            let rest = mapping.decommit(from + len, self.shared.block_bytes - len);
            self.warn_of(rest, "dropping");
        }
        self.frames.clear(slot);
    }

    /// Copies the pages that could not be moved, one by one, and drops them from the frame.
    pub(super) fn copy_rest(&mut self, block: usize, slot: Slot, rest: Range<usize>) {
        self.copy_pages(block, slot, rest.clone(), false);
        let (mapping, from) = self.memory(slot);
        self.warn_of(mapping.decommit(from + rest.start, rest.len()), "dropping");
        self.wake(block);
    }

    fn copy_in(&mut self, block: usize, slot: Slot) {
        let (at, len) = (self.offset(block), self.shared.block_len(block));
        let dirty = self.block(block).dirty;
        let shared = Arc::clone(&self.shared);
        let (mapping, from) = self.memory(slot);
        // SAFETY: the range is inside of the frame, which has pages for the block, and no transfer
        // uses it.
        let bytes = unsafe { std::slice::from_raw_parts(mapping.as_ptr().add(from), len) };
        if let Err(Partial { done, .. }) = self.fault.copy_in(&shared.mapping, at, bytes, !dirty) {
            self.copy_pages(block, slot, done..len, !dirty);
            self.wake(block);
        }
        // The frame keeps its pages for the next block; the block in place has new ones.
        self.frames.push_free(slot);
    }

    /// Copies pages of a frame to their place, except those that are present there. While memory is
    /// exhausted it waits, at most one second for all pages together. A page that still cannot be
    /// copied is poisoned, because it must not read as anything else.
    pub(super) fn copy_pages(
        &mut self,
        block: usize,
        slot: Slot,
        range: Range<usize>,
        protects: bool,
    ) {
        let start = self.offset(block);
        let shared = Arc::clone(&self.shared);
        let mut tries = 0;
        for at in range.step_by(PAGE_BYTES) {
            // SAFETY: the pages of the range are still in the frame, and no transfer uses it.
            let page = unsafe { self.bytes(slot, at + PAGE_BYTES) }[at..].to_vec();
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

    fn poison(&mut self, block: usize, message: &str) {
        let BlockState::Filling(slot, since) = self.place(block) else { return };
        if self.take_lost(block).lost {
            // The bytes that could not be read are unused.
            self.lose_bytes(block);
            return self.fill_with_zeros(block, slot, since);
        }
        self.filling_count -= 1;
        let (at, len) = (self.offset(block), self.shared.block_len(block));
        self.warn_of(self.fault.poison(&self.shared.mapping, at, len), "poisoning");
        self.wake(block);
        self.shared.counters.poisoned.add(1);
        self.block(block).place = BlockState::Poisoned;
        match self.shared.method {
            Method::Move => self.give_back(slot, len),
            Method::Copy => {
                self.frames.push_free(slot);
                self.lose_frame();
            }
        }
        self.end_waiters_of_poisoned(block, message);
    }

    pub(super) fn unreadable(&self, block: usize, message: &str) -> RegionError {
        let (region, offset) = (self.shared.name.clone(), to_u64(self.offset(block)));
        RegionError::Read { region, offset, message: message.to_owned() }
    }
}

/// True if the error may be transient: memory is exhausted, or the kernel asks to try again.
fn may_pass(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::OutOfMemory | io::ErrorKind::WouldBlock)
}
