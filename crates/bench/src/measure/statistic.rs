//! Medians, means and confidence intervals of repeated measurements.

use std::fmt;

use serde::Serialize;

/// Student's t for a 95 % interval, for 1 to 30 degrees of freedom. For more degrees the last value
/// is used, which makes the interval slightly too wide.
const STUDENT_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// Number of standard deviations to either side that contain 95 % of a normal distribution.
const NORMAL_95: f64 = 1.96;

/// Returns the median: the mean of the two middle values of an even number. `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// Returns the median of a value over the rows of one case; NaN without rows.
pub(crate) fn median_of<T>(rows: &[&T], of: impl Fn(&T) -> f64) -> f64 {
    median(&rows.iter().map(|row| of(row)).collect::<Vec<f64>>()).unwrap_or(f64::NAN)
}

/// Groups `rows` by `case`, and returns `fold` of each group, in the order of the groups' first
/// rows. No group is empty.
pub(crate) fn by_case<'a, T, K: PartialEq, R>(
    rows: &[&'a T],
    case: impl Fn(&'a T) -> K,
    fold: impl Fn(&[&'a T]) -> R,
) -> Vec<R> {
    let mut cases: Vec<(K, Vec<&'a T>)> = Vec::new();
    for row in rows.iter().copied() {
        let key = case(row);
        match cases.iter_mut().find(|(known, _)| *known == key) {
            Some((_, same)) => same.push(row),
            None => cases.push((key, vec![row])),
        }
    }
    cases.iter().map(|(_, same)| fold(same)).collect()
}

/// Returns the smallest value that at least `percent` percent of the values do not exceed. `None`
/// without values.
pub fn percentile(values: &[f64], percent: usize) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// Returns the arithmetic mean. `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    let count = u32::try_from(values.len()).ok().filter(|count| *count > 0)?;
    Some(values.iter().sum::<f64>() / f64::from(count))
}

/// Returns half the width of the 95 % confidence interval of the mean. `None` for fewer than two
/// values.
pub fn confidence_95(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let freedom = u32::try_from(values.len() - 1).ok().filter(|freedom| *freedom > 0)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = (squares / f64::from(freedom)).sqrt();
    let t = STUDENT_95[(values.len() - 2).min(STUDENT_95.len() - 1)];
    Some(t * deviation / f64::from(freedom + 1).sqrt())
}

/// A mean, and half the width of its 95 % confidence interval if there are at least two values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Arithmetic mean; NaN without values.
    pub mean: f64,
    /// Half the width of the interval.
    pub half_width: Option<f64>,
}

impl Estimate {
    /// Computes the estimate from repeated measurements.
    pub fn of(values: &[f64]) -> Estimate {
        Estimate { mean: mean(values).unwrap_or(f64::NAN), half_width: confidence_95(values) }
    }
}

impl fmt::Display for Estimate {
    /// Formats as `1.003 +- 0.010`, or the mean alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.half_width {
            Some(half) => write!(f, "{:.3} +- {half:.3}", self.mean),
            None => write!(f, "{:.3}", self.mean),
        }
    }
}

/// Ratio of two rates, with its 95 % confidence interval computed from the counts alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RateRatio {
    /// First rate divided by the second.
    pub ratio: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl RateRatio {
    /// Computes the ratio from two counts and their durations in seconds. `None` if a count is
    /// zero. The counts are taken as Poisson-distributed: the variance of the logarithm of the
    /// ratio is the sum of their inverses.
    pub fn of(rates: [(usize, f64); 2]) -> Option<RateRatio> {
        let count = |count| u32::try_from(count).ok().filter(|count| *count > 0).map(f64::from);
        let [(own, own_seconds), (other, other_seconds)] = rates;
        let (own, other) = (count(own)?, count(other)?);
        let ratio = own / own_seconds / (other / other_seconds);
        let spread = (NORMAL_95 * (own.recip() + other.recip()).sqrt()).exp();
        Some(RateRatio { ratio, low: ratio / spread, high: ratio * spread })
    }
}

impl fmt::Display for RateRatio {
    /// Formats as `0.93 (0.25 to 3.46)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.2} to {:.2})", self.ratio, self.low, self.high)
    }
}

/// Returns the geometric mean of positive values. `None` without values.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let count = u32::try_from(values.len()).ok().filter(|count| *count > 0)?;
    let sum: f64 = values.iter().map(|value| value.ln()).sum();
    Some((sum / f64::from(count)).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_folded_by_case_in_the_order_of_their_first() {
        let rows = [("b", 1.0), ("a", 2.0), ("b", 3.0)];
        let rows: Vec<&(&str, f64)> = rows.iter().collect();
        let medians = by_case(&rows, |row| row.0, |same| (same[0].0, median_of(same, |row| row.1)));
        assert_eq!(medians, [("b", 2.0), ("a", 2.0)]);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[5.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn percentiles() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&values, 95), Some(95.0));
        assert_eq!(percentile(&values, 100), Some(100.0));
        assert_eq!(percentile(&[4.0, 2.0, 3.0], 50), Some(3.0));
        assert_eq!(percentile(&[4.0], 0), Some(4.0));
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn means_and_their_confidence() {
        assert_eq!((mean(&[]), confidence_95(&[])), (None, None));
        assert_eq!((mean(&[2.0]), confidence_95(&[2.0])), (Some(2.0), None));
        assert_eq!(confidence_95(&[3.0; 20]), Some(0.0));
        let values = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(mean(&values), Some(3.0));
        let half = confidence_95(&values).expect("five values");
        assert!((half - 2.776 * (2.5_f64 / 5.0).sqrt()).abs() < 1e-12, "{half}");
        let many: Vec<f64> = (0..100).map(|at| f64::from(at % 2)).collect();
        let half = confidence_95(&many).expect("many values");
        assert!((half - 2.042 * (25.0_f64 / 99.0).sqrt() / 10.0).abs() < 1e-12, "{half}");
    }

    #[test]
    fn estimates_print_their_interval() {
        assert_eq!(Estimate::of(&[1.25]).to_string(), "1.250");
        assert_eq!(Estimate::of(&[1.0, 1.0]).to_string(), "1.000 +- 0.000");
        assert!(Estimate::of(&[]).mean.is_nan());
    }

    #[test]
    fn geometric_means() {
        assert_eq!(geometric_mean(&[]), None);
        let mean = geometric_mean(&[0.5, 2.0]).expect("mean");
        assert!((mean - 1.0).abs() < 1e-12);
        let mean = geometric_mean(&[1.0, 10.0, 100.0]).expect("mean");
        assert!((mean - 10.0).abs() < 1e-9);
    }

    #[test]
    fn a_rate_of_few_answers_is_not_sure() {
        let ratio = |own, other| RateRatio::of([(own, 2.0), (other, 2.0)]);
        let few = ratio(4, 5).expect("a ratio");
        assert!((few.ratio - 0.8).abs() < 1e-9 && few.low < 0.25 && few.high > 2.5, "{few}");
        let many = ratio(400, 500).expect("a ratio");
        assert!(many.low > 0.69 && many.high < 0.92, "{many}");
        assert_eq!(ratio(0, 5), None);
    }
}
