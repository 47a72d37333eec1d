//! Finding of pages for optimistic reads: by hint, through the page table, or by a fix.

use std::cell::Cell;
use std::sync::Arc;

use terrace_latch::Version;

use super::{LINE_BYTES, OptimisticGuard, approach_line};
use crate::core::Core;
use crate::error::PoolError;
use crate::fix::fix;
use crate::frame::Frame;
use crate::guard::ReadGuard;
use crate::hold::Hold;
use crate::owner::Owner;
use crate::page::{FrameId, PageId, PageRef};
use crate::recency::serve_slowly;
use crate::residency::Access;
use crate::state::PageState;

/// Optimistic reads per update of the counters: counting each would cost more than the read.
const COUNT_EVERY: u64 = 64;

/// Number of lines prefetched at the beginning of a page: its header and directory, which a reader
/// needs first.
const FIRST_LINES: usize = 4;

/// See [`crate::Space::approach`].
#[inline(always)]
pub(crate) fn approach(core: &Core, page: PageRef) {
    let Some(id) = page.hint() else { return };
    if let Some(frame) = core.frames.find(id) {
        approach_line(std::ptr::from_ref(frame).cast());
    }
    let data = core.addresses.likely(id);
    (0..FIRST_LINES).for_each(|line| approach_line(data.wrapping_add(line * LINE_BYTES)));
}

/// See [`crate::Space::optimistic`].
pub(crate) fn optimistic<'a>(
    core: &'a Arc<Core>,
    page: &mut PageRef,
    owner: Owner,
) -> Result<OptimisticGuard<'a>, PoolError> {
    if let Some(guard) = optimistic_resident(core, page, owner) {
        return Ok(guard);
    }
    // The page is absent or being written: a fix waits for both, and no writer can come while
    // the page is held.
    let id = fix(core, page, owner, Hold::Shared)?;
    let _hold = ReadGuard::new(core, id);
    let frame = &core.frames[id];
    Ok(OptimisticGuard::new(core, frame, id, page.id(), frame.latch.shared_version()))
}

/// See [`crate::Space::optimistic_resident`].
///
/// Inlined into the caller's loop: a guard that is returned through memory costs as much as the
/// rest of the read.
#[inline(always)]
pub(crate) fn optimistic_resident<'a>(
    core: &'a Arc<Core>,
    page: &mut PageRef,
    owner: Owner,
) -> Option<OptimisticGuard<'a>> {
    // The page's cache lines are fetched while the frame is checked.
    approach(core, *page);
    if let Some(id) = page.hint()
        && let Some((frame, seen)) = seen_in(core, id, page.id(), owner)
    {
        after_look(core, frame, id, true);
        return Some(OptimisticGuard::new(core, frame, id, page.id(), seen));
    }
    optimistic_by_id(core, page, owner)
}

/// Like [`optimistic_resident`], but through the page table.
#[cold]
#[inline(never)]
fn optimistic_by_id<'a>(
    core: &'a Arc<Core>,
    page: &mut PageRef,
    owner: Owner,
) -> Option<OptimisticGuard<'a>> {
    let entry = core.pages.find(page.id())?;
    let PageState::Resident(id) = entry.state.get() else { return None };
    let (frame, seen) = seen_in(core, id, page.id(), owner)?;
    // As long as the guard is valid, the page is the one that was checked.
    if entry.owner() != owner {
        return None;
    }
    core.counters.look_ups.add(1);
    page.repair(id);
    after_look(core, frame, id, false);
    Some(OptimisticGuard::new(core, frame, id, page.id(), seen))
}

/// Returns the frame and the version of its latch, if it holds the page of `owner` and no
/// writer has it.
#[inline(always)]
fn seen_in(core: &Core, id: FrameId, page: PageId, owner: Owner) -> Option<(&Frame, Version)> {
    let frame = core.frames.find(id)?;
    let seen = frame.latch.version()?;
    (frame.holds(page) && frame.is_of(owner)).then_some((frame, seen))
}

/// Like [`crate::recency::after_fix`], but counts one read in [`COUNT_EVERY`].
#[inline(always)]
fn after_look(core: &Core, frame: &Frame, id: FrameId, by_hint: bool) {
    thread_local!(static LOOKS: Cell<u64> = const { Cell::new(0) });
    frame.touch(core.clock.now(), core.heat.epoch());
    let looks = LOOKS.get().wrapping_add(1);
    LOOKS.set(looks);
    if looks.is_multiple_of(COUNT_EVERY) {
        count_looks(core, frame, by_hint);
    }
    let tier = frame.tier();
    if tier > 0 {
        serve_slowly(core, id, tier, Access::Read);
    }
}

#[cold]
#[inline(never)]
fn count_looks(core: &Core, frame: &Frame, by_hint: bool) {
    core.counters.count_fixes(frame.tier(), COUNT_EVERY, frame.len());
    if by_hint {
        core.counters.hint_hits.add(COUNT_EVERY);
    }
}
