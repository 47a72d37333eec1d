//! Freeing of pages that no thread can reach any more: their frames, extents and ids.

use terrace_store::Extent;

use crate::core::Core;
use crate::occupancy;
use crate::owner::Owner;
use crate::page::{FrameId, PageId};
use crate::state::{PageState, Seen};

/// Frees `page`, which is on the store only, if its word is still `seen`. Returns true if it did.
pub(crate) fn free_stored(core: &Core, page: PageId, seen: Seen) -> bool {
    let entry = &core.pages[page];
    // Read before the id is free: another page may then overwrite the entry.
    let (extent, owner) = (extent_to_free(core, page), entry.owner());
    let ended = entry.state.end(&core.lot, seen);
    if ended {
        free_extent(core, extent);
        return_id(core, owner, page);
    }
    ended
}

/// Frees `page`, which is in frame `id` under the caller's exclusive hold.
pub(crate) fn free_held(core: &Core, id: FrameId, page: PageId) {
    let entry = &core.pages[page];
    let (extent, owner) = (extent_to_free(core, page), entry.owner());
    if entry.stored().is_none() {
        core.backlog.take_unbacked(entry.len());
    }
    occupancy::give_room(core, &[id]);
    let stepped = entry.state.step(&core.lot, PageState::Resident(id), PageState::Free);
    debug_assert!(stepped.is_some(), "{page:?} left {id:?} under an exclusive hold");
    occupancy::vacate(core, id);
    free_extent(core, extent);
    return_id(core, owner, page);
}

/// Returns the page's extent, unless a directory outside the pool still refers to it.
fn extent_to_free(core: &Core, page: PageId) -> Option<Extent> {
    let entry = &core.pages[page];
    entry.stored().filter(|_| !entry.is_forgotten()).map(|stored| stored.extent)
}

fn free_extent(core: &Core, extent: Option<Extent>) {
    if let (Some(store), Some(extent)) = (&core.store, extent) {
        store.free(extent);
    }
}

/// Returns a freed page's id to its space, if the space is alive.
fn return_id(core: &Core, owner: Owner, page: PageId) {
    if let Some(space) = core.spaces.find(owner) {
        // The entry keeps its length until the id names another page.
        space.ids().put_back(core.stride(core.pages[page].len()), page);
    }
}
