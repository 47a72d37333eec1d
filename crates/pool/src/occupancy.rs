//! Occupancy of frames: a page comes into a frame, and leaves it.

use terrace_sys::policy::PreferredNode;

use crate::core::Core;
use crate::page::{FrameId, PageId};
use crate::tier::Taken;

/// Takes a frame of a tier for `page` without evicting anything; `None` if the tier has no room.
/// Wakes the background worker if the tier's headroom falls below its low watermark.
pub(crate) fn take_from(core: &Core, tier: usize, page: PageId, len: usize) -> Option<Taken> {
    let frames = &core.tiers[tier];
    let taken = frames.take(&core.frames, page, len)?;
    core.clock.advance(len);
    if frames.headroom() < frames.low_water() {
        core.progress.ask();
    }
    Some(taken)
}

/// Assigns the frame to the page, under the exclusive latch, which this acquires and keeps.
///
/// A reader with a stale hint may hold the latch for a moment, until it finds that the page is
/// gone.
pub(crate) fn occupy(core: &Core, id: FrameId, page: PageId, space: u32, len: usize, cold: bool) {
    let frame = &core.frames[id];
    frame.latch.exclusive(&core.lot);
    frame.begin_page(page, space, len, (core.clock.now(), core.heat.epoch()), cold);
    core.spaces.came(space, len as u64);
}

/// Decommits the memory of mapped frames, all held exclusively by the caller, whose pages are about
/// to leave memory. Framed pages release theirs in [`vacate`].
///
/// Must be called before the page's state changes: a mapped page has the same frame when it is
/// loaded again, and another thread may load it at once.
pub(crate) fn give_room(core: &Core, ids: &[FrameId]) {
    let Some(range) = core.addresses.range() else { return };
    let ranges: Vec<_> =
        ids.iter().map(|id| (id.mapped_offset(), core.frames[*id].committed())).collect();
    let given = range.decommit_batch(&ranges);
    if let Err(error) = &given {
        tracing::warn!(pool = core.name, %error, "memory of pages was not given back");
    }
    for id in ids {
        let frame = &core.frames[*id];
        if given.is_ok() {
            frame.set_committed(0);
        }
        core.tiers[frame.tier()].leave(&core.frames, *id);
    }
}

/// Removes the page from a frame held exclusively, releases the hold, and frees a framed pool's
/// frame.
pub(crate) fn vacate(core: &Core, id: FrameId) {
    let frame = &core.frames[id];
    let (tier, len) = (frame.tier(), frame.len());
    core.spaces.left(frame.space(), len as u64);
    frame.end_page();
    frame.latch.release_exclusive(&core.lot);
    if !core.addresses.is_mapped() {
        core.tiers[tier].release(&core.frames, id, len);
    }
    core.progress.notify();
}

/// Returns a guard; while it lives, memory that this thread touches first comes from the node of
/// `tier`. `None` if no tier names a node.
pub(crate) fn prefer(core: &Core, tier: usize) -> Option<PreferredNode> {
    core.nodes.as_ref()?.prefer(&core.name, core.tiers[tier].memory())
}

/// Populates the page of a new mapped frame, so that its memory is on the tier's node.
pub(crate) fn settle_memory(core: &Core, id: FrameId, len: usize) {
    let Some(range) = core.addresses.range().filter(|_| core.nodes.is_some()) else { return };
    let _node = prefer(core, core.frames[id].tier());
    if let Err(error) = range.populate(id.mapped_offset(), len) {
        tracing::debug!(pool = core.name, %error, "memory is touched when it is written");
    }
}
