//! Decodes values that clients send, as parameters or in a COPY.

use std::fmt::Arguments;

use bytes::{Buf, Bytes};
use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, IntervalMonthDayNano};
use datafusion::common::ScalarValue;
use pgwire::api::Type;
use terrace_functions::columns::parse_interval;
use terrace_functions::lists::array_items;
use terrace_sql::bytea;

use super::cell::Format;
use super::date_time::{EPOCH_DAYS, EPOCH_MICROS};
use super::failure::{Failure, SqlState};
use super::text_cell::{jsonb_of_bytes, uuid_of_bytes};
use crate::column_types::{arrow_type, pg_type};

/// Decodes a value of a type, or a null if `bytes` is `None`; `what` names the value in errors.
///
/// # Errors
/// Bytes that are not a value of the type, and types without a binary format here.
pub(super) fn value(
    bytes: Option<&Bytes>,
    format: Format,
    what: Arguments<'_>,
    data_type: &DataType,
) -> Result<ScalarValue, Failure> {
    let Some(bytes) = bytes else { return Ok(ScalarValue::try_from(data_type)?) };
    if let DataType::List(item) = data_type {
        return array(bytes, format, what, item.data_type());
    }
    let sent = match format {
        Format::Text => text(bytes, what, data_type)?,
        Format::Binary => binary(bytes, what, &pg_type(data_type))?,
    };
    let invalid = |error| {
        let text = format!("{what} is no {}: {error}", pg_type(data_type).name());
        Failure::new(SqlState::INVALID_TEXT, text)
    };
    sent.cast_to(data_type).map_err(invalid)
}

/// Decodes a value that the client sends in the PostgreSQL type `of`, to the Arrow type
/// `data_type`.
///
/// # Errors
/// As [`value`].
pub(super) fn value_of(
    bytes: Option<&Bytes>,
    format: Format,
    what: Arguments<'_>,
    of: &Type,
    data_type: &DataType,
) -> Result<ScalarValue, Failure> {
    let text = match (bytes, format) {
        (Some(bytes), Format::Binary) if *of == Type::UUID => uuid_of_bytes(bytes),
        (Some(bytes), Format::Binary) if *of == Type::JSONB => jsonb_of_bytes(bytes),
        _ => return value(bytes, format, what, data_type),
    };
    let Some(text) = text else {
        let text = format!("{what} is no {of}: {} bytes", bytes.map_or(0, Bytes::len));
        return Err(Failure::new(SqlState::INVALID_BINARY, text));
    };
    value(Some(&Bytes::from(text.into_bytes())), Format::Text, what, data_type)
}

/// Decodes an array of one dimension.
///
/// # Errors
/// Bytes that are not an array of such items.
fn array(
    bytes: &Bytes,
    format: Format,
    what: Arguments<'_>,
    item: &DataType,
) -> Result<ScalarValue, Failure> {
    let malformed = || {
        let text = format!("{what} is no array of one dimension");
        Failure::new(SqlState::INVALID_TEXT, text)
    };
    let values = match format {
        Format::Text => {
            let text = std::str::from_utf8(bytes).ok().and_then(array_items);
            let items = text.ok_or_else(malformed)?.into_iter();
            let items = items.map(|text| {
                let bytes = text.map(|text| Bytes::from(text.into_bytes()));
                value(bytes.as_ref(), format, what, item)
            });
            items.collect::<Result<Vec<_>, _>>()?
        }
        Format::Binary => {
            let (of, items) = binary_items(bytes.clone()).ok_or_else(malformed)?;
            let known = arrow_type(&of).or((of == Type::NUMERIC).then_some(DataType::Utf8));
            let known = known.ok_or_else(malformed)?;
            let items = items.into_iter().map(|bytes| match bytes {
                None => Ok(ScalarValue::try_from(item)?),
                Some(bytes) => {
                    let value = of_binary(&bytes, &of, &known).ok_or_else(malformed)?;
                    value.cast_to(item).map_err(Failure::from)
                }
            });
            items.collect::<Result<Vec<_>, _>>()?
        }
    };
    Ok(ScalarValue::List(ScalarValue::new_list(&values, item, true)))
}

/// Returns the type and the items of an array in the binary format: number of dimensions, a flag
/// for nulls, the type of items; length and first index of the dimension; items with their lengths.
fn binary_items(mut bytes: Bytes) -> Option<(Type, Vec<Option<Bytes>>)> {
    let dimensions = bytes.try_get_i32().ok()?;
    let _has_nulls = bytes.try_get_i32().ok()?;
    let of = Type::from_oid(bytes.try_get_u32().ok()?)?;
    if dimensions == 0 {
        return Some((of, vec![]));
    }
    let length = usize::try_from(bytes.try_get_i32().ok()?).ok()?;
    let _first = bytes.try_get_i32().ok()?;
    // Each item is preceded by its length of four bytes.
    if dimensions != 1 || length > bytes.len() / 4 {
        return None;
    }
    let mut items = Vec::with_capacity(length);
    for _ in 0..length {
        items.push(match usize::try_from(bytes.try_get_i32().ok()?) {
            Err(_) => None,
            Ok(length) if length <= bytes.len() => Some(bytes.split_to(length)),
            Ok(_) => return None,
        });
    }
    bytes.is_empty().then_some((of, items))
}

/// Returns the decimal type with the precision and scale of a value's digits.
///
/// # Errors
/// Bytes that are not a number, and numbers of more than 38 digits.
pub(super) fn numeric_type(
    bytes: &Bytes,
    format: Format,
    what: Arguments<'_>,
) -> Result<DataType, Failure> {
    let digits = match format {
        Format::Text => std::str::from_utf8(bytes).ok().map(|text| text.trim().to_owned()),
        Format::Binary => numeric(bytes.clone()),
    };
    digits.as_deref().and_then(type_of_digits).ok_or_else(|| {
        let text = format!("{what} is no numeric of at most {DECIMAL128_MAX_PRECISION} digits");
        Failure::new(SqlState::INVALID_TEXT, text)
    })
}

fn type_of_digits(text: &str) -> Option<DataType> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = whole.trim_start_matches(['+', '-']).trim_start_matches('0');
    let is_number = [whole, fraction].iter().all(|part| part.bytes().all(|b| b.is_ascii_digit()));
    let precision = u8::try_from((whole.len() + fraction.len()).max(1)).ok()?;
    let scale = i8::try_from(fraction.len()).ok()?;
    let fits = is_number && precision <= DECIMAL128_MAX_PRECISION;
    fits.then_some(DataType::Decimal128(precision, scale))
}

fn text(bytes: &Bytes, what: Arguments<'_>, data_type: &DataType) -> Result<ScalarValue, Failure> {
    let not_utf8 = |_| {
        let text = format!("{what} is not UTF-8");
        Failure::new(SqlState::INVALID_TEXT, text)
    };
    let text = std::str::from_utf8(bytes).map_err(not_utf8)?;
    if pg_type(data_type) == Type::INTERVAL {
        return match parse_interval(text) {
            Some(interval) => Ok(ScalarValue::IntervalMonthDayNano(Some(interval))),
            None => {
                let text = format!("invalid input syntax for type interval: {text:?} ({what})");
                Err(Failure::new(SqlState::INVALID_TEXT, text))
            }
        };
    }
    if pg_type(data_type) != Type::BYTEA {
        return Ok(ScalarValue::from(text));
    }
    match bytea::parse(text) {
        Some(bytes) => Ok(ScalarValue::Binary(Some(bytes))),
        None => {
            let text = format!("{what} is no bytea; write bytes as \\x00ff");
            Err(Failure::new(SqlState::INVALID_TEXT, text))
        }
    }
}

fn binary(bytes: &Bytes, what: Arguments<'_>, pg_type: &Type) -> Result<ScalarValue, Failure> {
    let unsupported = || {
        let text = format!("{what}, of type {pg_type}, is possible as text only");
        Failure::new(SqlState::UNSUPPORTED, text)
    };
    let malformed = || {
        let text = format!("{what} is no {pg_type}: {} bytes", bytes.len());
        Failure::new(SqlState::INVALID_BINARY, text)
    };
    let known = arrow_type(pg_type).or((*pg_type == Type::NUMERIC).then_some(DataType::Utf8));
    let Some(known) = known else { return Err(unsupported()) };
    of_binary(bytes, pg_type, &known).ok_or_else(malformed)
}

fn of_binary(bytes: &Bytes, pg_type: &Type, known: &DataType) -> Option<ScalarValue> {
    let micros = || i64::from_be_bytes(bytes.as_ref().try_into().ok()?).checked_add(EPOCH_MICROS);
    Some(match *pg_type {
        Type::BOOL => ScalarValue::Boolean(Some(*bytes.first()? != 0)),
        Type::INT2 => ScalarValue::Int16(Some(i16::from_be_bytes(bytes.as_ref().try_into().ok()?))),
        Type::INT4 => ScalarValue::Int32(Some(i32::from_be_bytes(bytes.as_ref().try_into().ok()?))),
        Type::OID => {
            let number = u32::from_be_bytes(bytes.as_ref().try_into().ok()?);
            ScalarValue::Int64(Some(number.into()))
        }
        Type::INT8 => ScalarValue::Int64(Some(i64::from_be_bytes(bytes.as_ref().try_into().ok()?))),
        Type::FLOAT4 => {
            ScalarValue::Float32(Some(f32::from_be_bytes(bytes.as_ref().try_into().ok()?)))
        }
        Type::FLOAT8 => {
            ScalarValue::Float64(Some(f64::from_be_bytes(bytes.as_ref().try_into().ok()?)))
        }
        Type::BYTEA => ScalarValue::Binary(Some(bytes.to_vec())),
        Type::DATE => {
            let days = i32::from_be_bytes(bytes.as_ref().try_into().ok()?);
            ScalarValue::Date32(Some(days.checked_add(EPOCH_DAYS)?))
        }
        Type::TIME => {
            let micros = i64::from_be_bytes(bytes.as_ref().try_into().ok()?);
            ScalarValue::Time64Microsecond(Some(micros))
        }
        Type::TIMESTAMP => ScalarValue::TimestampMicrosecond(Some(micros()?), None),
        Type::TIMESTAMPTZ => ScalarValue::TimestampMicrosecond(Some(micros()?), Some("UTC".into())),
        Type::INTERVAL => interval(bytes.clone())?,
        Type::UUID => ScalarValue::from(uuid_of_bytes(bytes)?),
        Type::JSONB => ScalarValue::from(jsonb_of_bytes(bytes)?),
        Type::NUMERIC => ScalarValue::from(numeric(bytes.clone())?),
        _ if *known == DataType::Utf8 => ScalarValue::from(std::str::from_utf8(bytes).ok()?),
        _ => return None,
    })
}

/// Reads the binary format of `interval`: microseconds, days and months.
fn interval(mut bytes: Bytes) -> Option<ScalarValue> {
    let micros = bytes.try_get_i64().ok()?;
    let (days, months) = (bytes.try_get_i32().ok()?, bytes.try_get_i32().ok()?);
    let value = IntervalMonthDayNano::new(months, days, micros.checked_mul(1_000)?);
    bytes.is_empty().then_some(ScalarValue::IntervalMonthDayNano(Some(value)))
}

/// Converts the binary format of `numeric` to decimal text: number of groups, weight of the first
/// one, sign, digits after the point, and groups of four digits.
fn numeric(mut bytes: Bytes) -> Option<String> {
    if bytes.len() < 8 {
        return None;
    }
    let (count, weight) = (usize::from(bytes.get_u16()), i32::from(bytes.get_i16()));
    let (sign, scale) = (bytes.get_u16(), usize::from(bytes.get_u16()));
    if bytes.len() != 2 * count || ![0, 0x4000].contains(&sign) || scale > 1000 {
        return None;
    }
    let groups: Vec<u16> = (0..count).map(|_| bytes.get_u16()).collect();
    if groups.iter().any(|group| *group > 9999) {
        return None;
    }
    let group = |place: i32| {
        let index = usize::try_from(weight - place).ok();
        index.and_then(|index| groups.get(index)).copied().unwrap_or(0)
    };
    let mut text = if sign == 0 { String::new() } else { "-".to_owned() };
    let whole: String =
        (0..=weight.max(0)).rev().map(|place| format!("{:04}", group(place))).collect();
    let trimmed = whole.trim_start_matches('0');
    text.push_str(if trimmed.is_empty() { "0" } else { trimmed });
    let places = i32::try_from(scale.div_ceil(4)).ok()?;
    let fraction: String = (1..=places).map(|place| format!("{:04}", group(-place))).collect();
    if scale > 0 {
        text.push('.');
        text.push_str(fraction.get(..scale)?);
    }
    Some(text)
}

/// Returns the type of a parameter that the client has named; `None` if the server has to infer it.
pub(super) fn type_of(oid: u32) -> Result<Option<DataType>, Failure> {
    let unknown = || {
        let text = format!("parameters of the type with the number {oid} are not possible");
        Failure::new(SqlState::UNSUPPORTED, text)
    };
    match Type::from_oid(oid) {
        _ if oid == 0 => Ok(None),
        Some(Type::UNKNOWN) => Ok(None),
        // The precision and scale of a `numeric` are those of its value.
        Some(Type::NUMERIC | Type::NUMERIC_ARRAY) => Ok(None),
        Some(pg_type) => Ok(Some(arrow_type(&pg_type).ok_or_else(unknown)?)),
        None => Err(unknown()),
    }
}

/// Returns the formats of `values` values from the format codes of a message: no code means text
/// for all values, a single code applies to all, and otherwise each value has its own.
pub(super) fn formats_of(codes: &[i16], values: usize) -> Result<Vec<Format>, Failure> {
    let format = |code: &i16| match code {
        0 => Ok(Format::Text),
        1 => Ok(Format::Binary),
        code => Err(Failure::new(SqlState::PROTOCOL, format!("there is no format {code}"))),
    };
    match codes {
        [] => Ok(vec![Format::Text; values]),
        [code] => Ok(vec![format(code)?; values]),
        codes if codes.len() == values => codes.iter().map(format).collect(),
        codes => {
            let text = format!("{} formats for {values} values", codes.len());
            Err(Failure::new(SqlState::PROTOCOL, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::super::number::put_numeric;
    use super::*;

    fn of(bytes: &'static [u8], format: Format, data_type: &DataType) -> Option<ScalarValue> {
        value(Some(&Bytes::from_static(bytes)), format, format_args!("$1"), data_type).ok()
    }

    #[test]
    fn numerics_are_read_as_they_are_written() {
        for (unscaled, scale, want) in [
            (0_i128, 2_i8, "0.00"),
            (12_345_678, 3, "12345.678"),
            (-1, 4, "-0.0001"),
            (10_000, 0, "10000"),
            (123_456_789_012_345_678_901, 20, "1.23456789012345678901"),
            (99_990_000, 0, "99990000"),
        ] {
            let mut bytes = BytesMut::new();
            put_numeric(unscaled, scale, &mut bytes);
            assert_eq!(numeric(bytes.freeze()).as_deref(), Some(want));
        }
        assert_eq!(numeric(Bytes::from_static(&[0, 1, 0, 0, 0, 0, 0, 0])), None);
    }

    #[test]
    fn numerics_have_all_their_digits() {
        for (text, want) in [
            ("1.125", Some(DataType::Decimal128(4, 3))),
            ("-0.05", Some(DataType::Decimal128(2, 2))),
            ("0", Some(DataType::Decimal128(1, 0))),
            ("12345678901234567890123456789012345678", Some(DataType::Decimal128(38, 0))),
            ("123456789012345678901234567890123456789", None),
            ("NaN", None),
            ("1e5", None),
        ] {
            assert_eq!(type_of_digits(text), want, "{text}");
        }
    }

    #[test]
    fn texts_and_bytes_become_values_of_the_type() {
        let int = DataType::Int32;
        assert_eq!(of(b"17", Format::Text, &int), Some(ScalarValue::Int32(Some(17))));
        assert_eq!(of(&[0, 0, 0, 17], Format::Binary, &int), Some(ScalarValue::Int32(Some(17))));
        assert_eq!(of(b"x", Format::Text, &int), None);
        assert_eq!(of(&[0, 17], Format::Binary, &int), None);
        let bytes = |bytes: &[u8]| Some(ScalarValue::Binary(Some(bytes.to_vec())));
        assert_eq!(of(b"\\x00ff", Format::Text, &DataType::Binary), bytes(&[0, 255]));
        assert_eq!(of(b"a\\\\\\377", Format::Text, &DataType::Binary), bytes(b"a\\\xff"));
        assert_eq!(of(b"\\x0", Format::Text, &DataType::Binary), None);
        let day = Some(ScalarValue::Date32(Some(EPOCH_DAYS + 1)));
        assert_eq!(of(b"2000-01-02", Format::Text, &DataType::Date32), day);
        assert_eq!(of(&[0, 0, 0, 1], Format::Binary, &DataType::Date32), day);
        let null = value(None, Format::Text, format_args!("$1"), &int).ok();
        assert_eq!(null, Some(ScalarValue::Int32(None)));
    }

    #[test]
    fn arrays_in_binary_have_items_of_their_type() {
        let of = |bytes: &'static [u8], item: &DataType| {
            array(&Bytes::from_static(bytes), Format::Binary, format_args!("$1"), item).ok()
        };
        let header = [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 23, 0, 0, 0, 2, 0, 0, 0, 1];
        let items = [0, 0, 0, 4, 0, 0, 0, 7, 255, 255, 255, 255];
        let bytes: &'static [u8] = Box::leak([&header[..], &items[..]].concat().into_boxed_slice());
        let wanted = [ScalarValue::Int64(Some(7)), ScalarValue::Int64(None)];
        let wanted = ScalarValue::List(ScalarValue::new_list(&wanted, &DataType::Int64, true));
        assert_eq!(of(bytes, &DataType::Int64), Some(wanted));
        assert_eq!(of(bytes.get(..30).unwrap_or_default(), &DataType::Int64), None);
        assert_eq!(
            of(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 127, 255, 255, 255], &DataType::Int64),
            None
        );
    }
}
