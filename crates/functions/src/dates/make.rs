//! Timestamps and times from their fields: `make_timestamp`, `make_timestamptz`, `make_time`.

use chrono::{NaiveDate, NaiveTime};
use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, exec_datafusion_err, exec_err};

use super::clock::session_zone;
use super::moment::{DAY, HOUR, MINUTE, instant_of, local, micros};
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
    Definition::new("make_timestamptz", &[Overload::new(FIELDS, Kind::Instant, instant)])
        .of_session(),
    Definition::new(
        "make_time",
        &[Overload::new(&[Kind::Integer, Kind::Integer, Kind::Double], Kind::Time, time)],
    ),
];

fn timestamp(call: &Call) -> Result<ArrayRef> {
    call.rows_of::<Timestamp>(|row| of_fields(call, row))
}

/// The instant of a timestamp in the session's time zone.
fn instant(call: &Call) -> Result<ArrayRef> {
    let zone = session_zone(call.options())?;
    call.rows_of::<Timestamp>(|row| {
        let Some(time) = of_fields(call, row)? else { return Ok(None) };
        match instant_of(local(time)?, zone) {
            Some(instant) => Ok(Some(micros(instant))),
            None => exec_err!("{}: the timestamp is out of range", call.name()),
        }
    })
}

/// The timestamp of the year, month, day, hour, minute and seconds of a row.
fn of_fields(call: &Call, row: usize) -> Result<Option<i64>> {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::datatypes::Field;
    use datafusion::common::ScalarValue;
    use datafusion::common::config::ConfigOptions;
    use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

    use super::*;
    use crate::scalar::functions;

    /// The instant of a local time of 2024 in a session's time zone, as its day, hour and minute.
    fn instant(zone: &str, [month, day, hour, minute]: [i64; 4]) -> String {
        let mut options = ConfigOptions::new();
        options.execution.time_zone = Some(zone.to_owned());
        let fields = [2024, month, day, hour, minute].map(|field| ScalarValue::Int64(Some(field)));
        let fields = fields.into_iter().chain([ScalarValue::Float64(Some(0.0))]);
        let args: Vec<_> = fields.map(ColumnarValue::Scalar).collect();
        let field = |arg: &ColumnarValue| Arc::new(Field::new("", arg.data_type(), true));
        let function = functions(FUNCTIONS).into_iter().find(|it| it.name() == "make_timestamptz");
        let result = function.expect("a function").invoke_with_args(ScalarFunctionArgs {
            arg_fields: args.iter().map(field).collect(),
            args,
            number_rows: 1,
            return_field: Arc::new(Field::new("", Kind::Instant.data_type(), true)),
            config_options: Arc::new(options),
        });
        match result.expect("an instant") {
            ColumnarValue::Scalar(ScalarValue::TimestampMicrosecond(Some(micros), _)) => {
                local(micros).expect("in range").format("%d %H:%M").to_string()
            }
            other => format!("{other:?}"),
        }
    }

    /// The results of PostgreSQL 15. Berlin skips 2:30 on March 31 and has it twice on October 27.
    #[test]
    fn instants_are_those_of_the_time_zone_of_the_session() {
        assert_eq!(instant("UTC", [7, 1, 12, 0]), "01 12:00");
        assert_eq!(instant("Europe/Berlin", [7, 1, 12, 0]), "01 10:00");
        assert_eq!(instant("Asia/Tokyo", [7, 1, 8, 59]), "30 23:59");
        assert_eq!(instant("Europe/Berlin", [3, 31, 2, 30]), "31 01:30");
        assert_eq!(instant("Europe/Berlin", [10, 27, 2, 30]), "27 01:30");
    }
}
