//! Texts of intervals.

const HOUR: i64 = 3_600_000_000;

/// Months, days and microseconds.
pub type Parts = (i64, i64, i64);

/// Returns the interval that DuckDB or PostgreSQL writes as `1 year 2 mons 3 days 04:05:06.7`.
#[must_use]
pub fn parsed(text: &str) -> Option<Parts> {
    let (mut months, mut days, mut micros) = (0_i64, 0_i64, 0_i64);
    let mut words = text.split_whitespace();
    if text.trim().is_empty() {
        return None;
    }
    while let Some(word) = words.next() {
        if word.contains(':') {
            micros = micros.checked_add(time(word)?)?;
            continue;
        }
        let number: i64 = word.parse().ok()?;
        match words.next()? {
            "year" | "years" => months = months.checked_add(number.checked_mul(12)?)?,
            "mon" | "mons" | "month" | "months" => months = months.checked_add(number)?,
            "day" | "days" => days = days.checked_add(number)?,
            _ => return None,
        }
    }
    Some((months, days, micros))
}

/// Returns the microseconds of `[-]hours:minutes:seconds[.fraction]`.
fn time(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let mut parts = digits.split(':');
    let hours: i64 = parts.next()?.parse().ok()?;
    let minutes: i64 = parts.next()?.parse().ok()?;
    let last = parts.next()?;
    let (seconds, fraction) = last.split_once('.').unwrap_or((last, ""));
    let seconds: i64 = seconds.parse().ok()?;
    let fraction: i64 = format!("{fraction:0<6}").parse().ok()?;
    let minutes = minutes.checked_mul(60)?.checked_add(seconds)?.checked_mul(1_000_000)?;
    Some(sign * hours.checked_mul(HOUR)?.checked_add(minutes)?.checked_add(fraction)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_read() {
        let year = (14, 3, 14_706_700_000);
        assert_eq!(parsed("1 year 2 mons 3 days 04:05:06.7"), Some(year));
        assert_eq!(parsed("1 year 2 months 3 days 04:05:06.7"), Some(year));
        assert_eq!(parsed("-5 days -00:00:01"), Some((0, -5, -1_000_000)));
        assert_eq!(parsed("1234:00:00"), Some((0, 0, 1234 * HOUR)));
        assert_eq!(parsed("a text"), None);
    }
}
