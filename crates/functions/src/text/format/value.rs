//! Values of arguments, and their texts by a field.

use std::borrow::Cow;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray as _, BooleanArray, Float64Array, StringArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Float64Type};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{Result, exec_err};

use super::float::float;
use super::layout::{Align, Field};
use crate::columns::timestamp_texts;

/// A value that a field formats.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::text) enum Value<'a> {
    Boolean(bool),
    Integer(i128),
    Float(f64),
    /// A decimal as a text, and its nearest floating-point number.
    Decimal(String, f64),
    Text(Cow<'a, str>),
}

/// An argument whose values are read row by row.
pub(in crate::text) enum Column<'a> {
    Booleans(&'a BooleanArray),
    Integers(ArrayRef),
    Floats(Float64Array),
    Decimals(ArrayFormatter<'a>, Float64Array),
    Moments(StringArray),
    Texts(ArrayFormatter<'a>),
}

const OPTIONS: FormatOptions<'static> = FormatOptions::new();

impl<'a> Column<'a> {
    /// # Errors
    /// If the type cannot be formatted.
    pub(in crate::text) fn new(array: &'a ArrayRef) -> Result<Self> {
        let floats = || -> Result<Float64Array> {
            Ok(cast(array, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
        };
        let texts = || ArrayFormatter::try_new(array, &OPTIONS);
        Ok(match array.data_type() {
            DataType::Boolean => Self::Booleans(array.as_boolean()),
            integer if integer.is_integer() => {
                Self::Integers(cast(array, &DataType::Decimal128(20, 0))?)
            }
            float if float.is_floating() => Self::Floats(floats()?),
            decimal if decimal.is_decimal() => Self::Decimals(texts()?, floats()?),
            DataType::Timestamp(..) => {
                Self::Moments(timestamp_texts(array, None)?.as_string::<i32>().clone())
            }
            _ => Self::Texts(texts()?),
        })
    }

    /// The value of a row, which is not null.
    pub(in crate::text) fn value(&self, row: usize) -> Value<'static> {
        match self {
            Self::Booleans(booleans) => Value::Boolean(booleans.value(row)),
            Self::Integers(integers) => {
                Value::Integer(integers.as_primitive::<Decimal128Type>().value(row))
            }
            Self::Floats(floats) => Value::Float(floats.value(row)),
            Self::Decimals(texts, floats) => {
                Value::Decimal(texts.value(row).to_string(), floats.value(row))
            }
            Self::Moments(texts) => Value::Text(texts.value(row).to_owned().into()),
            Self::Texts(texts) => Value::Text(texts.value(row).to_string().into()),
        }
    }
}

impl Value<'_> {
    /// The text of the value in the layout of a field; texts without an alignment of their own
    /// stand at `align`.
    ///
    /// # Errors
    /// If the conversion does not fit the value.
    pub(in crate::text) fn formatted(&self, field: &Field, align: Align) -> Result<String> {
        let layout = &field.layout;
        let conversion = field.conversion.unwrap_or(' ');
        match (self, conversion) {
            (Self::Text(text), 's' | ' ') => Ok(layout.text(text, align)),
            (Self::Decimal(text, _), 's' | ' ') if layout.precision.is_none() => {
                Ok(layout.number(text.starts_with('-'), "", text.trim_start_matches('-')))
            }
            (Self::Boolean(value), 's' | ' ') => {
                Ok(layout.text(if *value { "true" } else { "false" }, align))
            }
            (Self::Boolean(value), _) => Self::Integer((*value).into()).formatted(field, align),
            (Self::Integer(value), 'e' | 'E' | 'f' | 'F' | 'g' | 'G') => {
                // Rounded, as a cast to DOUBLE is.
                Ok(float(*value as f64, layout, conversion))
            }
            (Self::Integer(value), _) => integer(*value, field, conversion),
            (
                Self::Float(value) | Self::Decimal(_, value),
                ' ' | 's' | 'e' | 'E' | 'f' | 'F' | 'g' | 'G',
            ) => Ok(float(*value, layout, conversion)),
            (value, conversion) => {
                let kind = match value {
                    Self::Text(_) => "text",
                    _ => "number with a fraction",
                };
                exec_err!("{conversion:?} of a template does not format a {kind}; cast the value")
            }
        }
    }

    /// The text of the value in PostgreSQL.
    pub(in crate::text) fn plain(&self) -> String {
        match self {
            Self::Boolean(value) => if *value { "t" } else { "f" }.to_owned(),
            Self::Integer(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Decimal(text, _) => text.clone(),
            Self::Text(text) => text.clone().into_owned(),
        }
    }
}

fn integer(value: i128, field: &Field, conversion: char) -> Result<String> {
    let digits = value.unsigned_abs();
    let (prefix, digits) = match conversion {
        'd' | 'i' | 'u' | 's' | 'n' | ' ' => ("", digits.to_string()),
        'x' => ("0x", format!("{digits:x}")),
        'X' => ("0X", format!("{digits:X}")),
        'o' => ("0", format!("{digits:o}")),
        'b' => ("0b", format!("{digits:b}")),
        'B' => ("0B", format!("{digits:b}")),
        'c' => {
            let letter = u32::try_from(value).ok().and_then(char::from_u32);
            return match letter {
                Some(letter) => Ok(field.layout.text(&letter.to_string(), Align::Left)),
                None => exec_err!("{value} is no character"),
            };
        }
        other => return exec_err!("{other:?} of a template does not format an integer"),
    };
    Ok(field.layout.number(value < 0, prefix, &digits))
}
