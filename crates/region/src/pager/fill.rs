//! Brings blocks into memory: reads them, or fills them with zeros, and puts them in place.

use std::time::Instant;

use super::allocate::{give_back, lose_frame, take_frame};
use super::core::Core;
use super::fingerprint::fingerprint;
use super::place::{end_waiters_of_poisoned, lose_bytes, set_aside, settle};
use super::transfer::transfer;
use crate::block::{BlockState, Slot};
use crate::config::Method;

/// Begins to fill a block, or queues it for a frame; the fault or request began at `since`.
pub(super) fn begin(core: &mut Core, block: usize, since: Instant) {
    let can = core.transfers.fills() < core.shared.depth;
    let slot = if can { take_frame(core, core.shared.block_len(block)) } else { None };
    match slot {
        Some(slot) => fill(core, block, slot, since),
        None => {
            core.blocks.set_place(block, BlockState::Queued(since));
            core.wanted.push_back(block);
        }
    }
}

/// Starts to fill a block in the frame `slot`, by a read of the source or with zeros; the fault or
/// request began at `since`.
pub(super) fn fill(core: &mut Core, block: usize, slot: Slot, since: Instant) {
    let state = core.blocks.get_mut(block);
    state.place = BlockState::Filling(slot, since);
    state.done = 0;
    core.transfers.begin_fill();
    if core.shared.words[block].take_lost().lost {
        lose_bytes(core, block);
    }
    if core.blocks.get(block).stored {
        return transfer(core, block, false);
    }
    fill_with_zeros(core, block, slot, since);
}

fn fill_with_zeros(core: &mut Core, block: usize, slot: Slot, since: Instant) {
    let len = core.shared.block_len(block);
    // SAFETY: the frame was taken with pages for the block, and no transfer uses it.
    unsafe { core.frames.bytes(slot, len) }.fill(0);
    let zeros = core.zeros.fingerprint(len, core.shared.block_bytes);
    core.blocks.get_mut(block).fingerprint = Some(zeros);
    core.shared.counters.zeroed.add(1);
    came(core, block, slot, since);
}

/// Ends the read of a block.
pub(super) fn read(core: &mut Core, block: usize) {
    let BlockState::Filling(slot, since) = core.blocks.place(block) else { return };
    let (done, len) = (core.blocks.get(block).done, core.shared.block_len(block));
    let compares = core.shared.method == Method::Move && !core.shared.words[block].is_immutable();
    let is_new = compares && core.blocks.get(block).fingerprint.is_none();
    // SAFETY: the frame has pages for the block, and the block's transfer has ended.
    let bytes = unsafe { core.frames.bytes(slot, len) };
    bytes[done..].fill(0);
    let state = core.blocks.get_mut(block);
    if is_new {
        state.fingerprint = Some(fingerprint(bytes));
    }
    state.failures = 0;
    core.shared.counters.fills.add(1);
    came(core, block, slot, since);
}

/// Puts a block whose bytes are complete in a frame in its place, or aside if it marks a window.
fn came(core: &mut Core, block: usize, slot: Slot, since: Instant) {
    core.transfers.end_fill();
    let state = core.blocks.get_mut(block);
    let waits = std::mem::take(&mut state.marker) && !state.faulted;
    if core.shared.method == Method::Copy {
        core.pages.copy_in(&mut core.frames, block, slot, state.dirty);
    } else if waits && !core.waiters.has_any(block) {
        state.marker = true;
        return set_aside(core, block, slot);
    } else {
        core.pages.move_in(&mut core.frames, block, slot);
    }
    settle(core, block);
    if core.blocks.get(block).faulted {
        core.record(since);
    }
}

/// Poisons a block that could not be read, and ends its fill.
pub(super) fn poison(core: &mut Core, block: usize, message: &str) {
    let BlockState::Filling(slot, since) = core.blocks.place(block) else { return };
    if core.shared.words[block].take_lost().lost {
        // The bytes that could not be read are unused.
        lose_bytes(core, block);
        return fill_with_zeros(core, block, slot, since);
    }
    core.transfers.end_fill();
    core.pages.poison(block);
    core.shared.counters.poisoned.add(1);
    core.blocks.set_place(block, BlockState::Poisoned);
    match core.shared.method {
        Method::Move => give_back(core, slot, core.shared.block_len(block)),
        Method::Copy => {
            core.frames.push_free(slot);
            lose_frame(core);
        }
    }
    end_waiters_of_poisoned(core, block, message);
}
