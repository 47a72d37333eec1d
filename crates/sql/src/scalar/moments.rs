//! Casts of texts to dates and timestamps.

use std::sync::Arc;

use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, not_impl_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use terrace_functions::MONTHS;
use terrace_table::unary::{apply_to_one, name_of_one};

/// The type of a cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Target {
    /// A date, which a time may follow.
    Date,
    /// A local time, whose text may have a time zone without effect.
    Timestamp,
    /// A timestamp with time zone.
    Instant,
    Time,
}

impl Target {
    fn of(data_type: &DataType) -> Option<Self> {
        match data_type {
            DataType::Date32 | DataType::Date64 => Some(Self::Date),
            DataType::Timestamp(_, None) => Some(Self::Timestamp),
            DataType::Timestamp(_, Some(_)) => Some(Self::Instant),
            DataType::Time32(_) | DataType::Time64(_) => Some(Self::Time),
            _ => None,
        }
    }
}

/// Rewrites texts before a cast to a date, time or timestamp: those that PostgreSQL reads and Arrow
/// does not, such as `2024-5-1 8:00`, `20240501` and `2024/05/01 8 pm`, become the same date and
/// time in Arrow's syntax. Other texts stay unchanged, and Arrow's cast reads or refuses them.
///
/// In a plan it has the name of its argument, so that the cast has the same name as without it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct MomentOfText {
    target: Target,
    /// True for `TRY_CAST`: a text that denotes no date or time becomes null instead of an error.
    is_lenient: bool,
    signature: Signature,
}

impl MomentOfText {
    pub(crate) fn function(to: &DataType, is_lenient: bool) -> ScalarUDF {
        let signature = Signature::any(1, Volatility::Immutable);
        let target = Target::of(to).unwrap_or(Target::Timestamp);
        ScalarUDF::new_from_impl(Self { target, is_lenient, signature })
    }

    /// True if a cast between these types needs this function: from a text to a date, time or
    /// timestamp.
    pub(crate) fn is_needed(from: &DataType, to: &DataType) -> bool {
        from.is_string() && Target::of(to).is_some()
    }
}

impl ScalarUDFImpl for MomentOfText {
    fn name(&self) -> &str {
        "moment_of_text"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        name_of_one(self.name(), args)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        apply_to_one(self.name(), &args.args, |array| self.written_out(array))
    }
}

impl MomentOfText {
    fn written_out(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let texts = cast(array, &DataType::Utf8View)?;
        let views = texts.as_string_view();
        let is_same = |text: Option<&str>| text.is_none_or(|text| self.is_plain(text));
        if views.iter().all(is_same) {
            return Ok(texts);
        }
        let infinite = views.iter().flatten().find(|text| is_infinite(text));
        if let Some(text) = infinite.filter(|_| !self.is_lenient && self.target != Target::Time) {
            return not_impl_err!(
                "dates and timestamps have no infinity; take NULL or '9999-12-31' for {text:?}"
            );
        }
        let written = views.iter().map(|text| {
            let text = text?;
            if self.is_plain(text) {
                return Some(text.to_owned());
            }
            if self.target == Target::Time {
                return Some(time_of_digits(text));
            }
            let moment = Moment::read(text);
            Some(moment.map_or_else(|| text.to_owned(), |moment| moment.text(self.target)))
        });
        let written: StringViewArray = written.collect();
        debug_assert_eq!(written.len(), texts.len());
        Ok(Arc::new(written))
    }

    /// True for a text that Arrow reads as PostgreSQL does.
    fn is_plain(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        let has = |place: usize, marks: &[u8]| bytes.get(place).is_some_and(|b| marks.contains(b));
        let is_day = has(4, b"-") && has(7, b"-");
        match self.target {
            Target::Date => is_day && bytes.len() == 10,
            Target::Timestamp | Target::Instant => {
                let is_local = || {
                    let rest = bytes.get(17..).unwrap_or_default();
                    rest.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
                };
                let is_moment = is_day && has(10, b" T") && has(13, b":") && has(16, b":");
                is_moment && (self.target == Target::Instant || is_local())
            }
            // Arrow takes digits alone for a count of units.
            Target::Time => text.trim_ascii().bytes().any(|byte| !byte.is_ascii_digit()),
        }
    }
}

/// True for `infinity` and `-infinity`, PostgreSQL's dates after and before all others.
fn is_infinite(text: &str) -> bool {
    let text = text.trim_ascii();
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    text.eq_ignore_ascii_case("infinity")
}

/// Writes out a time of four or six digits, as in `080000`; other digits are no time.
fn time_of_digits(text: &str) -> String {
    let text = text.trim_ascii();
    match text.len() {
        4 => format!("{}:{}:00", &text[..2], &text[2..]),
        6 => format!("{}:{}:{}", &text[..2], &text[2..4], &text[4..]),
        _ => format!("'{text}'"),
    }
}

/// The parts of a date with a time.
struct Moment<'a> {
    year: &'a str,
    month: u32,
    day: u32,
    time: Option<(u32, u32, &'a str)>,
    /// The zone, with the space in front of a name.
    zone: &'a str,
}

impl<'a> Moment<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let text = text.trim_ascii();
        if text.eq_ignore_ascii_case("epoch") {
            return Some(Self { year: "1970", month: 1, day: 1, time: None, zone: "Z" });
        }
        if let Some((year, month, day, rest)) = named_month(text) {
            let (time, zone) = if rest.is_empty() { (None, "") } else { parts_of_time(rest)? };
            return Some(Self { year, month, day, time, zone });
        }
        let (date, rest) = match text.find([' ', 'T', 't']) {
            Some(end) => (&text[..end], text[end + 1..].trim_ascii()),
            None => (text, ""),
        };
        if rest.is_empty()
            && let Some(end) = date.find(['Z', 'z', '+'])
            && (date[end..].eq_ignore_ascii_case("z") || date[end..].parse::<Tz>().is_ok())
        {
            let (year, month, day) = parts_of_date(&date[..end])?;
            return Some(Self { year, month, day, time: None, zone: &date[end..] });
        }
        let (year, month, day) = parts_of_date(date)?;
        let (time, zone) = if rest.is_empty() { (None, "") } else { parts_of_time(rest)? };
        Some(Self { year, month, day, time, zone })
    }

    fn text(&self, target: Target) -> String {
        let Self { year, month, day, .. } = self;
        let date = format!("{year}-{month:02}-{day:02}");
        let zone = if target == Target::Instant { self.zone } else { "" };
        match self.time {
            _ if target == Target::Date => date,
            None => format!("{date} 00:00:00{zone}"),
            Some((hour, minute, second)) => format!("{date} {hour:02}:{minute:02}:{second}{zone}"),
        }
    }
}

/// The number of a month of which this is the name, or its first three letters.
fn month_of(name: &str) -> Option<u32> {
    let is_this =
        |month: &&str| name.eq_ignore_ascii_case(month) || name.eq_ignore_ascii_case(&month[..3]);
    let is_september = name.eq_ignore_ascii_case("sept");
    let at = MONTHS.iter().position(is_this);
    u32::try_from(at.or(is_september.then_some(8))? + 1).ok()
}

/// Year, month and day of a date with the name of a month, such as `January 8, 1999`, `8-Jan-1999`
/// and `1999 Jan 8`, and the text behind it.
fn named_month(text: &str) -> Option<(&str, u32, u32, &str)> {
    if !text.bytes().take(12).any(|letter| letter.is_ascii_alphabetic()) {
        return None;
    }
    let (mut parts, mut rest) = ([""; 3], text);
    for part in &mut parts {
        rest = rest.trim_start_matches([' ', ',', '-']);
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        (*part, rest) = rest.split_at(end);
    }
    let is_year = |text: &str| text.len() == 4 && text.bytes().all(|b| b.is_ascii_digit());
    let day_of = |text: &str| match text.len() <= 2 && !text.is_empty() {
        true => text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?,
        false => None,
    };
    let (month, day, year) = match parts {
        [month, day, year] if month_of(month).is_some() => (month, day, year),
        [year, month, day] if is_year(year) => (month, day, year),
        [day, month, year] => (month, day, year),
    };
    if !is_year(year) || !(rest.is_empty() || rest.starts_with([' ', 'T'])) {
        return None;
    }
    Some((year, month_of(month)?, day_of(day)?, rest.trim_start_matches('T').trim_ascii()))
}

/// Year, month and day of `2024-5-1`, `2024/5/1` and `20240501`.
fn parts_of_date(text: &str) -> Option<(&str, u32, u32)> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if text.len() == 8 && is_number(text) {
        return Some((&text[..4], text[4..6].parse().ok()?, text[6..].parse().ok()?));
    }
    let mark = if text.contains('/') { '/' } else { '-' };
    let mut parts = text.split(mark);
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let is_whole = parts.next().is_none() && year.len() == 4 && is_number(year);
    let short = |text: &str| text.len() <= 2 && is_number(text);
    if !is_whole || !short(month) || !short(day) {
        return None;
    }
    Some((year, month.parse().ok()?, day.parse().ok()?))
}

type Time<'a> = Option<(u32, u32, &'a str)>;

/// Hour, minute, second and zone of `8`, `8:00`, `08:00:00.5 pm` and others.
fn parts_of_time(text: &str) -> Option<(Time<'_>, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != ':' && c != '.');
    let (clock, mut rest) = text.split_at(end.unwrap_or(text.len()));
    let mut parts = clock.split(':');
    let short = |part: &str| (part.len() <= 2).then(|| part.parse::<u32>().ok()).flatten();
    let mut hour = short(parts.next()?)?;
    let minute = parts.next().map_or(Some(0), short)?;
    let second = parts.next().unwrap_or("00");
    let is_second = second.split('.').next().is_some_and(|whole| whole.len() == 2);
    if parts.next().is_some() || !is_second {
        return None;
    }
    let half = rest.trim_ascii_start();
    for (name, begin) in [("am", 0), ("pm", 12)] {
        let Some(found) = half.get(..2).filter(|it| it.eq_ignore_ascii_case(name)) else {
            continue;
        };
        if !(1..=12).contains(&hour) {
            return None;
        }
        hour = hour % 12 + begin;
        rest = &half[found.len()..];
    }
    // Of a date only the day remains, and nothing else looks at its time.
    let zone = rest.trim_ascii();
    let is_zone = zone.is_empty() || zone.eq_ignore_ascii_case("z") || zone.parse::<Tz>().is_ok();
    let is_time = hour <= 24 && minute < 60 && is_zone;
    is_time.then_some((Some((hour, minute, second)), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_alone_are_times_of_day() {
        assert_eq!(time_of_digits("080000"), "08:00:00");
        assert_eq!(time_of_digits("0830"), "08:30:00");
        assert_eq!(time_of_digits("8"), "'8'");
    }

    #[test]
    fn moments_are_written_out() {
        for (text, timestamp, date) in [
            ("2024-05-01 08:00", "2024-05-01 08:00:00", "2024-05-01"),
            ("2024-5-1", "2024-05-01 00:00:00", "2024-05-01"),
            (" 2024/5/1T8:05:07.25+02 ", "2024-05-01 08:05:07.25+02", "2024-05-01"),
            ("20240501 12 am", "2024-05-01 00:00:00", "2024-05-01"),
            ("2024-05-01Z", "2024-05-01 00:00:00Z", "2024-05-01"),
            ("2024-05-01+02", "2024-05-01 00:00:00+02", "2024-05-01"),
            ("Epoch", "1970-01-01 00:00:00Z", "1970-01-01"),
            ("January 8, 1999", "1999-01-08 00:00:00", "1999-01-08"),
            ("8-Jan-1999 04:05", "1999-01-08 04:05:00", "1999-01-08"),
            ("1999 Sept 8", "1999-09-08 00:00:00", "1999-09-08"),
            ("may 08 1999 04:05:06 pm +02", "1999-05-08 16:05:06 +02", "1999-05-08"),
            ("2024-05-01 8:30 PM Europe/Oslo", "2024-05-01 20:30:00 Europe/Oslo", "2024-05-01"),
        ] {
            let moment = Moment::read(text).expect(text);
            assert_eq!(moment.text(Target::Instant), timestamp);
            assert_eq!(moment.text(Target::Date), date);
            assert!(timestamp.starts_with(&moment.text(Target::Timestamp)), "{text}");
        }
        for text in
            ["Janu 8, 1999", "Jan 8", "Jan 8 99", "Jan 888 1999", "Jan 8 1999x", "2024-05-01X"]
        {
            assert!(Moment::read(text).is_none(), "{text}");
        }
        for text in ["2024-05-01 10:00 nonsense", "2024-5-1 99:99", "2024-5-1 10:60"] {
            assert!(Moment::read(text).is_none(), "{text}");
        }
        for text in ["", "x", "2024", "24-5-1", "2024-5", "2024-5-1 8:0:0:0", "2024-5-1 13 pm"] {
            assert!(Moment::read(text).is_none(), "{text}");
        }
    }
}
