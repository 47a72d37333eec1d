//! `time_bucket` of DuckDB.

use chrono::{NaiveDate, NaiveDateTime, NaiveTime};
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::IntervalMonthDayNano;
use datafusion::common::{Result, exec_datafusion_err, exec_err};

use super::arithmetic::{add_months, sum};
use super::moment::{DAY, days, local, micros, months};
use crate::scalar::{Call, Date, Definition, Interval, Kind, Overload, Timestamp};

pub(super) const FUNCTIONS: &[Definition] = &[Definition::new(
    "time_bucket",
    &[
        Overload::new(&[Kind::Interval, Kind::Date], Kind::Date, of_dates),
        Overload::new(&[Kind::Interval, Kind::Timestamp], Kind::Timestamp, of_timestamps),
        Overload::new(
            &[Kind::Interval, Kind::Timestamp, Kind::Interval],
            Kind::Timestamp,
            with_offset,
        ),
        Overload::new(&[Kind::Interval, Kind::Date, Kind::Date], Kind::Date, dates_from),
        Overload::new(
            &[Kind::Interval, Kind::Timestamp, Kind::Timestamp],
            Kind::Timestamp,
            timestamps_from,
        ),
    ],
)];

/// Monday, 2000-01-03, where buckets without months begin, in days since 1970.
const ORIGIN_DAYS: i64 = 10_959;

/// The width of buckets.
#[derive(Clone, Copy)]
enum Width {
    Months(i64),
    Micros(i64),
}

impl Width {
    fn of(interval: IntervalMonthDayNano) -> Result<Self> {
        let rest = i64::from(interval.days)
            .checked_mul(DAY)
            .and_then(|days| days.checked_add(interval.nanoseconds / 1_000));
        match (i64::from(interval.months), rest) {
            (months @ 1.., Some(0)) => Ok(Self::Months(months)),
            (0, Some(micros @ 1..)) => Ok(Self::Micros(micros)),
            (1.., _) => exec_err!("a time_bucket of months has no days and no time besides"),
            _ => exec_err!("the width of a time_bucket is above zero"),
        }
    }

    /// The origin of buckets without one of their own.
    fn origin(self) -> NaiveDateTime {
        let first = NaiveDate::from_ymd_opt(2000, 1, 1).unwrap_or_default();
        match self {
            Self::Months(_) => first.and_time(NaiveTime::MIN),
            Self::Micros(_) => local(ORIGIN_DAYS * DAY).unwrap_or_default(),
        }
    }

    /// The begin of the bucket of a local time.
    fn bucket(self, time: NaiveDateTime, origin: NaiveDateTime) -> Option<NaiveDateTime> {
        match self {
            Self::Micros(width) => {
                let since = micros(time).checked_sub(micros(origin))?;
                let begin = since.checked_sub(since.rem_euclid(width))?.checked_add(micros(origin));
                local(begin?).ok()
            }
            Self::Months(width) => {
                let since = months(time.date()) - months(origin.date());
                let first = NaiveDate::from_ymd_opt(1970, 1, 1)?.and_time(NaiveTime::MIN);
                let begin = months(origin.date()) + since - since.rem_euclid(width);
                add_months(first, begin - months(first.date()))
            }
        }
    }
}

fn bucket(
    interval: IntervalMonthDayNano,
    time: NaiveDateTime,
    origin: Option<NaiveDateTime>,
) -> Result<NaiveDateTime> {
    let width = Width::of(interval)?;
    let bucket = width.bucket(time, origin.unwrap_or_else(|| width.origin()));
    bucket.ok_or_else(|| exec_datafusion_err!("a time_bucket is out of range"))
}

fn date_time(days: i32) -> Result<NaiveDateTime> {
    match i64::from(days).checked_mul(DAY) {
        Some(micros) => local(micros),
        None => exec_err!("a date is out of range"),
    }
}

fn of_dates(call: &Call) -> Result<ArrayRef> {
    call.map2::<Interval, Date, Date>(|width, date| {
        Ok(Some(days(bucket(width, date_time(date)?, None)?.date())))
    })
}

fn dates_from(call: &Call) -> Result<ArrayRef> {
    call.map3::<Interval, Date, Date, Date>(|width, date, origin| {
        Ok(Some(days(bucket(width, date_time(date)?, Some(date_time(origin)?))?.date())))
    })
}

fn of_timestamps(call: &Call) -> Result<ArrayRef> {
    call.map2::<Interval, Timestamp, Timestamp>(|width, time| {
        Ok(Some(micros(bucket(width, local(time)?, None)?)))
    })
}

fn timestamps_from(call: &Call) -> Result<ArrayRef> {
    call.map3::<Interval, Timestamp, Timestamp, Timestamp>(|width, time, origin| {
        Ok(Some(micros(bucket(width, local(time)?, Some(local(origin)?))?)))
    })
}

/// Buckets moved by an interval.
fn with_offset(call: &Call) -> Result<ArrayRef> {
    call.map3::<Interval, Timestamp, Interval, Timestamp>(|width, time, offset| {
        let out_of_range = || exec_datafusion_err!("a time_bucket is out of range");
        let back = (offset.months.checked_neg(), offset.days.checked_neg());
        let (Some(months), Some(days)) = back else { return Err(out_of_range()) };
        let nanos = offset.nanoseconds.checked_neg().ok_or_else(out_of_range)?;
        let back = IntervalMonthDayNano::new(months, days, nanos);
        let moved = sum(local(time)?, back).ok_or_else(out_of_range)?;
        let begin = sum(bucket(width, moved, None)?, offset).ok_or_else(out_of_range)?;
        Ok(Some(micros(begin)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_beyond_the_calendar_are_errors() {
        assert!(date_time(0).is_ok());
        for days in [i32::MIN, i32::MAX] {
            assert!(date_time(days).is_err(), "{days}");
        }
    }
}
