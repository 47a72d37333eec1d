//! Eviction: demotion, write-back or dropping of the pages of the lowest scores.
//!
//! A page leaves a tier in one of three ways: it is demoted (moved to the next memory tier), it is
//! dropped because the store has its bytes, or it is written first and then dropped. All three only
//! try the frame's latch, so an evictor never waits for a latch.

use crate::batch::{WRITE_BATCH_BYTES, batch_bytes};
use crate::core::Core;
use crate::hold;
use crate::occupancy;
use crate::page::{FrameId, PAGE_MIN_BYTES, PageId};
use crate::relocate::relocate;
use crate::state::PageState;
use crate::victims::{Eligible, Victim};
use crate::write_back::{Haste, write_back};

/// Operations that an eviction may use to make room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effort {
    /// Drop clean pages, and demote: no I/O.
    Clean,
    /// Also write dirty pages.
    Write,
    /// Also let the kernel move pages to other nodes, which holds the pages for the duration of the
    /// move: for the background worker, ahead of demand.
    Keep,
}

impl Effort {
    fn writes(self) -> bool {
        self != Effort::Clean
    }

    fn haste(self) -> Haste {
        if self == Effort::Keep { Haste::Later } else { Haste::Now }
    }
}

/// Maximum number of selections of victims in one call, so that a call ends even while other
/// threads take the frames that it frees.
const ROUNDS_MAX: usize = 64;
/// Maximum number of consecutive selections of which no victim is evicted, as when the store
/// refuses dirty pages.
const IDLE_ROUNDS_MAX: usize = 4;

/// Makes bytes available in a tier: releases warm frames of other classes first, then evicts pages.
/// Returns the bytes freed.
pub(crate) fn make_room(
    core: &Core,
    tier: usize,
    bytes: u64,
    effort: Effort,
    class: Option<usize>,
) -> u64 {
    let warm = core.tiers[tier].release_warm(&core.frames, bytes).bytes;
    if warm > 0 { warm } else { evict(core, tier, bytes, effort, class) }
}

/// Reclaims memory for other consumers of the ledger: releases warm frames of a tier and evicts
/// pages. Returns the bytes that the ledger got.
pub(crate) fn reclaim(core: &Core, tier: usize, bytes: u64, effort: Effort) -> u64 {
    let frames = &core.tiers[tier];
    let mut given = 0;
    // A round releases warm frames or makes some, of at least one page of the smallest size.
    let rounds = 2 + 2 * bytes.min(frames.account().surplus()) / PAGE_MIN_BYTES as u64;
    for _ in 0..rounds {
        let want = bytes.saturating_sub(given).min(frames.account().surplus());
        if want == 0 {
            break;
        }
        let warm = frames.release_warm(&core.frames, want);
        given += warm.to_ledger;
        if given < bytes && warm.bytes == 0 {
            let surplus = frames.account().surplus();
            let evicted = evict(core, tier, want, effort, None);
            if evicted == 0 {
                break;
            }
            // In a framed pool, the evicted pages' frames are warm now, and the next round
            // releases them.
            given += if core.addresses.is_mapped() { evicted.min(surplus) } else { 0 };
        }
    }
    given
}

/// Evicts at least `bytes` from a tier, or as much as possible. Returns the bytes of the pages that
/// left.
///
/// `class` is the size class whose frames the caller needs: half of the draws are from it, so that
/// one of its frames becomes warm.
pub(crate) fn evict(
    core: &Core,
    tier: usize,
    bytes: u64,
    effort: Effort,
    class: Option<usize>,
) -> u64 {
    let mut freed = 0;
    let mut idle_rounds = 0;
    for _ in 0..ROUNDS_MAX {
        // If the store refuses dirty pages, clean pages must still be evicted.
        let effort = if idle_rounds == 0 { effort } else { Effort::Clean };
        let eligible = Eligible { tier, may_write: effort.writes(), class };
        let victims = eligible.select(core, bytes - freed, |_| true);
        if victims.is_empty() {
            break;
        }
        let gone = evict_these(core, tier, &victims, effort, bytes - freed);
        freed += gone;
        idle_rounds = if gone == 0 { idle_rounds + 1 } else { 0 };
        if freed >= bytes || idle_rounds == IDLE_ROUNDS_MAX {
            break;
        }
    }
    freed
}

/// Evicts the first of `victims` from the tier, until `bytes` are free. Returns the bytes freed.
fn evict_these(core: &Core, tier: usize, victims: &[Victim], effort: Effort, bytes: u64) -> u64 {
    let mut planned = 0;
    let needed = victims.iter().take_while(|victim| {
        let more = planned < bytes.max(1);
        planned += victim.len as u64;
        more
    });
    let needed: Vec<Victim> = needed.copied().collect();
    let moved = demote(core, tier, &needed, effort);
    let mut freed = 0;
    let (mut clean, mut dirty, mut dirty_bytes) = (Vec::new(), Vec::new(), 0);
    let most = batch_bytes(core.store.as_deref(), WRITE_BATCH_BYTES);
    for (victim, moved) in needed.iter().zip(moved) {
        if moved {
            freed += victim.len as u64;
        } else if !victim.dirty {
            clean.push((victim.id, victim.page));
        } else if effort.writes() && dirty_bytes < most {
            dirty_bytes += victim.len;
            dirty.push((victim.id, victim.page));
        }
    }
    freed + drop_clean(core, tier, &clean) + write_and_drop(core, tier, &dirty, effort)
}

/// Drops those pages that are still in the tier, not held, and clean. Returns their bytes.
fn drop_clean(core: &Core, tier: usize, clean: &[(FrameId, PageId)]) -> u64 {
    let held = clean.iter().copied().filter(|(id, page)| {
        let held = hold::try_hold_in_tier(core, *id, *page, tier);
        let dirty = held && core.frames[*id].is_dirty();
        if dirty {
            hold::release_exclusive(core, *id);
        }
        held && !dirty
    });
    drop_held(core, &held.collect::<Vec<_>>())
}

/// Drops clean pages that the caller holds exclusively. Returns their bytes.
fn drop_held(core: &Core, held: &[(FrameId, PageId)]) -> u64 {
    let tiers_and_lens = held.iter().map(|(id, _)| {
        let frame = &core.frames[*id];
        (frame.tier(), frame.len() as u64)
    });
    let tiers_and_lens: Vec<_> = tiers_and_lens.collect();
    occupancy::give_room(core, &held.iter().map(|(id, _)| *id).collect::<Vec<_>>());
    for ((id, page), (tier, _)) in held.iter().zip(&tiers_and_lens) {
        let state = &core.pages[*page].state;
        let stepped = state.step(&core.lot, PageState::Resident(*id), PageState::Stored);
        debug_assert!(stepped.is_some(), "{page:?} left {id:?} under an exclusive hold");
        occupancy::vacate(core, *id);
        core.counters.tiers[*tier].evicted.add(1);
        // A thread that dooms a held page leaves freeing it to the holder.
        if let Some(seen) = stepped.filter(|seen| seen.is_doomed()) {
            hold::free_doomed(core, *page, seen);
        }
    }
    tiers_and_lens.iter().map(|(_, len)| len).sum()
}

fn write_and_drop(core: &Core, tier: usize, dirty: &[(FrameId, PageId)], effort: Effort) -> u64 {
    if dirty.is_empty() {
        return 0;
    }
    let mut held = write_back(core, dirty, effort.haste());
    held.retain(|(id, _)| {
        let frame = &core.frames[*id];
        let upgraded = frame.tier() == tier && frame.latch.try_upgrade();
        if !upgraded {
            hold::release_shared(core, *id);
        }
        upgraded
    });
    drop_held(core, &held)
}

/// Demotes pages to the next memory tier, if there is one and the policy admits them. Returns true
/// for each page moved.
fn demote(core: &Core, tier: usize, victims: &[Victim], effort: Effort) -> Vec<bool> {
    let lower = tier + 1;
    // A caller that waits for a frame must not wait for the kernel to move pages.
    let by_kernel = core.nodes.is_some() && effort != Effort::Keep;
    let Some(frames) = core.tiers.get(lower).filter(|_| !by_kernel) else {
        return vec![false; victims.len()];
    };
    let (mut headroom, mut short) = (frames.headroom(), 0);
    let admitted = victims.iter().map(|victim| {
        let view = core.view(&core.frames[victim.id]);
        let admits = core.residency.admit(&view, headroom, frames.account().budget());
        if admits {
            let len = victim.len as u64;
            short += len.saturating_sub(headroom);
            headroom = headroom.saturating_sub(len);
        }
        admits
    });
    let admitted: Vec<bool> = admitted.collect();
    if short > 0 {
        make_room(core, lower, short, Effort::Clean, None);
    }
    let chosen = victims.iter().zip(&admitted).filter(|(_, admitted)| **admitted);
    let chosen: Vec<_> = chosen.map(|(victim, _)| (victim.id, victim.page)).collect();
    let mut moved = relocate(core, &chosen, tier, lower).into_iter();
    let result = admitted.iter().map(|admitted| *admitted && moved.next().unwrap_or(false));
    let result: Vec<bool> = result.collect();
    let count = result.iter().filter(|moved| **moved).count();
    core.counters.tiers[lower].demoted.add(count as u64);
    result
}
