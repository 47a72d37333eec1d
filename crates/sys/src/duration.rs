//! Durations as text.

use std::time::Duration;

/// Units of time in nanoseconds, the longest first.
pub const UNITS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Parses a number with its unit, such as `250ns`, `1.5s` or `5 min`. Returns none for any other
/// text, and for more than 584 years.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let end = text.find(|letter: char| !(letter.is_ascii_digit() || letter == '.'))?;
    let (number, unit) = text.split_at(end);
    let (_, factor) = UNITS.into_iter().find(|(name, _)| *name == unit.trim_start())?;
    // Whole numbers are exact whatever their length.
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).map(Duration::from_nanos);
    }
    let seconds = number.parse::<f64>().ok()? * Duration::from_nanos(factor).as_secs_f64();
    let duration = Duration::try_from_secs_f64(seconds).ok()?;
    (duration <= Duration::from_nanos(u64::MAX)).then_some(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_units_are_durations() {
        let nanoseconds = |text| parse_duration(text).map(|it| it.as_nanos());
        for (text, expected) in [
            ("250ns", 250),
            ("2us", 2_000),
            ("1.5ms", 1_500_000),
            ("0.1s", 100_000_000),
            ("30 s", 30_000_000_000),
            ("5min", 300_000_000_000),
            ("2h", 7_200_000_000_000),
            ("0ms", 0),
            ("18446744073709551615ns", u128::from(u64::MAX)),
        ] {
            assert_eq!(nanoseconds(text), Some(expected), "{text}");
        }
        for text in ["", "5", "ms", "-1s", "1e3s", "1 day", "1.2.3s", "s5", "99999999999h", "9e9h"]
        {
            assert_eq!(nanoseconds(text), None, "{text}");
        }
    }
}
