//! The default policy: the score of a sampled page.

use crate::residency::{Access, PageView, Residency};

/// The default policy: the cost of reading a byte of the page back, divided by the time since the
/// page's last fix; lower for pages of a scan and of owners over their grants, higher for dirty
/// pages.
#[derive(Clone, Copy, Debug, Default)]
pub struct SampledScore;

/// Fixed nanoseconds to read a page back, whatever its size: one request to the store.
const BRING_BACK_NS: f64 = 30_000.0;
/// Nanoseconds per byte: a store of 1.2 GiB/s.
const BRING_BACK_NS_PER_BYTE: f64 = 0.8;
/// A dirty page must be written back before it is evicted: writes run at about three times the
/// speed of reads.
const DIRTY_FACTOR: f64 = 1.3;
/// Cold pages, which a scan brought in and which were not fixed again, are evicted long before
/// other pages.
const COLD_FACTOR: f64 = 1.0 / 16.0;
/// Pages of an owner over its grant are evicted before pages of owners within their grants.
const OVER_GRANT_FACTOR: f64 = 1.0 / 4.0;

impl Residency for SampledScore {
    fn score(&self, page: &PageView) -> f64 {
        let len = page.len_bytes as f64;
        let bring_back = (BRING_BACK_NS + BRING_BACK_NS_PER_BYTE * len) / len;
        let mut score = bring_back / (f64::from(page.age_mib) + 1.0);
        if page.dirty {
            score *= DIRTY_FACTOR;
        }
        if page.cold {
            score *= COLD_FACTOR;
        }
        if page.grant_use > 1.0 {
            score *= OVER_GRANT_FACTOR / page.grant_use;
        }
        score
    }

    fn admit(&self, page: &PageView, lower_free: u64, lower_capacity: u64) -> bool {
        // A full lower tier admits only pages that were fixed again: admitting every page of a scan
        // that is larger than the tier would only copy bytes to be thrown away. Bytes that the
        // background worker keeps free do not count as room.
        let kept_free = (lower_capacity / KEPT_FREE_SHARE).min(KEPT_FREE_BYTES_MAX);
        let spare = lower_free.saturating_sub(kept_free);
        spare >= page.len_bytes as u64 || !page.cold
    }

    fn promote(&self, page: &PageView, _access: Access) -> bool {
        hotter_than_above(page, PROMOTION_FACTOR)
    }
}

/// The background worker keeps this share of a tier free (1 / `KEPT_FREE_SHARE`), and at most
/// `KEPT_FREE_BYTES_MAX`.
const KEPT_FREE_SHARE: u64 = 32;
const KEPT_FREE_BYTES_MAX: u64 = 256 << 20;
/// Thresholds of a promotion: fixes that a page has by chance, the factor over the mean page of the
/// next faster tier, and the count that is always enough. Two moves cost about as much as twenty
/// fixes in place, and if all pages are alike, fewer than one in a thousand reaches twice the mean
/// in an epoch by chance.
const PROMOTION_FIXES: f32 = 3.0;
const PROMOTION_FACTOR: f32 = 2.0;

const COUNT_MAX: f32 = 250.0;

/// True if the page has been fixed clearly more often than `factor` times the mean page of the next
/// faster tier.
pub(crate) fn hotter_than_above(page: &PageView, factor: f32) -> bool {
    let enough = PROMOTION_FIXES + factor * page.mean_fixes;
    // Counts saturate at 255.
    factor.is_finite() && f32::from(page.fixes) >= enough.min(COUNT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::random;

    const PAGE: PageView = PageView {
        tier: 0,
        len_bytes: 4096,
        age_mib: 10,
        fixes: 2,
        mean_fixes: 0.0,
        dirty: false,
        cold: false,
        grant_use: 0.5,
    };

    #[test]
    fn scores_order_pages_as_the_words_say() {
        let score = |page: PageView| SampledScore.score(&page);
        assert!(score(PageView { age_mib: 100, ..PAGE }) < score(PAGE));
        assert!(score(PageView { len_bytes: 1 << 20, ..PAGE }) < score(PAGE));
        assert!(score(PageView { cold: true, ..PAGE }) < score(PAGE));
        assert!(score(PageView { dirty: true, ..PAGE }) > score(PAGE));
        let over = score(PageView { grant_use: 1.5, ..PAGE });
        let promoted = |fixes, mean_fixes| {
            SampledScore.promote(&PageView { fixes, mean_fixes, ..PAGE }, Access::Read)
        };
        assert!(!promoted(2, 0.0) && promoted(3, 0.0) && promoted(4, 0.0));
        assert!(!promoted(10, 4.0) && promoted(11, 4.0), "no hotter than DRAM stays");
        assert!(over < score(PAGE) && score(PageView { grant_use: 3.0, ..PAGE }) < over);
    }

    /// A rate of one false promotion per hundred pages, in the time that pages are fixed eight
    /// times, costs two moves for 800 fixes.
    #[test]
    fn of_pages_that_are_all_alike_few_pass_for_hot() {
        const PAGES: usize = 2_000;
        let mut counts = [0_u8; PAGES];
        let (mut carried, mut promoted) = (0.0_f32, 0);
        for _epoch in 0..50 {
            for fix in 1..=8 * PAGES {
                let at = usize::try_from(random() % PAGES as u64).expect("small");
                counts[at] += 1;
                let mean_fixes = carried + fix as f32 / PAGES as f32;
                let view = PageView { fixes: counts[at], mean_fixes, ..PAGE };
                if SampledScore.promote(&view, Access::Read) {
                    promoted += 1;
                    counts[at] = 0;
                }
            }
            counts.iter_mut().for_each(|count| *count /= 2);
            carried = (carried + 8.0) / 2.0;
        }
        let share = f64::from(promoted) / (50 * PAGES) as f64;
        assert!(share < 0.01, "{share} of the pages in an epoch");
    }

    #[test]
    fn a_full_tier_admits_what_was_wanted_twice() {
        let admit = |cold, free| SampledScore.admit(&PageView { cold, ..PAGE }, free, 64 << 20);
        assert!(admit(false, 0) && admit(true, 4 << 20));
        assert!(!admit(true, 2 << 20), "what is kept free is not room");
    }
}
