//! Inference of column types from texts, as in DuckDB.

use std::sync::Arc;

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime};
use datafusion::arrow::datatypes::{DataType, Field, Fields, TimeUnit};

/// The type that is inferred from the values read so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Guess {
    /// Nulls only.
    #[default]
    Null,
    /// BOOLEAN.
    Boolean,
    /// BIGINT.
    Integer,
    /// Integers that BIGINT does not hold: DECIMAL(38, 0).
    Huge,
    /// DOUBLE.
    Double,
    /// DATE.
    Date,
    /// TIME.
    Time,
    /// TIMESTAMP.
    Timestamp,
    /// TIMESTAMP WITH TIME ZONE.
    Instant,
    /// VARCHAR.
    Text,
    /// A list of values.
    List(Box<Guess>),
    /// A struct with its fields in the order in which they were first seen.
    Struct(Vec<(String, Guess)>),
    /// Values without a common type.
    Mixed,
}

impl Guess {
    /// The type of a value of text.
    pub(crate) fn of_text(text: &str) -> Self {
        let text = text.trim();
        let Some(first) = text.bytes().next() else { return Self::Text };
        if first.is_ascii_digit() {
            return Self::of_number(text).or_else(|| Self::of_time(text)).unwrap_or(Self::Text);
        }
        if matches!(first, b'-' | b'.') {
            return Self::of_number(text).unwrap_or(Self::Text);
        }
        let words = ["true", "false", "t", "f", "yes", "no"];
        if words.iter().any(|word| text.eq_ignore_ascii_case(word)) {
            return Self::Boolean;
        }
        match ["inf", "infinity", "nan"].iter().any(|word| text.eq_ignore_ascii_case(word)) {
            true => Self::Double,
            false => Self::Text,
        }
    }

    /// The type of a number. A number with a leading zero is text, since the zero would be lost.
    fn of_number(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.len() > 1 && digits.starts_with('0') && !digits[1..].starts_with(['.', 'e', 'E'])
        {
            return None;
        }
        if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Some(match text.parse::<i64>() {
                Ok(_) => Self::Integer,
                Err(_) if digits.len() <= 38 => Self::Huge,
                Err(_) => Self::Double,
            });
        }
        let is_number = digits.bytes().all(|byte| b"0123456789.eE+-".contains(&byte));
        (is_number && digits.parse::<f64>().is_ok()).then_some(Self::Double)
    }

    /// The type of a date, a time or a timestamp.
    pub(crate) fn of_time(text: &str) -> Option<Self> {
        if NaiveTime::parse_from_str(text, "%H:%M:%S%.f").is_ok() {
            return Some(Self::Time);
        }
        // Years of four digits, which every date type takes.
        if text.as_bytes().get(4) != Some(&b'-') {
            return None;
        }
        if NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok() {
            return Some(Self::Date);
        }
        let text = text.replacen('T', " ", 1);
        let formats = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M"];
        if formats.iter().any(|format| NaiveDateTime::parse_from_str(&text, format).is_ok()) {
            return Some(Self::Timestamp);
        }
        let formats = ["%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%d %H:%M:%S%.f %#z"];
        let is_instant =
            formats.iter().any(|format| DateTime::parse_from_str(&text, format).is_ok());
        is_instant.then_some(Self::Instant)
    }

    /// The type that holds the values of both types.
    pub(crate) fn or(self, other: Self) -> Self {
        use Guess::{
            Boolean, Date, Double, Huge, Instant, Integer, List, Mixed, Null, Struct, Text, Time,
            Timestamp,
        };
        match (self, other) {
            (one, other) if one == other => one,
            (Null, other) | (other, Null) => other,
            (Integer, Huge) | (Huge, Integer) => Huge,
            (Integer | Huge | Double, Integer | Huge | Double) => Double,
            (List(one), List(other)) => List(Box::new(one.or(*other))),
            (Struct(one), Struct(other)) => Struct(merged(one, other)),
            (List(_) | Struct(_) | Mixed, _) | (_, List(_) | Struct(_) | Mixed) => Mixed,
            (
                Boolean | Integer | Huge | Double | Date | Time | Timestamp | Instant | Text,
                Boolean | Integer | Huge | Double | Date | Time | Timestamp | Instant | Text,
            ) => Text,
        }
    }

    /// The type of the column; `None` if the values have no common type.
    pub(crate) fn data_type(&self) -> Option<DataType> {
        Some(match self {
            Self::Null | Self::Text => DataType::Utf8View,
            Self::Boolean => DataType::Boolean,
            Self::Integer => DataType::Int64,
            Self::Huge => DataType::Decimal128(38, 0),
            Self::Double => DataType::Float64,
            Self::Date => DataType::Date32,
            Self::Time => DataType::Time64(TimeUnit::Microsecond),
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::Instant => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::List(item) => {
                DataType::List(Arc::new(Field::new_list_field(item.data_type()?, true)))
            }
            Self::Struct(fields) => {
                let fields = fields.iter();
                let fields = fields
                    .map(|(name, guess)| Some(Field::new(name.as_str(), guess.data_type()?, true)));
                DataType::Struct(fields.collect::<Option<Fields>>()?)
            }
            Self::Mixed => return None,
        })
    }
}

/// Merges the fields of two structs by name.
pub(crate) fn merged(
    mut one: Vec<(String, Guess)>,
    other: Vec<(String, Guess)>,
) -> Vec<(String, Guess)> {
    for (place, (name, guess)) in other.into_iter().enumerate() {
        // Records mostly have the same fields in the same order.
        let found = match one.get(place) {
            Some((known, _)) if *known == name => Some(place),
            _ => one.iter().position(|(known, _)| *known == name),
        };
        match found {
            Some(place) => one[place].1 = std::mem::take(&mut one[place].1).or(guess),
            None => one.push((name, guess)),
        }
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The types that DuckDB 2.0 infers for a column with this value.
    #[test]
    fn values_have_the_types_that_duckdb_infers() {
        let cases: &[(Guess, &[&str])] = &[
            (Guess::Boolean, &["true", "FALSE", "t", "yes"]),
            (Guess::Integer, &["1", "-7", "0", "9223372036854775807"]),
            (Guess::Huge, &["9223372036854775808", "99999999999999999999"]),
            (Guess::Double, &["1.5", "-0.5", ".5", "1e3", "0e1", "inf", "NaN"]),
            (Guess::Date, &["2024-01-02"]),
            (Guess::Time, &["03:04:05", "23:59:59.999999"]),
            (
                Guess::Timestamp,
                &["2024-01-02 03:04:05", "2024-01-02T03:04:05", "2024-01-02 03:04:05.123456"],
            ),
            (Guess::Instant, &["2024-01-02T03:04:05Z", "2024-01-02 03:04:05+02"]),
            (
                Guess::Text,
                &[
                    "007",
                    "+5",
                    "-",
                    "x",
                    "2024-13-01",
                    "1-2",
                    "1,5",
                    "02.01.2024",
                    "1e",
                    "0x10",
                    "y",
                ],
            ),
        ];
        for (guess, texts) in cases {
            for text in *texts {
                assert_eq!(Guess::of_text(text), *guess, "{text}");
            }
        }
    }

    #[test]
    fn common_types_hold_both_values() {
        let list = |guess| Guess::List(Box::new(guess));
        let of = |fields: &[(&str, Guess)]| {
            let fields = fields.iter().map(|(name, guess)| ((*name).to_owned(), guess.clone()));
            Guess::Struct(fields.collect())
        };
        for (one, other, both) in [
            (Guess::Null, Guess::Date, Guess::Date),
            (Guess::Integer, Guess::Double, Guess::Double),
            (Guess::Integer, Guess::Huge, Guess::Huge),
            (Guess::Date, Guess::Timestamp, Guess::Text),
            (Guess::Date, Guess::Integer, Guess::Text),
            (list(Guess::Integer), list(Guess::Null), list(Guess::Integer)),
            (list(Guess::Integer), Guess::Integer, Guess::Mixed),
            (
                of(&[("a", Guess::Integer), ("b", Guess::Text)]),
                of(&[("b", Guess::Null), ("c", Guess::Date)]),
                of(&[("a", Guess::Integer), ("b", Guess::Text), ("c", Guess::Date)]),
            ),
        ] {
            assert_eq!(one.clone().or(other.clone()), both);
            assert_eq!(other.clone().or(one.clone()).data_type().is_some(), both != Guess::Mixed);
        }
    }
}
