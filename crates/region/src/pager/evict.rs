//! Eviction: takes blocks out of their place, writes dirty ones back, and discards clean ones.

use std::sync::Arc;

use terrace_store::Io;
use terrace_sys::buffer::AlignedBuffer;
use terrace_sys::size::{PAGE_BYTES, to_u64};

use super::core::Core;
use super::fingerprint::fingerprint;
use super::pages::Page;
use super::place::{discard, drop_copied, lose_unmapped, put_back, set_aside};
use super::transfer::transfer;
use crate::block::{BlockState, Lost, Slot};
use crate::command_queue::Want;
use crate::config::Method;
use crate::state::Shared;

/// Maximum number of blocks that are written from their mapped pages at a time.
const WRITES_MAX: usize = 64;

/// True if there is room for one more block out of its place or in write-back.
pub(super) fn has_room_to_take_out(core: &Core, block: usize) -> bool {
    match core.shared.method {
        Method::Move => core.frames.empty_staging() > 0,
        Method::Copy => core.transfers.writes() < WRITES_MAX || !core.blocks.get(block).is_dirty(),
    }
}

/// Takes a block out of its place, and then discards it, sets it aside, or starts its write-back.
/// Returns false if it is pinned, held by the kernel, or finds no room.
pub(super) fn take_out(core: &mut Core, block: usize) -> bool {
    if core.shared.method == Method::Copy {
        return take_out_copied(core, block);
    }
    let Some(slot) = core.frames.take_staging() else { return false };
    core.pages.clear_refused(&mut core.frames);
    if !core.shared.words[block].withdraw() {
        core.frames.clear(slot);
        return false;
    }
    if !core.pages.move_out(&mut core.frames, block, slot) {
        core.frames.clear(slot);
        if lose_unmapped(core, block) {
            return true;
        }
        core.shared.words[block].publish(0);
        return false;
    }
    core.shared.counters.taken_out.add(1);
    if core.shared.words[block].take_lost().unused {
        discard(core, block, slot);
        return true;
    }
    if core.shared.words[block].is_immutable() {
        set_aside(core, block, slot);
        return true;
    }
    let len = core.shared.block_len(block);
    // SAFETY: the block's pages have just been moved to the frame, and no transfer uses it.
    let found = fingerprint(unsafe { core.frames.bytes(slot, len) });
    let state = core.blocks.get_mut(block);
    if state.fingerprint == Some(found) && !state.torn {
        core.refusals.end(block);
        set_aside(core, block, slot);
    } else {
        state.next_fingerprint = found;
        write(core, block, Some(slot));
    }
    true
}

fn write(core: &mut Core, block: usize, slot: Option<Slot>) {
    let state = core.blocks.get_mut(block);
    state.place = BlockState::Writing(slot, false);
    state.done = 0;
    core.transfers.begin_write();
    transfer(core, block, true);
}

/// Drops a copied block if it is clean, else starts its write-back. Threads that write to the
/// protected block wait meanwhile.
fn take_out_copied(core: &mut Core, block: usize) -> bool {
    let dirty = core.blocks.get(block).is_dirty();
    if !has_room_to_take_out(core, block) || !core.shared.words[block].withdraw() {
        return false;
    }
    core.shared.counters.taken_out.add(1);
    let first = core.shared.offset(block);
    let end = first + core.shared.block_len(block);
    let [head, tail] =
        [first, (end - 1) / PAGE_BYTES * PAGE_BYTES].map(|page| core.pages.probe(page));
    let is_whole = !dirty && head == Page::There && tail == Page::There;
    // The block is write-protected, so that writers wait. The kernel refuses to protect a range
    // that other code has mapped.
    let is_ours = is_whole && core.pages.try_protect(block, true).is_ok();
    if is_ours {
        let Lost { unused, .. } = core.shared.words[block].take_lost();
        drop_copied(core, block, unused);
    } else if !lose_unmapped(core, block) {
        // The holes are filled: otherwise the transfer would fault on them, and this thread
        // handles the faults.
        core.pages.protect(block, true);
        match core.shared.words[block].take_lost() {
            Lost { unused: true, .. } => drop_copied(core, block, true),
            Lost { unused: false, .. } => write(core, block, None),
        }
    }
    true
}

/// Ends the write-back of a block.
pub(super) fn written(core: &mut Core, block: usize) {
    let BlockState::Writing(slot, wanted) = core.blocks.place(block) else { return };
    core.transfers.end_write();
    cut_file(&core.shared, block);
    let state = core.blocks.get_mut(block);
    state.failures = 0;
    state.stored = true;
    state.dirty = false;
    state.torn = false;
    state.fingerprint = Some(state.next_fingerprint);
    core.refusals.end(block);
    core.shared.counters.write_backs.add(1);
    // A write made before the flush was requested was in the block when it was taken out.
    let flushed = core.waiters.has(block, Want::Flush);
    core.waiters.end_for(block, Want::Flush);
    let evicts = core.waiters.has(block, Want::Evict);
    let stays = wanted || (flushed || core.waiters.has_any(block)) && !evicts;
    match slot {
        _ if stays => {
            // A thread that waits to write to a copied block will make it dirty.
            core.blocks.get_mut(block).dirty = wanted && slot.is_none();
            put_back(core, block, slot);
        }
        // A block declared unused during its write-back has not been written to since.
        Some(slot) if core.shared.words[block].take_lost().lost => discard(core, block, slot),
        Some(slot) => set_aside(core, block, slot),
        None => {
            let Lost { lost, .. } = core.shared.words[block].take_lost();
            drop_copied(core, block, lost);
        }
    }
}

/// Cuts the file back to its length after a write of the last block, which is written by whole
/// pages.
fn cut_file(shared: &Shared, block: usize) {
    let Some(end) = shared.file_end else { return };
    let Some(file) = shared.source.blocks.file() else { return };
    let written = shared.source.offset + to_u64(shared.len);
    // A file that is longer has been extended by other writers, whose bytes must stay.
    if block + 1 == shared.words.len()
        && file.len().is_ok_and(|len| len <= written)
        && let Err(error) = file.truncate(end)
    {
        tracing::warn!(region = shared.name, %error, "the file ends with zeros");
    }
}

/// Ends a write-back that the source refused: the block returns to its place.
pub(super) fn refused(core: &mut Core, block: usize, message: &str) {
    let BlockState::Writing(slot, _) = core.blocks.place(block) else { return };
    core.transfers.end_write();
    core.refusals.begin(block, message);
    // The source may hold part of the write, so the block is dirty, whatever its fingerprint.
    let state = core.blocks.get_mut(block);
    state.dirty = true;
    state.torn = true;
    let waiters = core.waiters.take(block);
    let (pins, rest): (Vec<_>, Vec<_>) =
        waiters.into_iter().partition(|(want, _)| *want == Want::Pin);
    core.waiters.put_back(block, pins);
    put_back(core, block, slot);
    for (_, waiter) in rest {
        waiter.done(block, Err(core.shared.unwritable(block, message)));
    }
}

/// Writes a dirty block from its mapped pages when the region is dropped, if it is pinned or could
/// not be taken out of its place. No thread uses the region any more, so the pager may block.
pub(super) fn save(core: &mut Core, block: usize) -> Result<(), String> {
    let is_clean = core.shared.method == Method::Copy && !core.blocks.get(block).is_dirty();
    let word = &core.shared.words[block];
    if is_clean || word.is_immutable() || word.is_unused() {
        return Ok(());
    }
    if lose_unmapped(core, block) {
        return Err("it was unmapped, or a part of it".to_owned());
    }
    let shared = Arc::clone(&core.shared);
    let (at, len) = (shared.offset(block), shared.block_len(block));
    let mut bytes = AlignedBuffer::zeroed(len);
    // SAFETY: all pages of the block are present, because `lose_unmapped` has filled its holes; a
    // thread that writes to them meanwhile violates the contract of the dropped region, and only
    // affects the bytes that are written. The buffer has the same length.
    unsafe {
        let from = shared.mapping.as_ptr().add(at);
        from.copy_to_nonoverlapping(bytes.as_mut_ptr(), len);
    }
    let state = core.blocks.get(block);
    if state.fingerprint == Some(fingerprint(&bytes)) && !state.torn {
        return Ok(());
    }
    let (source, offset) = (&shared.source, to_u64(at));
    let bytes = &bytes[..shared.transfer_len(block)];
    let mut batch = [Io::write(source.offset + offset, bytes)];
    if source.blocks.file().is_none() {
        let room = source.blocks.ensure(source.offset + offset + to_u64(bytes.len()));
        room.map_err(|error| error.to_string())?;
    }
    source.blocks.run(&mut batch, &|_| {});
    let [io] = batch;
    io.result.map_err(|error| error.to_string())?;
    cut_file(&shared, block);
    Ok(())
}
