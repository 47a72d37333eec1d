//! Column types that segments can store, and the code that binds a segment to its type.

use datafusion::arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};

use super::error::SegmentError;

/// Checks that columns of `data_type` can be stored.
///
/// # Errors
/// [`SegmentError::Type`] for unions, run-end encoded columns and list views, with the type to use
/// instead.
pub fn check_type(data_type: &DataType) -> Result<(), SegmentError> {
    let instead = match data_type {
        DataType::Union(..) => "a struct with one nullable field per variant",
        DataType::RunEndEncoded(..) => "the type of its values",
        DataType::ListView(_) => "a list",
        DataType::LargeListView(_) => "a large list",
        DataType::Dictionary(_, values) => return check_type(values),
        DataType::Struct(fields) => {
            return fields.iter().try_for_each(|field| check_type(field.data_type()));
        }
        _ => return element(data_type).map_or(Ok(()), |field| check_type(field.data_type())),
    };
    Err(SegmentError::Type { found: data_type.to_string(), instead })
}

/// Returns the field of a list's elements or of a map's entries.
pub(super) fn element(data_type: &DataType) -> Option<&Field> {
    match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => Some(field),
        _ => None,
    }
}

/// Returns the code of a type's layout: a segment with another code is not read as that type.
pub(super) fn code_of(data_type: &DataType) -> u32 {
    let mut bytes = Vec::new();
    describe(data_type, &mut bytes);
    crc32c::crc32c(&bytes)
}

fn describe(data_type: &DataType, out: &mut Vec<u8>) {
    out.push(kind_of(data_type));
    match data_type {
        DataType::FixedSizeBinary(width) => out.extend(width.to_le_bytes()),
        DataType::Dictionary(keys, values) => {
            describe(keys, out);
            describe(values, out);
        }
        DataType::Struct(fields) => {
            out.extend(fields.len().to_le_bytes());
            fields.iter().for_each(|field| describe(field.data_type(), out));
        }
        _ => {
            if let DataType::FixedSizeList(_, len) = data_type {
                out.extend(len.to_le_bytes());
            }
            if let Some(field) = element(data_type) {
                describe(field.data_type(), out);
            }
        }
    }
}

/// Returns the number of a type in the format. Numbers are never reused for another type.
fn kind_of(data_type: &DataType) -> u8 {
    match data_type {
        DataType::Null => 1,
        DataType::Boolean => 2,
        DataType::Int8 => 3,
        DataType::Int16 => 4,
        DataType::Int32 => 5,
        DataType::Int64 => 6,
        DataType::UInt8 => 7,
        DataType::UInt16 => 8,
        DataType::UInt32 => 9,
        DataType::UInt64 => 10,
        DataType::Float16 => 11,
        DataType::Float32 => 12,
        DataType::Float64 => 13,
        DataType::Decimal32(..) => 14,
        DataType::Decimal64(..) => 15,
        DataType::Decimal128(..) => 16,
        DataType::Decimal256(..) => 17,
        DataType::Date32 => 18,
        DataType::Date64 => 19,
        DataType::Time32(unit) => 20 + unit_of(*unit),
        DataType::Time64(unit) => 24 + unit_of(*unit),
        DataType::Timestamp(unit, _) => 28 + unit_of(*unit),
        DataType::Duration(unit) => 32 + unit_of(*unit),
        DataType::Interval(IntervalUnit::YearMonth) => 36,
        DataType::Interval(IntervalUnit::DayTime) => 37,
        DataType::Interval(IntervalUnit::MonthDayNano) => 38,
        DataType::Binary => 39,
        DataType::LargeBinary => 40,
        DataType::BinaryView => 41,
        DataType::FixedSizeBinary(_) => 42,
        DataType::Utf8 => 43,
        DataType::LargeUtf8 => 44,
        DataType::Utf8View => 45,
        DataType::List(_) => 46,
        DataType::LargeList(_) => 47,
        DataType::FixedSizeList(..) => 48,
        DataType::Struct(_) => 49,
        DataType::Map(..) => 50,
        DataType::Dictionary(..) => 51,
        DataType::Union(..) => 52,
        DataType::RunEndEncoded(..) => 53,
        DataType::ListView(_) => 54,
        DataType::LargeListView(_) => 55,
    }
}

fn unit_of(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    }
}
