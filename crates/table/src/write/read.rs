//! Reading of chunks as batches.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;

use crate::error::SqlError;
use crate::scan::Blocks;

/// Reads the next block of a chunk; `None` at the end.
pub(super) async fn next_batch(
    blocks: &mut Blocks,
    schema: &SchemaRef,
) -> Result<Option<RecordBatch>, SqlError> {
    let Some(arrays) = blocks.next().await? else { return Ok(None) };
    let rows = arrays.first().map(|array| array.len());
    let options = RecordBatchOptions::new().with_row_count(rows);
    Ok(Some(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?))
}
