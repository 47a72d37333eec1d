//! Dates, times and intervals in PostgreSQL's text format.

use bytes::{BufMut, BytesMut};

/// Days from 1970-01-01 to 2000-01-01, the day from which PostgreSQL counts.
pub(super) const EPOCH_DAYS: i32 = 10_957;
/// Microseconds from 1970-01-01 to 2000-01-01.
pub(super) const EPOCH_MICROS: i64 = EPOCH_DAYS as i64 * DAY_MICROS;
pub(super) const DAY_MICROS: i64 = 86_400_000_000;

/// Returns the year, month and day for a number of days since 1970-01-01, in the Gregorian calendar
/// extended to all time. Year 0 is 1 BC.
fn civil(days: i64) -> (i64, u8, u8) {
    // Years begin in March here, so that the leap day is the last day of a year. 400 years have
    // 146,097 days.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let (month, shift) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let small = |value: i64| u8::try_from(value).unwrap_or(0);
    (year + era * 400 + shift, small(month), small(day_of_month))
}

fn put_two(value: u8, out: &mut BytesMut) {
    out.put_u8(b'0' + value / 10 % 10);
    out.put_u8(b'0' + value % 10);
}

/// Appends the date without its era. Returns true if the era is BC.
fn put_calendar_date(days: i64, out: &mut BytesMut) -> bool {
    let (year, month, day) = civil(days);
    let is_bc = year <= 0;
    let year = if is_bc { 1 - year } else { year };
    out.extend_from_slice(format!("{year:04}-").as_bytes());
    put_two(month, out);
    out.put_u8(b'-');
    put_two(day, out);
    is_bc
}

/// Appends a date: `2024-03-15`, or `0044-03-15 BC`.
pub(super) fn put_date(days: i64, out: &mut BytesMut) {
    if put_calendar_date(days, out) {
        out.extend_from_slice(b" BC");
    }
}

/// Appends a time of day, given in microseconds: `04:05:06.789`. Trailing zeros of the fraction are
/// omitted.
pub(super) fn put_time(micros: i64, out: &mut BytesMut) {
    put_clock(micros.unsigned_abs(), out);
}

fn put_clock(micros: u64, out: &mut BytesMut) {
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    out.extend_from_slice(format!("{hours:02}:{minutes:02}:{seconds:02}").as_bytes());
    if fraction > 0 {
        let digits = format!(".{fraction:06}");
        out.extend_from_slice(digits.trim_end_matches('0').as_bytes());
    }
}

/// Appends a timestamp: `2024-03-15 04:05:06.789`; with an offset in seconds east of UTC,
/// `2024-03-15 04:05:06+02`.
pub(super) fn put_timestamp(micros: i64, offset_seconds: Option<i32>, out: &mut BytesMut) {
    let local = i128::from(micros) + i128::from(offset_seconds.unwrap_or(0)) * 1_000_000;
    let day = i128::from(DAY_MICROS);
    let days = i64::try_from(local.div_euclid(day)).unwrap_or(i64::MAX);
    let time = i64::try_from(local.rem_euclid(day)).unwrap_or(0);
    let is_bc = put_calendar_date(days, out);
    out.put_u8(b' ');
    put_time(time, out);
    if let Some(offset) = offset_seconds {
        put_offset(offset, out);
    }
    if is_bc {
        out.extend_from_slice(b" BC");
    }
}

fn put_offset(offset: i32, out: &mut BytesMut) {
    out.put_u8(if offset < 0 { b'-' } else { b'+' });
    let offset = offset.unsigned_abs();
    let parts = [offset / 3600, offset / 60 % 60, offset % 60];
    let count = 1 + parts.iter().skip(1).rposition(|part| *part > 0).map_or(0, |last| last + 1);
    let parts: Vec<_> = parts[..count].iter().map(|part| format!("{part:02}")).collect();
    out.extend_from_slice(parts.join(":").as_bytes());
}

/// An interval, in the parts that PostgreSQL divides it into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) months: i32,
    pub(super) days: i32,
    pub(super) micros: i64,
}

impl Interval {
    /// Appends the interval in the style that PostgreSQL names `postgres`: `1 year 2 mons 3 days
    /// 04:05:06`.
    pub(super) fn put_text(self, out: &mut BytesMut) {
        let parts = [(self.months / 12, "year"), (self.months % 12, "mon"), (self.days, "day")];
        let (mut written, mut negative) = (false, false);
        for (value, unit) in parts.into_iter().filter(|(value, _)| *value != 0) {
            let space = if written { " " } else { "" };
            let plus = if negative && value > 0 { "+" } else { "" };
            let plural = if value == 1 { "" } else { "s" };
            out.extend_from_slice(format!("{space}{plus}{value} {unit}{plural}").as_bytes());
            (written, negative) = (true, value < 0);
        }
        if written && self.micros == 0 {
            return;
        }
        if written {
            out.put_u8(b' ');
        }
        if self.micros < 0 {
            out.put_u8(b'-');
        } else if negative {
            out.put_u8(b'+');
        }
        put_clock(self.micros.unsigned_abs(), out);
    }
}

#[cfg(test)]
mod tests {
    use super::super::written as text;
    use super::*;

    #[test]
    fn dates_of_all_times() {
        let cases = [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (EPOCH_DAYS.into(), "2000-01-01"),
            (19_782, "2024-02-29"),
            (-719_528, "0001-01-01 BC"),
            (-719_162, "0001-01-01"),
            (2_932_897, "10000-01-01"),
        ];
        for (days, expected) in cases {
            assert_eq!(text(|out| put_date(days, out)), expected);
        }
    }

    #[test]
    fn timestamps_with_and_without_zones() {
        let at = |micros, offset| text(|out| put_timestamp(micros, offset, out));
        assert_eq!(at(1_500_000, None), "1970-01-01 00:00:01.5");
        assert_eq!(at(-1, None), "1969-12-31 23:59:59.999999");
        assert_eq!(at(0, Some(7_200)), "1970-01-01 02:00:00+02");
        assert_eq!(at(0, Some(-19_800)), "1969-12-31 18:30:00-05:30");
        assert_eq!(at(0, Some(1_172)), "1970-01-01 00:19:32+00:19:32");
    }

    #[test]
    fn intervals_have_the_signs_of_their_parts() {
        let of = |months, days, micros| text(|out| Interval { months, days, micros }.put_text(out));
        assert_eq!(of(14, 3, 14_706_000_000), "1 year 2 mons 3 days 04:05:06");
        assert_eq!(of(0, 0, 0), "00:00:00");
        assert_eq!(of(-1, 2, 0), "-1 mons +2 days");
        assert_eq!(of(0, -1, 3_600_000_000), "-1 days +01:00:00");
        assert_eq!(of(0, 1, -1_500_000), "1 day -00:00:01.5");
        assert_eq!(of(0, 0, 100 * 3_600_000_000), "100:00:00");
    }
}
