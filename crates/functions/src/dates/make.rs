//! Timestamps and times of their fields.

use chrono::{NaiveDate, NaiveTime};
use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, exec_datafusion_err, exec_err};

use super::moment::{DAY, HOUR, MINUTE, local, micros};
use crate::scalar::{Call, Definition, Double, Int, Kind, Overload, Time, Timestamp};

const FIELDS: &[Kind] =
    &[Kind::Integer, Kind::Integer, Kind::Integer, Kind::Integer, Kind::Integer, Kind::Double];

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new(
        "make_timestamp",
        &[
            Overload::new(FIELDS, Kind::Timestamp, timestamp),
            Overload::new(&[Kind::Integer], Kind::Timestamp, timestamp_of_micros),
        ],
    ),
    Definition::new("make_timestamptz", &[Overload::new(FIELDS, Kind::Instant, timestamp)]),
    Definition::new(
        "make_time",
        &[Overload::new(&[Kind::Integer, Kind::Integer, Kind::Double], Kind::Time, time)],
    ),
];

/// A timestamp of its year, month, day, hour, minute and seconds; with time zone, it is in UTC.
fn timestamp(call: &Call) -> Result<ArrayRef> {
    call.rows_of::<Timestamp>(|row| {
        let mut fields = [0; 5];
        for (argument, field) in fields.iter_mut().enumerate() {
            match call.value::<Int>(argument, row)? {
                Some(value) => *field = value,
                None => return Ok(None),
            }
        }
        let Some(seconds) = call.value::<Double>(5, row)? else { return Ok(None) };
        let [year, month, day, hour, minute] = fields;
        let Some(date) = date(year, month, day) else {
            return exec_err!("{} cannot make the date {year}-{month}-{day}", call.name());
        };
        let time = time_of_day(call.name(), hour, minute, seconds)?;
        Ok(Some(micros(date.and_time(NaiveTime::MIN)) + time))
    })
}

/// A date; the year -1 is the one before the year 1.
fn date(year: i64, month: i64, day: i64) -> Option<NaiveDate> {
    let year = match year {
        0 => return None,
        1.. => year,
        _ => year.checked_add(1)?,
    };
    let year = i32::try_from(year).ok()?;
    NaiveDate::from_ymd_opt(year, u32::try_from(month).ok()?, u32::try_from(day).ok()?)
}

/// The microseconds of a time of day, the end of the day among them.
fn time_of_day(function: &str, hour: i64, minute: i64, seconds: f64) -> Result<i64> {
    let wrong =
        || exec_datafusion_err!("{function} cannot make the time {hour}:{minute}:{seconds}");
    let is_time =
        (0..=24).contains(&hour) && (0..=59).contains(&minute) && (0.0..=60.0).contains(&seconds);
    if !is_time {
        return Err(wrong());
    }
    #[expect(clippy::cast_possible_truncation, reason = "at most 60 million")]
    let fraction = (seconds * 1e6).round() as i64;
    let micros = hour * HOUR + minute * MINUTE + fraction;
    if micros <= DAY { Ok(micros) } else { Err(wrong()) }
}

fn timestamp_of_micros(call: &Call) -> Result<ArrayRef> {
    call.map1::<Int, Timestamp>(|micros| local(micros).map(|_| Some(micros)))
}

/// A time of its hour, minute and seconds. The type has no end of the day, 24:00:00.
fn time(call: &Call) -> Result<ArrayRef> {
    call.map3::<Int, Int, Double, Time>(|hour, minute, seconds| {
        match time_of_day(call.name(), hour, minute, seconds)? {
            micros @ ..DAY => Ok(Some(micros * 1_000)),
            _ => exec_err!("make_time cannot make 24:00:00; the last time is 23:59:59.999999"),
        }
    })
}
