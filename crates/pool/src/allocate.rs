//! Frame allocation: takes a free frame, else reclaims warm frames of other classes, else evicts,
//! else waits.

use std::time::{Duration, Instant};

use crate::core::Core;
use crate::error::{PoolError, largest};
use crate::evict::{Effort, make_room, reclaim};
use crate::occupancy::take_from;
use crate::page::{PageId, class_of};
use crate::progress::{LOOK_AGAIN, STORE_GRACE};
use crate::tier::Taken;

/// Time without a frame after which a caller gets one beyond the budget, and the part of the pool's
/// timeout that this is at most (1 / `OWE_AFTER_SHARE`).
const OWE_AFTER: Duration = Duration::from_secs(2);
const OWE_AFTER_SHARE: u32 = 2;

/// Minimum number of bytes that an eviction makes room for.
const ROOM_MIN: u64 = 64 << 10;

/// Takes a frame of the fastest tier, or of the next tier that has one while all of DRAM is held.
///
/// Waits at most until `deadline`; then the error names the holders of the memory.
pub(crate) fn take_frame(
    core: &Core,
    page: PageId,
    len: usize,
    deadline: Instant,
) -> Result<Taken, PoolError> {
    let limit = core.tiers[0].account().budget();
    if len as u64 > limit {
        return Err(PoolError::page_size(&core.name, len, limit));
    }
    let start = Instant::now();
    loop {
        if let Some(taken) = take_from(core, 0, page, len) {
            return Ok(taken);
        }
        let made = make_room(core, 0, room_for(core, len), Effort::Write, Some(class_of(len)));
        // The freed frames are tried before the clock is read, which is slower.
        let tiers = if made > 0 { 0..1 } else { 1..core.tiers.len() };
        if let Some(taken) = tiers.into_iter().find_map(|tier| take_from(core, tier, page, len)) {
            return Ok(taken);
        }
        if core.progress.is_closed() {
            return Err(PoolError::Closed { pool: core.name.clone() });
        }
        let now = Instant::now();
        if made > 0 && now < deadline {
            continue;
        }
        if now - start > STORE_GRACE
            && let Some(error) = core.backlog.refused_since(start)
        {
            return Err(error.into());
        }
        if now - start >= OWE_AFTER.min(core.patience / OWE_AFTER_SHARE)
            && let Some(taken) = owe_frame(core, page, len)
        {
            return Ok(taken);
        }
        if now >= deadline {
            return Err(exhausted(core, len, now - start));
        }
        core.counters.waits.add(1);
        core.progress.wait(LOOK_AGAIN);
    }
}

/// Takes a frame of the fastest tier for a page that no caller waits for: a free frame, or one
/// freed by dropping clean pages; `None` if there is neither.
pub(crate) fn take_spare(core: &Core, page: PageId, len: usize) -> Option<Taken> {
    take_from(core, 0, page, len).or_else(|| {
        let made = make_room(core, 0, room_for(core, len), Effort::Clean, Some(class_of(len)));
        if made > 0 { take_from(core, 0, page, len) } else { None }
    })
}

/// Takes a frame of a slower tier, dropping clean pages if necessary; `None` for DRAM.
pub(crate) fn take_below(core: &Core, tier: usize, page: PageId, len: usize) -> Option<Taken> {
    if tier == 0 {
        return None;
    }
    take_from(core, tier, page, len).or_else(|| {
        make_room(core, tier, len as u64, Effort::Clean, Some(class_of(len)));
        take_from(core, tier, page, len)
    })
}

/// Takes a frame of DRAM beyond the budget, if the debt stays within the overdraft.
fn owe_frame(core: &Core, page: PageId, len: usize) -> Option<Taken> {
    let taken = core.tiers[0].owe(&core.frames, page, len, core.overdraft_bytes)?;
    let debt_bytes = core.tiers[0].account().debt();
    tracing::warn!(pool = core.name, len, debt_bytes, "a frame beyond the budget");
    core.counters.owed_frames.add(1);
    core.clock.advance(len);
    Some(taken)
}

/// Repays the pool's debt to the ledger by evicting pages that are not held.
pub(crate) fn pay_debt(core: &Core) {
    let debt = core.tiers[0].account().owed();
    if debt > 0 {
        reclaim(core, 0, debt, Effort::Write);
    }
}

/// Bytes to evict for a page of `len`: somewhat more than it needs, since one sample of the frames
/// finds several victims for the price of one.
fn room_for(core: &Core, len: usize) -> u64 {
    (len as u64).max(ROOM_MIN.min(core.tiers[0].low_water()))
}

fn exhausted(core: &Core, len: usize, waited: Duration) -> PoolError {
    let account = core.tiers[0].account();
    let spaces = core.spaces.stats().into_iter();
    PoolError::Exhausted {
        pool: core.name.clone(),
        asked_bytes: len as u64,
        waited,
        dram_bytes: account.budget(),
        holders: largest(spaces.map(|space| (space.name, space.resident_bytes))),
        held_bytes: (waited >= LOOK_AGAIN).then(|| held_bytes(core)),
        others: largest(account.others()),
    }
}

/// Bytes of pages in DRAM that are latched or pinned. Visits every frame.
fn held_bytes(core: &Core) -> u64 {
    let dram = &core.tiers[0];
    let frames = (0..dram.begun()).filter_map(|n| dram.nth(n)).map(|id| &core.frames[id]);
    let held = frames.filter(|frame| frame.page().is_some() && frame.latch.is_held());
    held.map(|frame| frame.len() as u64).sum()
}
