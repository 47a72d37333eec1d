//! Holds on pages: trying and waiting for the latch of a page's frame, releasing it, and dooming
//! pages. The thread that releases the last hold on a doomed page frees it.

use std::time::Instant;

use crate::core::Core;
use crate::frame::Frame;
use crate::free::{free_held, free_stored};
use crate::page::{FrameId, PageId};
use crate::state::{PageState, Seen};

/// Latch mode of a hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hold {
    Shared,
    Exclusive,
}

/// Tries to acquire the latch of frame `id` in mode `hold`. Returns true, with the hold acquired,
/// if the latch was free and the frame has `page`; otherwise acquires nothing.
#[inline]
pub(crate) fn try_hold(core: &Core, id: FrameId, hold: Hold, page: PageId) -> bool {
    try_hold_in(core, &core.frames[id], id, hold, page)
}

/// Like [`try_hold`], for a caller that has found the frame.
#[inline]
pub(crate) fn try_hold_in(
    core: &Core,
    frame: &Frame,
    id: FrameId,
    hold: Hold,
    page: PageId,
) -> bool {
    let taken = match hold {
        Hold::Shared => frame.latch.try_shared(),
        Hold::Exclusive => frame.latch.try_exclusive(),
    };
    taken && keep_if(core, frame, id, hold, page)
}

/// Tries to acquire the exclusive hold of a page that is in this frame and this tier. The tier must
/// be checked, since a mapped frame keeps its page when it moves to another tier.
pub(crate) fn try_hold_in_tier(core: &Core, id: FrameId, page: PageId, tier: usize) -> bool {
    if !try_hold(core, id, Hold::Exclusive, page) {
        return false;
    }
    let is_there = core.frames[id].tier() == tier;
    if !is_there {
        release_exclusive(core, id);
    }
    is_there
}

/// Waits until `deadline` for the latch of frame `id` in mode `hold`. Returns true with the hold
/// acquired, false if `page` has left the frame, or `None` if the deadline has passed.
pub(crate) fn hold_until(
    core: &Core,
    id: FrameId,
    hold: Hold,
    page: PageId,
    deadline: Instant,
) -> Option<bool> {
    let frame = &core.frames[id];
    let here = || frame.holds(page);
    let taken = match hold {
        Hold::Shared => frame.latch.shared_while(&core.lot, Some(deadline), here),
        Hold::Exclusive => frame.latch.exclusive_while(&core.lot, Some(deadline), here),
    };
    taken.map(|taken| taken && keep_if(core, frame, id, hold, page))
}

#[inline]
fn keep_if(core: &Core, frame: &Frame, id: FrameId, hold: Hold, page: PageId) -> bool {
    let right = frame.holds(page);
    if !right {
        let_go(core, id, hold);
    }
    right
}

/// Releases a hold on a frame that turned out to hold another page than the one that was sought. If
/// that page was freed meanwhile, this hold has kept it in memory, so it is freed now.
#[cold]
pub(crate) fn let_go(core: &Core, id: FrameId, hold: Hold) {
    match hold {
        Hold::Shared => release_shared(core, id),
        Hold::Exclusive => release_exclusive(core, id),
    }
}

/// Releases a shared hold. If it was the last one, a doomed page is freed.
#[inline]
pub(crate) fn release_shared(core: &Core, id: FrameId) {
    let frame = &core.frames[id];
    if frame.latch.release_shared(&core.lot) {
        after_release(core, id);
    }
}

/// Releases the exclusive hold. A doomed page is freed.
#[inline]
pub(crate) fn release_exclusive(core: &Core, id: FrameId) {
    core.frames[id].latch.release_exclusive(&core.lot);
    after_release(core, id);
}

/// Releases the exclusive hold of a page that has just come into a frame.
pub(crate) fn settle(core: &Core, id: FrameId, page: PageId) {
    pass_doom_on(core, id, page);
    release_exclusive(core, id);
}

/// Downgrades the exclusive hold of a page that has just come into a frame to a shared one.
pub(crate) fn settle_shared(core: &Core, id: FrameId, page: PageId) {
    pass_doom_on(core, id, page);
    core.frames[id].latch.downgrade(&core.lot);
}

/// Marks the frame of a page that was doomed while it came there.
///
/// Must come after the state change: a thread that dooms the page later finds this frame.
fn pass_doom_on(core: &Core, id: FrameId, page: PageId) {
    if core.pages[page].state.look().is_doomed() {
        core.frames[id].doom();
    }
}

#[inline]
fn after_release(core: &Core, id: FrameId) {
    if core.frames[id].may_be_doomed() {
        look_for_doom(core, id);
    }
    core.progress.notify();
}

/// Frees the page of a frame that was released, if the page is doomed and not held.
#[cold]
fn look_for_doom(core: &Core, id: FrameId) {
    let Some(page) = core.frames[id].page() else { return };
    let seen = core.pages[page].state.look();
    if seen.is_doomed() && seen.state() == PageState::Resident(id) {
        try_free_resident(core, id, page);
    }
}

/// Frees a page: at once, when its last hold is released, or when its load has ended.
pub(crate) fn free(core: &Core, page: PageId) {
    let Some(entry) = core.pages.find(page) else { return };
    if let Some(doomed) = entry.state.doom() {
        free_doomed(core, page, doomed);
    }
}

/// Frees the page that was `seen` doomed, in whatever state it is by now. If another thread was
/// faster, the id may have been reused (ABA): the new page is not touched.
pub(crate) fn free_doomed(core: &Core, page: PageId, mut seen: Seen) {
    let entry = &core.pages[page];
    loop {
        let mut left_to_holder = false;
        match seen.state() {
            PageState::Free | PageState::Loading => return,
            PageState::Stored => {
                if free_stored(core, page, seen) {
                    return;
                }
            }
            PageState::Resident(id) => {
                core.frames[id].doom();
                if try_free_resident(core, id, page) {
                    return;
                }
                left_to_holder = true;
            }
        }
        let now = entry.state.look();
        if !now.same_life(seen) || (left_to_holder && now == seen) {
            return;
        }
        seen = now;
    }
}

/// Frees `page` if it is in frame `id`, doomed, and not held. Returns true if it did.
fn try_free_resident(core: &Core, id: FrameId, page: PageId) -> bool {
    if !try_hold(core, id, Hold::Exclusive, page) {
        return false;
    }
    // Another thread may have freed the page, and its id may name a new page here by now (ABA).
    // Under the hold its word cannot change any more, except that it may be doomed.
    let doomed = core.pages[page].state.look().is_doomed();
    if doomed {
        free_held(core, id, page);
    } else {
        release_exclusive(core, id);
    }
    doomed
}

#[cfg(test)]
mod tests;
