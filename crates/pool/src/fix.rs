//! Fixing of pages: by hint, through the page table, or by loading.
//!
//! Expected cost of a fix in DRAM: with a right hint one atomic exchange on the frame's latch word,
//! about 20 ns; through the page table one more cache line.

use std::time::Instant;

use crate::core::Core;
use crate::error::PoolError;
use crate::hold::{self, Hold};
use crate::load::load_now;
use crate::owner::Owner;
use crate::page::{FrameId, PageId, PageRef};
use crate::recency::after_fix;
use crate::residency::Access;
use crate::state::PageState;

/// Fixes a page of `owner` and repairs its hint.
pub(crate) fn fix(
    core: &Core,
    page: &mut PageRef,
    owner: Owner,
    hold: Hold,
) -> Result<FrameId, PoolError> {
    fix_until(core, page, owner, hold, None)
}

/// Fixes a page of `owner` and repairs its hint. Waits until `deadline`, or without one for the
/// pool's timeout.
pub(crate) fn fix_until(
    core: &Core,
    page: &mut PageRef,
    owner: Owner,
    hold: Hold,
    deadline: Option<Instant>,
) -> Result<FrameId, PoolError> {
    if let Some(frame) = fix_by_hint(core, *page, owner, hold) {
        core.counters.hint_hits.add(1);
        after_fix(core, frame, access(hold));
        return Ok(frame);
    }
    core.counters.look_ups.add(1);
    let frame = fix_by_id(core, page.id(), owner, hold, deadline)?;
    // Under the hold the page cannot be freed and its id not reused, so this check is final.
    if core.pages[page.id()].owner() != owner {
        hold::let_go(core, frame, hold);
        return Err(core.wrong_space(page.id(), owner));
    }
    page.repair(frame);
    after_fix(core, frame, access(hold));
    Ok(frame)
}

fn access(hold: Hold) -> Access {
    match hold {
        Hold::Shared => Access::Read,
        Hold::Exclusive => Access::Write,
    }
}

/// Fixes the page in the frame that the hint names, if that frame has the page of `owner` and its
/// latch is free. The page is checked before the latch is taken, which avoids the latch for most
/// wrong hints, and again under the latch.
fn fix_by_hint(core: &Core, page: PageRef, owner: Owner, hold: Hold) -> Option<FrameId> {
    let id = page.hint()?;
    let frame = core.frames.find(id).filter(|frame| frame.holds(page.id()))?;
    if !hold::try_hold_in(core, frame, id, hold, page.id()) {
        return None;
    }
    if !frame.is_of(owner) {
        hold::let_go(core, id, hold);
        return None;
    }
    Some(id)
}

fn fix_by_id(
    core: &Core,
    page: PageId,
    owner: Owner,
    hold: Hold,
    deadline: Option<Instant>,
) -> Result<FrameId, PoolError> {
    let entry = core.pages.find(page).ok_or_else(|| core.no_such_page(page))?;
    // Before any wait or load on behalf of a page of another space.
    core.check_owner(page, owner)?;
    // Reading the clock costs as much as the fix: it is read only if the caller has to wait.
    if let PageState::Resident(id) = entry.state.get()
        && hold::try_hold(core, id, hold, page)
    {
        return Ok(id);
    }
    let start = Instant::now();
    let deadline = deadline.unwrap_or_else(|| start + core.patience);
    loop {
        match entry.state.get() {
            PageState::Free => return Err(core.no_such_page(page)),
            PageState::Stored => load_now(core, page, deadline)?,
            PageState::Loading => {
                if entry.state.loaded(&core.lot, Some(deadline)).is_none() {
                    return Err(core.latch_timeout(page, start.elapsed()));
                }
            }
            PageState::Resident(id) => match hold::hold_until(core, id, hold, page, deadline) {
                Some(true) => return Ok(id),
                Some(false) => {}
                None => return Err(core.latch_timeout(page, start.elapsed())),
            },
        }
        if Instant::now() > deadline {
            return Err(core.latch_timeout(page, start.elapsed()));
        }
    }
}
