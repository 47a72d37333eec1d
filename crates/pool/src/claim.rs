//! Claims of pages on the store: the thread that claims a page loads it, or keeps others from it.

use crate::core::Core;
use crate::hold;
use crate::owner::Owner;
use crate::page::PageId;
use crate::state::PageState;

/// Claims a page in state `Stored`, so that this thread loads it. Returns false if the page is in
/// another state.
pub(crate) fn claim(core: &Core, page: PageId) -> bool {
    let (from, to) = (PageState::Stored, PageState::Loading);
    core.pages.find(page).is_some_and(|entry| entry.state.step(&core.lot, from, to).is_some())
}

/// Like [`claim`], but only for a page of `owner`.
pub(crate) fn claim_of(core: &Core, page: PageId, owner: Owner) -> bool {
    if core.check_owner(page, owner).is_err() || !claim(core, page) {
        return false;
    }
    // While it is claimed, the id cannot be freed and reused, so this check is final.
    let is_its_own = core.pages[page].owner() == owner;
    if !is_its_own {
        unclaim(core, page);
    }
    is_its_own
}

/// Sets a claimed page that was not loaded back to state `Stored`, or frees it if it was doomed
/// meanwhile.
pub(crate) fn unclaim(core: &Core, page: PageId) {
    let state = &core.pages[page].state;
    let stored = state.step(&core.lot, PageState::Loading, PageState::Stored);
    if let Some(seen) = stored.filter(|seen| seen.is_doomed()) {
        hold::free_doomed(core, page, seen);
    }
}
