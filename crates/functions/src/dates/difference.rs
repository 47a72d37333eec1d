//! `date_diff` and `date_sub` of DuckDB: the number of boundaries between two times (of years,
//! months and so on), and the number of whole units between them.

use chrono::Datelike as _;
use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, exec_datafusion_err, exec_err};

use super::age::between;
use super::moment::{DAY, HOUR, MINUTE, SECOND, days, local, micros, month_end, months};
use super::part::Part;
use crate::scalar::{Call, Definition, Int, Kind, Overload, Text, Time, Timestamp};

const TIMESTAMPS: &[Kind] = &[Kind::Text, Kind::Timestamp, Kind::Timestamp];
const TIMES: &[Kind] = &[Kind::Text, Kind::Time, Kind::Time];

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new(
        "date_diff",
        &[
            Overload::new(TIMESTAMPS, Kind::Integer, diff),
            Overload::new(TIMES, Kind::Integer, time_diff),
        ],
    )
    .alias(&["datediff"]),
    Definition::new(
        "date_sub",
        &[
            Overload::new(TIMESTAMPS, Kind::Integer, sub),
            Overload::new(TIMES, Kind::Integer, time_sub),
        ],
    )
    .alias(&["datesub"]),
];

fn diff(call: &Call) -> Result<ArrayRef> {
    call.map3::<Text, Timestamp, Timestamp, Int>(|part, begin, end| {
        crossed(Part::named(part)?, begin, end).map(Some)
    })
}

fn sub(call: &Call) -> Result<ArrayRef> {
    call.map3::<Text, Timestamp, Timestamp, Int>(|part, begin, end| {
        passed(Part::named(part)?, begin, end).map(Some)
    })
}

fn time_diff(call: &Call) -> Result<ArrayRef> {
    call.map3::<Text, Time, Time, Int>(|part, begin, end| {
        let unit = time_unit(Part::named(part)?)?;
        Ok(Some(steps(end / 1_000, unit) - steps(begin / 1_000, unit)))
    })
}

fn time_sub(call: &Call) -> Result<ArrayRef> {
    call.map3::<Text, Time, Time, Int>(|part, begin, end| {
        Ok(Some((end / 1_000 - begin / 1_000) / time_unit(Part::named(part)?)?))
    })
}

fn steps(micros: i64, unit: i64) -> i64 {
    micros.div_euclid(unit)
}

/// The microseconds of a part of a day.
fn time_unit(part: Part) -> Result<i64> {
    Ok(match part {
        Part::Hour => HOUR,
        Part::Minute => MINUTE,
        Part::Second | Part::Epoch => SECOND,
        Part::Millisecond => 1_000,
        Part::Microsecond => 1,
        other => return exec_err!("times have no difference in {}", other.name()),
    })
}

/// The number of boundaries of a part between two timestamps in microseconds since 1970.
fn crossed(part: Part, begin: i64, end: i64) -> Result<i64> {
    let (from, to) = (local(begin)?.date(), local(end)?.date());
    let years = |unit: i32| i64::from(to.year() / unit) - i64::from(from.year() / unit);
    Ok(match part {
        Part::Millennium => years(1_000),
        Part::Century => years(100),
        Part::Decade => years(10),
        Part::Year => years(1),
        Part::IsoYear => i64::from(to.iso_week().year()) - i64::from(from.iso_week().year()),
        Part::Quarter => months(to).div_euclid(3) - months(from).div_euclid(3),
        Part::Month => months(to) - months(from),
        // Whole weeks: DuckDB counts no boundaries here.
        Part::Week | Part::YearWeek => (i64::from(days(to)) - i64::from(days(from))) / 7,
        Part::Day | Part::DayOfWeek | Part::IsoDayOfWeek | Part::DayOfYear | Part::Julian => {
            i64::from(days(to)) - i64::from(days(from))
        }
        part => {
            let unit = time_unit(part)?;
            let difference = steps(end, unit).checked_sub(steps(begin, unit));
            return difference.ok_or_else(out_of_range);
        }
    })
}

fn out_of_range() -> datafusion::common::DataFusionError {
    exec_datafusion_err!("a difference of timestamps is out of range")
}

/// The number of whole units of a part between two timestamps in microseconds since 1970.
fn passed(part: Part, begin: i64, end: i64) -> Result<i64> {
    let in_months = |unit: i64| Ok(whole_months(begin, end)? / unit);
    let unit = match part {
        Part::Millennium => return in_months(12_000),
        Part::Century => return in_months(1_200),
        Part::Decade => return in_months(120),
        Part::Year | Part::IsoYear => return in_months(12),
        Part::Quarter => return in_months(3),
        Part::Month => return in_months(1),
        Part::Week | Part::YearWeek => 7 * DAY,
        Part::Day | Part::DayOfWeek | Part::IsoDayOfWeek | Part::DayOfYear | Part::Julian => DAY,
        part => time_unit(part)?,
    };
    end.checked_sub(begin).map(|micros| micros / unit).ok_or_else(out_of_range)
}

/// The whole months between two timestamps. From a day that the last month does not have, a month
/// ends on its last day.
fn whole_months(begin: i64, end: i64) -> Result<i64> {
    if begin > end {
        return Ok(-whole_months(end, begin)?);
    }
    let (mut from, to) = (local(begin)?, local(end)?);
    let last = month_end(to.date());
    let is_later = micros(to).rem_euclid(DAY) >= micros(from).rem_euclid(DAY);
    if to.day() == last && (from.day() > last || (from.day() == last && !is_later)) {
        from = from.with_day(last).unwrap_or(from);
    }
    Ok(between(to, from).months)
}
