//! Limit on the bytes of results that may be longer than the arguments of their function.

use std::fmt::Display;
use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use datafusion::functions::string;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};

use crate::checked::{Checked, rows};

/// Maximum bytes of the texts of a batch of rows, and so of one text.
const BATCH_BYTES_MAX: usize = 256 << 20;
/// Bytes that a value of a type other than text is assumed to take as text.
const VALUE_BYTES: usize = 64;

/// Counter of the bytes of a function's results for one batch.
#[derive(Debug)]
pub(super) struct Room<'a> {
    function: &'a str,
    bytes: usize,
}

impl<'a> Room<'a> {
    /// Creates a counter for a call of `function`, whose name is in the error.
    pub(super) fn new(function: &'a str) -> Self {
        Self { function, bytes: 0 }
    }

    /// Adds the bytes of a text to the counter, before the text is built.
    ///
    /// # Errors
    /// If the batch would have more than 256 MiB.
    pub(super) fn take(&mut self, bytes: usize) -> Result<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        match self.bytes {
            ..=BATCH_BYTES_MAX => Ok(()),
            bytes => refused(self.function, bytes),
        }
    }
}

fn refused(function: &str, bytes: impl Display) -> Result<()> {
    exec_err!(
        "{function}: the texts of a batch of rows would have {bytes} bytes or more; at most \
         {BATCH_BYTES_MAX} are possible; make shorter texts, or set a smaller \
         datafusion.execution.batch_size"
    )
}

/// DataFusion's functions that join their arguments.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let joined = |name: &str, args: &ScalarFunctionArgs| check(name, args, 0);
    let separated = |name: &str, args: &ScalarFunctionArgs| check(name, args, 1);
    vec![Checked::over(string::concat(), joined), Checked::over(string::concat_ws(), separated)]
}

/// Refuses calls whose arguments have too many bytes together, of which the first `separators` are
/// repeated between the others.
fn check(name: &str, args: &ScalarFunctionArgs, separators: usize) -> Result<()> {
    let rows = rows(args);
    let mut total = 0_usize;
    for (place, arg) in args.args.iter().enumerate() {
        let times = if place < separators { args.args.len() } else { 1 };
        total = total.saturating_add(bytes(arg, rows).saturating_mul(times));
    }
    match total {
        ..=BATCH_BYTES_MAX => Ok(()),
        bytes => refused(name, bytes),
    }
}

/// The bytes of an argument as text, of all rows.
fn bytes(arg: &ColumnarValue, rows: usize) -> usize {
    match arg {
        ColumnarValue::Array(array) => text_bytes(array),
        ColumnarValue::Scalar(value) => {
            let text = value.try_as_str().flatten().map_or(VALUE_BYTES, str::len);
            text.saturating_mul(rows)
        }
    }
}

fn text_bytes(array: &ArrayRef) -> usize {
    let between = |first: i64, last: i64| usize::try_from(last.saturating_sub(first)).unwrap_or(0);
    match array.data_type() {
        DataType::Utf8 => {
            let offsets = array.as_string::<i32>().value_offsets();
            let (first, last) = (offsets.first().copied(), offsets.last().copied());
            between(first.unwrap_or(0).into(), last.unwrap_or(0).into())
        }
        DataType::LargeUtf8 => {
            let offsets = array.as_string::<i64>().value_offsets();
            let (first, last) = (offsets.first().copied(), offsets.last().copied());
            between(first.unwrap_or(0), last.unwrap_or(0))
        }
        DataType::Utf8View => {
            let lengths = array.as_string_view().lengths();
            lengths.map(|length| usize::try_from(length).unwrap_or(usize::MAX)).sum()
        }
        _ => array.len().saturating_mul(VALUE_BYTES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_taken_before_texts_are_made() {
        let mut room = Room::new("repeat");
        assert!(room.take(BATCH_BYTES_MAX).is_ok());
        let error = room.take(1).expect_err("no room").to_string();
        assert!(error.contains("repeat: the texts of a batch of rows would have 268435457 bytes"));
        assert!(Room::new("lpad").take(usize::MAX).is_err());
    }
}
