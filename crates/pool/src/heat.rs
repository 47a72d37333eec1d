//! How often pages are fixed, and how often a page of DRAM is: what makes a page of slower memory
//! worth a promotion.
//!
//! A frame counts the fixes of its page. Counts of long ago must not weigh like those of now, and
//! nobody has the time to visit all frames, so time passes in *epochs*: one ends when the pages of
//! DRAM have been fixed [`EPOCH_FIXES`] times in the mean, and a frame halves its count for every
//! epoch that has passed when it is next looked at. A page is then compared with the mean of DRAM,
//! counted and halved the same way: what is hot is relative.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// Fixes of the mean page of DRAM after which an epoch ends: few enough to fit a byte many times
/// over, enough to tell a page fixed twice as often from chance.
pub(crate) const EPOCH_FIXES: f64 = 8.0;

/// The epoch, and the mean of DRAM in it.
#[derive(Debug, Default)]
pub(crate) struct Heat {
    epoch: AtomicU8,
    /// Bits of an `f32`.
    mean_fixes: AtomicU32,
}

/// What the keeper remembers between two looks.
#[derive(Debug, Default)]
pub(crate) struct HeatClock {
    /// Fixes counted when the epoch began.
    begun_at: u64,
    /// What earlier epochs still count for.
    carried: f64,
}

impl Heat {
    #[inline]
    pub(crate) fn epoch(&self) -> u8 {
        self.epoch.load(Ordering::Relaxed)
    }

    pub(crate) fn mean_fixes(&self) -> f32 {
        f32::from_bits(self.mean_fixes.load(Ordering::Relaxed))
    }

    /// Notes that DRAM has `pages` pages and they have been fixed `fixes` times so far.
    pub(crate) fn note(&self, clock: &mut HeatClock, fixes: u64, pages: u64) {
        let now = fixes.saturating_sub(clock.begun_at) as f64 / pages.max(1) as f64;
        let mut mean = clock.carried + now;
        if now >= EPOCH_FIXES {
            mean /= 2.0;
            *clock = HeatClock { begun_at: fixes, carried: mean };
            self.epoch.fetch_add(1, Ordering::Relaxed);
        }
        #[expect(clippy::cast_possible_truncation, reason = "a mean needs no more digits")]
        self.mean_fixes.store((mean as f32).to_bits(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_pass_with_the_fixes_of_the_mean_page() {
        let (heat, mut clock) = (Heat::default(), HeatClock::default());
        heat.note(&mut clock, 400, 100);
        assert_eq!((heat.epoch(), heat.mean_fixes()), (0, 4.0));
        heat.note(&mut clock, 800, 100);
        assert_eq!((heat.epoch(), heat.mean_fixes()), (1, 4.0), "half of eight");
        heat.note(&mut clock, 1000, 100);
        assert_eq!((heat.epoch(), heat.mean_fixes()), (1, 6.0));
        heat.note(&mut clock, 1000, 0);
        assert!(heat.mean_fixes().is_finite());
    }
}
