//! Eviction: takes blocks out of their place, writes dirty ones back, and discards clean ones.

use std::io;
use std::sync::Arc;

use terrace_store::Io;
use terrace_sys::buffer::AlignedBuffer;
use terrace_sys::size::{PAGE_BYTES, to_u64};

use super::{Pager, fingerprint};
use crate::block::{BlockState, Lost, Slot};
use crate::command_queue::Want;
use crate::config::Method;
use crate::error::RegionError;

/// Maximum number of blocks that are written from their mapped pages at a time.
const WRITES_MAX: usize = 64;

/// State of a page of a block in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    There,
    /// The process dropped it (`madvise`); it has just been filled with zeros.
    Filled,
    /// The process unmapped it.
    Gone,
}

impl Pager {
    /// True if there is room for one more block out of its place or in write-back.
    pub(super) fn has_room_to_take_out(&self, block: usize) -> bool {
        match self.shared.method {
            Method::Move => self.frames.empty_staging() > 0,
            Method::Copy => {
                self.writing_count < WRITES_MAX || !self.blocks[self.local(block)].is_dirty()
            }
        }
    }

    /// Takes a block out of its place; false if it is pinned, held by the kernel, or finds no room.
    pub(super) fn take_out(&mut self, block: usize) -> bool {
        if self.shared.method == Method::Copy {
            return self.take_out_copied(block);
        }
        let Some(slot) = self.frames.take_staging() else { return false };
        self.clear_refused_pages();
        if !self.shared.words[block].withdraw() {
            self.frames.clear(slot);
            return false;
        }
        if !self.move_out(block, slot) {
            self.frames.clear(slot);
            if self.lose_unmapped(block) {
                return true;
            }
            self.shared.words[block].publish(0);
            return false;
        }
        self.shared.counters.taken_out.add(1);
        if self.take_lost(block).unused {
            self.discard(block, slot);
            return true;
        }
        if self.shared.words[block].is_immutable() {
            self.set_aside(block, slot);
            return true;
        }
        let len = self.shared.block_len(block);
        // SAFETY: the block's pages have just been moved to the frame, and no transfer uses it.
        let found = fingerprint(unsafe { self.bytes(slot, len) });
        if self.block(block).fingerprint == Some(found) && !self.block(block).torn {
            self.refusals.end(block);
            self.set_aside(block, slot);
        } else {
            self.block(block).next_fingerprint = found;
            self.write(block, Some(slot));
        }
        true
    }

    pub(super) fn set_aside(&mut self, block: usize, slot: Slot) {
        self.block(block).place = BlockState::Aside(slot);
        self.aside.came();
        if !std::mem::replace(&mut self.block(block).listed, true) {
            self.aside.push(block);
        }
    }

    fn write(&mut self, block: usize, slot: Option<Slot>) {
        self.block(block).place = BlockState::Writing(slot, false);
        self.block(block).done = 0;
        self.writing_count += 1;
        self.transfer(block, true);
    }

    /// Probes a page by `UFFDIO_ZEROPAGE`, which tells if the page still belongs to the region:
    /// after an unmap, other code of the process may have mapped another page there. Fills a hole
    /// with zeros.
    fn look(&self, page: usize) -> Page {
        match self.fault.zero(&self.shared.mapping, page, PAGE_BYTES) {
            Ok(()) => Page::Filled,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Page::Gone,
            Err(_) => Page::There,
        }
    }

    /// Moves a block's pages to a frame, all or none of them. The kernel moves pages of a single
    /// mapping only: if the first page belongs to the region, so do all pages that it moves.
    fn move_out(&mut self, block: usize, slot: Slot) -> bool {
        let (at, len) = (self.offset(block), self.shared.block_len(block));
        if self.look(at) == Page::Gone {
            return false;
        }
        let shared = Arc::clone(&self.shared);
        let (mapping, to) = self.memory(slot);
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
            self.copy_rest(block, slot, partial.done..done);
        }
        // The frame must be empty: a page left in it would make every later move to it fail.
        let (mapping, to) = self.memory(slot);
        self.warn_of(mapping.decommit(to, len), "dropping");
        self.wake(block);
        false
    }

    /// Drops a copied block if it is clean, else starts its write-back. Threads that write to the
    /// protected block wait meanwhile.
    fn take_out_copied(&mut self, block: usize) -> bool {
        let dirty = self.block(block).is_dirty();
        if !self.has_room_to_take_out(block) || !self.shared.words[block].withdraw() {
            return false;
        }
        self.shared.counters.taken_out.add(1);
        let (first, end) = (self.offset(block), self.offset(block) + self.shared.block_len(block));
        let [head, tail] = [first, (end - 1) / PAGE_BYTES * PAGE_BYTES].map(|page| self.look(page));
        let is_whole = !dirty && head == Page::There && tail == Page::There;
        // The block is write-protected, so that writers wait. The kernel refuses to protect a range
        // that other code has mapped.
        let is_ours =
            is_whole && self.fault.protect(&self.shared.mapping, first, end - first, true).is_ok();
        if is_ours {
            let Lost { unused, .. } = self.take_lost(block);
            self.drop_copied(block, unused);
        } else if !self.lose_unmapped(block) {
            // The holes are filled: otherwise the transfer would fault on them, and this thread
            // handles the faults.
            self.protect(block, true);
            match self.take_lost(block) {
                Lost { unused: true, .. } => self.drop_copied(block, true),
                Lost { unused: false, .. } => self.write(block, None),
            }
        }
        true
    }

    /// Fills a block's holes with zeros. If any of its pages is unmapped, gives up the frame and
    /// returns true.
    fn lose_unmapped(&mut self, block: usize) -> bool {
        let (at, len) = (self.offset(block), self.shared.block_len(block));
        let is_unmapped =
            (at..at + len).step_by(PAGE_BYTES).any(|page| self.look(page) == Page::Gone);
        if is_unmapped {
            let (region, offset) = (&self.shared.name, to_u64(at));
            tracing::error!(region, offset, "a part of the region was unmapped");
            self.block(block).place = BlockState::Unmapped;
            self.refusals.end(block);
            self.lose_frame();
            self.wake(block);
        }
        is_unmapped
    }

    fn drop_copied(&mut self, block: usize, unused: bool) {
        let (at, len) = (self.offset(block), self.shared.block_len(block));
        self.warn_of(self.shared.mapping.decommit(at, len), "dropping");
        self.block(block).place = BlockState::Absent;
        self.shared.counters.evicted.add(1);
        self.lose_frame();
        if unused {
            self.shared.counters.discarded.add(1);
            self.lose_bytes(block);
        }
        self.wake(block);
    }

    pub(super) fn written(&mut self, block: usize) {
        let BlockState::Writing(slot, wanted) = self.place(block) else { return };
        self.writing_count -= 1;
        self.cut_file(block);
        let state = self.block(block);
        state.failures = 0;
        state.stored = true;
        state.dirty = false;
        state.torn = false;
        state.fingerprint = Some(state.next_fingerprint);
        self.refusals.end(block);
        self.shared.counters.write_backs.add(1);
        // A write made before the flush was requested was in the block when it was taken out.
        let flushed = self.has_waiter(block, Want::Flush);
        self.waiters.end_for(block, Want::Flush);
        let evicts = self.has_waiter(block, Want::Evict);
        let stays = wanted || (flushed || self.waiters.has_any(block)) && !evicts;
        match slot {
            _ if stays => {
                // A thread that waits to write to a copied block will make it dirty.
                self.block(block).dirty = wanted && slot.is_none();
                self.put_back(block, slot);
            }
            // A block declared unused during its write-back has not been written to since.
            Some(slot) if self.take_lost(block).lost => self.discard(block, slot),
            Some(slot) => self.set_aside(block, slot),
            None => {
                let Lost { lost, .. } = self.take_lost(block);
                self.drop_copied(block, lost);
            }
        }
    }

    /// Cuts the file back to its length after a write of the last block, which is written by whole
    /// pages.
    fn cut_file(&self, block: usize) {
        let Some(end) = self.shared.file_end else { return };
        let Some(file) = self.shared.source.blocks.file() else { return };
        let written = self.shared.source.offset + to_u64(self.shared.len);
        // A file that is longer has been extended by other writers, whose bytes must stay.
        if block + 1 == self.shared.words.len()
            && file.len().is_ok_and(|len| len <= written)
            && let Err(error) = file.truncate(end)
        {
            tracing::warn!(region = self.shared.name, %error, "the file ends with zeros");
        }
    }

    pub(super) fn refused(&mut self, block: usize, message: &str) {
        let BlockState::Writing(slot, _) = self.place(block) else { return };
        self.writing_count -= 1;
        self.refusals.begin(block, message);
        // The source may hold part of the write, so the block is dirty, whatever its fingerprint.
        self.block(block).dirty = true;
        self.block(block).torn = true;
        let waiters = self.waiters.take(block);
        let (pins, rest): (Vec<_>, Vec<_>) =
            waiters.into_iter().partition(|(want, _)| *want == Want::Pin);
        self.waiters.put_back(block, pins);
        self.put_back(block, slot);
        for (_, waiter) in rest {
            waiter.done(block, Err(self.unwritable(block, message)));
        }
    }

    /// Writes a dirty block from its mapped pages when the region is dropped, if it is pinned or
    /// could not be taken out of its place. No thread uses the region any more, so the pager may
    /// block.
    pub(super) fn save(&mut self, block: usize) -> Result<(), String> {
        let is_clean = self.shared.method == Method::Copy && !self.block(block).is_dirty();
        let word = &self.shared.words[block];
        if is_clean || word.is_immutable() || word.is_unused() {
            return Ok(());
        }
        if self.lose_unmapped(block) {
            return Err("it was unmapped, or a part of it".to_owned());
        }
        let (at, len) = (self.offset(block), self.shared.block_len(block));
        let mut bytes = AlignedBuffer::zeroed(len);
        // SAFETY: all pages of the block are present, because `lose_unmapped` has filled its holes;
        // a thread that writes to them meanwhile violates the contract of the dropped region, and
        // only affects the bytes that are written. The buffer has the same length.
        unsafe {
            let from = self.shared.mapping.as_ptr().add(at);
            from.copy_to_nonoverlapping(bytes.as_mut_ptr(), len);
        }
        let state = &self.blocks[self.local(block)];
        if state.fingerprint == Some(fingerprint(&bytes)) && !state.torn {
            return Ok(());
        }
        let (source, offset) = (&self.shared.source, to_u64(at));
        let bytes = &bytes[..self.shared.transfer_len(block)];
        let mut batch = [Io::write(source.offset + offset, bytes)];
        if source.blocks.file().is_none() {
            let room = source.blocks.ensure(source.offset + offset + to_u64(bytes.len()));
            room.map_err(|error| error.to_string())?;
        }
        source.blocks.run(&mut batch, &|_| {});
        let [io] = batch;
        io.result.map_err(|error| error.to_string())?;
        self.cut_file(block);
        Ok(())
    }

    pub(super) fn unwritable(&self, block: usize, message: &str) -> RegionError {
        let (region, offset) = (self.shared.name.clone(), to_u64(self.offset(block)));
        RegionError::Write { region, offset, message: message.to_owned() }
    }
}
