//! The Spitfire policy, with its four probabilities.

use super::score::SampledScore;
use crate::random::chance;
use crate::residency::{Access, PageView, Residency};

/// Probabilistic migration (Spitfire; Zhou et al., SIGMOD 2021, section 3): each decision is drawn
/// anew with one of four probabilities, which hold between every two neighbouring tiers. Victims
/// are chosen by [`SampledScore`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spitfire {
    /// Probability that a page read in slower memory is promoted.
    pub promote_on_read: f64,
    /// Probability that a page written in slower memory is promoted.
    pub promote_on_write: f64,
    /// Probability that a page read from the store is placed in the next slower tier, not in this
    /// one.
    pub fetch_below: f64,
    /// Probability that a victim of faster memory is demoted to slower memory instead of leaving
    /// memory.
    pub demote: f64,
}

impl Spitfire {
    /// Eager setting: every page is promoted on its first use, is placed in DRAM, and is demoted
    /// tier by tier.
    pub const EAGER: Self =
        Self { promote_on_read: 1.0, promote_on_write: 1.0, fetch_below: 0.0, demote: 1.0 };
    /// Lazy setting, which the paper found best for reads and writes alike: a page is promoted
    /// after ten uses in the mean, and is placed below DRAM.
    pub const LAZY: Self =
        Self { promote_on_read: 0.1, promote_on_write: 0.1, fetch_below: 1.0, demote: 1.0 };

    /// Returns the policy with these probabilities, after checking them.
    ///
    /// # Errors
    /// Names the first probability that is not between 0 and 1.
    pub fn new(self) -> Result<Self, String> {
        let all = [
            ("promote_on_read", self.promote_on_read),
            ("promote_on_write", self.promote_on_write),
            ("fetch_below", self.fetch_below),
            ("demote", self.demote),
        ];
        match all.iter().find(|(_, probability)| !(0.0..=1.0).contains(probability)) {
            Some((name, value)) => Err(format!("{name} is {value}; a probability is 0 to 1")),
            None => Ok(self),
        }
    }
}

impl Residency for Spitfire {
    fn score(&self, page: &PageView) -> f64 {
        SampledScore.score(page)
    }

    fn admit(&self, _page: &PageView, _lower_free: u64, _lower_capacity: u64) -> bool {
        chance(self.demote)
    }

    fn promote(&self, _page: &PageView, access: Access) -> bool {
        chance(match access {
            Access::Read => self.promote_on_read,
            Access::Write => self.promote_on_write,
        })
    }

    fn fetch_tier(&self, tiers: usize) -> usize {
        (1..tiers).take_while(|_| chance(self.fetch_below)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_in_where_chance_says() {
        let half = Spitfire { fetch_below: 0.5, ..Spitfire::EAGER };
        let mut counts = [0; 3];
        (0..4000).for_each(|_| counts[half.fetch_tier(3)] += 1);
        assert!((1800..2200).contains(&counts[0]), "{counts:?}");
        assert!((800..1200).contains(&counts[1]) && (800..1200).contains(&counts[2]));
        assert_eq!((Spitfire::EAGER.fetch_tier(3), Spitfire::LAZY.fetch_tier(3)), (0, 2));
        assert_eq!(Spitfire::LAZY.fetch_tier(1), 0, "there is nothing below");
    }

    #[test]
    fn probabilities_are_checked_by_name() {
        let wrong = Spitfire { demote: 1.5, ..Spitfire::LAZY }.new().expect_err("above 1");
        assert!(wrong.contains("demote is 1.5"), "{wrong}");
        assert!(Spitfire { fetch_below: f64::NAN, ..Spitfire::LAZY }.new().is_err());
        assert_eq!(Spitfire::LAZY.new(), Ok(Spitfire::LAZY));
    }
}
