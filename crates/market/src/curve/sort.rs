//! Cost model of external merge sort: passes over the data as a function of memory.

use super::{point::Point, polyline::Curve};
use crate::number::float;

/// Spill policy of a sort whose input does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spill {
    /// Writes all of its input as runs, as in textbooks.
    Everything,
    /// Writes the part that its memory cannot hold: pages are evicted lazily, and those that fit
    /// are never written in the last pass.
    Excess,
}

/// The I/O of an external merge sort (Otaki et al., CIDR 2025, section 2.1, after Silberschatz et
/// al., Database System Concepts, section 15.4).
///
/// With `M` pages it makes runs of `M` pages and merges up to `M - 1` of them at a time. Each merge
/// pass reads and writes all of the input; the last one emits its rows instead of writing them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortModel {
    /// Size of the input in bytes.
    pub input_bytes: u64,
    /// Size of one I/O in bytes.
    pub page_bytes: u64,
    /// Spill policy.
    pub spill: Spill,
}

/// Minimum number of pages of a merge: two runs and its output.
const PAGES_MIN: u64 = 3;

impl SortModel {
    /// Returns the minimum number of bytes: three pages.
    #[must_use]
    pub fn floor_bytes(&self) -> u64 {
        PAGES_MIN * self.page_bytes.max(1)
    }

    /// Returns the number of merge passes with `bytes` of memory; 0 if the input fits.
    #[must_use]
    pub fn passes(&self, bytes: u64) -> u32 {
        self.passes_of_pages(bytes / self.page_bytes.max(1))
    }

    /// Returns the number of pages written and read again, as a function of bytes. The first read
    /// of the input is not counted: it costs the same with any memory.
    #[must_use]
    pub fn ios(&self) -> Curve {
        let page = self.page_bytes.max(1);
        let input = self.input_pages();
        let mut points = Vec::new();
        let mut from = PAGES_MIN;
        while from < input {
            let passes = self.passes_of_pages(from);
            let next = self.first_with_fewer(passes, from, input);
            points.push(Point::new(from * page, self.ios_of_pages(from)));
            let before = self.ios_before(passes, next);
            if before > self.ios_of_pages(next) {
                points.push(Point::new(next * page - 1, before));
            }
            from = next;
        }
        points.push(Point::new(input.max(PAGES_MIN) * page, 0.0));
        points.dedup_by_key(|point| point.bytes);
        Curve::descending(points)
    }

    fn input_pages(&self) -> u64 {
        self.input_bytes.div_ceil(self.page_bytes.max(1))
    }

    fn passes_of_pages(&self, pages: u64) -> u32 {
        let (input, pages) = (self.input_pages(), pages.max(PAGES_MIN));
        if input <= pages {
            return 0;
        }
        let mut runs = input.div_ceil(pages);
        let mut passes = 0;
        while runs > 1 {
            runs = runs.div_ceil(pages - 1);
            passes += 1;
        }
        passes
    }

    fn ios_of_pages(&self, pages: u64) -> f64 {
        let (input, passes) = (self.input_pages(), self.passes_of_pages(pages));
        match (passes, self.spill) {
            (0, _) => 0.0,
            (_, Spill::Everything) => 2.0 * float(input) * f64::from(passes),
            (_, Spill::Excess) => {
                let excess = input.saturating_sub(pages.max(PAGES_MIN));
                2.0 * float(input) * f64::from(passes - 1) + 2.0 * float(excess)
            }
        }
    }

    /// Returns the I/O just below `next` pages, where the sort takes `passes`.
    fn ios_before(&self, passes: u32, next: u64) -> f64 {
        let input = float(self.input_pages());
        match self.spill {
            Spill::Everything => 2.0 * input * f64::from(passes),
            Spill::Excess => {
                2.0 * input * f64::from(passes.saturating_sub(1)) + 2.0 * (input - float(next))
            }
        }
    }

    /// Returns the fewest pages above `from` that need fewer passes than `passes`; `enough` needs
    /// none.
    fn first_with_fewer(&self, passes: u32, from: u64, enough: u64) -> u64 {
        let (mut low, mut high) = (from, enough);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.passes_of_pages(middle) < passes { high = middle } else { low = middle }
        }
        high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 256 << 10;

    fn model(pages: u64, spill: Spill) -> SortModel {
        SortModel { input_bytes: pages * PAGE, page_bytes: PAGE, spill }
    }

    /// The formula as printed: `b_r (2 ceil(log_{floor(M/b_b) - 1}(b_r / M)) + 1)`.
    fn printed(input: f64, pages: f64) -> f64 {
        let passes = ((input / pages).ln() / (pages - 1.0).ln()).ceil();
        input * (2.0 * passes + 1.0)
    }

    #[test]
    fn it_is_the_printed_formula() {
        let model = model(100_000, Spill::Everything);
        let curve = model.ios();
        for pages in [5, 17, 40, 47, 60, 100, 316, 400, 5000, 50_000, 99_999] {
            let ours = curve.at(pages * PAGE) + 100_000.0;
            assert_eq!(ours, printed(100_000.0, float(pages)), "{pages} pages");
        }
        assert_eq!(curve.at(100_000 * PAGE), 0.0);
    }

    #[test]
    fn every_size_is_on_the_curve() {
        for spill in [Spill::Everything, Spill::Excess] {
            let model = model(700, spill);
            let curve = model.ios();
            for pages in 3..=705 {
                let exact = model.ios_of_pages(pages);
                let seen = curve.at(pages * PAGE);
                assert!((seen - exact).abs() < 1e-3, "{spill:?} {pages}: {seen} for {exact}");
            }
        }
    }

    #[test]
    fn it_falls_off_cliffs() {
        let model = model(700, Spill::Everything);
        assert_eq!((model.passes(26 * PAGE), model.passes(27 * PAGE)), (2, 1));
        let curve = model.ios();
        assert_eq!((curve.at(27 * PAGE - 1), curve.at(27 * PAGE)), (2800.0, 1400.0));
        assert!(!curve.is_convex());
        assert_eq!(curve.useful_bytes(), 700 * PAGE);
    }

    #[test]
    fn the_smallest_inputs() {
        for pages in 0..4 {
            assert_eq!(model(pages, Spill::Excess).ios().at(0), 0.0, "{pages}");
        }
        assert_eq!(model(4, Spill::Everything).ios().at(0), 8.0);
    }
}
