//! Medians and means of repeated measurements.

/// The median; the mean of the two middle values of an even number. `None` of no values.
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

/// The smallest value that at least `percent` percent of the values do not exceed. `None` of no
/// values.
pub fn percentile(values: &[f64], percent: usize) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// The geometric mean of positive values. `None` of no values.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let count = u32::try_from(values.len()).ok().filter(|count| *count > 0)?;
    let sum: f64 = values.iter().map(|value| value.ln()).sum();
    Some((sum / f64::from(count)).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn geometric_means() {
        assert_eq!(geometric_mean(&[]), None);
        let mean = geometric_mean(&[0.5, 2.0]).expect("mean");
        assert!((mean - 1.0).abs() < 1e-12);
        let mean = geometric_mean(&[1.0, 10.0, 100.0]).expect("mean");
        assert!((mean - 10.0).abs() < 1e-9);
    }
}
