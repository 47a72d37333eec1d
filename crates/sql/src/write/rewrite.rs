//! DELETE and UPDATE: the chunks that hold affected rows are written anew without or with changed
//! rows; all others stay as they are.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array,
};
use datafusion::arrow::compute::kernels::zip::zip;
use datafusion::arrow::compute::{
    cast_with_options, filter_record_batch, not, prep_null_mask_filter, take,
};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::DataFusionError;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use terrace_sys::size::to_u64;

use super::ChunkWriter;
use super::block::STRICT;
use crate::chunk::Chunk;
use crate::error::SqlError;
use crate::scan::{Blocks, ChunkReader};
use crate::statistics::prune;
use crate::table::Table;

/// A new value for a column: the column's index in the table, and an expression over the table's
/// columns.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// The column's index in the table's schema.
    pub column: usize,
    /// Its new value.
    pub value: Arc<dyn PhysicalExpr>,
}

impl Table {
    /// Removes the rows for which `filter` is true, all rows without one, and returns how many
    /// there were. Chunks without such rows are kept as they are.
    ///
    /// # Errors
    /// Errors of the expression, the pool, the store and the catalog.
    pub async fn delete(
        self: &Arc<Self>,
        filter: Option<Arc<dyn PhysicalExpr>>,
        memory: &Arc<dyn MemoryPool>,
    ) -> Result<u64, SqlError> {
        match filter {
            None => self.truncate().await,
            Some(filter) => self.rewrite(Some(filter), None, memory).await,
        }
    }

    /// Gives the rows for which `filter` is true, all rows without one, new values, and returns
    /// how many there were. Chunks without such rows are kept as they are.
    ///
    /// # Errors
    /// As [`Table::delete`], and [`SqlError::NotNull`] for a null where none may be.
    pub async fn update(
        self: &Arc<Self>,
        assignments: Vec<Assignment>,
        filter: Option<Arc<dyn PhysicalExpr>>,
        memory: &Arc<dyn MemoryPool>,
    ) -> Result<u64, SqlError> {
        self.rewrite(filter, Some(assignments), memory).await
    }

    async fn rewrite(
        self: &Arc<Self>,
        filter: Option<Arc<dyn PhysicalExpr>>,
        assignments: Option<Vec<Assignment>>,
        memory: &Arc<dyn MemoryPool>,
    ) -> Result<u64, SqlError> {
        // Held to the end: chunks that others add meanwhile would be missed.
        let writer_lock = self.lock_writer().await;
        let version = self.current()?;
        let possible = match &filter {
            Some(filter) => prune(filter, self.schema(), &version.chunks),
            None => vec![true; version.chunks.len()],
        };
        let mut writer = ChunkWriter::new(self.clone(), memory);
        let conditions = Conditions::new(self, filter)?;
        let all = self.reader((0..self.schema().fields().len()).collect())?;
        let (mut rewritten, mut count) = (HashSet::new(), 0);
        let chunks = version.chunks.iter().zip(possible);
        for (chunk, _) in chunks.filter(|(_, possible)| *possible) {
            let masks = conditions.masks(chunk).await?;
            let affected: usize = masks.iter().map(BooleanArray::true_count).sum();
            if affected == 0 {
                continue;
            }
            count += affected;
            rewritten.insert(chunk.id);
            if assignments.is_none() && affected == chunk.rows {
                continue;
            }
            let mut blocks = all.open(chunk).await?;
            for mask in masks {
                let block = next_batch(&mut blocks, all.schema()).await?;
                let block = block.ok_or_else(|| ended(self, chunk))?;
                let rows = match &assignments {
                    None => filter_record_batch(&block, &not(&mask)?)?,
                    Some(assignments) => assign(&block, &mask, assignments, self.schema())?,
                };
                writer.push(rows).await?;
            }
        }
        let changes = writer.finish().await?;
        if !rewritten.is_empty() {
            self.commit(writer_lock, changes.replacing(rewritten)).await?;
        }
        Ok(u64::try_from(count).unwrap_or(u64::MAX))
    }

    /// A reader of these columns of chunks.
    pub(super) fn reader(&self, columns: Vec<usize>) -> Result<Arc<ChunkReader>, SqlError> {
        let (name, pins) = (self.full_name().into(), Arc::clone(&self.journal().pins));
        Ok(Arc::new(ChunkReader::new(name, self.schema(), columns, pins)?))
    }
}

/// The condition of a statement, over the columns that it names.
struct Conditions {
    filter: Option<Arc<dyn PhysicalExpr>>,
    reader: Arc<ChunkReader>,
}

impl Conditions {
    fn new(table: &Table, filter: Option<Arc<dyn PhysicalExpr>>) -> Result<Self, SqlError> {
        let read = filter.as_ref().map(collect_columns).unwrap_or_default();
        let mut columns: Vec<usize> = read.iter().map(|column| column.index()).collect();
        columns.sort_unstable();
        if columns.is_empty() {
            // Any column tells how many rows a block has.
            columns.push(0);
        }
        let reader = table.reader(columns)?;
        let filter = filter.map(|filter| reassign_expr_columns(filter, reader.schema()));
        Ok(Self { filter: filter.transpose()?, reader })
    }

    /// For each block of a chunk, which rows the filter takes.
    async fn masks(&self, chunk: &Arc<Chunk>) -> Result<Vec<BooleanArray>, SqlError> {
        let mut blocks = self.reader.open(chunk).await?;
        let mut masks = Vec::new();
        while let Some(block) = next_batch(&mut blocks, self.reader.schema()).await? {
            masks.push(mask(self.filter.as_ref(), &block)?);
        }
        Ok(masks)
    }
}

/// The next block of a chunk; none at the end.
pub(super) async fn next_batch(
    blocks: &mut Blocks,
    schema: &SchemaRef,
) -> Result<Option<RecordBatch>, SqlError> {
    let Some(arrays) = blocks.next().await? else { return Ok(None) };
    let rows = arrays.first().map(|array| array.len());
    let options = RecordBatchOptions::new().with_row_count(rows);
    Ok(Some(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?))
}

/// The error for columns of one chunk that do not have the same blocks.
fn ended(table: &Table, chunk: &Chunk) -> SqlError {
    SqlError::Task(format!(
        "chunk {} of table {} has fewer blocks in one column than in another",
        chunk.id,
        table.full_name()
    ))
}

/// The rows of a block that the filter takes; where it is null it takes none.
fn mask(
    filter: Option<&Arc<dyn PhysicalExpr>>,
    block: &RecordBatch,
) -> Result<BooleanArray, SqlError> {
    let Some(filter) = filter else {
        return Ok(BooleanArray::from(vec![true; block.num_rows()]));
    };
    let taken = filter.evaluate(block)?.into_array(block.num_rows())?;
    let taken = taken.as_boolean_opt().ok_or_else(|| {
        DataFusionError::Plan(format!("the condition {filter} is no truth value"))
    })?;
    Ok(match taken.null_count() {
        // Not the column itself, which would keep its page pinned.
        0 => BooleanArray::new(taken.values() & taken.values(), None),
        _ => prep_null_mask_filter(taken),
    })
}

/// A block with new values in the rows of the mask.
fn assign(
    block: &RecordBatch,
    mask: &BooleanArray,
    assignments: &[Assignment],
    schema: &SchemaRef,
) -> Result<RecordBatch, SqlError> {
    let mut columns = block.columns().to_vec();
    if mask.true_count() > 0 {
        // Only the rows that change are computed: for the others it might be an error.
        let affected = filter_record_batch(block, mask)?;
        for Assignment { column, value } in assignments {
            let value = value.evaluate(&affected)?.into_array(affected.num_rows())?;
            let value = cast_with_options(&value, schema.field(*column).data_type(), &STRICT)?;
            columns[*column] = zip(mask, &spread(mask, &value)?, &columns[*column])?;
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(block.num_rows()));
    let nullable = Arc::new(all_nullable(schema));
    Ok(RecordBatch::try_new_with_options(nullable, columns, &options)?)
}

/// As many values as the mask has rows, the next of `values` at every row where it is set.
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

/// The schema with every column nullable: whether a null may be is the writer's to say.
fn all_nullable(schema: &Schema) -> Schema {
    let fields = schema.fields().iter();
    Schema::new(fields.map(|field| field.as_ref().clone().with_nullable(true)).collect::<Vec<_>>())
}
