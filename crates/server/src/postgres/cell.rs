//! Encodes values of Arrow arrays in the formats of PostgreSQL's wire protocol.
//!
//! A [`ColumnWriter`] inspects the type of its array once per batch, and then appends the value of
//! any row to a buffer.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use chrono::{Offset as _, TimeZone as _};
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, OffsetSizeTrait,
    PrimitiveArray, StructArray,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::*;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use pgwire::api::Type;

use super::date_time::{EPOCH_DAYS, EPOCH_MICROS, Interval, put_date, put_time, put_timestamp};
use super::number::{put_decimal, put_float, put_numeric};
use super::text_cell::{jsonb, uuid};
use crate::column_types::field_type;

/// Formats of values on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The text that PostgreSQL prints.
    Text,
    /// The bytes that PostgreSQL's `send` functions write.
    Binary,
}

/// A function that appends the encoded value of a row, which must not be null.
type Cell = Box<dyn Fn(usize, &mut BytesMut) + Send + Sync>;

/// Writer of the values of one column of a batch.
pub(crate) struct ColumnWriter {
    nulls: Option<NullBuffer>,
    cell: Cell,
}

impl ColumnWriter {
    /// Creates a writer of the values of `array`; timestamps with a time zone are shown in `zone`.
    pub(crate) fn new(array: &ArrayRef, format: Format, zone: Tz) -> Result<Self, ArrowError> {
        let array = plain(array)?;
        let nulls = array.logical_nulls();
        Ok(Self { nulls, cell: cell(&array, Writing { format, zone })? })
    }

    /// Creates a writer of the values of `array` in the PostgreSQL type that clients are told for
    /// `field`.
    pub(crate) fn of_field(
        array: &ArrayRef,
        field: &Field,
        format: Format,
        zone: Tz,
    ) -> Result<Self, ArrowError> {
        let cell: Cell = match (field_type(field), format) {
            (Type::OID | Type::XID, Format::Binary) => oid(array)?,
            (Type::UUID, Format::Binary) => uuid(array)?,
            (Type::JSONB, Format::Binary) => jsonb(array)?,
            (of @ (Type::OID_VECTOR | Type::INT2_VECTOR), format) => vector(array, &of, format)?,
            _ => return Self::new(array, format, zone),
        };
        Ok(Self { nulls: array.logical_nulls(), cell })
    }

    /// True if the value of a row is null.
    pub(crate) fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Appends the value of a row, which must not be null.
    pub(crate) fn append(&self, row: usize, out: &mut BytesMut) {
        (self.cell)(row, out);
    }

    /// Appends the length and the value of a row, or -1 for null, as messages with rows do.
    pub(crate) fn append_with_length(&self, row: usize, out: &mut BytesMut) {
        if self.is_null(row) {
            return out.put_i32(-1);
        }
        let start = out.len();
        out.put_i32(0);
        self.append(row, out);
        let length = i32::try_from(out.len() - start - 4).unwrap_or(i32::MAX);
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
}

use datafusion::arrow::error::ArrowError;

#[derive(Clone, Copy)]
struct Writing {
    format: Format,
    zone: Tz,
}

/// Encodes OIDs in binary.
fn oid(array: &ArrayRef) -> Result<Cell, ArrowError> {
    let array = cast(array, &DataType::UInt32)?;
    let values = array.as_primitive::<UInt32Type>().values().clone();
    Ok(Box::new(move |row, out| out.put_u32(values[row])))
}

/// Encodes arrays that PostgreSQL writes as numbers separated by spaces; their first index is 0.
fn vector(array: &ArrayRef, of: &Type, format: Format) -> Result<Cell, ArrowError> {
    let integers = DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true)));
    let lists = cast(array, &integers)?.as_list::<i32>().clone();
    let item = if *of == Type::OID_VECTOR { Type::OID } else { Type::INT2 };
    Ok(Box::new(move |row, out| {
        let items = lists.value(row);
        let items = items.as_primitive::<Int64Type>().values();
        if format == Format::Text {
            let texts: Vec<_> = items.iter().map(ToString::to_string).collect();
            return out.extend_from_slice(texts.join(" ").as_bytes());
        }
        let length = i32::try_from(items.len()).unwrap_or(0);
        for number in [1, 0] {
            out.put_i32(number);
        }
        out.put_u32(item.oid());
        out.put_i32(length);
        out.put_i32(0);
        for number in items {
            // The items of both types were made from numbers of this width.
            match item {
                Type::OID => {
                    out.put_i32(4);
                    out.put_u32(u32::try_from(*number).unwrap_or(0));
                }
                _ => {
                    out.put_i32(2);
                    out.put_i16(i16::try_from(*number).unwrap_or(0));
                }
            }
        }
    }))
}

/// Decodes dictionaries and run-end encoding, and converts list views to lists.
fn plain(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match array.data_type() {
        DataType::Dictionary(_, value) => cast(array, value),
        DataType::RunEndEncoded(_, value) => cast(array, value.data_type()),
        DataType::ListView(item) => cast(array, &DataType::List(item.clone())),
        DataType::LargeListView(item) => cast(array, &DataType::LargeList(item.clone())),
        _ => Ok(array.clone()),
    }
}

fn cell(array: &ArrayRef, writing: Writing) -> Result<Cell, ArrowError> {
    let format = writing.format;
    Ok(match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean().values().clone();
            let (no, yes) = if format == Format::Text { (b'f', b't') } else { (0, 1) };
            Box::new(move |row, out| out.put_u8(if values.value(row) { yes } else { no }))
        }
        DataType::Int8 => integer::<Int8Type, i16>(array, format),
        DataType::Int16 => integer::<Int16Type, i16>(array, format),
        DataType::Int32 => integer::<Int32Type, i32>(array, format),
        DataType::Int64 => integer::<Int64Type, i64>(array, format),
        DataType::UInt8 => integer::<UInt8Type, i16>(array, format),
        DataType::UInt16 => integer::<UInt16Type, i32>(array, format),
        DataType::UInt32 => integer::<UInt32Type, i64>(array, format),
        DataType::UInt64 => decimal::<UInt64Type>(array, 0, format),
        DataType::Decimal32(_, scale) => decimal::<Decimal32Type>(array, *scale, format),
        DataType::Decimal64(_, scale) => decimal::<Decimal64Type>(array, *scale, format),
        DataType::Decimal128(_, scale) => decimal::<Decimal128Type>(array, *scale, format),
        DataType::Decimal256(_, scale) => decimal::<Decimal256Type>(array, *scale, format),
        DataType::Float16 => return cell(&cast(array, &DataType::Float32)?, writing),
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>().values().clone();
            match format {
                Format::Text => Box::new(move |row, out| put_float(values[row], 6, out)),
                Format::Binary => Box::new(move |row, out| out.put_f32(values[row])),
            }
        }
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>().values().clone();
            match format {
                Format::Text => Box::new(move |row, out| put_float(values[row], 15, out)),
                Format::Binary => Box::new(move |row, out| out.put_f64(values[row])),
            }
        }
        DataType::Utf8 => {
            let values = array.as_string::<i32>().clone();
            Box::new(move |row, out| out.extend_from_slice(values.value(row).as_bytes()))
        }
        DataType::LargeUtf8 => {
            let values = array.as_string::<i64>().clone();
            Box::new(move |row, out| out.extend_from_slice(values.value(row).as_bytes()))
        }
        DataType::Utf8View => {
            let values = array.as_string_view().clone();
            Box::new(move |row, out| out.extend_from_slice(values.value(row).as_bytes()))
        }
        DataType::Binary | DataType::LargeBinary | DataType::FixedSizeBinary(_) => {
            return cell(&cast(array, &DataType::BinaryView)?, writing);
        }
        DataType::BinaryView => {
            let values = array.as_binary_view().clone();
            match format {
                Format::Text => Box::new(move |row, out| put_hex(values.value(row), out)),
                Format::Binary => {
                    Box::new(move |row, out| out.extend_from_slice(values.value(row)))
                }
            }
        }
        DataType::List(item) => list(array.as_list::<i32>(), item, writing)?,
        DataType::LargeList(item) => list(array.as_list::<i64>(), item, writing)?,
        DataType::FixedSizeList(item, _) => fixed_list(array.as_fixed_size_list(), item, writing)?,
        DataType::Struct(_) => record(array.as_struct(), writing)?,
        _ => return temporal(array, writing),
    })
}

/// Encodes dates, times, timestamps and intervals; types that PostgreSQL lacks are written as text.
fn temporal(array: &ArrayRef, writing: Writing) -> Result<Cell, ArrowError> {
    let format = writing.format;
    Ok(match array.data_type() {
        DataType::Date32 => {
            let values = array.as_primitive::<Date32Type>().values().clone();
            match format {
                Format::Text => Box::new(move |row, out| put_date(values[row].into(), out)),
                Format::Binary => {
                    Box::new(move |row, out| out.put_i32(values[row].saturating_sub(EPOCH_DAYS)))
                }
            }
        }
        DataType::Date64 => return cell(&cast(array, &DataType::Date32)?, writing),
        DataType::Time32(_) | DataType::Time64(TimeUnit::Nanosecond) => {
            return cell(&cast(array, &DataType::Time64(TimeUnit::Microsecond))?, writing);
        }
        DataType::Time64(_) => {
            let values = array.as_primitive::<Time64MicrosecondType>().values().clone();
            match format {
                Format::Text => Box::new(move |row, out| put_time(values[row], out)),
                Format::Binary => Box::new(move |row, out| out.put_i64(values[row])),
            }
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let values = array.as_primitive::<TimestampMicrosecondType>().values().clone();
            let shown = zone.as_ref().map(|_| writing.zone);
            match format {
                Format::Binary => Box::new(move |row, out| {
                    out.put_i64(values[row].saturating_sub(EPOCH_MICROS));
                }),
                Format::Text => Box::new(move |row, out| {
                    let offset = shown.map(|zone| offset_seconds(zone, values[row]));
                    put_timestamp(values[row], offset, out);
                }),
            }
        }
        DataType::Timestamp(_, zone) => {
            let micros = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
            return cell(&cast(array, &micros)?, writing);
        }
        DataType::Interval(unit) => interval(array, *unit, format),
        DataType::Duration(TimeUnit::Microsecond) => {
            let values = array.as_primitive::<DurationMicrosecondType>().values().clone();
            intervals(format, move |row| Interval { micros: values[row], ..Interval::default() })
        }
        DataType::Duration(_) => {
            return cell(&cast(array, &DataType::Duration(TimeUnit::Microsecond))?, writing);
        }
        _ => {
            let array = array.clone();
            // A value that cannot be shown is an error here, and not in the middle of a row.
            ArrayFormatter::try_new(&array, &FormatOptions::default())?;
            Box::new(move |row, out| {
                let formatter = ArrayFormatter::try_new(&array, &FormatOptions::default());
                if let Ok(formatter) = formatter {
                    // Writing to a buffer in memory does not fail.
                    let _ = write!(out, "{}", formatter.value(row));
                }
            })
        }
    })
}

/// Returns the offset of a zone at a point in time, in seconds east of UTC.
fn offset_seconds(zone: Tz, micros: i64) -> i32 {
    let moment = chrono::DateTime::from_timestamp_micros(micros);
    moment.map_or(0, |moment| {
        zone.offset_from_utc_datetime(&moment.naive_utc()).fix().local_minus_utc()
    })
}

/// Encodes integers; in binary with the width of `W`.
fn integer<T, W>(array: &ArrayRef, format: Format) -> Cell
where
    T: ArrowPrimitiveType,
    T::Native: std::fmt::Display + Into<W>,
    W: Width,
{
    let values = array.as_primitive::<T>().values().clone();
    match format {
        Format::Text => Box::new(move |row, out| {
            // Writing to a buffer in memory does not fail.
            let _ = write!(out, "{}", values[row]);
        }),
        Format::Binary => Box::new(move |row, out| values[row].into().put(out)),
    }
}

/// An integer type of the wire protocol.
trait Width: Send + Sync + 'static {
    fn put(self, out: &mut BytesMut);
}

impl Width for i16 {
    fn put(self, out: &mut BytesMut) {
        out.put_i16(self);
    }
}

impl Width for i32 {
    fn put(self, out: &mut BytesMut) {
        out.put_i32(self);
    }
}

impl Width for i64 {
    fn put(self, out: &mut BytesMut) {
        out.put_i64(self);
    }
}

fn decimal<T>(array: &ArrayRef, scale: i8, format: Format) -> Cell
where
    T: ArrowPrimitiveType,
    T::Native: std::fmt::Display,
{
    let values = array.as_primitive::<T>().values().clone();
    match format {
        Format::Text => Box::new(move |row, out| put_decimal(values[row], scale, out)),
        Format::Binary => Box::new(move |row, out| put_numeric(values[row], scale, out)),
    }
}

fn put_hex(bytes: &[u8], out: &mut BytesMut) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"\\x");
    for byte in bytes {
        out.put_u8(DIGITS[usize::from(byte >> 4)]);
        out.put_u8(DIGITS[usize::from(byte & 15)]);
    }
}

fn interval(array: &ArrayRef, unit: IntervalUnit, format: Format) -> Cell {
    match unit {
        IntervalUnit::YearMonth => {
            let values = array.as_primitive::<IntervalYearMonthType>().values().clone();
            intervals(format, move |row| Interval { months: values[row], ..Interval::default() })
        }
        IntervalUnit::DayTime => {
            let values = array.as_primitive::<IntervalDayTimeType>().values().clone();
            intervals(format, move |row| {
                let IntervalDayTime { days, milliseconds } = values[row];
                Interval { months: 0, days, micros: i64::from(milliseconds) * 1000 }
            })
        }
        IntervalUnit::MonthDayNano => {
            let values: PrimitiveArray<IntervalMonthDayNanoType> = array.as_primitive().clone();
            intervals(format, move |row| {
                let IntervalMonthDayNano { months, days, nanoseconds } = values.value(row);
                Interval { months, days, micros: nanoseconds.div_euclid(1000) }
            })
        }
    }
}

fn intervals(format: Format, of: impl Fn(usize) -> Interval + Send + Sync + 'static) -> Cell {
    match format {
        Format::Text => Box::new(move |row, out| of(row).put_text(out)),
        Format::Binary => Box::new(move |row, out| {
            let Interval { months, days, micros } = of(row);
            out.put_i64(micros);
            out.put_i32(days);
            out.put_i32(months);
        }),
    }
}

fn list<O: OffsetSizeTrait>(
    array: &GenericListArray<O>,
    item: &Field,
    writing: Writing,
) -> Result<Cell, ArrowError> {
    let items = Items::new(array.values(), item, writing)?;
    let offsets = array.offsets().clone();
    Ok(Box::new(move |row, out| {
        items.put(offsets[row].as_usize()..offsets[row + 1].as_usize(), out);
    }))
}

fn fixed_list(
    array: &FixedSizeListArray,
    item: &Field,
    writing: Writing,
) -> Result<Cell, ArrowError> {
    let items = Items::new(array.values(), item, writing)?;
    let length = usize::try_from(array.value_length()).unwrap_or(0);
    Ok(Box::new(move |row, out| items.put(row * length..(row + 1) * length, out)))
}

/// Encoder of the items of arrays.
struct Items {
    writer: ColumnWriter,
    format: Format,
    item_type: Type,
    /// True if items are arrays themselves, whose braces are not quoted.
    nested: bool,
}

impl Items {
    fn new(values: &ArrayRef, item: &Field, writing: Writing) -> Result<Self, ArrowError> {
        let nested = values.data_type().is_list();
        // In a PostgreSQL array all rows of a dimension have the same length; arrays of arrays are
        // sent as text in braces in either format.
        let format = if nested { Format::Text } else { writing.format };
        let item_type = match values.data_type() {
            _ if nested => Type::TEXT,
            DataType::UInt32 => Type::OID,
            _ => field_type(item),
        };
        let writer = match (&item_type, format) {
            (&Type::OID, Format::Binary) => {
                ColumnWriter { nulls: values.logical_nulls(), cell: oid(values)? }
            }
            (&Type::UUID | &Type::JSONB, _) => {
                ColumnWriter::of_field(values, item, format, writing.zone)?
            }
            _ => ColumnWriter::new(values, format, writing.zone)?,
        };
        Ok(Self { writer, format: writing.format, item_type, nested })
    }

    fn put(&self, range: std::ops::Range<usize>, out: &mut BytesMut) {
        match self.format {
            Format::Text => self.put_text(range, out),
            Format::Binary => self.put_binary(range, out),
        }
    }

    /// Appends an array as text: `{1,NULL,"a b"}`.
    fn put_text(&self, range: std::ops::Range<usize>, out: &mut BytesMut) {
        out.put_u8(b'{');
        let mut value = BytesMut::new();
        for row in range.clone() {
            if row > range.start {
                out.put_u8(b',');
            }
            if self.writer.is_null(row) {
                out.extend_from_slice(b"NULL");
                continue;
            }
            value.clear();
            self.writer.append(row, &mut value);
            match self.nested || !is_quoted_in_array(&value) {
                true => out.extend_from_slice(&value),
                false => put_quoted(&value, b'\\', out),
            }
        }
        out.put_u8(b'}');
    }

    /// Appends an array in binary: number of dimensions, a flag for nulls, the type of items;
    /// length and first index of the dimension; items with their lengths.
    fn put_binary(&self, range: std::ops::Range<usize>, out: &mut BytesMut) {
        let has_nulls = range.clone().any(|row| self.writer.is_null(row));
        out.put_i32(i32::from(!range.is_empty()));
        out.put_i32(i32::from(has_nulls));
        out.put_u32(self.item_type.oid());
        if range.is_empty() {
            return;
        }
        out.put_i32(i32::try_from(range.len()).unwrap_or(i32::MAX));
        out.put_i32(1);
        range.for_each(|row| self.writer.append_with_length(row, out));
    }
}

/// True for an item that would be read as a different one without quotes.
fn is_quoted_in_array(value: &[u8]) -> bool {
    let special = |byte: &u8| b"{},\"\\".contains(byte) || byte.is_ascii_whitespace();
    value.is_empty() || value.iter().any(special) || value.eq_ignore_ascii_case(b"null")
}

fn put_quoted(value: &[u8], escape: u8, out: &mut BytesMut) {
    out.put_u8(b'"');
    for byte in value {
        if matches!(byte, b'"' | b'\\') {
            out.put_u8(if escape == b'"' { *byte } else { escape });
        }
        out.put_u8(*byte);
    }
    out.put_u8(b'"');
}

/// Encodes records; as text: `(1,,"a b")`.
fn record(array: &StructArray, writing: Writing) -> Result<Cell, ArrowError> {
    let types: Vec<_> = array.fields().iter().map(|field| field_type(field)).collect();
    let columns = array.columns().iter().zip(array.fields());
    let columns = columns
        .map(|(column, field)| ColumnWriter::of_field(column, field, writing.format, writing.zone));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    Ok(match writing.format {
        Format::Binary => Box::new(move |row, out| {
            out.put_i32(i32::try_from(columns.len()).unwrap_or(i32::MAX));
            for (column, pg_type) in columns.iter().zip(&types) {
                out.put_u32(pg_type.oid());
                column.append_with_length(row, out);
            }
        }),
        Format::Text => Box::new(move |row, out| put_record_text(&columns, row, out)),
    })
}

fn put_record_text(columns: &[ColumnWriter], row: usize, out: &mut BytesMut) {
    out.put_u8(b'(');
    let mut value = BytesMut::new();
    for (index, column) in columns.iter().enumerate() {
        if index > 0 {
            out.put_u8(b',');
        }
        if column.is_null(row) {
            continue;
        }
        value.clear();
        column.append(row, &mut value);
        let special = |byte: &u8| b"(),\"\\".contains(byte) || byte.is_ascii_whitespace();
        match value.is_empty() || value.iter().any(special) {
            true => put_quoted(&value, b'"', out),
            false => out.extend_from_slice(&value),
        }
    }
    out.put_u8(b')');
}
