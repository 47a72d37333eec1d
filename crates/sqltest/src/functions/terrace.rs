//! Conversion of Terrace's results to values.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, DurationMicrosecondType, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::value::Value;

/// Returns the values of the first column of batches.
///
/// # Errors
/// Arrow's, for types that cannot be shown.
pub fn values(batches: &[RecordBatch]) -> Result<Vec<Value>, ArrowError> {
    let mut values = Vec::new();
    for batch in batches {
        if let Some(column) = batch.columns().first() {
            values.extend(column_values(column)?);
        }
    }
    Ok(values)
}

fn column_values(array: &ArrayRef) -> Result<Vec<Value>, ArrowError> {
    let nulls = array.logical_nulls();
    let valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let all = |value: &dyn Fn(usize) -> Value| -> Vec<Value> {
        (0..array.len()).map(|row| if valid(row) { value(row) } else { Value::Null }).collect()
    };
    Ok(match array.data_type() {
        DataType::Boolean => all(&|row| Value::Bool(array.as_boolean().value(row))),
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            lists_of(&column_values(lists.values())?, lists.value_offsets(), &valid)
        }
        DataType::Map(..) => {
            let maps = array.as_map();
            lists_of(&column_values(maps.values())?, maps.value_offsets(), &valid)
        }
        DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
            return column_values(&cast(array, &DataType::List(element.clone()))?);
        }
        DataType::Struct(_) => {
            let members = array.as_struct().columns().iter().map(column_values);
            let members = members.collect::<Result<Vec<_>, _>>()?;
            let members = |row: usize| members.iter().filter_map(move |it| it.get(row)).cloned();
            all(&|row| Value::List(members(row).collect()))
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let intervals = array.as_primitive::<IntervalMonthDayNanoType>();
            all(&|row| {
                let value = intervals.value(row);
                let micros = value.nanoseconds / 1000;
                Value::Interval(value.months.into(), value.days.into(), micros)
            })
        }
        DataType::Interval(_) => {
            return column_values(&cast(array, &DataType::Interval(IntervalUnit::MonthDayNano))?);
        }
        DataType::Duration(_) => {
            let micros = cast(array, &DataType::Duration(TimeUnit::Microsecond))?;
            let micros = micros.as_primitive::<DurationMicrosecondType>();
            all(&|row| Value::Interval(0, 0, micros.value(row)))
        }
        DataType::Timestamp(unit, Some(_)) => {
            let utc = cast(array, &DataType::Timestamp(*unit, Some("UTC".into())))?;
            return texts(&cast(&utc, &DataType::Timestamp(*unit, None))?, &valid);
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            let texts = texts(array, &valid)?;
            let hex = |value| match value {
                Value::Text(text) => Value::Text(format!("\\x{text}")),
                other => other,
            };
            texts.into_iter().map(hex).collect()
        }
        of if of.is_numeric() => {
            let number = |value| match value {
                Value::Text(text) => Value::Number(text),
                other => other,
            };
            texts(array, &valid)?.into_iter().map(number).collect()
        }
        _ => texts(array, &valid)?,
    })
}

fn lists_of(elements: &[Value], offsets: &[i32], valid: &dyn Fn(usize) -> bool) -> Vec<Value> {
    let place = |at: i32| usize::try_from(at).unwrap_or(0);
    let lists = offsets.windows(2).enumerate().map(|(row, window)| match window {
        [first, last] if valid(row) => {
            let range = place(*first)..place(*last);
            Value::List(elements.get(range).unwrap_or_default().to_vec())
        }
        _ => Value::Null,
    });
    lists.collect()
}

fn texts(array: &ArrayRef, valid: &dyn Fn(usize) -> bool) -> Result<Vec<Value>, ArrowError> {
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(array, &options)?;
    let text = |row: usize| match valid(row) {
        true => Ok(Value::Text(formatter.value(row).try_to_string()?)),
        false => Ok(Value::Null),
    };
    (0..array.len()).map(text).collect()
}
