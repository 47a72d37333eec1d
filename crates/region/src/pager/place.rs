//! Changes of a block's place: into it, aside, and out of memory.

use terrace_sys::size::to_u64;
use terrace_sys::userfault::FaultsOf;

use super::allocate::{drop_frame, lose_frame};
use super::core::Core;
use crate::block::{BlockState, Slot};
use crate::command_queue::Want;
use crate::config::{Contents, Method};

/// Moves a block from a staging frame back to its place, or without one permits access to it again.
pub(super) fn put_back(core: &mut Core, block: usize, slot: Option<Slot>) {
    match slot {
        Some(slot) => core.pages.move_in(&mut core.frames, block, slot),
        None => core.pages.protect(block, !core.blocks.get(block).dirty),
    }
    settle(core, block);
}

/// Marks a block as resident and completes the pins that wait for it.
pub(super) fn settle(core: &mut Core, block: usize) {
    let state = core.blocks.get_mut(block);
    state.place = BlockState::Resident;
    core.queue.push(block, &mut state.queued);
    let mut waiters = core.waiters.take(block);
    let pins = waiters.iter().filter(|(want, _)| *want == Want::Pin).count();
    if pins > 0 {
        open_for_system_calls(core, block);
    }
    core.shared.words[block].publish(u32::try_from(pins).unwrap_or(0));
    waiters.retain(|(want, waiter)| {
        if *want == Want::Pin && !waiter.done(block, Ok(())) {
            core.shared.words[block].unpin();
        }
        *want != Want::Pin
    });
    core.waiters.put_back(block, waiters);
}

/// Marks a block dirty and removes its write protection before it is pinned, if system calls cannot
/// have their faults handled (`UFFD_USER_MODE_ONLY`): they must not fault on it.
pub(super) fn open_for_system_calls(core: &mut Core, block: usize) {
    let is_protected = core.shared.method == Method::Copy && !core.blocks.get(block).dirty;
    if is_protected && core.shared.faults == FaultsOf::UserCode {
        core.blocks.get_mut(block).dirty = true;
        core.pages.protect(block, false);
    }
}

/// Keeps a block, which is out of its place, in its frame for a second chance.
pub(super) fn set_aside(core: &mut Core, block: usize, slot: Slot) {
    let state = core.blocks.get_mut(block);
    state.place = BlockState::Aside(slot);
    core.aside.came();
    if !std::mem::replace(&mut state.listed, true) {
        core.aside.push(block);
    }
}

/// Discards an unused block that is out of its place.
pub(super) fn discard(core: &mut Core, block: usize, slot: Slot) {
    core.blocks.set_place(block, BlockState::Absent);
    core.shared.counters.evicted.add(1);
    lose_frame_of(core, block, slot);
}

/// Frees the frame of an unused block and forgets the source's copy of it.
pub(super) fn lose_frame_of(core: &mut Core, block: usize, slot: Slot) {
    core.shared.counters.discarded.add(1);
    lose_bytes(core, block);
    if core.shared.block_len(block) == core.shared.block_bytes {
        core.frames.push_free(slot);
    } else {
        drop_frame(core, slot);
    }
}

/// Forgets the source's copy of a block, which must not be read again.
pub(super) fn lose_bytes(core: &mut Core, block: usize) {
    let lasts = core.shared.source.contents == Contents::Stored;
    core.refusals.end(block);
    core.blocks.get_mut(block).lose_bytes(lasts);
}

/// Evicts a copied block from its place; an unused one is discarded.
pub(super) fn drop_copied(core: &mut Core, block: usize, unused: bool) {
    core.pages.decommit(block);
    core.blocks.set_place(block, BlockState::Absent);
    core.shared.counters.evicted.add(1);
    lose_frame(core);
    if unused {
        core.shared.counters.discarded.add(1);
        lose_bytes(core, block);
    }
    core.pages.wake(block);
}

/// Fills a block's holes with zeros. If any of its pages is unmapped, gives up the frame and
/// returns true.
pub(super) fn lose_unmapped(core: &mut Core, block: usize) -> bool {
    let is_unmapped = core.pages.is_unmapped(block);
    if is_unmapped {
        let (region, offset) = (&core.shared.name, to_u64(core.shared.offset(block)));
        tracing::error!(region, offset, "a part of the region was unmapped");
        core.blocks.set_place(block, BlockState::Unmapped);
        core.refusals.end(block);
        lose_frame(core);
        core.pages.wake(block);
    }
    is_unmapped
}

/// Ends the requests on a poisoned block: pins fail, and there is nothing to write back or evict.
pub(super) fn end_waiters_of_poisoned(core: &mut Core, block: usize, message: &str) {
    for (want, waiter) in core.waiters.take(block) {
        let result = match want {
            Want::Pin => Err(core.shared.unreadable(block, message)),
            Want::Evict | Want::Flush | Want::Save => Ok(()),
        };
        waiter.done(block, result);
    }
}
