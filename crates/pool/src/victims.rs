//! Selection of victims: the pages of the lowest scores in random samples of a tier's frames.

use crate::core::Core;
use crate::page::{FrameId, PageId};
use crate::random::random;

/// Number of eligible pages in a sample, and the maximum number of draws to find them.
const SAMPLE: usize = 32;
const LOOKS_MAX: usize = 4 * SAMPLE;
/// Share of a sample that is evicted, lowest scores first (1 / `VICTIM_SHARE`).
const VICTIM_SHARE: usize = 4;
/// Approximate number of pages that an eviction or a promotion holds at a time: as many as one
/// system call releases or moves for little more than the price of one.
pub(crate) const VICTIMS_MAX: usize = 64;
/// Maximum number of frames visited by one sweep, which begins at a random frame; the rest is left
/// to the next call.
const SWEEP_LOOKS_MAX: u64 = 1 << 16;

/// A page that may be evicted, as it was when it was drawn, without a hold.
#[derive(Clone, Copy)]
pub(crate) struct Victim {
    pub(crate) id: FrameId,
    pub(crate) page: PageId,
    pub(crate) len: usize,
    pub(crate) dirty: bool,
    score: f64,
}

/// Pages that an eviction may take.
#[derive(Clone, Copy)]
pub(crate) struct Eligible {
    pub(crate) tier: usize,
    /// True if dirty pages may be written to the store.
    pub(crate) may_write: bool,
    /// The size class that half of the draws are from.
    pub(crate) class: Option<usize>,
}

impl Eligible {
    /// Returns the page of a frame as a victim, unless it is held or the eviction has no way out of
    /// the tier for it.
    fn victim(self, core: &Core, id: FrameId) -> Option<Victim> {
        let frame = &core.frames[id];
        let page = frame.page()?;
        if frame.latch.is_held() || frame.is_writing() {
            return None;
        }
        let view = core.view(frame);
        let has_lower = self.tier + 1 < core.tiers.len();
        let is_writable = self.may_write && core.store.is_some();
        if view.dirty && !is_writable && !has_lower {
            return None;
        }
        let score = core.residency.score(&view);
        Some(Victim { id, page, len: view.len_bytes, dirty: view.dirty, score })
    }

    /// Selects pages that `wanted` accepts, by the lowest scores of random samples: about `bytes`
    /// in all, and about [`VICTIMS_MAX`] pages at most.
    pub(crate) fn select(
        self,
        core: &Core,
        bytes: u64,
        wanted: impl Fn(&Victim) -> bool,
    ) -> Vec<Victim> {
        let (mut all, mut all_bytes) = (Vec::new(), 0);
        while all.len() < VICTIMS_MAX && (all.is_empty() || all_bytes < bytes) {
            let before = all.len();
            for victim in self.sample(core, &wanted) {
                if all.iter().all(|known: &Victim| known.id != victim.id) {
                    all_bytes += victim.len as u64;
                    all.push(victim);
                }
            }
            if all.len() == before {
                break;
            }
        }
        if all.is_empty() { self.sweep(core, &wanted) } else { all }
    }

    /// Returns the lowest-scored quarter of a random sample, lowest first.
    fn sample(self, core: &Core, wanted: impl Fn(&Victim) -> bool) -> Vec<Victim> {
        let mut found: Vec<Victim> = Vec::with_capacity(SAMPLE);
        for look in 0..LOOKS_MAX {
            if found.len() == SAMPLE {
                break;
            }
            let class = self.class.filter(|_| look % 2 == 0);
            let Some(id) = core.tiers[self.tier].draw(random(), class) else { continue };
            if found.iter().all(|victim| victim.id != id) {
                found.extend(self.victim(core, id).filter(&wanted));
            }
        }
        found.sort_by(|a, b| a.score.total_cmp(&b.score));
        found.truncate(found.len().div_ceil(VICTIM_SHARE));
        found
    }

    /// Visits the frames of the tier one after the other, for when sampling found no victim.
    fn sweep(self, core: &Core, wanted: impl Fn(&Victim) -> bool) -> Vec<Victim> {
        let frames = &core.tiers[self.tier];
        let begun = frames.begun();
        let start = random() % begun.max(1);
        (0..begun.min(SWEEP_LOOKS_MAX))
            .filter_map(|step| frames.nth((start + step) % begun))
            .filter_map(|id| self.victim(core, id).filter(&wanted))
            .take(SAMPLE / VICTIM_SHARE)
            .collect()
    }
}
