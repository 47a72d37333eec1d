//! Values of relations and functions, and their conversion to Arrow arrays.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Int64Array, Int64Builder, ListArray, ListBuilder, PrimitiveArray,
    StringArray, StringBuilder, StructArray, new_null_array,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, FieldRef, Float64Type, Int64Type,
};
use datafusion::common::{Result, internal_err};

/// A value of a column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// A null.
    Null,
    /// `bool`
    Bool(bool),
    /// An integer, an OID, or a timestamp in microseconds since 1970.
    Int(i64),
    /// `float4` or `float8`
    Float(f64),
    /// A text, a name or a character.
    Text(String),
    /// An array of texts.
    Texts(Vec<String>),
    /// An array of integers.
    Ints(Vec<i64>),
}

/// Values of a row by column name. A missing column is false, zero or empty if its type is boolean,
/// a number, an OID, a name or a character; otherwise it is null.
pub(super) type Row = Vec<(&'static str, Value)>;

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// Returns values as an array.
///
/// # Errors
/// Values that do not have the type.
pub(super) fn array(values: &[&Value], data_type: &DataType) -> Result<ArrayRef> {
    if values.iter().all(|value| **value == Value::Null) {
        return Ok(new_null_array(data_type, values.len()));
    }
    let array: ArrayRef = match data_type {
        DataType::Boolean => {
            let of = |value: &&Value| match value {
                Value::Bool(value) => Some(*value),
                _ => None,
            };
            Arc::new(values.iter().map(of).collect::<BooleanArray>())
        }
        DataType::Float32 | DataType::Float64 => {
            numbers::<Float64Type>(values, |value| match value {
                Value::Float(value) => Some(*value),
                _ => None,
            })
        }
        DataType::Utf8 => {
            let of = |value: &&Value| match value {
                Value::Text(value) => Some(value.clone()),
                _ => None,
            };
            Arc::new(values.iter().map(of).collect::<StringArray>())
        }
        DataType::List(item) if *item.data_type() == DataType::Utf8 => {
            let mut lists = ListBuilder::new(StringBuilder::new());
            for value in values {
                match value {
                    Value::Texts(items) => lists.append_value(items.iter().map(Some)),
                    _ => lists.append_null(),
                }
            }
            Arc::new(lists.finish())
        }
        DataType::List(item) if item.data_type().is_nested() => return pairs(values, item),
        DataType::List(_) => {
            let mut lists = ListBuilder::new(Int64Builder::new());
            for value in values {
                match value {
                    Value::Ints(items) => lists.append_value(items.iter().copied().map(Some)),
                    _ => lists.append_null(),
                }
            }
            Arc::new(lists.finish())
        }
        _ => numbers::<Int64Type>(values, |value| match value {
            Value::Int(value) => Some(*value),
            _ => None,
        }),
    };
    Ok(cast(&array, data_type)?)
}

/// Returns, for each value, the list of pairs of an item of its array and the item's position, from
/// 1.
fn pairs(values: &[&Value], item: &FieldRef) -> Result<ArrayRef> {
    let lists: Vec<&[i64]> = values
        .iter()
        .map(|value| match value {
            Value::Ints(items) => items.as_slice(),
            _ => &[],
        })
        .collect();
    let DataType::Struct(fields) = item.data_type() else {
        return internal_err!("pairs are structures");
    };
    let items = lists.iter().flat_map(|list| list.iter().copied());
    let numbers = lists.iter().flat_map(|list| list.iter().zip(1..).map(|(_, number)| number));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(items)),
        Arc::new(Int64Array::from_iter_values(numbers)),
    ];
    let offsets = OffsetBuffer::from_lengths(lists.iter().map(|list| list.len()));
    let pairs = StructArray::try_new(fields.clone(), columns, None)?;
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, Arc::new(pairs), None)?))
}

fn numbers<T: ArrowPrimitiveType>(
    values: &[&Value],
    of: impl Fn(&Value) -> Option<T::Native>,
) -> ArrayRef {
    Arc::new(values.iter().map(|value| of(value)).collect::<PrimitiveArray<T>>())
}
