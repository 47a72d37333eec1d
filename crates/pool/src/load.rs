//! Loading of pages from the store in batches, for fixes, scans and readahead.

use std::time::Instant;

use terrace_store::Read;

use crate::allocate::{take_below, take_frame, take_spare};
use crate::batch::{READ_BATCH_BYTES, READ_BATCH_PAGES};
use crate::claim::{claim, claim_of, unclaim};
use crate::core::Core;
use crate::error::PoolError;
use crate::hold;
use crate::occupancy;
use crate::owner::Owner;
use crate::page::{FrameId, PageId, PageRef};
use crate::random::random;
use crate::state::PageState;
use crate::tier::Taken;

/// One in this many pages that a scan brings in is inserted as warm (bimodal insertion): a scan
/// larger than memory then keeps a part of its pages instead of evicting each before its reuse.
const WARM_INSERTION: u64 = 32;

/// Purpose of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// A fix by the page's owner.
    Fix,
    /// A scan: the page is cold until it is fixed again.
    Scan,
    /// Readahead for a scan that has not reached the page yet.
    Ahead,
}

/// Loads a page for a fix that missed; does nothing if another thread claimed the page first.
pub(crate) fn load_now(core: &Core, page: PageId, deadline: Instant) -> Result<(), PoolError> {
    if !claim(core, page) {
        return Ok(());
    }
    let mut result = Ok(());
    load(core, &[page], Purpose::Fix, Some(deadline), |_, loaded| match loaded {
        Ok(id) => hold::release_shared(core, id),
        Err(error) => result = Err(error),
    });
    result
}

/// See [`crate::Space::load`].
pub(crate) fn load_batch(
    core: &Core,
    pages: &mut [PageRef],
    owner: Owner,
) -> Result<(), PoolError> {
    let claims = |n: &usize| claim_of(core, pages[*n].id(), owner);
    let claimed: Vec<_> = (0..pages.len()).filter(claims).collect();
    let ids: Vec<_> = claimed.iter().map(|n| pages[*n].id()).collect();
    let mut result = pages.iter().try_for_each(|page| core.check_owner(page.id(), owner));
    load(core, &ids, Purpose::Fix, Some(core.deadline()), |n, loaded| match loaded {
        Ok(id) => {
            pages[claimed[n]].repair(id);
            hold::release_shared(core, id);
        }
        Err(error) if result.is_ok() => result = Err(error),
        Err(_) => {}
    });
    result
}

/// Loads claimed pages, as many at a time as find frames. Calls `done` for each with its index and
/// its frame, held shared, or its error, after which the page is `Stored` again. Without a
/// deadline, pages that find no frame at once go back to `Stored` without a call.
pub(crate) fn load(
    core: &Core,
    pages: &[PageId],
    purpose: Purpose,
    deadline: Option<Instant>,
    mut done: impl FnMut(usize, Result<FrameId, PoolError>),
) {
    let mut start = 0;
    while start < pages.len() {
        let group = match take_group(core, &pages[start..], deadline) {
            Ok(group) if group.is_empty() => {
                return pages[start..].iter().for_each(|page| unclaim(core, *page));
            }
            Ok(group) => group,
            Err(error) => {
                unclaim(core, pages[start]);
                done(start, Err(error));
                start += 1;
                continue;
            }
        };
        let count = group.len();
        let results = load_group(core, &pages[start..start + count], group, purpose);
        for (offset, result) in results.into_iter().enumerate() {
            done(start + offset, result);
        }
        start += count;
    }
}

/// Takes frames for a prefix of `pages`: waits for that of the first page only, and takes as many
/// more as there is room for. Empty if there is no deadline and no room.
fn take_group(
    core: &Core,
    pages: &[PageId],
    deadline: Option<Instant>,
) -> Result<Vec<Taken>, PoolError> {
    let len_of = |page: PageId| core.pages[page].len();
    let mut bytes = len_of(pages[0]);
    let below = core.residency.fetch_tier(core.tiers.len()).min(core.tiers.len() - 1);
    let first = match take_below(core, below, pages[0], bytes) {
        Some(taken) => Some(taken),
        None => match deadline {
            Some(deadline) => Some(take_frame(core, pages[0], bytes, deadline)?),
            None => take_spare(core, pages[0], bytes),
        },
    };
    let Some(first) = first else { return Ok(Vec::new()) };
    // Pages of one batch are placed in one tier.
    let tier = core.frames[first.frame].tier();
    let mut group = vec![first];
    for page in &pages[1..pages.len().min(READ_BATCH_PAGES)] {
        let len = len_of(*page);
        bytes += len;
        if bytes > READ_BATCH_BYTES {
            break;
        }
        let taken = match tier {
            0 => take_spare(core, *page, len),
            _ => take_below(core, tier, *page, len),
        };
        let Some(taken) = taken else { break };
        group.push(taken);
    }
    Ok(group)
}

fn load_group(
    core: &Core,
    pages: &[PageId],
    group: Vec<Taken>,
    purpose: Purpose,
) -> Vec<Result<FrameId, PoolError>> {
    let Some(store) = &core.store else { return Vec::new() };
    let cold = purpose != Purpose::Fix;
    let mut reads = Vec::with_capacity(pages.len());
    for (page, taken) in pages.iter().zip(&group) {
        let entry = &core.pages[*page];
        let warm = !cold || random().is_multiple_of(WARM_INSERTION);
        let (space, len) = (entry.owner().space(), entry.len());
        occupancy::occupy(core, taken.frame, *page, space, len, !warm);
        let Some(stored) = entry.stored() else {
            unreachable!("{page:?} is on the store alone and has no extent");
        };
        // SAFETY: `occupy` took the exclusive hold, which lasts until `publish` or `vacate`, and
        // the frames of the group are distinct.
        let data = unsafe { core.frames[taken.frame].bytes_mut() };
        reads.push(Read { stored, data });
    }
    let first = group.first();
    let node = first.and_then(|taken| occupancy::prefer(core, core.frames[taken.frame].tier()));
    let results = match purpose {
        Purpose::Ahead => store.read_batch_later(&mut reads),
        Purpose::Fix | Purpose::Scan => store.read_batch(&mut reads),
    };
    drop((reads, node));
    let pages = pages.iter().zip(&group).zip(results);
    pages
        .map(|((page, taken), read)| match read {
            Ok(()) => Ok(publish(core, *page, taken.frame)),
            Err(error) => {
                occupancy::give_room(core, &[taken.frame]);
                occupancy::vacate(core, taken.frame);
                unclaim(core, *page);
                Err(error.into())
            }
        })
        .collect()
}

/// Makes a page resident after its read and downgrades its exclusive hold to a shared one.
fn publish(core: &Core, page: PageId, id: FrameId) -> FrameId {
    core.counters.loads.add(1);
    core.counters.loaded_bytes.add(core.frames[id].len() as u64);
    core.pages[page].state.step(&core.lot, PageState::Loading, PageState::Resident(id));
    hold::settle_shared(core, id, page);
    id
}
