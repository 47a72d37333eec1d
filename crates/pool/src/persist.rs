//! Persisting pages: writes them in one batch and holds all of them until they are durable, so that
//! a directory may refer to them.
//!
//! A page in memory is held shared. A page on the store only is claimed as if to be loaded, so that
//! no thread loads and changes it between the read of its extent and the moment that it becomes
//! durable.
//!
//! Two calls may name the same pages in any order and must not deadlock. So pages are held in the
//! order of their ids, and a call that waits for another thread's write first writes the pages that
//! it has claimed itself: it then blocks no other call on a page with a lower id.

use std::sync::Arc;
use std::time::Instant;

use terrace_store::{Store, Stored};

use crate::claim::{claim_of, unclaim};
use crate::core::Core;
use crate::error::PoolError;
use crate::fix::fix_until;
use crate::hold::{Hold, release_shared};
use crate::owner::Owner;
use crate::page::{FrameId, PageId, PageRef};
use crate::progress::LOOK_AGAIN;
use crate::table::PageEntry;
use crate::write_back::{Haste, Pending, claim_write, unclaim_writes, write_pending};

/// Holds and claims of one call.
#[derive(Default)]
struct Held {
    /// Frames held shared.
    frames: Vec<FrameId>,
    /// Pages on the store only, claimed to keep other threads from loading them.
    claimed: Vec<PageId>,
    /// Claimed rights to write pages of these frames, not used yet.
    pending: Vec<Pending>,
}

/// See [`crate::Space::persist`].
pub(crate) fn persist(
    core: &Core,
    pages: &mut [PageRef],
    owner: Owner,
) -> Result<Vec<Stored>, PoolError> {
    let store = Arc::clone(core.need_store()?);
    let mut held = Held::default();
    let written = hold_and_write(core, &store, pages, owner, &mut held);
    let result = written.and_then(|()| make_durable(core, pages));
    unclaim_writes(core, &store, held.pending);
    held.claimed.into_iter().for_each(|page| unclaim(core, page));
    held.frames.into_iter().for_each(|id| release_shared(core, id));
    result
}

fn hold_and_write(
    core: &Core,
    store: &Store,
    pages: &mut [PageRef],
    owner: Owner,
    held: &mut Held,
) -> Result<(), PoolError> {
    let deadline = core.deadline();
    let mut order: Vec<usize> = (0..pages.len()).collect();
    order.sort_unstable_by_key(|index| pages[*index].id());
    order.dedup_by_key(|index| pages[*index].id());
    for index in order {
        let page = &mut pages[index];
        if claim_of(core, page.id(), owner) {
            held.claimed.push(page.id());
            continue;
        }
        let id = fix_until(core, page, owner, Hold::Shared, Some(deadline))?;
        held.frames.push(id);
        claim_or_wait(core, store, id, page.id(), deadline, held)?;
    }
    write_claimed(core, store, held)
}

/// Claims the right to write a dirty page, waiting while another thread writes it.
fn claim_or_wait(
    core: &Core,
    store: &Store,
    id: FrameId,
    page: PageId,
    deadline: Instant,
    held: &mut Held,
) -> Result<(), PoolError> {
    let start = Instant::now();
    loop {
        if let Some(write) = claim_write(core, store, id, page)? {
            held.pending.push(write);
            return Ok(());
        }
        if !core.frames[id].is_dirty_still() {
            return Ok(());
        }
        write_claimed(core, store, held)?;
        if Instant::now() >= deadline {
            return Err(core.latch_timeout(page, start.elapsed()));
        }
        core.progress.wait(LOOK_AGAIN);
    }
}

/// Writes in one batch the pages that the call has claimed. Returns the first error, if any.
fn write_claimed(core: &Core, store: &Store, held: &mut Held) -> Result<(), PoolError> {
    let pending = std::mem::take(&mut held.pending);
    if pending.is_empty() {
        return Ok(());
    }
    let failed =
        write_pending(core, store, pending, Haste::Now).into_iter().find_map(|(_, r)| r.err());
    failed.map_or(Ok(()), |error| Err(error.into()))
}

/// Marks pages durable that are all held and clean.
fn make_durable(core: &Core, pages: &[PageRef]) -> Result<Vec<Stored>, PoolError> {
    let entries = || pages.iter().map(|page| &core.pages[page.id()]);
    let stored: Option<Vec<_>> = entries().map(PageEntry::stored).collect();
    let stored = stored.ok_or_else(|| PoolError::NoStore { pool: core.name.clone() })?;
    entries().for_each(PageEntry::set_durable);
    Ok(stored)
}
