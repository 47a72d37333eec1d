//! Arguments of generated calls: their types, and literals of each in the three dialects.

use datafusion::arrow::datatypes::{DataType, Field, Fields, IntervalUnit, TimeUnit};
use std::sync::Arc;

/// A database, in whose dialect a call is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// Terrace.
    Terrace,
    /// DuckDB.
    Duck,
    /// PostgreSQL.
    Postgres,
}

/// Number of typical values of each type; the values after them are special ones, such as null.
pub const TYPICAL: usize = 2;
/// Maximum number of special values of a type.
pub const SPECIAL_MAX: usize = 7;

/// A type of arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Int,
    Double,
    Decimal,
    Text,
    Bool,
    Date,
    Timestamp,
    Instant,
    Time,
    Interval,
    Ints,
    Texts,
    Json,
    Bytes,
    Map,
}

/// All types of arguments.
pub const KINDS: [Kind; 15] = [
    Kind::Int,
    Kind::Double,
    Kind::Decimal,
    Kind::Text,
    Kind::Bool,
    Kind::Date,
    Kind::Timestamp,
    Kind::Instant,
    Kind::Time,
    Kind::Interval,
    Kind::Ints,
    Kind::Texts,
    Kind::Json,
    Kind::Bytes,
    Kind::Map,
];

/// The values of a type as the text of a literal, without its type: typical ones, then special
/// ones. `NULL` is a null.
fn values(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Int => &["7", "2", "NULL", "0", "-3", "9223372036854775807", "1000"],
        Kind::Double => {
            &["2.5", "0.5", "NULL", "0.0", "-1.5", "NaN", "Infinity", "-Infinity", "1e300"]
        }
        Kind::Decimal => &["7.25", "0.50", "NULL", "0.00", "-9.9950", "99999999999999.9999"],
        Kind::Text => &["Hello World", "o", "NULL", "", "\u{e9}\u{20ac}\u{1f600}x", "  a,b ", "12"],
        Kind::Bool => &["true", "false", "NULL"],
        Kind::Date => {
            &["2024-02-29", "2023-12-31", "NULL", "1969-12-30", "0001-01-01", "9999-12-31"]
        }
        Kind::Timestamp | Kind::Instant => &[
            "2024-02-29 13:04:05.678912",
            "2023-12-31 23:59:59",
            "NULL",
            "1969-12-31 23:59:59.999999",
            "1900-01-01 00:00:00",
        ],
        Kind::Time => &["13:04:05.678912", "01:02:03", "NULL", "00:00:00"],
        Kind::Interval => {
            &["1 month 3 days", "2 hours", "NULL", "0 seconds", "-5 days", "14 months 36 hours"]
        }
        Kind::Ints => &["3,1,2", "1,2", "NULL", "", "N,1", "5,5,N,N,-1"],
        Kind::Texts => &["b,a", "a", "NULL", "", "N,x", "\u{e9},b,b"],
        Kind::Json => &[
            r#"{"a": [1, 2], "b": "x"}"#,
            "[1, {\"a\": null}]",
            "NULL",
            "null",
            "3",
            "\"t\"",
            "{}",
        ],
        Kind::Bytes => &["00ff41", "41", "NULL", ""],
        Kind::Map => &["a=1,b=2", "c=3", "NULL"],
    }
}

impl Kind {
    /// Returns the number of special values.
    #[must_use]
    pub fn special(self) -> usize {
        values(self).len().saturating_sub(TYPICAL).min(SPECIAL_MAX)
    }

    /// Returns the type's name; PostgreSQL has none for a map.
    #[must_use]
    pub fn name(self, of: Database) -> Option<&'static str> {
        Some(match (self, of) {
            (Self::Int, _) => "BIGINT",
            (Self::Double, Database::Duck) => "DOUBLE",
            (Self::Double, _) => "DOUBLE PRECISION",
            (Self::Decimal, _) => "DECIMAL(18,4)",
            (Self::Text, Database::Postgres) => "TEXT",
            (Self::Text, _) => "VARCHAR",
            (Self::Bool, _) => "BOOLEAN",
            (Self::Date, _) => "DATE",
            (Self::Timestamp, _) => "TIMESTAMP",
            (Self::Instant, _) => "TIMESTAMPTZ",
            (Self::Time, _) => "TIME",
            (Self::Interval, _) => "INTERVAL",
            (Self::Ints, _) => "BIGINT[]",
            (Self::Texts, Database::Postgres) => "TEXT[]",
            (Self::Texts, _) => "VARCHAR[]",
            (Self::Json, Database::Duck) => "JSON",
            (Self::Json, _) => "JSONB",
            (Self::Bytes, Database::Duck) => "BLOB",
            (Self::Bytes, _) => "BYTEA",
            (Self::Map, Database::Postgres) => return None,
            (Self::Map, _) => "MAP(VARCHAR, BIGINT)",
        })
    }

    /// Returns the Arrow type of the literals in Terrace, by which the combinations of types that a
    /// function takes are chosen.
    #[must_use]
    pub fn data_type(self) -> DataType {
        match self {
            Self::Int => DataType::Int64,
            Self::Double => DataType::Float64,
            Self::Decimal => DataType::Decimal128(18, 4),
            Self::Text | Self::Json => DataType::Utf8View,
            Self::Bool => DataType::Boolean,
            Self::Date => DataType::Date32,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::Instant => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::Time => DataType::Time64(TimeUnit::Nanosecond),
            Self::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            Self::Ints => DataType::new_list(DataType::Int64, true),
            Self::Texts => DataType::new_list(DataType::Utf8View, true),
            Self::Bytes => DataType::Binary,
            Self::Map => map_type(),
        }
    }

    /// Returns the type's value number `value` as a literal; `None` if the database has no such
    /// type.
    #[must_use]
    pub fn literal(self, value: usize, of: Database) -> Option<String> {
        let name = self.name(of)?;
        let value = values(self).get(value).copied().unwrap_or("NULL");
        if value == "NULL" {
            return Some(format!("CAST(NULL AS {name})"));
        }
        let cast = || format!("CAST('{value}' AS {name})");
        Some(match self {
            Self::Int | Self::Decimal | Self::Bool => value.to_owned(),
            Self::Text if of == Database::Postgres => format!("'{value}'::text"),
            Self::Text => format!("'{value}'"),
            Self::Date | Self::Timestamp | Self::Time | Self::Interval => {
                format!("{name} '{value}'")
            }
            Self::Instant => format!("{name} '{value}+00'"),
            Self::Double | Self::Json => cast(),
            Self::Ints | Self::Texts => list(self, value, name, of),
            Self::Bytes => bytes(value, name, of),
            Self::Map => format!("MAP {{{}}}", entries(value)),
        })
    }
}

fn map_type() -> DataType {
    let entries = DataType::Struct(Fields::from(vec![
        Field::new("key", DataType::Utf8View, false),
        Field::new("value", DataType::Int64, true),
    ]));
    DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
}

fn list(kind: Kind, value: &str, name: &str, of: Database) -> String {
    let element = |element: &str| match (element, kind) {
        ("N", _) => "NULL".to_owned(),
        (number, Kind::Ints) => number.to_owned(),
        (text, _) => format!("'{text}'"),
    };
    let elements: Vec<_> = value.split(',').filter(|it| !it.is_empty()).map(element).collect();
    let elements = elements.join(", ");
    match (of, elements.is_empty()) {
        (Database::Postgres, _) => format!("ARRAY[{elements}]::{name}"),
        (_, true) => format!("CAST([] AS {name})"),
        (_, false) => format!("[{elements}]"),
    }
}

fn bytes(hex: &str, name: &str, of: Database) -> String {
    match of {
        Database::Duck => {
            let digits = hex.as_bytes().chunks(2).map(|pair| String::from_utf8_lossy(pair));
            let digits: Vec<_> = digits.map(|pair| format!("\\x{pair}")).collect();
            format!("CAST('{}' AS {name})", digits.concat())
        }
        _ => format!("CAST('\\x{hex}' AS {name})"),
    }
}

fn entries(value: &str) -> String {
    let entries = value.split(',').filter_map(|entry| entry.split_once('='));
    entries.map(|(key, value)| format!("'{key}': {value}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_literals_of_each_dialect() {
        let literal = |kind: Kind, value, of| kind.literal(value, of).expect("a literal");
        assert_eq!(literal(Kind::Ints, 4, Database::Postgres), "ARRAY[NULL, 1]::BIGINT[]");
        assert_eq!(literal(Kind::Texts, 0, Database::Duck), "['b', 'a']");
        assert_eq!(literal(Kind::Ints, 3, Database::Terrace), "CAST([] AS BIGINT[])");
        assert_eq!(literal(Kind::Bytes, 1, Database::Duck), "CAST('\\x41' AS BLOB)");
        assert_eq!(literal(Kind::Map, 0, Database::Duck), "MAP {'a': 1, 'b': 2}");
        assert_eq!(Kind::Map.literal(0, Database::Postgres), None);
    }

    #[test]
    fn special_values_begin_with_null() {
        for kind in KINDS {
            assert_eq!(values(kind).get(TYPICAL), Some(&"NULL"), "{kind:?}");
            assert!(values(kind).len() <= TYPICAL + SPECIAL_MAX, "{kind:?}");
        }
    }
}
