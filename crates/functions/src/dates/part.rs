//! Parts of dates and times by their names.

use datafusion::common::{Result, exec_err};

/// A part of a date or time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Millennium,
    Century,
    Decade,
    Year,
    IsoYear,
    Quarter,
    Month,
    Week,
    YearWeek,
    Day,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
    Epoch,
    Era,
    Julian,
    TimeZone,
    TimeZoneHour,
    TimeZoneMinute,
}

/// The names of each part, which are DuckDB's and PostgreSQL's.
const NAMES: &[(Part, &str)] = &[
    (Part::Millennium, "millennium millennia millenniums millenium mil mils"),
    (Part::Century, "century centuries cent c"),
    (Part::Decade, "decade decades dec decs"),
    (Part::Year, "year years yr yrs y"),
    (Part::IsoYear, "isoyear"),
    (Part::Quarter, "quarter quarters qtr"),
    (Part::Month, "month months mon mons"),
    (Part::Week, "week weeks w weekofyear"),
    (Part::YearWeek, "yearweek"),
    (Part::Day, "day days d dayofmonth"),
    (Part::DayOfWeek, "dow dayofweek weekday"),
    (Part::IsoDayOfWeek, "isodow"),
    (Part::DayOfYear, "doy dayofyear"),
    (Part::Hour, "hour hours hr hrs h"),
    (Part::Minute, "minute minutes min mins m"),
    (Part::Second, "second seconds sec secs s"),
    (Part::Millisecond, "millisecond milliseconds msec msecs msecond mseconds ms"),
    (Part::Microsecond, "microsecond microseconds usec usecs usecond useconds us"),
    (Part::Nanosecond, "nanosecond nanoseconds ns"),
    (Part::Epoch, "epoch"),
    (Part::Era, "era"),
    (Part::Julian, "julian"),
    (Part::TimeZone, "timezone"),
    (Part::TimeZoneHour, "timezone_hour"),
    (Part::TimeZoneMinute, "timezone_minute"),
];

impl Part {
    /// The part with a name, in any case.
    ///
    /// # Errors
    /// If no part has that name.
    pub(super) fn named(name: &str) -> Result<Self> {
        let lower = name.to_ascii_lowercase();
        let is_named = |names: &str| names.split(' ').any(|name| name == lower);
        match NAMES.iter().find(|(_, names)| is_named(names)) {
            Some((part, _)) => Ok(*part),
            None => exec_err!(
                "{name:?} is no part of a date or time; year, month, week, day, hour, minute and \
                 second are some"
            ),
        }
    }

    /// The name, for messages.
    pub(super) fn name(self) -> &'static str {
        let names = NAMES.iter().find(|(part, _)| *part == self).map_or("", |(_, names)| names);
        names.split(' ').next().unwrap_or(names)
    }
}
