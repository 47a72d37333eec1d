//! Helpers that build the columns of the tables in the schema `terrace`, and their values.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use datafusion::arrow::array::{ArrayRef, TimestampMicrosecondArray};
use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};

/// Time zone of timestamps.
const UTC: &str = "+00:00";

/// A column of text.
pub(super) fn text(name: &str) -> Field {
    Field::new(name, DataType::Utf8, true)
}

/// A column of counts or bytes.
pub(super) fn number(name: &str) -> Field {
    Field::new(name, DataType::UInt64, true)
}

/// A column of timestamps.
pub(super) fn moment(name: &str) -> Field {
    Field::new(name, DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())), true)
}

/// Builds an array by applying `value` to each of `rows`.
pub(super) fn column<T, V, A>(rows: &[T], value: impl FnMut(&T) -> V) -> ArrayRef
where
    A: datafusion::arrow::array::Array + FromIterator<V> + 'static,
{
    Arc::new(rows.iter().map(value).collect::<A>())
}

pub(super) fn texts<T>(rows: &[T], value: impl FnMut(&T) -> Option<String>) -> ArrayRef {
    column::<T, Option<String>, datafusion::arrow::array::StringArray>(rows, value)
}

pub(super) fn moments<T>(rows: &[T], value: impl Fn(&T) -> Option<SystemTime>) -> ArrayRef {
    let micros = |row: &T| {
        let since = value(row)?.duration_since(UNIX_EPOCH).ok()?;
        i64::try_from(since.as_micros()).ok()
    };
    let moments: TimestampMicrosecondArray = rows.iter().map(micros).collect();
    Arc::new(moments.with_timezone(UTC))
}

pub(super) fn numbers<T>(rows: &[T], value: impl FnMut(&T) -> Option<u64>) -> ArrayRef {
    column::<T, Option<u64>, datafusion::arrow::array::UInt64Array>(rows, value)
}
