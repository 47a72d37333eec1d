//! The Arrow types sent to clients, and conversion of batches to them.
//!
//! Many clients do not support view arrays of texts and bytes, list views, dictionaries and run-end
//! encoding. These are sent as the plain types of their values.

use std::sync::Arc;

use datafusion::arrow::array::{Array as _, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;

/// Returns the type in which a column of type `data_type` is sent to clients.
pub(super) fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, values) => plain_type(values),
        DataType::RunEndEncoded(_, values) => plain_type(values.data_type()),
        DataType::List(item) | DataType::ListView(item) => DataType::List(plain_field(item)),
        DataType::LargeList(item) | DataType::LargeListView(item) => {
            DataType::LargeList(plain_field(item))
        }
        DataType::FixedSizeList(item, length) => {
            DataType::FixedSizeList(plain_field(item), *length)
        }
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(plain_field).collect::<Fields>())
        }
        DataType::Map(entries, is_sorted) => DataType::Map(plain_field(entries), *is_sorted),
        other => other.clone(),
    }
}

fn plain_field(field: &FieldRef) -> FieldRef {
    let data_type = plain_type(field.data_type());
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

/// Returns the columns in the types in which they are sent to clients.
pub(super) fn plain_schema(schema: &SchemaRef) -> SchemaRef {
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .map(|field| plain_field(field).as_ref().clone().with_nullable(true))
        .collect();
    Arc::new(Schema::new(fields))
}

/// Casts a batch to the names and types of `schema`.
///
/// # Errors
/// Texts of more than 2 GiB, and values that a column cannot hold.
pub(super) fn cast_batch(
    batch: &RecordBatch,
    schema: &SchemaRef,
) -> Result<RecordBatch, ArrowError> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let columns = batch.columns().iter().zip(schema.fields()).map(|(array, field)| {
        match array.data_type() == field.data_type() {
            true => Ok(Arc::clone(array)),
            false => cast_with_options(array, field.data_type(), &options),
        }
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

/// Splits a batch into slices of equal numbers of rows, at least one each, and on average at most
/// `bytes_max` bytes.
///
/// # Errors
/// Arrays whose size Arrow cannot compute.
pub(super) fn pieces(
    batch: &RecordBatch,
    bytes_max: usize,
) -> Result<impl Iterator<Item = RecordBatch> + use<'_>, ArrowError> {
    let mut bytes = 0;
    for array in batch.columns() {
        bytes += array.to_data().get_slice_memory_size()?;
    }
    let rows = batch.num_rows();
    let step = rows.div_ceil(bytes.div_ceil(bytes_max).max(1)).max(1);
    let starts = (0..rows).step_by(step);
    Ok(starts.map(move |start| batch.slice(start, step.min(rows - start))))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, Int64Array, StringViewArray};

    use super::*;

    #[test]
    fn views_and_dictionaries_become_values() {
        let of = |data_type| plain_type(&data_type);
        assert_eq!(of(DataType::Utf8View), DataType::Utf8);
        let key = Box::new(DataType::Int32);
        assert_eq!(of(DataType::Dictionary(key, Box::new(DataType::Utf8View))), DataType::Utf8);
        let list = of(DataType::new_list(DataType::BinaryView, true));
        assert_eq!(list, DataType::new_list(DataType::Binary, true));
        assert_eq!(of(DataType::Int64), DataType::Int64);
    }

    #[test]
    fn batches_are_cut_by_the_bytes_of_their_rows() -> Result<(), ArrowError> {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let words = (0..1000).map(|n| format!("a text of more than twelve bytes: {n}"));
        let words: ArrayRef = Arc::new(StringViewArray::from_iter_values(words));
        let batch = RecordBatch::try_from_iter([("n", numbers), ("w", words)])?;
        let schema = plain_schema(&batch.schema());
        let batch = cast_batch(&batch.slice(500, 100), &schema)?;
        assert_eq!(pieces(&batch, 1 << 20)?.count(), 1);
        let cut: Vec<_> = pieces(&batch, 1000)?.collect();
        assert!((4..8).contains(&cut.len()), "{}", cut.len());
        assert_eq!(cut.iter().map(RecordBatch::num_rows).sum::<usize>(), 100);
        assert_eq!(pieces(&batch, 1)?.count(), 100);
        assert_eq!(pieces(&batch.slice(0, 0), 1)?.count(), 0);
        Ok(())
    }
}
