//! Values of results, in a form that the three databases have in common.

mod interval;
mod moment;

use std::fmt;

use serde_json::Value as Json;

/// A value of a result.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A null.
    Null,
    /// A truth value.
    Bool(bool),
    /// A number, by its text.
    Number(String),
    /// A text, or a date or time as one.
    Text(String),
    /// Months, days and microseconds.
    Interval(i64, i64, i64),
    /// The elements of a list, the members of a struct, or the values of a map.
    List(Vec<Value>),
}

impl Value {
    /// Returns a value that the process of DuckDB has written: a letter for the type, and the
    /// value.
    #[must_use]
    pub fn of_duck(json: &Json) -> Self {
        let Some(text) = json.as_str() else { return Self::Null };
        let (letter, value) = text.split_at_checked(1).unwrap_or(("s", text));
        match letter {
            "b" => Self::Bool(value == "1"),
            "n" | "f" => Self::Number(value.to_owned()),
            "t" => value.parse().ok().and_then(moment::of_micros).map_or(Self::Null, Self::Text),
            "i" => of_interval(value).unwrap_or_else(|| Self::Text(value.to_owned())),
            "l" => match serde_json::from_str::<Json>(value) {
                Ok(Json::Array(elements)) => {
                    Self::List(elements.iter().map(Self::of_duck).collect())
                }
                _ => Self::Text(value.to_owned()),
            },
            _ => Self::Text(value.to_owned()),
        }
    }

    /// Returns a value that PostgreSQL has written as JSON.
    #[must_use]
    pub fn of_json(json: &Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => Self::Number(number.to_string()),
            Json::String(text) => Self::Text(text.clone()),
            Json::Array(elements) => Self::List(elements.iter().map(Self::of_json).collect()),
            Json::Object(members) => Self::List(members.values().map(Self::of_json).collect()),
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Self::Number(text) | Self::Text(text) => text.parse().ok(),
            _ => None,
        }
    }
}

fn of_interval(text: &str) -> Option<Value> {
    interval::parsed(text).map(|(months, days, micros)| Value::Interval(months, days, micros))
}

/// Relative tolerance of floating-point numbers.
const TOLERANCE: f64 = 1e-9;

/// True if two values are equal, with a tolerance for numbers and for different texts of one date,
/// time or JSON.
#[must_use]
pub fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(one), Value::Number(other)) if one == other => true,
        (Value::Number(_), Value::Number(_) | Value::Text(_))
        | (Value::Text(_), Value::Number(_)) => same_numbers(left, right),
        (Value::List(one), Value::List(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Text(one), Value::Text(other)) => one == other || same_texts(one, other),
        (Value::Interval(..), Value::Text(text)) => of_interval(text).as_ref() == Some(left),
        (Value::Text(text), Value::Interval(..)) => of_interval(text).as_ref() == Some(right),
        (Value::Text(text), other) | (other, Value::Text(text)) => {
            serde_json::from_str(text).is_ok_and(|json: Json| same(&Value::of_json(&json), other))
        }
        _ => left == right,
    }
}

fn same_numbers(left: &Value, right: &Value) -> bool {
    let (Some(one), Some(other)) = (left.number(), right.number()) else { return false };
    let limit = TOLERANCE * one.abs().max(other.abs()).max(TOLERANCE);
    one == other || one.is_nan() && other.is_nan() || (one - other).abs() <= limit
}

/// True for texts that are the same moment or the same JSON.
fn same_texts(one: &str, other: &str) -> bool {
    if let (Some(one), Some(other)) = (moment::normal(one), moment::normal(other)) {
        return one == other;
    }
    let json = |text: &str| serde_json::from_str::<Json>(text).ok();
    let quotes = |one: &str, other: &str| json(one).is_some_and(|it| it.as_str() == Some(other));
    quotes(one, other)
        || quotes(other, one)
        || json(one).zip(json(other)).is_some_and(|(one, other)| one == other)
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Number(text) => f.write_str(text),
            Self::Text(text) => write!(f, "'{text}'"),
            Self::Interval(months, days, micros) => {
                write!(f, "{months} months {days} days {micros} us")
            }
            Self::List(elements) => {
                f.write_str("[")?;
                for (place, element) in elements.iter().enumerate() {
                    let separator = if place == 0 { "" } else { ", " };
                    write!(f, "{separator}{element}")?;
                }
                f.write_str("]")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    fn number(text: &str) -> Value {
        Value::Number(text.to_owned())
    }

    #[test]
    fn one_value_has_several_forms() {
        assert!(same(&number("2.50"), &number("2.5")));
        assert!(same(&number("NaN"), &text("NaN")));
        assert!(same(&number("inf"), &text("Infinity")));
        assert!(same(&text("2024-02-29 00:00:00"), &text("2024-02-29T00:00:00+00:00")));
        assert!(same(&text("2024-02-29"), &text("2024-02-29 00:00:00")));
        assert!(same(&text("{\"a\":1}"), &text("{\"a\": 1}")));
        assert!(same(&text("[1, 2]"), &Value::List(vec![number("1"), number("2")])));
        assert!(same(&Value::Interval(1, 3, 0), &text("1 mon 3 days")));
        assert!(!same(&text("a"), &text("b")));
        assert!(!same(&Value::Null, &text("")));
        assert!(!same(&number("1"), &number("1.000001")));
        assert!(!same(&Value::Bool(true), &number("1")));
    }

    #[test]
    fn values_of_duckdb_are_read() {
        let of = |text: &str| Value::of_duck(&Json::String(text.to_owned()));
        assert_eq!(of("l[\"n1\", null]"), Value::List(vec![number("1"), Value::Null]));
        assert_eq!(of("t0"), text("1970-01-01 00:00:00"));
        assert_eq!(of("i1 year 02:00:00"), Value::Interval(12, 0, 7_200_000_000));
        assert_eq!(Value::of_duck(&Json::Null), Value::Null);
    }
}
