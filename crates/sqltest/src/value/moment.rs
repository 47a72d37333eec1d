//! Texts of dates and times.

use datafusion::arrow::temporal_conversions::timestamp_us_to_datetime;

/// Returns the text of microseconds since 1970.
#[must_use]
pub fn of_micros(micros: i64) -> Option<String> {
    timestamp_us_to_datetime(micros).map(|moment| moment.to_string())
}

/// Returns the canonical text of a date or timestamp: a blank before the time, no trailing zeros,
/// no zone UTC, no time at midnight, and years before 1 as 0 and negative numbers. `None` for any
/// other text.
#[must_use]
pub fn normal(text: &str) -> Option<String> {
    let (text, is_before) = match text.strip_suffix(" BC") {
        Some(rest) => (rest.to_owned(), true),
        None => (text.replace(" (BC)", ""), text.contains(" (BC)")),
    };
    let digits = text.strip_prefix('-').unwrap_or(&text);
    let are_digits = |range: std::ops::Range<usize>| {
        digits.get(range).is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_date =
        are_digits(0..4) && digits.get(4..5) == Some("-") && are_digits(5..7) && are_digits(8..10);
    let is_time = are_digits(0..2) && digits.get(2..3) == Some(":") && are_digits(3..5);
    if !is_date && !is_time {
        return None;
    }
    let mut moment = digits.replace('T', " ");
    for zone in ["+00:00", "+00", "Z"] {
        moment = moment.strip_suffix(zone).unwrap_or(&moment).to_owned();
    }
    if moment.contains('.') {
        moment = moment.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let moment = moment.strip_suffix(" 00:00:00").unwrap_or(&moment);
    if is_time {
        return Some(format!("{}{moment}", if digits.len() < text.len() { "-" } else { "" }));
    }
    let number: i64 = moment.get(0..4)?.parse().ok()?;
    let year = match (is_before, digits.len() < text.len()) {
        (true, _) => 1 - number,
        (false, true) => -number,
        (false, false) => number,
    };
    Some(format!("{year}{}", moment.get(4..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_have_one_form() {
        assert_eq!(
            normal("2024-02-29T01:02:03.500000+00:00").as_deref(),
            Some("2024-02-29 01:02:03.5")
        );
        assert_eq!(normal("2024-02-29 00:00:00").as_deref(), Some("2024-02-29"));
        assert_eq!(normal("13:04:05.678912").as_deref(), Some("13:04:05.678912"));
        assert_eq!(normal("0004-02-07 (BC) 02:07:00.5"), normal("-0003-02-07T02:07:00.500"));
        assert_eq!(normal("0003-02-07T02:07:00.5 BC"), normal("-0002-02-07T02:07:00.500"));
        assert_eq!(normal("Hello World"), None);
    }
}
