//! The order and the text of intervals, as in PostgreSQL.

use std::fmt::Write as _;

use datafusion::arrow::datatypes::IntervalMonthDayNano;

const DAY_NANOS: i128 = 86_400_000_000_000;
const MONTH_DAYS: i128 = 30;

/// The duration by which intervals are compared, in nanoseconds: a month has 30 days, a day 24
/// hours.
pub(super) fn duration(interval: IntervalMonthDayNano) -> i128 {
    let days = i128::from(interval.months) * MONTH_DAYS + i128::from(interval.days);
    days * DAY_NANOS + i128::from(interval.nanoseconds)
}

/// Returns the text of an interval in the style that PostgreSQL names `postgres`: `1 year 2 mons 3
/// days 04:05:06`.
pub(super) fn interval_text(interval: IntervalMonthDayNano) -> String {
    let IntervalMonthDayNano { months, days, nanoseconds } = interval;
    let micros = nanoseconds.div_euclid(1_000);
    let parts = [(months / 12, "year"), (months % 12, "mon"), (days, "day")];
    let (mut text, mut is_negative) = (String::new(), false);
    for (value, unit) in parts.into_iter().filter(|(value, _)| *value != 0) {
        let space = if text.is_empty() { "" } else { " " };
        let plus = if is_negative && value > 0 { "+" } else { "" };
        let plural = if value == 1 { "" } else { "s" };
        // Writing to a text does not fail.
        let _ = write!(text, "{space}{plus}{value} {unit}{plural}");
        is_negative = value < 0;
    }
    if text.is_empty() || micros != 0 {
        let space = if text.is_empty() { "" } else { " " };
        let sign = match micros < 0 {
            true => "-",
            false if is_negative => "+",
            false => "",
        };
        let _ = write!(text, "{space}{sign}{}", clock(micros.unsigned_abs()));
    }
    text
}

/// Hours, minutes and seconds, with the digits of the fraction that are there.
fn clock(micros: u64) -> String {
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let whole = format!("{hours:02}:{minutes:02}:{seconds:02}");
    match fraction {
        0 => whole,
        fraction => format!("{whole}.{fraction:06}").trim_end_matches('0').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(months: i32, days: i32, nanos: i64) -> IntervalMonthDayNano {
        IntervalMonthDayNano::new(months, days, nanos)
    }

    #[test]
    fn months_have_thirty_days() {
        assert_eq!(duration(of(1, 0, 0)), duration(of(0, 30, 0)));
        assert_eq!(duration(of(0, 1, 0)), duration(of(0, 0, 86_400_000_000_000)));
        assert!(duration(of(i32::MAX, i32::MAX, i64::MAX)) > duration(of(i32::MAX, 0, 0)));
        assert!(duration(of(i32::MIN, i32::MIN, i64::MIN)) < 0);
    }

    /// The texts of PostgreSQL 15.
    #[test]
    fn texts_have_the_signs_of_their_parts() {
        assert_eq!(interval_text(of(14, 3, 14_706_000_000_000)), "1 year 2 mons 3 days 04:05:06");
        assert_eq!(interval_text(of(0, 0, 0)), "00:00:00");
        assert_eq!(interval_text(of(-1, 2, 0)), "-1 mons +2 days");
        assert_eq!(interval_text(of(0, -1, 3_600_000_000_000)), "-1 days +01:00:00");
        assert_eq!(interval_text(of(0, 1, -1_500_000_000)), "1 day -00:00:01.5");
        assert_eq!(interval_text(of(0, 0, 360_000_000_000_000)), "100:00:00");
    }
}
