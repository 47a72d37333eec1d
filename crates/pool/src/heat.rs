//! Heat: the fixes of each page and of the mean page of each tier, which decide whether a page of
//! slower memory is promoted.
//!
//! A frame counts the fixes of its page. Old counts must weigh less than new ones, and visiting all
//! frames to age them would take too long, so time passes in *epochs*. An epoch ends when the pages
//! of DRAM have been fixed [`EPOCH_FIXES`] times in the mean; a frame halves its count for every
//! epoch that has passed when it is next accessed. A page is compared with the mean of the next
//! faster tier, counted and halved the same way, so heat is relative. (Epochs wrap at 256: a page
//! that was not accessed for exactly that long has its old count back, once.)

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use crate::tier::MEMORY_TIERS_MAX;

/// Fixes of the mean page of DRAM after which an epoch ends: few enough to fit a byte many times
/// over, enough to tell a page fixed twice as often from chance.
const EPOCH_FIXES: f64 = 8.0;
/// Maximum number of epochs that pass between two updates: after that many, old counts have lost
/// their meaning.
const PASSED_MAX: u8 = 16;

/// The current epoch, and the mean fixes of the tiers in it.
#[derive(Debug, Default)]
pub(crate) struct Heat {
    epoch: AtomicU8,
    /// Means as the bits of `f32`s.
    mean_fixes: [AtomicU32; MEMORY_TIERS_MAX],
}

/// The background worker's counters of each tier between two updates.
#[derive(Debug, Default)]
pub(crate) struct HeatClock {
    /// Fixes counted when the epoch began, and the decayed mean of earlier epochs.
    tiers: [(u64, f64); MEMORY_TIERS_MAX],
}

impl Heat {
    #[inline]
    pub(crate) fn epoch(&self) -> u8 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Returns the fixes of the mean page of a tier.
    pub(crate) fn mean_fixes(&self, tier: usize) -> f32 {
        f32::from_bits(self.mean_fixes[tier].load(Ordering::Relaxed))
    }

    /// Updates the means from the fixes so far and the number of pages of each tier, and advances
    /// the epoch.
    pub(crate) fn note(&self, clock: &mut HeatClock, tiers: &[(u64, u64)]) {
        let of_epoch = |(begun, _): &(u64, f64), (fixes, pages): &(u64, u64)| {
            fixes.saturating_sub(*begun) as f64 / (*pages).max(1) as f64
        };
        let dram = tiers.first().map_or(0.0, |dram| of_epoch(&clock.tiers[0], dram));
        let mut passed = 0;
        while passed < PASSED_MAX && dram >= EPOCH_FIXES * f64::from(1_u32 << passed) {
            passed += 1;
        }
        for ((known, tier), shown) in clock.tiers.iter_mut().zip(tiers).zip(&self.mean_fixes) {
            let mean = (known.1 + of_epoch(known, tier)) / f64::from(1_u32 << passed);
            if passed > 0 {
                *known = (tier.0, mean);
            }
            #[expect(clippy::cast_possible_truncation, reason = "a mean needs no more digits")]
            shown.store((mean as f32).to_bits(), Ordering::Relaxed);
        }
        self.epoch.fetch_add(passed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_pass_with_the_fixes_of_the_mean_page_of_dram() {
        let (heat, mut clock) = (Heat::default(), HeatClock::default());
        heat.note(&mut clock, &[(400, 100), (100, 50)]);
        assert_eq!((heat.epoch(), heat.mean_fixes(0), heat.mean_fixes(1)), (0, 4.0, 2.0));
        heat.note(&mut clock, &[(800, 100), (200, 50)]);
        assert_eq!((heat.epoch(), heat.mean_fixes(0)), (1, 4.0), "half of eight");
        assert_eq!(heat.mean_fixes(1), 2.0, "half of four");
        heat.note(&mut clock, &[(1000, 100), (200, 50)]);
        assert_eq!((heat.epoch(), heat.mean_fixes(0), heat.mean_fixes(1)), (1, 6.0, 2.0));
        heat.note(&mut clock, &[(1000, 0), (200, 0)]);
        assert!(heat.mean_fixes(0).is_finite());
    }

    #[test]
    fn a_late_look_lets_as_many_epochs_pass_as_there_were() {
        let (heat, mut clock) = (Heat::default(), HeatClock::default());
        heat.note(&mut clock, &[(100 * 64, 100)]);
        assert_eq!((heat.epoch(), heat.mean_fixes(0)), (4, 4.0), "64 fixes, halved four times");
        heat.note(&mut clock, &[(u64::MAX, 1)]);
        assert_eq!(heat.epoch(), 4 + PASSED_MAX);
    }
}
