//! Whole batches: stored in pages when memory is short, and loaded back.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use terrace_pool::Space;

use super::{Block, BlockPlan, Lease, copy_to_heap};
use crate::memory::Grant;
use crate::sort::piece::batch_bytes;

/// Writes a batch to pages, which are not pinned afterwards.
pub(crate) fn store(space: &Space, grant: &Arc<dyn Grant>, batch: &RecordBatch) -> Result<Block> {
    let plan = BlockPlan::new(batch.num_rows(), batch.columns())?;
    let _lease = Lease::take(grant, plan.bytes());
    let (block, _pins) = Block::write(space, plan)?;
    grant.count_spilled(block.bytes());
    Ok(block)
}

/// Reads a stored batch of `schema` back, as a copy on the heap.
pub(crate) async fn load(
    schema: &SchemaRef,
    grant: &Arc<dyn Grant>,
    block: &Block,
) -> Result<RecordBatch> {
    // The page, and the copy that is returned.
    let _lease = Lease::take(grant, 2 * block.bytes());
    let pins = block.pin(block.fetch()).await?;
    batch_of(Arc::clone(schema), block.rows(), &block.arrays(pins))
}

/// Copies a batch to new buffers if its rows need less than half of the buffers that it refers to;
/// else returns it unchanged.
pub(crate) fn fitted(batch: RecordBatch) -> Result<RecordBatch> {
    if batch.get_array_memory_size() <= 2 * batch_bytes(&batch) || batch.num_columns() == 0 {
        return Ok(batch);
    }
    batch_of(batch.schema(), batch.num_rows(), batch.columns())
}

/// Creates a batch of copies of `columns`.
fn batch_of(schema: SchemaRef, rows: usize, columns: &[ArrayRef]) -> Result<RecordBatch> {
    let columns = copy_to_heap(rows, columns)?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}
