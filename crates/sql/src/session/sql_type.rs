//! Names of types and identifiers in the syntax of SQL.

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::sql::sqlparser::keywords::{
    ALL_KEYWORDS, ALL_KEYWORDS_INDEX, Keyword, RESERVED_FOR_COLUMN_ALIAS, RESERVED_FOR_IDENTIFIER,
    RESERVED_FOR_TABLE_ALIAS,
};
use terrace_functions::columns::TextType;
use terrace_table::catalog::DEFAULT_SCHEMA;

use super::enums::field::{enum_of, list_enum_of};

/// The SQL name of the type of a column, with which the column could be defined. A type that SQL
/// cannot name has Arrow's name.
#[must_use]
pub fn of(field: &Field) -> String {
    if let Some((schema, name)) = enum_of(field).or_else(|| list_enum_of(field)) {
        let schema = Some(schema).filter(|schema| *schema != DEFAULT_SCHEMA);
        let schema = schema.map(|schema| format!("{}.", identifier(schema)));
        let brackets = if field.data_type().is_string() { "" } else { "[]" };
        return format!("{}{}{brackets}", schema.unwrap_or_default(), identifier(name));
    }
    TextType::of(field).map_or_else(|| name(field.data_type()), TextType::name)
}

/// The name of a type in SQL, as [`of`].
pub(super) fn name(data_type: &DataType) -> String {
    let fixed = match data_type {
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INTEGER",
        DataType::Int64 => "BIGINT",
        DataType::UInt8 => "TINYINT UNSIGNED",
        DataType::UInt16 => "SMALLINT UNSIGNED",
        DataType::UInt32 => "INTEGER UNSIGNED",
        DataType::UInt64 => "BIGINT UNSIGNED",
        DataType::Float32 => "REAL",
        DataType::Float64 => "DOUBLE PRECISION",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "BYTEA",
        DataType::Date32 => "DATE",
        DataType::Interval(_) => "INTERVAL",
        DataType::Time32(TimeUnit::Second) => "TIME(0)",
        DataType::Time32(_) => "TIME(3)",
        DataType::Time64(TimeUnit::Nanosecond) => "TIME(9)",
        DataType::Time64(_) => "TIME",
        _ => return composed(data_type),
    };
    fixed.to_owned()
}

fn composed(data_type: &DataType) -> String {
    match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => format!("DECIMAL({precision},{scale})"),
        DataType::Timestamp(unit, zone) => timestamp(*unit, zone.is_some()),
        DataType::List(item) | DataType::LargeList(item) => format!("{}[]", of(item)),
        DataType::FixedSizeList(item, length) => format!("{}[{length}]", of(item)),
        DataType::Struct(fields) => {
            let field = |field: &FieldRef| format!("{} {}", identifier(field.name()), of(field));
            format!("STRUCT<{}>", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => {
                let types = fields.iter().map(|field| of(field)).collect::<Vec<_>>();
                format!("MAP({})", types.join(", "))
            }
            other => other.to_string(),
        },
        DataType::Dictionary(_, values) => name(values),
        other => other.to_string(),
    }
}

fn timestamp(unit: TimeUnit, has_zone: bool) -> String {
    let digits = match unit {
        TimeUnit::Second => "(0)",
        TimeUnit::Millisecond => "(3)",
        TimeUnit::Microsecond => "",
        TimeUnit::Nanosecond => "(9)",
    };
    format!("TIMESTAMP{digits}{}", if has_zone { " WITH TIME ZONE" } else { "" })
}

/// Words that begin a constraint of a table.
const CONSTRAINTS: [Keyword; 9] = [
    Keyword::CHECK,
    Keyword::CONSTRAINT,
    Keyword::FOREIGN,
    Keyword::FULLTEXT,
    Keyword::INDEX,
    Keyword::KEY,
    Keyword::PRIMARY,
    Keyword::SPATIAL,
    Keyword::UNIQUE,
];

/// A name as a statement writes it: quoted unless it is in lower case and not reserved.
pub(super) fn identifier(name: &str) -> String {
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let is_plain = name.starts_with(is_letter)
        && name.chars().all(|letter| is_letter(letter) || letter.is_ascii_digit())
        && !is_reserved(name);
    match is_plain {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

fn is_reserved(name: &str) -> bool {
    let place = ALL_KEYWORDS.binary_search(&name.to_ascii_uppercase().as_str());
    let Some(keyword) = place.ok().and_then(|place| ALL_KEYWORDS_INDEX.get(place)) else {
        return false;
    };
    [RESERVED_FOR_IDENTIFIER, RESERVED_FOR_COLUMN_ALIAS, RESERVED_FOR_TABLE_ALIAS, &CONSTRAINTS]
        .iter()
        .any(|words| words.contains(keyword))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_columns_are_quoted_where_they_must_be() {
        for (plain, written) in [
            ("id", "id"),
            ("o_key2", "o_key2"),
            ("Id", "\"Id\""),
            ("select", "\"select\""),
            ("check", "\"check\""),
            ("public", "public"),
            ("name", "name"),
            ("a b", "\"a b\""),
            ("it\"s", "\"it\"\"s\""),
            ("2x", "\"2x\""),
            ("", "\"\""),
        ] {
            assert_eq!(identifier(plain), written);
        }
    }
}
