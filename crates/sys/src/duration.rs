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

/// Parses a number with its unit, such as `250ns`, `1.5s` or `5 min`. Returns `None` for any other
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

/// Units of timeouts in microseconds, the longest first.
const TIMEOUT_UNITS: [(&str, u64); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

/// Longest timeout in milliseconds, nearly 25 days.
const TIMEOUT_MS_MAX: u64 = 2_147_483_647;

/// Parses a timeout as PostgreSQL does: a number of milliseconds, or a number with one of the units
/// `us`, `ms`, `s`, `min`, `h` and `d`. The result is rounded to milliseconds, half to even.
/// Returns `None` for any other text, and for more than 2^31 - 1 milliseconds.
#[must_use]
pub fn parse_timeout(text: &str) -> Option<Duration> {
    const NANOS_PER_MS: u128 = 1_000_000;
    let text = text.trim();
    let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
    let end = text.find(|letter| !is_number(letter)).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = if unit.is_empty() { "ms" } else { unit.trim_start() };
    let (_, factor) = TIMEOUT_UNITS.into_iter().find(|(name, _)| *name == unit)?;
    let seconds = number.parse::<f64>().ok()? * Duration::from_micros(factor).as_secs_f64();
    let nanos = Duration::try_from_secs_f64(seconds).ok()?.as_nanos();
    let (whole, rest) = (nanos / NANOS_PER_MS, nanos % NANOS_PER_MS);
    let half = NANOS_PER_MS / 2;
    let is_up = rest > half || (rest == half && whole % 2 == 1);
    let millis = u64::try_from(whole + u128::from(is_up)).ok()?;
    (millis <= TIMEOUT_MS_MAX).then_some(Duration::from_millis(millis))
}

/// Formats a timeout of whole milliseconds as PostgreSQL does: in the longest unit of which it is a
/// multiple, and zero without a unit.
#[must_use]
pub fn format_timeout(timeout: Duration) -> String {
    let micros = timeout.as_micros();
    let is_whole = |(_, factor): &(&str, u64)| micros.is_multiple_of(u128::from(*factor));
    match TIMEOUT_UNITS.into_iter().find(is_whole) {
        Some((unit, factor)) if micros > 0 => format!("{}{unit}", micros / u128::from(factor)),
        _ => "0".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_those_of_postgresql() {
        let shown = |text| parse_timeout(text).map(format_timeout);
        for (text, expected) in [
            ("0", "0"),
            ("5000", "5s"),
            ("1500", "1500ms"),
            ("90s", "90s"),
            ("1.5s", "1500ms"),
            (".5s", "500ms"),
            ("5.", "5ms"),
            ("100us", "0"),
            ("600us", "1ms"),
            ("0.5", "0"),
            ("1.5", "2ms"),
            ("2.5", "2ms"),
            ("1 d", "1d"),
            ("36h", "36h"),
            ("120 min", "2h"),
            (" 5 s ", "5s"),
            ("24d", "24d"),
            ("2147483647", "2147483647ms"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["", "abc", "-1", "5 x", "5S", "5ns", "1.2.3", ".", "2147483648", "1000d", "s"]
        {
            assert_eq!(parse_timeout(text), None, "{text}");
        }
    }

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
