//! Promotion of pages that are fixed often in slower memory to the next faster tier.

use crate::core::Core;
use crate::evict::{Effort, make_room};
use crate::page::{FrameId, PageId};
use crate::relocate::relocate;
use crate::state::PageState;
use crate::victims::VICTIMS_MAX;

/// Maximum bytes that a promotion holds at a time, except for a single longer page.
const PROMOTION_BATCH_BYTES: usize = 8 << 20;

/// Promotes the queued pages.
pub(crate) fn serve_promotions(core: &Core) {
    let queued = core.promotions.take();
    // The frame may have another page by now; clearing its mark does no harm.
    queued.iter().for_each(|(id, _)| core.frames[*id].set_queued(false));
    promote(core, &queued.iter().map(|(_, page)| *page).collect::<Vec<_>>());
}

/// Promotes pages to the next faster tier, if that has room to spare. A page that finds no room
/// must be fixed as often again before it is queued again.
fn promote(core: &Core, pages: &[PageId]) {
    for upper in 0..core.tiers.len().saturating_sub(1) {
        let here = pages.iter().filter_map(|page| {
            let PageState::Resident(id) = core.pages.find(*page)?.state.get() else {
                return None;
            };
            (core.frames[id].tier() == upper + 1).then_some((id, *page))
        });
        let here: Vec<(FrameId, PageId)> = here.collect();
        let mut rest = here.as_slice();
        while !rest.is_empty() {
            let (batch, after) = rest.split_at(promotion_batch(core, rest));
            promote_to(core, upper, batch);
            rest = after;
        }
    }
}

/// Number of pages from the front that are promoted together, at least one.
fn promotion_batch(core: &Core, pages: &[(FrameId, PageId)]) -> usize {
    let mut bytes = 0;
    let fits = pages.iter().take(VICTIMS_MAX).take_while(|(_, page)| {
        bytes += core.pages[*page].len();
        bytes <= PROMOTION_BATCH_BYTES
    });
    fits.count().max(1)
}

fn promote_to(core: &Core, upper: usize, batch: &[(FrameId, PageId)]) {
    let bytes: u64 = batch.iter().map(|(_, page)| core.pages[*page].len() as u64).sum();
    let spare = core.tiers[upper].low_water();
    let short = (spare + bytes).saturating_sub(core.tiers[upper].headroom());
    if short > 0 {
        make_room(core, upper, short, Effort::Clean, None);
    }
    let mut room = core.tiers[upper].headroom().saturating_sub(spare);
    let fit = batch.iter().take_while(|(_, page)| {
        let len = core.pages[*page].len() as u64;
        let fits = len <= room;
        room = room.saturating_sub(len);
        fits
    });
    let fit = fit.count();
    let mut moved = relocate(core, &batch[..fit], upper + 1, upper);
    moved.resize(batch.len(), false);
    for ((id, _), moved) in batch.iter().zip(moved) {
        if moved {
            core.counters.tiers[upper].promoted.add(1);
        } else {
            core.frames[*id].forget_promotion();
        }
    }
}
