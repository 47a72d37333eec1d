//! Arrow values as JSON texts.

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray as _, BooleanArray, MapArray, StringViewArray, StructArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Float32Type, Float64Type};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{Result, exec_err};

use super::types::is_json;
use super::value::{TEXT_BYTES_MAX, quote};

/// Writes the values of an array as JSON.
pub(crate) struct Writer {
    array: ArrayRef,
    kind: Kind,
}

enum Kind {
    Null,
    Boolean(BooleanArray),
    /// Written as the display of the type; in quotes unless it is a number.
    Display {
        quoted: bool,
    },
    /// Floating-point numbers, of which some are no JSON numbers.
    Float(Vec<f64>),
    Text(StringViewArray),
    /// JSON already.
    Json(StringViewArray),
    Bytes,
    List {
        ends: Vec<usize>,
        elements: Box<Writer>,
    },
    Struct(Vec<(String, Writer)>),
    Map {
        ends: Vec<usize>,
        keys: Box<Writer>,
        values: Box<Writer>,
    },
}

impl Writer {
    /// # Errors
    /// Those of casts, for types without a text.
    pub(crate) fn new(array: &ArrayRef, field: &Field) -> Result<Self> {
        let array = match array.data_type() {
            DataType::Dictionary(_, value) => cast(array, value)?,
            _ => ArrayRef::clone(array),
        };
        let kind = match array.data_type() {
            DataType::Null => Kind::Null,
            DataType::Boolean => Kind::Boolean(array.as_boolean().clone()),
            DataType::Float32 => {
                let values = array.as_primitive::<Float32Type>().values();
                Kind::Float(values.iter().map(|&value| f64::from(value)).collect())
            }
            DataType::Float64 => Kind::Float(array.as_primitive::<Float64Type>().values().to_vec()),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                let texts = cast(&array, &DataType::Utf8View)?.as_string_view().clone();
                if is_json(field) { Kind::Json(texts) } else { Kind::Text(texts) }
            }
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => Kind::Bytes,
            DataType::List(_)
            | DataType::LargeList(_)
            | DataType::FixedSizeList(..)
            | DataType::ListView(_)
            | DataType::LargeListView(_) => return Self::of_list(&array),
            DataType::Struct(_) => Kind::Struct(members(array.as_struct())?),
            DataType::Map(..) => map(array.as_map())?,
            number => Kind::Display { quoted: !number.is_numeric() },
        };
        Ok(Self { array, kind })
    }

    fn of_list(array: &ArrayRef) -> Result<Self> {
        let (lists, field) = match array.data_type() {
            DataType::List(field)
            | DataType::FixedSizeList(field, _)
            | DataType::ListView(field)
            | DataType::LargeList(field)
            | DataType::LargeListView(field) => {
                (cast(array, &DataType::LargeList(field.clone()))?, field.clone())
            }
            other => return exec_err!("a list expected, found {other}"),
        };
        let list = lists.as_list::<i64>();
        let ends = list.offsets().iter().map(|&end| usize::try_from(end).unwrap_or(0)).collect();
        let elements = Box::new(Self::new(list.values(), &field)?);
        Ok(Self { kind: Kind::List { ends, elements }, array: lists })
    }

    /// Appends the value of a row; null as `null`.
    ///
    /// # Errors
    /// If the text is longer than 256 MiB.
    pub(crate) fn write(&self, row: usize, out: &mut String) -> Result<()> {
        if out.len() > TEXT_BYTES_MAX {
            return exec_err!("the JSON text of a value is longer than 256 MiB");
        }
        if self.array.is_null(row) {
            out.push_str("null");
            return Ok(());
        }
        match &self.kind {
            Kind::Null => out.push_str("null"),
            Kind::Boolean(values) => out.push_str(if values.value(row) { "true" } else { "false" }),
            Kind::Text(texts) => quote(texts.value(row), out),
            Kind::Json(texts) => out.push_str(texts.value(row)),
            Kind::Float(values) if values.get(row).is_some_and(|it| !it.is_finite()) => {
                out.push_str(match values.get(row) {
                    Some(value) if value.is_nan() => "\"NaN\"",
                    Some(value) if value.is_sign_negative() => "\"-Infinity\"",
                    _ => "\"Infinity\"",
                });
            }
            Kind::Display { quoted: true } => quote(&self.display(row)?, out),
            Kind::Display { quoted: false } | Kind::Float(_) => out.push_str(&self.display(row)?),
            Kind::Bytes => quote(&format!("\\x{}", self.display(row)?), out),
            Kind::List { ends, elements } => {
                out.push('[');
                for (at, element) in between(ends, row).enumerate() {
                    comma(at, out);
                    elements.write(element, out)?;
                }
                out.push(']');
            }
            Kind::Struct(members) => {
                out.push('{');
                for (at, (name, values)) in members.iter().enumerate() {
                    comma(at, out);
                    quote(name, out);
                    out.push(':');
                    values.write(row, out)?;
                }
                out.push('}');
            }
            Kind::Map { ends, keys, values } => {
                out.push('{');
                for (at, entry) in between(ends, row).enumerate() {
                    comma(at, out);
                    keys.write_name(entry, out)?;
                    out.push(':');
                    values.write(entry, out)?;
                }
                out.push('}');
            }
        }
        Ok(())
    }

    /// Appends the value of a row as the name of a member.
    ///
    /// # Errors
    /// For null, and as [`Self::write`].
    pub(crate) fn write_name(&self, row: usize, out: &mut String) -> Result<()> {
        if matches!(self.kind, Kind::Null) || self.array.is_null(row) {
            return exec_err!("the name of a JSON member cannot be NULL");
        }
        let mut name = String::new();
        self.write(row, &mut name)?;
        match name.starts_with('"') && !matches!(self.kind, Kind::Json(_)) {
            true => out.push_str(&name),
            false => quote(&name, out),
        }
        Ok(())
    }

    fn display(&self, row: usize) -> Result<String> {
        let options = FormatOptions::default().with_display_error(false);
        let formatter = ArrayFormatter::try_new(self.array.as_ref(), &options)?;
        Ok(formatter.value(row).try_to_string()?)
    }
}

fn members(array: &StructArray) -> Result<Vec<(String, Writer)>> {
    let members = array.fields().iter().zip(array.columns());
    let members =
        members.map(|(field, column)| Ok((field.name().clone(), Writer::new(column, field)?)));
    members.collect()
}

fn map(array: &MapArray) -> Result<Kind> {
    let ends = array.offsets().iter().map(|&end| usize::try_from(end).unwrap_or(0)).collect();
    let (keys, values) = array.entries_fields();
    let keys = Box::new(Writer::new(array.keys(), keys)?);
    let values = Box::new(Writer::new(array.values(), values)?);
    Ok(Kind::Map { ends, keys, values })
}

fn between(ends: &[usize], row: usize) -> std::ops::Range<usize> {
    match ends.get(row..row + 2) {
        Some(&[begin, end]) => begin..end,
        _ => 0..0,
    }
}

fn comma(at: usize, out: &mut String) {
    if at > 0 {
        out.push(',');
    }
}
