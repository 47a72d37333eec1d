//! Local times as microseconds since 1970, and their fields.

use chrono::{
    DateTime, Datelike as _, LocalResult, NaiveDate, NaiveDateTime, Offset as _, TimeDelta,
    TimeZone as _,
};
use datafusion::arrow::array::timezone::Tz;
use datafusion::common::{Result, exec_datafusion_err};

pub(super) const SECOND: i64 = 1_000_000;
pub(super) const MINUTE: i64 = 60 * SECOND;
pub(super) const HOUR: i64 = 60 * MINUTE;
pub(crate) const DAY: i64 = 24 * HOUR;

/// The local time of microseconds since 1970.
///
/// # Errors
/// If the calendar does not reach so far.
pub(crate) fn local(micros: i64) -> Result<NaiveDateTime> {
    let time = DateTime::from_timestamp_micros(micros).map(|time| time.naive_utc());
    time.ok_or_else(|| exec_datafusion_err!("a timestamp is out of range"))
}

/// The microseconds of a local time since 1970.
pub(crate) fn micros(time: NaiveDateTime) -> i64 {
    time.and_utc().timestamp_micros()
}

/// Returns the instant of a local time in a time zone, in UTC; `None` beyond the calendar. A time
/// skipped by a clock change uses the offset before the change, and of an ambiguous time the second
/// instant is taken, as in PostgreSQL.
#[must_use]
pub fn instant_of(local: NaiveDateTime, zone: Tz) -> Option<NaiveDateTime> {
    let offset = match zone.offset_from_local_datetime(&local) {
        LocalResult::Single(offset) | LocalResult::Ambiguous(_, offset) => offset,
        LocalResult::None => {
            zone.offset_from_utc_datetime(&local.checked_sub_signed(TimeDelta::days(1))?)
        }
    };
    local.checked_sub_offset(offset.fix())
}

/// The days of a date since 1970.
pub(super) fn days(date: NaiveDate) -> i32 {
    // Dates of chrono are within 100 million days of 1970.
    i32::try_from(date.signed_duration_since(NaiveDate::default()).num_days()).unwrap_or(i32::MAX)
}

/// The months of a date since the year 0.
pub(super) fn months(date: NaiveDate) -> i64 {
    i64::from(date.year()) * 12 + i64::from(date.month0())
}

/// The last day of a month.
pub(super) fn month_end(date: NaiveDate) -> u32 {
    u32::from(date.num_days_in_month())
}
