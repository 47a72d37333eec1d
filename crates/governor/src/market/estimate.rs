//! Estimation of a query's work, from earlier queries of the same text.
//!
//! Statements that differ only in constants count as one. For each, the time per row that passes
//! through its plan is known; multiplied by the optimizer's estimate of such rows it gives the work
//! of the next query. Queries of an unknown text are assumed to be short until they have run for a
//! while.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::number::float;

/// Maximum number of bytes of a text that are read: a statement may have hundreds of megabytes of
/// values.
const TEXT_BYTES_MAX: usize = 4096;

/// Maximum number of texts that are remembered; beyond it all are dropped.
const TEXTS_MAX: usize = 4096;

/// Weight of a new query in the moving average of its text.
const WEIGHT: f64 = 0.3;

/// Weight of its deviation from the expected work: one query in ten that finds nothing in memory
/// must be remembered until the next one.
const DEVIATION_WEIGHT: f64 = 0.05;

/// Expected seconds of a query of an unknown text.
const UNKNOWN_SECONDS: f64 = 0.02;

/// Minimum of a query's remaining work, as a part of the work that it has had.
const LEFT_PART: f64 = 0.25;
const LEFT_MIN: f64 = 0.001;

/// Multiple of the mean deviation that few queries exceed.
const DEVIATIONS: f64 = 4.0;

/// Minimum spread as a multiple of the expected work: memory and the device may be busy.
const SPREAD_MIN: f64 = 3.0;

/// Measurements of the queries of one text.
#[derive(Clone, Copy, Debug)]
struct Known {
    seconds: f64,
    seconds_per_row: Option<f64>,
    /// Mean deviation of the work from what was expected.
    deviation: f64,
}

impl Known {
    fn expected(&self, rows: Option<f64>) -> f64 {
        rows.zip(self.seconds_per_row).map_or(self.seconds, |(rows, rate)| rows * rate)
    }
}

/// Expected work of a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Expected {
    /// Seconds of work from its beginning to its end.
    pub(super) whole: f64,
    /// Seconds of work that are left.
    pub(super) left: f64,
    /// Seconds by which it may take longer, for example if it finds nothing in memory.
    pub(super) spread: f64,
}

/// Measurements by text.
#[derive(Debug, Default)]
pub(super) struct Estimates(HashMap<u64, Known>);

impl Estimates {
    /// Learns from a query that has ended after `seconds` of work.
    pub(super) fn learn(&mut self, text: &str, rows: Option<f64>, seconds: f64) {
        if self.0.len() >= TEXTS_MAX {
            self.0.clear();
        }
        let rate = rows.map(|rows| seconds / rows.max(1.0));
        let known = self.0.entry(fingerprint(text));
        let deviation = seconds;
        let known = known.or_insert(Known { seconds, seconds_per_row: rate, deviation });
        let missed = (seconds - known.expected(rows)).abs();
        known.deviation += DEVIATION_WEIGHT * (missed - known.deviation);
        known.seconds += WEIGHT * (seconds - known.seconds);
        known.seconds_per_row = match (known.seconds_per_row, rate) {
            (Some(before), Some(rate)) => Some(before + WEIGHT * (rate - before)),
            (before, rate) => rate.or(before),
        };
    }

    /// Predicts the work of a query that has had `used` seconds of it, and whose scans have done
    /// `fraction`.
    pub(super) fn predict(
        &self,
        text: &str,
        rows: Option<f64>,
        used: f64,
        fraction: Option<f64>,
    ) -> Expected {
        let known = self.0.get(&fingerprint(text));
        let (whole, deviation) = known.map_or((UNKNOWN_SECONDS, UNKNOWN_SECONDS), |known| {
            (known.expected(rows), known.deviation)
        });
        let by_scans = fraction.filter(|part| *part > 0.05).map(|part| used * (1.0 / part - 1.0));
        let left = (whole - used).max(used * LEFT_PART).max(LEFT_MIN);
        let left = left.max(by_scans.unwrap_or(0.0));
        let spread = (DEVIATIONS * deviation).max(SPREAD_MIN * whole);
        Expected { whole: whole.max(used + left), left, spread }
    }
}

/// Hashes the beginning of a text without its constants: digits, and quoted strings.
fn fingerprint(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut quoted = false;
    for byte in text.bytes().take(TEXT_BYTES_MAX) {
        quoted ^= byte == b'\'';
        if !quoted && byte != b'\'' && !byte.is_ascii_digit() {
            byte.hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Seconds of work of running queries.
#[derive(Debug, Default)]
pub(super) struct Used(HashMap<u64, f64>);

impl Used {
    /// Adds the elapsed time to running queries, of which `slots` run at a time; queries that are
    /// not running get none.
    pub(super) fn count(&mut self, running: &[u64], slots: usize, seconds: f64) {
        let at_a_time = float(running.len().min(slots) as u64);
        let share = at_a_time / float(running.len().max(1) as u64);
        for id in running {
            *self.0.entry(*id).or_default() += seconds * share;
        }
    }

    /// Returns the seconds of work that a query has had.
    pub(super) fn of(&self, id: u64) -> f64 {
        self.0.get(&id).copied().unwrap_or(0.0)
    }

    /// Removes a query that has ended and returns its seconds of work.
    pub(super) fn take(&mut self, id: u64) -> Option<f64> {
        self.0.remove(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_left_out_of_a_text() {
        let number = |text| fingerprint(text);
        assert_eq!(number("SELECT a FROM t WHERE k = 17"), number("SELECT a FROM t WHERE k = 4"));
        assert_eq!(number("SELECT 'it''s' || b"), number("SELECT 'x' || b"));
        assert_ne!(number("SELECT a FROM t"), number("SELECT b FROM t"));
    }

    #[test]
    fn work_is_by_rows_where_they_are_known_and_by_progress() {
        let mut estimates = Estimates::default();
        let unknown = estimates.predict("SELECT 1", None, 0.0, None);
        assert_eq!((unknown.whole, unknown.left), (UNKNOWN_SECONDS, UNKNOWN_SECONDS));
        (0..200).for_each(|_| estimates.learn("SELECT 1", Some(1000.0), 2.0));
        assert_eq!(estimates.predict("SELECT 2", None, 0.0, None).whole, 2.0);
        let half = estimates.predict("SELECT 3", Some(500.0), 0.0, None);
        assert!((half.whole - 1.0).abs() < 1e-9);
        let late = estimates.predict("SELECT 3", Some(500.0), 4.0, Some(1.0));
        assert_eq!((late.whole, late.left), (5.0, 1.0), "a quarter of what it has had");
        assert_eq!(late.spread, 3.0, "all were alike");
        (0..8).for_each(|_| estimates.learn("SELECT 1", Some(1000.0), 20.0));
        assert!(estimates.predict("SELECT 1", Some(0.0), 0.0, None).spread > 5.0, "some were not");
        (0..40).for_each(|_| estimates.learn("SELECT 1", Some(1000.0), 2.0));
        let slow = estimates.predict("SELECT 3", Some(500.0), 4.0, Some(0.5));
        assert_eq!(slow.left, 4.0, "half of its rows are before it");
    }

    #[test]
    fn time_is_shared_by_the_queries_that_run() {
        let mut used = Used::default();
        used.count(&[1, 2], 2, 1.0);
        used.count(&[1, 2, 3, 4], 2, 1.0);
        assert_eq!([1, 3, 5].map(|id| used.of(id)), [1.5, 0.5, 0.0]);
        assert_eq!((used.take(1), used.take(1)), (Some(1.5), None));
    }
}
