//! Replacement of values in some rows of a block, as by UPDATE.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array,
};
use datafusion::arrow::compute::kernels::zip::zip;
use datafusion::arrow::compute::{cast_with_options, take};
use datafusion::arrow::datatypes::{Field, Schema};
use terrace_sys::size::to_u64;

use super::block::STRICT;
use super::texts;
use crate::error::SqlError;

/// Replaces the values of a column in the rows of the mask by `values`, one for each.
pub(super) fn put(
    column: &ArrayRef,
    mask: &BooleanArray,
    values: &ArrayRef,
    field: &Field,
) -> Result<ArrayRef, SqlError> {
    let values = cast_with_options(values, field.data_type(), &STRICT)?;
    let values = texts::stored(&values, field)?;
    Ok(zip(mask, &spread(mask, &values)?, column)?)
}

/// Returns a block of these columns, of the types of `schema`.
pub(super) fn with_columns(
    rows: usize,
    columns: Vec<ArrayRef>,
    schema: &Schema,
) -> Result<RecordBatch, SqlError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let nullable = Arc::new(all_nullable(schema));
    Ok(RecordBatch::try_new_with_options(nullable, columns, &options)?)
}

/// Returns the rows with further columns, whose names are only numbers.
pub(super) fn with_more_columns(
    rows: &RecordBatch,
    more: &[ArrayRef],
) -> Result<RecordBatch, SqlError> {
    if more.is_empty() {
        return Ok(rows.clone());
    }
    let mut fields: Vec<_> = rows.schema().fields().iter().cloned().collect();
    for (place, column) in more.iter().enumerate() {
        let name = format!("further column {place}");
        fields.push(Arc::new(Field::new(name, column.data_type().clone(), true)));
    }
    let columns = rows.columns().iter().chain(more).map(Arc::clone).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?)
}

/// Returns one value per row of the mask, the next of `values` at every row where it is set.
fn spread(mask: &BooleanArray, values: &ArrayRef) -> Result<ArrayRef, SqlError> {
    let last = to_u64(values.len()).saturating_sub(1);
    let mut next = 0_u64;
    let indices = mask.values().iter().map(|set| {
        let index = next.min(last);
        next += u64::from(set);
        index
    });
    Ok(take(values, &UInt64Array::from_iter_values(indices), None)?)
}

/// Returns the schema with all columns nullable: the writer checks for nulls.
fn all_nullable(schema: &Schema) -> Schema {
    let fields = schema.fields().iter();
    Schema::new(fields.map(|field| field.as_ref().clone().with_nullable(true)).collect::<Vec<_>>())
}
