//! Bytes, intervals and timestamps as PostgreSQL's texts, also within lists and structs.

use std::fmt::Write as _;
use std::sync::Arc;

use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{
    Array as _, ArrayRef, AsArray as _, GenericListArray, OffsetSizeTrait, StringArray, StructArray,
};
use datafusion::arrow::compute::{CastOptions, cast, cast_with_options};
use datafusion::arrow::datatypes::{
    DataType, FieldRef, Fields, IntervalMonthDayNanoType, IntervalUnit, Schema,
};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::FormatOptions;

use super::interval::interval_text;
use super::moment_text::timestamp_texts;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
/// Cast options: a value that the target type cannot represent is an error.
const STRICT: CastOptions<'_> = CastOptions { safe: false, format_options: FormatOptions::new() };

/// The types whose values become texts.
#[derive(Clone, Copy)]
enum Texts {
    /// Bytes and intervals.
    Unreadable,
    /// Bytes, intervals and timestamps; timestamps with time zone are shown in this zone.
    Moments(Tz),
}

/// Returns the rows with bytes replaced by texts such as `\x00ff`, and intervals by texts such as
/// `1 mon 2 days`.
///
/// # Errors
/// For an interval of another unit that has no text.
pub fn readable(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    Texts::Unreadable.of_batch(batch)
}

/// Returns the rows as [`readable`] does, also with texts in place of timestamps:
/// `2024-06-01 12:00:00`, and in the time zone `2024-06-01 12:00:00+02`.
///
/// # Errors
/// As [`readable`], and for a timestamp out of the range of the calendar.
pub fn displayed(batch: &RecordBatch, zone: Tz) -> Result<RecordBatch, ArrowError> {
    Texts::Moments(zone).of_batch(batch)
}

/// Returns the values with texts in place of bytes and intervals.
///
/// # Errors
/// As [`readable`].
pub(super) fn readable_values(values: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    Texts::Unreadable.of_values(values)
}

/// Returns the values as [`displayed`] does, also within lists and structs.
///
/// # Errors
/// As [`displayed`].
pub(crate) fn displayed_values(values: &ArrayRef, zone: Tz) -> Result<ArrayRef, ArrowError> {
    Texts::Moments(zone).of_values(values)
}

impl Texts {
    fn of_batch(self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let fields = batch.schema_ref().fields();
        if !fields.iter().any(|field| self.replaces(field.data_type())) {
            return Ok(batch.clone());
        }
        let columns = batch.columns().iter().map(|column| self.of_values(column));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let fields = fields.iter().zip(&columns).map(|(field, column)| retyped(field, column));
        let schema = Schema::new(fields.collect::<Vec<_>>());
        RecordBatch::try_new(Arc::new(schema), columns)
    }

    /// True for a type with values that become texts.
    fn replaces(self, data_type: &DataType) -> bool {
        match data_type {
            DataType::Interval(_)
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => true,
            DataType::Timestamp(..) => matches!(self, Self::Moments(_)),
            DataType::List(item) | DataType::LargeList(item) => self.replaces(item.data_type()),
            DataType::Struct(fields) => fields.iter().any(|field| self.replaces(field.data_type())),
            _ => false,
        }
    }

    fn of_values(self, values: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        if !self.replaces(values.data_type()) {
            return Ok(Arc::clone(values));
        }
        Ok(match (values.data_type(), self) {
            (DataType::Timestamp(..), Self::Moments(zone)) => timestamp_texts(values, Some(zone))?,
            (DataType::Interval(_), _) => {
                let values = cast_with_options(values, &INTERVAL, &STRICT)?;
                let values = values.as_primitive::<IntervalMonthDayNanoType>();
                Arc::new(values.iter().map(|it| it.map(interval_text)).collect::<StringArray>())
            }
            (DataType::List(item), _) => Arc::new(self.of_list(values.as_list::<i32>(), item)?),
            (DataType::LargeList(item), _) => {
                Arc::new(self.of_list(values.as_list::<i64>(), item)?)
            }
            (DataType::Struct(fields), _) => {
                Arc::new(self.of_structure(values.as_struct(), fields)?)
            }
            _ => {
                let values = cast(values, &DataType::BinaryView)?;
                let values = values.as_binary_view().iter();
                Arc::new(values.map(|bytes| bytes.map(hex)).collect::<StringArray>())
            }
        })
    }

    fn of_list<O: OffsetSizeTrait>(
        self,
        lists: &GenericListArray<O>,
        item: &FieldRef,
    ) -> Result<GenericListArray<O>, ArrowError> {
        let items = self.of_values(lists.values())?;
        let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
        GenericListArray::try_new(retyped(item, &items), offsets, items, nulls)
    }

    fn of_structure(
        self,
        values: &StructArray,
        fields: &Fields,
    ) -> Result<StructArray, ArrowError> {
        let columns = values.columns().iter().map(|column| self.of_values(column));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let fields: Vec<FieldRef> =
            fields.iter().zip(&columns).map(|(field, column)| retyped(field, column)).collect();
        StructArray::try_new(fields.into(), columns, values.nulls().cloned())
    }
}

fn retyped(field: &FieldRef, values: &ArrayRef) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(values.data_type().clone()))
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("\\x");
    for byte in bytes {
        // Writing to a text does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{BinaryArray, Int64Array, IntervalYearMonthArray, ListArray};
    use datafusion::arrow::buffer::OffsetBuffer;
    use datafusion::arrow::datatypes::Field;
    use datafusion::arrow::util::display::array_value_to_string;

    use super::*;

    #[test]
    fn bytes_and_intervals_are_texts_also_in_lists() {
        let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![Some(&b"\x00\xff"[..]), None]));
        let months: ArrayRef = Arc::new(IntervalYearMonthArray::from(vec![14, -1]));
        let item = Arc::new(Field::new_list_field(DataType::Binary, true));
        let offsets = OffsetBuffer::from_lengths([2, 0]);
        let lists: ArrayRef = Arc::new(ListArray::new(item, offsets, Arc::clone(&bytes), None));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let columns = [("b", bytes), ("m", months), ("l", lists), ("n", numbers)];
        let batch = RecordBatch::try_from_iter(columns).expect("batch");
        let texts = readable(&batch).expect("texts");
        let row = |row| {
            let value = |column: &ArrayRef| array_value_to_string(column, row).expect("text");
            texts.columns().iter().map(value).collect::<Vec<_>>().join("|")
        };
        assert_eq!(row(0), "\\x00ff|1 year 2 mons|[\\x00ff, ]|1");
        assert_eq!(row(1), "|-1 mons|[]|2");
    }
}
