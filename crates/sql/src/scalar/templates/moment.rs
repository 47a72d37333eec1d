//! Dates and times of the fields that a template reads, as in PostgreSQL.

use chrono::{Datelike as _, NaiveDate};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};

use super::reader::{Convention, Parts};
use super::times::JULIAN_DAY_BEFORE_CE;

const HOUR_SECONDS: i64 = 3_600;
const MICROSECONDS: i64 = 1_000_000;

/// A date and a time of day, in a time zone if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) date: NaiveDate,
    /// Microseconds since midnight.
    pub(super) time: i64,
    /// Seconds east of UTC.
    pub(super) offset: Option<i64>,
}

/// Day of the calendar while fields are applied, and those of its parts that are known.
#[derive(Clone, Copy, Debug)]
struct Day {
    year: i64,
    month: i64,
    day: i64,
    has_year: bool,
    has_month: bool,
    has_day: bool,
}

/// Returns the date and time that the fields `parts` denote; `text` is the text that they were read
/// from, for errors.
///
/// # Errors
/// If a field is out of its range, or the day of a year has no year.
pub(super) fn moment(parts: &Parts, text: &str) -> Result<Moment> {
    let time = time(parts, text)?;
    let date = day(parts, text)?.date(text)?;
    let offset = match parts.zone_sign {
        0 => None,
        sign => match (parts.zone_hours, parts.zone_minutes) {
            (hours @ 0..=15, minutes @ 0..60) => Some(sign * (hours * HOUR_SECONDS + minutes * 60)),
            _ => return exec_err!("time zone displacement out of range: {text:?}"),
        },
    };
    Ok(Moment { date, time, offset })
}

fn out_of_range(text: &str) -> DataFusionError {
    exec_datafusion_err!("date/time field value out of range: {text:?}")
}

/// The microseconds since midnight.
fn time(parts: &Parts, text: &str) -> Result<i64> {
    let of_day = parts.second_of_day;
    let given = |value: i64, of_day: i64| if value == 0 { of_day } else { value };
    let second = given(parts.second, of_day % 60);
    let minute = given(parts.minute, of_day / 60 % 60);
    let mut hour = given(parts.hour, of_day / HOUR_SECONDS);
    if parts.has_halves {
        hour = match hour {
            1..=12 => hour % 12 + 12 * parts.is_pm,
            _ => {
                return exec_err!(
                    "hour {hour} is invalid for the 12-hour clock: use the 24-hour clock, or give \
                     an hour between 1 and 12"
                );
            }
        };
    }
    let fraction = parts.millisecond.saturating_mul(1_000).saturating_add(parts.microsecond);
    let is_valid = (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..60).contains(&second)
        && (0..MICROSECONDS).contains(&fraction);
    if !is_valid {
        return Err(out_of_range(text));
    }
    let unit = 10_i64.pow(6 - u32::from(parts.fraction_digits.min(6)));
    let fraction = match parts.fraction_digits {
        0 => fraction,
        _ => (fraction + unit / 2) / unit * unit,
    };
    Ok((hour * HOUR_SECONDS + minute * 60 + second) * MICROSECONDS + fraction)
}

/// The day of all fields, of which later ones override earlier ones.
fn day(parts: &Parts, text: &str) -> Result<Day> {
    let (year, has_year) = year(parts);
    let mut of = Day { year, month: 1, day: 1, has_year, has_month: false, has_day: false };
    let is_iso = parts.convention == Convention::IsoWeek;
    if parts.julian_day != 0 {
        of.set(of_julian(parts.julian_day, text)?);
    }
    let mut day_of_year = parts.day_of_year;
    match parts.week {
        0 => {}
        week if is_iso => {
            let monday = iso_week(of.year, week, text)?;
            let after = match parts.day_of_week {
                0 => 0,
                // Sunday ends the week.
                1 => 6,
                day => day - 2,
            };
            of.set(of_julian(monday + after, text)?);
        }
        week => day_of_year = (week - 1) * 7 + 1,
    }
    let day = match parts.week_of_month {
        0 => parts.day,
        week => (week - 1) * 7 + 1,
    };
    if day != 0 {
        (of.day, of.has_day) = (day, true);
    }
    if parts.month != 0 {
        (of.month, of.has_month) = (parts.month, true);
    }
    if day_of_year != 0 && (of.month <= 1 || of.day <= 1) {
        if of.year == 0 && parts.is_bc == 0 {
            return exec_err!("cannot calculate day of year without year information: {text:?}");
        }
        match is_iso {
            true => {
                let first = iso_week(of.year, 1, text)?;
                of.set(of_julian(first - 1 + day_of_year, text)?);
            }
            false => of.set_day_of_year(day_of_year, text)?,
        }
    }
    Ok(of)
}

/// The year that the fields of a year, a century and an era denote, and true if there is one.
fn year(parts: &Parts) -> (i64, bool) {
    let century = if parts.is_bc == 0 { parts.century } else { -parts.century };
    let year = match (parts.year, parts.century) {
        (0, 0) => return (0, false),
        (0, _) if century >= 0 => (century - 1) * 100 + 1,
        (0, _) => century * 100 + 1,
        (year, _) if century != 0 && parts.year_digits <= 2 => match year % 100 {
            0 => century * 100 + i64::from(century < 0),
            year if century >= 0 => year + (century - 1) * 100,
            year => (century + 1) * 100 - year + 1,
        },
        (year, _) => {
            let year = if parts.is_bc == 0 { year } else { -year };
            // The year 0 is 1 BC.
            if year < 0 { year + 1 } else { year }
        }
    };
    (year, true)
}

/// The Monday of an ISO week of an ISO year, as a Julian day.
fn iso_week(year: i64, week: i64, text: &str) -> Result<i64> {
    let year = i32::try_from(year).map_err(|_| out_of_range(text))?;
    let fourth = NaiveDate::from_ymd_opt(year, 1, 4).ok_or_else(|| out_of_range(text))?;
    let monday = julian(fourth) - i64::from(fourth.weekday().num_days_from_monday());
    Ok(monday + (week - 1) * 7)
}

fn julian(date: NaiveDate) -> i64 {
    i64::from(date.num_days_from_ce()) + JULIAN_DAY_BEFORE_CE
}

fn of_julian(day: i64, text: &str) -> Result<NaiveDate> {
    let day = i32::try_from(day - JULIAN_DAY_BEFORE_CE).ok();
    day.and_then(NaiveDate::from_num_days_from_ce_opt).ok_or_else(|| out_of_range(text))
}

impl Day {
    fn set(&mut self, date: NaiveDate) {
        *self = Self {
            year: date.year().into(),
            month: date.month().into(),
            day: date.day().into(),
            has_year: true,
            has_month: true,
            has_day: true,
        };
    }

    /// Sets the month and the day to those of `day_of_year`, unless a field has set them.
    fn set_day_of_year(&mut self, day_of_year: i64, text: &str) -> Result<()> {
        let first = self.first_of(1, text)?;
        let date = of_julian(julian(first).saturating_add(day_of_year - 1), text)?;
        // A day below the first is one of the first month.
        let (month, day) = match day_of_year {
            1.. if i64::from(date.year()) == self.year => (date.month().into(), date.day().into()),
            1.. => return Err(out_of_range(text)),
            _ => (1, day_of_year),
        };
        if self.month <= 1 {
            self.month = month;
        }
        if self.day <= 1 {
            self.day = day;
        }
        (self.has_month, self.has_day) = (true, true);
        Ok(())
    }

    fn first_of(self, month: i64, text: &str) -> Result<NaiveDate> {
        let first = i32::try_from(self.year).ok().zip(u32::try_from(month).ok());
        let first = first.and_then(|(year, month)| NaiveDate::from_ymd_opt(year, month, 1));
        first.ok_or_else(|| out_of_range(text))
    }

    /// The date; without all of its fields, days that its month does not have are those of the next
    /// month.
    fn date(self, text: &str) -> Result<NaiveDate> {
        if self.has_day && !(1..=31).contains(&self.day) {
            return Err(out_of_range(text));
        }
        let first = self.first_of(self.month, text)?;
        let date = of_julian(julian(first).saturating_add(self.day - 1), text)?;
        let is_complete = self.has_year && self.has_month && self.has_day;
        match is_complete && date.month() != first.month() {
            true => Err(out_of_range(text)),
            false => Ok(date),
        }
    }
}
