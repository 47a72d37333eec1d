//! Intervals from texts: `1 year 2 mons -3 days 04:05:06`, `1.5 hours ago`, `P1Y2M3DT4H`.

use datafusion::arrow::datatypes::IntervalMonthDayNano;

/// Fixed-point scale of parsed numbers: a number is stored multiplied by this.
const SCALE: i128 = 1_000_000_000_000;
/// Digits after the point that are read.
const FRACTION_DIGITS: usize = 12;
/// Digits before the point that are read.
const WHOLE_DIGITS_MAX: usize = 19;
const DAY_NANOS: i128 = 86_400 * SECOND_NANOS;
const SECOND_NANOS: i128 = 1_000_000_000;
const MONTH_DAYS: i128 = 30;

/// A unit, as a number of months, days or nanoseconds.
#[derive(Clone, Copy)]
enum Unit {
    Months(i128),
    Days(i128),
    Nanos(i128),
}

/// Units of texts by their names.
const UNITS: [(&[&str], Unit); 13] = [
    (&["millennium", "millennia", "millenniums", "mil", "mils"], Unit::Months(12_000)),
    (&["century", "centuries", "cent", "c"], Unit::Months(1_200)),
    (&["decade", "decades", "dec", "decs"], Unit::Months(120)),
    (&["year", "years", "yr", "yrs", "y"], Unit::Months(12)),
    (&["quarter", "quarters", "qtr"], Unit::Months(3)),
    (&["month", "months", "mon", "mons"], Unit::Months(1)),
    (&["week", "weeks", "w"], Unit::Days(7)),
    (&["day", "days", "d"], Unit::Days(1)),
    (&["hour", "hours", "hr", "hrs", "h"], Unit::Nanos(3_600 * SECOND_NANOS)),
    (&["minute", "minutes", "min", "mins", "m"], Unit::Nanos(60 * SECOND_NANOS)),
    (&["second", "seconds", "sec", "secs", "s"], Unit::Nanos(SECOND_NANOS)),
    (
        &["millisecond", "milliseconds", "msec", "msecs", "msecond", "mseconds", "ms"],
        Unit::Nanos(1_000_000),
    ),
    (
        &["microsecond", "microseconds", "usec", "usecs", "usecond", "useconds", "us"],
        Unit::Nanos(1_000),
    ),
];

/// Units of nanoseconds, which PostgreSQL does not have.
const NANOS: [&str; 3] = ["nanosecond", "nanoseconds", "ns"];

fn unit(name: &str) -> Option<Unit> {
    let name = name.to_ascii_lowercase();
    if NANOS.contains(&name.as_str()) {
        return Some(Unit::Nanos(1));
    }
    let found = UNITS.iter().find(|(names, _)| names.contains(&name.as_str()));
    found.map(|(_, unit)| *unit)
}

/// Returns the interval that a text denotes in one of PostgreSQL's forms; `None` for any other
/// text, and for one that is out of range.
#[must_use]
pub fn parse_interval(text: &str) -> Option<IntervalMonthDayNano> {
    let text = text.trim();
    match text.strip_prefix(['P', 'p']) {
        Some(parts) => iso(parts)?.interval(),
        None => words(text)?.interval(),
    }
}

/// A sum of units.
#[derive(Default)]
struct Sum {
    months: i128,
    days: i128,
    nanos: i128,
}

impl Sum {
    /// Adds `number` units, a fixed-point number; `None` on overflow. As in PostgreSQL, the
    /// fraction of a month becomes days, that of a day a time, and that of a year is rounded to
    /// months.
    fn add(&mut self, number: i128, unit: Unit) -> Option<()> {
        match unit {
            Unit::Months(1) => {
                self.months += number / SCALE;
                self.add(number % SCALE, Unit::Days(MONTH_DAYS))?;
            }
            Unit::Months(months) => {
                let months = number.checked_mul(months)?;
                self.months += (months + months.signum() * SCALE / 2) / SCALE;
            }
            Unit::Days(days) => {
                let days = number.checked_mul(days)?;
                self.days += days / SCALE;
                self.nanos += (days % SCALE) * (DAY_NANOS / 1_000) / (SCALE / 1_000);
            }
            Unit::Nanos(nanos) => self.nanos += number.checked_mul(nanos)? / SCALE,
        }
        Some(())
    }

    fn negated(self) -> Self {
        Self { months: -self.months, days: -self.days, nanos: -self.nanos }
    }

    fn interval(self) -> Option<IntervalMonthDayNano> {
        let (months, days) = (i32::try_from(self.months).ok()?, i32::try_from(self.days).ok()?);
        Some(IntervalMonthDayNano::new(months, days, i64::try_from(self.nanos).ok()?))
    }
}

/// Reads numbers with units, and times of hours and minutes.
fn words(text: &str) -> Option<Sum> {
    let mut words: Vec<&str> = text.split_whitespace().filter(|word| *word != "@").collect();
    let is_ago = words.last().is_some_and(|word| word.eq_ignore_ascii_case("ago"));
    if is_ago {
        words.pop();
    }
    let mut sum = Sum::default();
    let mut rest = words.as_slice();
    if rest.is_empty() {
        return None;
    }
    while let Some((word, behind)) = rest.split_first() {
        rest = behind;
        if word.contains(':') {
            sum.nanos += clock(word)?;
            continue;
        }
        let end = word.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(word.len());
        let (amount, name) = word.split_at(end);
        if name.is_empty() && years_and_months(amount, &mut sum).is_some() {
            continue;
        }
        let amount = number(amount)?;
        let name = match (name, rest.split_first()) {
            ("", Some((next, _))) if next.contains(':') => "day",
            ("", Some((next, behind))) => {
                rest = behind;
                next
            }
            ("", None) => "second",
            (name, _) => name,
        };
        sum.add(amount, unit(name)?)?;
    }
    Some(if is_ago { sum.negated() } else { sum })
}

/// Adds the years and months of `1-2`.
fn years_and_months(text: &str, sum: &mut Sum) -> Option<()> {
    let (sign, digits) = signed(text);
    let (years, months) = digits.split_once('-')?;
    let months = whole(months).filter(|months| *months < 12)?;
    sum.months += sign * (whole(years)?.checked_mul(12)? + months);
    Some(())
}

/// The nanoseconds of `04:05`, `04:05:06.789` or `05:06.789`, minutes and seconds.
fn clock(text: &str) -> Option<i128> {
    let (sign, text) = signed(text);
    let parts: Vec<&str> = text.split(':').collect();
    let (hours, minutes, seconds) = match parts.as_slice() {
        [hours, minutes, seconds] => (*hours, *minutes, *seconds),
        [minutes, seconds] if seconds.contains('.') => ("0", *minutes, *seconds),
        [hours, minutes] => (*hours, *minutes, "0"),
        _ => return None,
    };
    let seconds = number(seconds).filter(|seconds| (0..=60 * SCALE).contains(seconds))?;
    let minutes = whole(minutes).filter(|minutes| *minutes < 60)?;
    let nanos = (whole(hours)? * 3_600 + minutes * 60) * SECOND_NANOS;
    Some(sign * (nanos + seconds / (SCALE / SECOND_NANOS)))
}

/// Reads the parts of `P1Y2M3DT4H5M6.5S`.
fn iso(text: &str) -> Option<Sum> {
    let mut sum = Sum::default();
    let (mut rest, mut is_time) = (text, false);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        if let Some(behind) = rest.strip_prefix(['T', 't']) {
            (rest, is_time) = (behind, true);
            continue;
        }
        let end = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let (amount, behind) = rest.split_at(end);
        let unit = match (behind.as_bytes().first()?.to_ascii_uppercase(), is_time) {
            (b'Y', false) => Unit::Months(12),
            (b'M', false) => Unit::Months(1),
            (b'W', false) => Unit::Days(7),
            (b'D', false) => Unit::Days(1),
            (b'H', true) => Unit::Nanos(3_600 * SECOND_NANOS),
            (b'M', true) => Unit::Nanos(60 * SECOND_NANOS),
            (b'S', true) => Unit::Nanos(SECOND_NANOS),
            _ => return None,
        };
        sum.add(number(amount)?, unit)?;
        rest = behind.get(1..)?;
    }
    Some(sum)
}

fn signed(text: &str) -> (i128, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// A number without a sign or a point.
fn whole(text: &str) -> Option<i128> {
    let is_number = !text.is_empty()
        && text.len() <= WHOLE_DIGITS_MAX
        && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// A number, multiplied by [`SCALE`].
fn number(text: &str) -> Option<i128> {
    let (sign, digits) = signed(text);
    let (before, behind) = digits.split_once('.').unwrap_or((digits, ""));
    if before.is_empty() && behind.is_empty() || !behind.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let before = if before.is_empty() { 0 } else { whole(before)? };
    let behind = behind.get(..FRACTION_DIGITS).unwrap_or(behind);
    let behind = if behind.is_empty() { 0 } else { whole(&format!("{behind:0<12}"))? };
    Some(sign * (before * SCALE + behind))
}

#[cfg(test)]
mod tests {
    use super::super::interval::interval_text;
    use super::*;

    /// The values of PostgreSQL 15; quarters and nanoseconds are DuckDB's.
    #[test]
    fn texts_are_read_as_in_postgresql() {
        for (text, expected) in [
            ("1 year 2 mons 3 days 04:05:06.789", Some("1 year 2 mons 3 days 04:05:06.789")),
            ("-1 mons +2 days -03:04", Some("-1 mons +2 days -03:04:00")),
            ("1 day 2 hours ago", Some("-1 days -02:00:00")),
            ("@ 3 days", Some("3 days")),
            ("3days 2h", Some("3 days 02:00:00")),
            ("1 2:03", Some("1 day 02:03:00")),
            ("04:05.5", Some("00:04:05.5")),
            ("90", Some("00:01:30")),
            ("1.5 hours", Some("01:30:00")),
            ("1.5 days", Some("1 day 12:00:00")),
            ("1.5 weeks", Some("10 days 12:00:00")),
            ("1.5 months", Some("1 mon 15 days")),
            ("1.55 years", Some("1 year 7 mons")),
            (".5 sec", Some("00:00:00.5")),
            ("1 decade", Some("10 years")),
            ("1-2", Some("1 year 2 mons")),
            ("-1-2", Some("-1 years -2 mons")),
            ("100:00:00", Some("100:00:00")),
            ("P1Y2M3DT4H5M6.5S", Some("1 year 2 mons 3 days 04:05:06.5")),
            ("PT36H", Some("36:00:00")),
            ("P-1W", Some("-7 days")),
            ("1 quarter", Some("3 mons")),
            ("2147483647 months", Some("178956970 years 7 mons")),
            ("2147483648 months", None),
            ("", None),
            ("soon", None),
            ("1 fortnight", None),
            ("1 day soon", None),
            ("1:60", None),
            ("1:02:60", Some("01:03:00")),
            ("1:02:61", None),
            ("P", None),
            ("P1H", None),
            ("1 day 1e3 s", None),
            ("99999999999999999999 s", None),
            ("ago", None),
            ("- days", None),
            ("\u{e4} days", None),
        ] {
            let read = parse_interval(text).map(interval_text);
            assert_eq!(read.as_deref(), expected, "{text}");
        }
        let nanos = parse_interval("1.5 us 3 ns").map(|interval| interval.nanoseconds);
        assert_eq!(nanos, Some(1_503));
    }
}
