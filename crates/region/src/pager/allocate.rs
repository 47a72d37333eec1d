//! Allocation of frames to blocks: free frames, new frames, and the frames of blocks in the
//! second-chance list (*aside*).

use super::core::Core;
use super::limits::FRAMES_MIN;
use crate::block::{BlockState, Slot};
use crate::config::{DEPTH_MAX, Method};

/// Allocates a frame with pages for `len` bytes, if the cap, the budget and memory allow it.
fn grow(core: &mut Core, len: usize) -> Option<Slot> {
    core.frames.grow(len, core.wanted.len())
}

/// Frees the pages of a frame and releases its budget.
pub(super) fn drop_frame(core: &mut Core, slot: Slot) {
    core.frames.drop_frame(slot, core.wanted.len());
}

/// Frees a frame as [`drop_frame`] does, but keeps the last `FRAMES_MIN` frames.
pub(super) fn give_back(core: &mut Core, slot: Slot, len: usize) {
    if core.frames.count() <= FRAMES_MIN && len == core.shared.block_bytes {
        core.frames.push_free(slot);
    } else {
        drop_frame(core, slot);
    }
}

/// Releases the budget of a frame that has no pages.
pub(super) fn lose_frame(core: &mut Core) {
    core.frames.lose(core.wanted.len());
}

/// Frees spare frames that no block waits for.
pub(super) fn drop_spare(core: &mut Core) {
    // The last copy buffer is kept.
    let kept = core.wanted.len().min(DEPTH_MAX) + usize::from(core.shared.method == Method::Copy);
    while core.frames.free() > kept
        && core.frames.count() > FRAMES_MIN
        && let Some(slot) = core.frames.pop_free()
    {
        drop_frame(core, slot);
    }
}

/// Takes a frame with pages for a block of `len` bytes: a free one, a new one, or that of the
/// oldest block aside. Where blocks are copied, the frame is the buffer to copy from, and the bytes
/// of another frame are reserved for the block itself.
pub(super) fn take_frame(core: &mut Core, len: usize) -> Option<Slot> {
    let bytes = core.shared.block_bytes;
    if core.shared.method == Method::Copy {
        // Without room, copy buffers are freed until one is left.
        while !core.frames.reserve(core.wanted.len()) {
            if core.frames.free() < 2 {
                return None;
            }
            core.frames.pop_free().into_iter().for_each(|spare| drop_frame(core, spare));
        }
        let slot = core.frames.pop_free().or_else(|| grow(core, bytes));
        if slot.is_none() {
            lose_frame(core);
            core.frames.set_full();
        }
        return slot;
    }
    if len == bytes {
        let slot = core.frames.pop_free();
        return slot.or_else(|| grow(core, len)).or_else(|| take_aside(core));
    }
    // The frame of a short last block has only the pages that it needs, and fits no other block.
    if let Some(slot) = grow(core, len) {
        return Some(slot);
    }
    let slot = core.frames.pop_free().or_else(|| take_aside(core))?;
    let (mapping, at) = core.frames.memory(slot);
    core.pages.warn_of(mapping.decommit(at + len, bytes - len), "dropping");
    Some(slot)
}

/// Evicts the oldest block aside and takes its frame. A block that a sequential reader will touch
/// soon is kept while there are others.
pub(super) fn take_aside(core: &mut Core) -> Option<Slot> {
    let mut kept = 0;
    while let Some(block) = core.aside.pop() {
        core.blocks.get_mut(block).listed = false;
        let BlockState::Aside(slot) = core.blocks.place(block) else { continue };
        if is_awaited(core, block) && kept < core.aside.listed() {
            kept += 1;
            core.blocks.get_mut(block).listed = true;
            core.aside.push(block);
            continue;
        }
        forget(core, block);
        if core.shared.block_len(block) == core.shared.block_bytes {
            return Some(slot);
        }
        drop_frame(core, slot);
    }
    None
}

/// Evicts the oldest block aside and frees its frame; false if there is none.
pub(super) fn drop_aside(core: &mut Core) -> bool {
    let slot = take_aside(core);
    slot.into_iter().for_each(|slot| drop_frame(core, slot));
    slot.is_some()
}

fn is_awaited(core: &Core, block: usize) -> bool {
    core.blocks.get(block).marker && core.ahead.awaits(block)
}

/// Evicts a block that is aside: from here on it is only in the source.
pub(super) fn forget(core: &mut Core, block: usize) {
    core.aside.left();
    let state = core.blocks.get_mut(block);
    state.place = BlockState::Absent;
    state.hot = false;
    state.marker = false;
    core.shared.counters.evicted.add(1);
}
