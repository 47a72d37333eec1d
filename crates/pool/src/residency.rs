//! Which pages stay: the policy's trait and the default policy.
//!
//! The pool draws frames at random and asks the policy for a score; the lowest go. Sampling needs
//! no list that every fix would have to touch, works over any mix of page sizes, and 32 draws find
//! a page in the lowest tenth with a probability of 97 %.

/// What a policy sees of a page in a frame.
#[derive(Clone, Copy, Debug)]
pub struct PageView {
    /// Index of the memory tier that it is in; 0 is the fastest.
    pub tier: usize,
    /// The page's length.
    pub len_bytes: usize,
    /// MiB of frames handed out since its last fix.
    pub age_mib: u32,
    /// Fixes since it came into this frame, up to 255.
    pub fixes: u8,
    /// It differs from its copy on the store, or has none.
    pub dirty: bool,
    /// A scan brought it in and nobody fixed it again.
    pub cold: bool,
    /// Resident bytes of its owner over the owner's grant; 0 without a grant.
    pub grant_use: f64,
}

/// Decides which pages stay in which tier.
///
/// All methods are called under latches, on many threads, millions of times: they must be short
/// arithmetic over what they are given, and must not block.
pub trait Residency: Send + Sync + std::fmt::Debug {
    /// What keeping this page in its tier is worth. The page with the lowest score is evicted or
    /// demoted first; only the order matters.
    fn score(&self, page: &PageView) -> f64;

    /// Whether a page that leaves its tier is copied to the next memory tier, which holds
    /// `lower_free` bytes free of `lower_capacity`, rather than dropped.
    fn admit(&self, page: &PageView, lower_free: u64, lower_capacity: u64) -> bool;

    /// Whether a page of a slower tier is worth a frame in the next faster one after this fix. It
    /// is not asked while the page waits for one; when none came, its fixes count from 0 again.
    fn promote(&self, page: &PageView) -> bool;
}

/// The default policy: what it costs to bring the page back, over how long it was not wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct SampledScore;

/// Nanoseconds to bring back a page, whatever its size: one request to the store.
const BRING_BACK_NS: f64 = 30_000.0;
/// Nanoseconds a byte: a store of 1.2 GiB/s.
const BRING_BACK_NS_PER_BYTE: f64 = 0.8;
/// A dirty page is written before it goes: writes run at about three times the speed of reads.
const DIRTY_FACTOR: f64 = 1.3;
/// Pages of a scan that nobody wanted again go long before those that somebody did.
const COLD_FACTOR: f64 = 1.0 / 16.0;
/// Pages of an owner over its grant go before those of owners within theirs.
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

    fn admit(&self, page: &PageView, lower_free: u64, _lower_capacity: u64) -> bool {
        // A full lower tier is for pages that somebody wanted twice: admitting every page of a
        // scan that is larger than the tier would only copy bytes to be thrown away.
        lower_free >= page.len_bytes as u64 || !page.cold
    }

    fn promote(&self, page: &PageView) -> bool {
        page.fixes >= 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: PageView = PageView {
        tier: 0,
        len_bytes: 4096,
        age_mib: 10,
        fixes: 2,
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
        let promoted = |fixes| SampledScore.promote(&PageView { fixes, ..PAGE });
        assert!(!promoted(2) && promoted(3) && promoted(4), "also when the third was not counted");
        assert!(over < score(PAGE) && score(PageView { grant_use: 3.0, ..PAGE }) < over);
    }
}
