//! Names of types: `typeof` of DuckDB and `pg_typeof` of PostgreSQL.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;

use crate::columns::TextType;
use crate::scalar::{Call, Definition, Kind, Overload, Text};

const ANY: &[Kind] = &[Kind::Any];

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("typeof", &[Overload::new(ANY, Kind::Text, type_of)]),
    Definition::new("pg_typeof", &[Overload::new(ANY, Kind::Text, pg_type_of)]),
];

fn type_of(call: &Call) -> Result<ArrayRef> {
    let name = match call.fields().first() {
        Some(field) => duckdb_field(field),
        None => duckdb(call.array(0)?.data_type()),
    };
    call.rows_of::<Text>(|_| Ok(Some(name.clone().into())))
}

fn pg_type_of(call: &Call) -> Result<ArrayRef> {
    let name = match call.fields().first() {
        Some(field) => postgres_type(field),
        None => postgres(call.array(0)?.data_type()),
    };
    call.rows_of::<Text>(|_| Ok(Some(name.clone().into())))
}

/// The name of the type of a field in DuckDB, where texts with a maximum length are VARCHAR.
fn duckdb_field(field: &Field) -> String {
    match TextType::of(field) {
        Some(of) if of.is_distinct() => of.name(),
        _ => duckdb(field.data_type()),
    }
}

/// Returns the name of the type of a field in PostgreSQL.
#[must_use]
pub fn postgres_type(field: &Field) -> String {
    match TextType::of(field) {
        Some(TextType::Uuid) => "uuid",
        Some(TextType::Json) => "json",
        Some(TextType::Jsonb) => "jsonb",
        Some(TextType::Varchar(_)) => "character varying",
        Some(TextType::Char(_)) => "character",
        None => return postgres(field.data_type()),
    }
    .to_owned()
}

/// The name of a type in DuckDB.
fn duckdb(of: &DataType) -> String {
    match of {
        DataType::Null => "\"NULL\"",
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INTEGER",
        DataType::Int64 => "BIGINT",
        DataType::UInt8 => "UTINYINT",
        DataType::UInt16 => "USMALLINT",
        DataType::UInt32 => "UINTEGER",
        DataType::UInt64 => "UBIGINT",
        DataType::Float16 | DataType::Float32 => "FLOAT",
        DataType::Float64 => "DOUBLE",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR",
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => "BLOB",
        DataType::Date32 | DataType::Date64 => "DATE",
        DataType::Time32(_) | DataType::Time64(_) => "TIME",
        DataType::Timestamp(_, None) => "TIMESTAMP",
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE",
        DataType::Interval(_) | DataType::Duration(_) => "INTERVAL",
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            return format!("DECIMAL({precision},{scale})");
        }
        DataType::List(item) | DataType::LargeList(item) => {
            return format!("{}[]", duckdb_field(item));
        }
        DataType::FixedSizeList(item, length) => {
            return format!("{}[{length}]", duckdb_field(item));
        }
        DataType::Dictionary(_, values) => return duckdb(values),
        DataType::Struct(fields) => {
            let field =
                |field: &std::sync::Arc<Field>| format!("{} {}", field.name(), duckdb_field(field));
            return format!("STRUCT({})", fields.iter().map(field).collect::<Vec<_>>().join(", "));
        }
        DataType::Map(entries, _) => return map(entries),
        other => return other.to_string(),
    }
    .to_owned()
}

/// The name of a map, by the fields of its entries.
fn map(entries: &Field) -> String {
    match entries.data_type() {
        DataType::Struct(fields) => {
            let types = fields.iter().map(|field| duckdb_field(field));
            format!("MAP({})", types.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// The name of a type in PostgreSQL; the nearest one of types that it lacks.
fn postgres(of: &DataType) -> String {
    match of {
        DataType::Null => "unknown",
        DataType::Boolean => "boolean",
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => "smallint",
        DataType::Int32 | DataType::UInt16 => "integer",
        DataType::Int64 | DataType::UInt32 => "bigint",
        DataType::Float16 | DataType::Float32 => "real",
        DataType::Float64 => "double precision",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text",
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => "bytea",
        DataType::Date32 | DataType::Date64 => "date",
        DataType::Time32(_) | DataType::Time64(_) => "time without time zone",
        DataType::Timestamp(_, None) => "timestamp without time zone",
        DataType::Timestamp(_, Some(_)) => "timestamp with time zone",
        DataType::Interval(_) | DataType::Duration(_) => "interval",
        DataType::Dictionary(_, values) => return postgres(values),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            let item = postgres_type(item);
            // Lists of lists have one type there.
            return if item.ends_with("[]") { item } else { format!("{item}[]") };
        }
        DataType::UInt64 => "numeric",
        other if other.is_decimal() => "numeric",
        _ => "record",
    }
    .to_owned()
}
