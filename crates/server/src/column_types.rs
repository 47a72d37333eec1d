//! Maps column types to PostgreSQL's types and back.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use pgwire::api::Type;
use terrace_functions::columns::TextType;

/// Metadata key of a field that holds the OID of the column's PostgreSQL type.
pub(crate) const TYPE_KEY: &str = "terrace.pg_type";

/// Returns the PostgreSQL type that is reported for a column: that of [`TYPE_KEY`], which may be
/// one that only `pg_catalog` uses, or else that of the Arrow type.
pub(crate) fn field_type(field: &Field) -> Type {
    if let Some(of) = TextType::of(field) {
        return text_type(of);
    }
    let told = field.metadata().get(TYPE_KEY).and_then(|oid| Type::from_oid(oid.parse().ok()?));
    // A cast changes the type of the values and may keep the metadata.
    let fits = |of: &Type| match *of {
        Type::OID | Type::XID => {
            matches!(field.data_type(), DataType::Int64 | DataType::UInt32)
        }
        Type::OID_VECTOR => pg_type(field.data_type()) == Type::OID_ARRAY,
        Type::INT2_VECTOR => pg_type(field.data_type()) == Type::INT2_ARRAY,
        _ => pg_type(field.data_type()) == Type::TEXT,
    };
    told.filter(fits).unwrap_or_else(|| pg_type(field.data_type()))
}

/// Returns the PostgreSQL type of a column that is stored as text, such as `uuid`.
pub(crate) fn text_type(of: TextType) -> Type {
    match of {
        TextType::Uuid => Type::UUID,
        TextType::Json => Type::JSON,
        TextType::Jsonb => Type::JSONB,
        TextType::Varchar(_) => Type::VARCHAR,
        TextType::Char(_) => Type::BPCHAR,
    }
}

/// Returns the PostgreSQL type that is reported for values of an Arrow type.
///
/// Unsigned integers get the next wider type; the widest become `numeric`. Types that PostgreSQL
/// lacks, such as maps and unions, are sent as text.
pub(crate) fn pg_type(data_type: &DataType) -> Type {
    match data_type {
        DataType::Boolean => Type::BOOL,
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => Type::INT2,
        DataType::Int32 | DataType::UInt16 => Type::INT4,
        DataType::Int64 | DataType::UInt32 => Type::INT8,
        DataType::Float16 | DataType::Float32 => Type::FLOAT4,
        DataType::Float64 => Type::FLOAT8,
        DataType::UInt64
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => Type::NUMERIC,
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => Type::BYTEA,
        DataType::Date32 | DataType::Date64 => Type::DATE,
        DataType::Time32(_) | DataType::Time64(_) => Type::TIME,
        DataType::Timestamp(_, None) => Type::TIMESTAMP,
        DataType::Timestamp(_, Some(_)) => Type::TIMESTAMPTZ,
        DataType::Interval(_) | DataType::Duration(_) => Type::INTERVAL,
        DataType::Dictionary(_, value) => pg_type(value),
        DataType::RunEndEncoded(_, value) => pg_type(value.data_type()),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => array_of(item),
        DataType::Struct(_) => Type::RECORD,
        _ => Type::TEXT,
    }
}

/// PostgreSQL's types and the array type of each.
const ARRAYS: &[(Type, Type)] = &[
    (Type::BOOL, Type::BOOL_ARRAY),
    (Type::INT2, Type::INT2_ARRAY),
    (Type::INT4, Type::INT4_ARRAY),
    (Type::INT8, Type::INT8_ARRAY),
    (Type::FLOAT4, Type::FLOAT4_ARRAY),
    (Type::FLOAT8, Type::FLOAT8_ARRAY),
    (Type::NUMERIC, Type::NUMERIC_ARRAY),
    (Type::BYTEA, Type::BYTEA_ARRAY),
    (Type::DATE, Type::DATE_ARRAY),
    (Type::TIME, Type::TIME_ARRAY),
    (Type::TIMESTAMP, Type::TIMESTAMP_ARRAY),
    (Type::TIMESTAMPTZ, Type::TIMESTAMPTZ_ARRAY),
    (Type::INTERVAL, Type::INTERVAL_ARRAY),
    (Type::RECORD, Type::RECORD_ARRAY),
    (Type::TEXT, Type::TEXT_ARRAY),
    (Type::VARCHAR, Type::VARCHAR_ARRAY),
    (Type::BPCHAR, Type::BPCHAR_ARRAY),
    (Type::UUID, Type::UUID_ARRAY),
    (Type::JSON, Type::JSON_ARRAY),
    (Type::JSONB, Type::JSONB_ARRAY),
    (Type::NAME, Type::NAME_ARRAY),
    (Type::OID, Type::OID_ARRAY),
];

/// Returns the PostgreSQL type of an array whose items are `item`. `UInt32` items are OIDs. An
/// array of arrays has the type of the innermost items, as in PostgreSQL.
fn array_of(item: &Field) -> Type {
    if *item.data_type() == DataType::UInt32 {
        return Type::OID_ARRAY;
    }
    let item = field_type(item);
    let found = ARRAYS.iter().find(|(of, _)| *of == item);
    // The item is an array already: one more dimension does not change the type.
    found.map_or(item, |(_, array)| array.clone())
}

/// Returns the size of a value of the type in bytes, or -1 if it varies (`pg_type.typlen`).
pub(crate) fn type_size(pg_type: &Type) -> i16 {
    match *pg_type {
        Type::BOOL | Type::CHAR => 1,
        Type::NAME => 64,
        Type::INT2 => 2,
        Type::INT4 | Type::FLOAT4 | Type::DATE | Type::OID | Type::XID => 4,
        Type::INT8 | Type::FLOAT8 | Type::TIME | Type::TIMESTAMP | Type::TIMESTAMPTZ => 8,
        Type::INTERVAL | Type::UUID => 16,
        _ => -1,
    }
}

/// Returns the precision and scale of a `numeric`, or the maximum length of a text
/// (`pg_attribute.atttypmod`), or -1 for other types.
pub(crate) fn field_modifier(field: &Field) -> i32 {
    match TextType::of(field) {
        // PostgreSQL adds the bytes of a header.
        Some(TextType::Varchar(length) | TextType::Char(length)) => {
            i32::try_from(length).map_or(-1, |length| length.saturating_add(4))
        }
        _ => type_modifier(field.data_type()),
    }
}

fn type_modifier(data_type: &DataType) -> i32 {
    match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale)
            if *scale >= 0 =>
        {
            ((i32::from(*precision) << 16) | i32::from(*scale)) + 4
        }
        DataType::Dictionary(_, value) => type_modifier(value),
        DataType::RunEndEncoded(_, value) => type_modifier(value.data_type()),
        _ => -1,
    }
}

/// Returns the Arrow type of a parameter's PostgreSQL type; `None` if it is not supported.
pub(crate) fn arrow_type(pg_type: &Type) -> Option<DataType> {
    use datafusion::arrow::datatypes::{IntervalUnit, TimeUnit};
    Some(match *pg_type {
        Type::BOOL => DataType::Boolean,
        Type::INT2 => DataType::Int16,
        Type::INT4 => DataType::Int32,
        Type::INT8 | Type::OID => DataType::Int64,
        Type::FLOAT4 => DataType::Float32,
        Type::FLOAT8 => DataType::Float64,
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::CHAR => DataType::Utf8,
        Type::UUID | Type::JSON | Type::JSONB => DataType::Utf8,
        Type::BYTEA => DataType::Binary,
        Type::DATE => DataType::Date32,
        Type::TIME => DataType::Time64(TimeUnit::Microsecond),
        Type::TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        Type::INTERVAL => DataType::Interval(IntervalUnit::MonthDayNano),
        _ => {
            let (item, _) = ARRAYS.iter().find(|(_, array)| array == pg_type)?;
            DataType::List(Arc::new(Field::new_list_field(arrow_type(item)?, true)))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modifiers_are_those_of_postgres() {
        assert_eq!(type_modifier(&DataType::Decimal128(10, 2)), 655_366);
        assert_eq!(type_modifier(&DataType::Utf8), -1);
    }

    #[test]
    fn columns_of_the_catalog_have_its_types() {
        let told = std::collections::HashMap::from([(TYPE_KEY.to_owned(), "26".to_owned())]);
        let field = Field::new("oid", DataType::Int64, true).with_metadata(told.clone());
        assert_eq!(field_type(&field), Type::OID);
        let cast = Field::new("oid", DataType::Utf8, true).with_metadata(told);
        assert_eq!(field_type(&cast), Type::TEXT);
    }

    #[test]
    fn encoded_columns_have_the_type_of_their_values() {
        let key = Box::new(DataType::Int32);
        let texts = DataType::Dictionary(key, Box::new(DataType::Utf8));
        assert_eq!(pg_type(&texts), Type::TEXT);
        let lists = DataType::List(Arc::new(Field::new("item", texts, true)));
        assert_eq!(pg_type(&lists), Type::TEXT_ARRAY);
        let nested = DataType::List(Arc::new(Field::new("item", lists, true)));
        assert_eq!(pg_type(&nested), Type::TEXT_ARRAY);
    }
}
