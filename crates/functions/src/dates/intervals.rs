//! Intervals of a number of units, such as `to_days(3)`, and `make_interval`.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::IntervalMonthDayNano;
use datafusion::common::{Result, exec_datafusion_err, exec_err};

use crate::scalar::{Call, Definition, Double, Int, Interval, Kind, Overload};

const WHOLE: &[Overload] = &[Overload::new(&[Kind::Integer], Kind::Interval, whole)];
const PARTS: &[Overload] = &[Overload::new(&[Kind::Double], Kind::Interval, parts)];
const MADE: &[Kind] = &[
    Kind::Integer,
    Kind::Integer,
    Kind::Integer,
    Kind::Integer,
    Kind::Integer,
    Kind::Integer,
    Kind::Double,
];

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("to_millennia", WHOLE),
    Definition::new("to_centuries", WHOLE),
    Definition::new("to_decades", WHOLE),
    Definition::new("to_years", WHOLE),
    Definition::new("to_quarters", WHOLE),
    Definition::new("to_months", WHOLE),
    Definition::new("to_weeks", WHOLE),
    Definition::new("to_days", WHOLE),
    Definition::new("to_hours", WHOLE),
    Definition::new("to_minutes", WHOLE),
    Definition::new("to_microseconds", WHOLE),
    Definition::new("to_seconds", PARTS),
    Definition::new("to_milliseconds", PARTS),
    Definition::new(
        "make_interval",
        &[Overload::new(MADE, Kind::Interval, make).optional(MADE.len())],
    ),
];

/// The unit of a function: months, days or nanoseconds.
enum Unit {
    Months(i64),
    Days(i64),
    Nanos(i64),
}

fn whole(call: &Call) -> Result<ArrayRef> {
    let unit = match call.name() {
        "to_millennia" => Unit::Months(12_000),
        "to_centuries" => Unit::Months(1_200),
        "to_decades" => Unit::Months(120),
        "to_years" => Unit::Months(12),
        "to_quarters" => Unit::Months(3),
        "to_months" => Unit::Months(1),
        "to_weeks" => Unit::Days(7),
        "to_days" => Unit::Days(1),
        "to_hours" => Unit::Nanos(3_600_000_000_000),
        "to_minutes" => Unit::Nanos(60_000_000_000),
        _ => Unit::Nanos(1_000),
    };
    call.map1::<Int, Interval>(|number| {
        let interval = match unit {
            Unit::Months(months) => small(number, months).map(|it| of(it, 0, 0)),
            Unit::Days(days) => small(number, days).map(|it| of(0, it, 0)),
            Unit::Nanos(nanos) => number.checked_mul(nanos).map(|it| of(0, 0, it)),
        };
        interval
            .map(Some)
            .ok_or_else(|| exec_datafusion_err!("{}({number}) is out of range", call.name()))
    })
}

fn of(months: i32, days: i32, nanos: i64) -> IntervalMonthDayNano {
    IntervalMonthDayNano::new(months, days, nanos)
}

fn small(number: i64, unit: i64) -> Option<i32> {
    i32::try_from(number.checked_mul(unit)?).ok()
}

fn parts(call: &Call) -> Result<ArrayRef> {
    let unit = if call.name() == "to_seconds" { 1e6 } else { 1e3 };
    call.map1::<Double, Interval>(|number| match nanos(number * unit) {
        Some(nanos) => Ok(Some(of(0, 0, nanos))),
        None => exec_err!("{}({number}) is out of range", call.name()),
    })
}

/// The nanoseconds of a number of microseconds, rounded to whole ones of these.
fn nanos(micros: f64) -> Option<i64> {
    let micros = micros.round();
    // Whole numbers of this range are exact as integers.
    let fits = micros.abs() < 9e15;
    #[expect(clippy::cast_possible_truncation, reason = "checked above; NaN does not fit")]
    fits.then_some(micros as i64)?.checked_mul(1_000)
}

/// `make_interval(years, months, weeks, days, hours, minutes, seconds)`, each 0 if it is left out.
fn make(call: &Call) -> Result<ArrayRef> {
    call.rows_of::<Interval>(|row| {
        let mut numbers = [0; 6];
        for (argument, number) in numbers.iter_mut().enumerate().take(call.len()) {
            match call.value::<Int>(argument, row)? {
                Some(value) => *number = value,
                None => return Ok(None),
            }
        }
        let seconds = if call.len() > 6 { call.value::<Double>(6, row)? } else { Some(0.0) };
        let Some(seconds) = seconds else { return Ok(None) };
        match made(numbers, seconds) {
            Some(interval) => Ok(Some(interval)),
            None => exec_err!("an interval of make_interval is out of range"),
        }
    })
}

fn made(
    [years, months, weeks, days, hours, minutes]: [i64; 6],
    seconds: f64,
) -> Option<IntervalMonthDayNano> {
    let months = years.checked_mul(12)?.checked_add(months)?;
    let days = weeks.checked_mul(7)?.checked_add(days)?;
    let minutes = hours.checked_mul(60)?.checked_add(minutes)?;
    let nanos = minutes.checked_mul(60_000_000_000)?.checked_add(nanos(seconds * 1e6)?)?;
    Some(of(i32::try_from(months).ok()?, i32::try_from(days).ok()?, nanos))
}
