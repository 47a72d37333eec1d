//! DELETE and UPDATE: the chunks that hold affected rows are written anew without or with changed
//! rows; all others stay as they are.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array,
};
use datafusion::arrow::compute::kernels::zip::zip;
use datafusion::arrow::compute::{cast, filter_record_batch, not, prep_null_mask_filter, take};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::DataFusionError;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use terrace_sys::size::to_u64;

use super::ChunkWriter;
use crate::chunk::Chunk;
use crate::error::SqlError;
use crate::segment::Segment;
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
        let version = self.snapshot();
        let possible = match &filter {
            Some(filter) => prune(filter, self.schema(), &version.chunks),
            None => vec![true; version.chunks.len()],
        };
        let mut writer = ChunkWriter::new(self.clone(), memory);
        let (mut rewritten, mut count) = (HashSet::new(), 0);
        let chunks = version.chunks.iter().zip(possible);
        for (chunk, _) in chunks.filter(|(_, possible)| *possible) {
            let masks = self.masks(chunk, filter.as_ref()).await?;
            let affected: usize = masks.iter().map(BooleanArray::true_count).sum();
            if affected == 0 {
                continue;
            }
            count += affected;
            rewritten.insert(chunk.id);
            if assignments.is_none() && affected == chunk.rows {
                continue;
            }
            let all: Vec<usize> = (0..self.schema().fields().len()).collect();
            let blocks = self.read(chunk, &all).await?;
            for (block, mask) in blocks.into_iter().zip(masks) {
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

    /// For each block of a chunk, which rows the filter takes.
    async fn masks(
        &self,
        chunk: &Chunk,
        filter: Option<&Arc<dyn PhysicalExpr>>,
    ) -> Result<Vec<BooleanArray>, SqlError> {
        let read = filter.map(collect_columns).unwrap_or_default();
        let mut columns: Vec<usize> = read.iter().map(|column| column.index()).collect();
        columns.sort_unstable();
        if columns.is_empty() {
            // Any column tells how many rows a block has.
            columns.push(0);
        }
        let schema = Arc::new(self.schema().project(&columns)?);
        let filter =
            filter.map(|filter| reassign_expr_columns(filter.clone(), &schema)).transpose()?;
        let blocks = self.read(chunk, &columns).await?;
        blocks.iter().map(|block| mask(filter.as_ref(), block)).collect()
    }

    /// The blocks of some columns of a chunk.
    async fn read(&self, chunk: &Chunk, columns: &[usize]) -> Result<Vec<RecordBatch>, SqlError> {
        let schema = Arc::new(self.schema().project(columns)?);
        let pages = chunk.space().fetch(&chunk.pages(columns)).await?;
        let malformed = |column: usize| {
            let (table, schema) = (self.full_name(), schema.clone());
            move |source| {
                let column = schema.field(column).name().clone();
                SqlError::Segment { table, column, source }
            }
        };
        let segments = pages.into_iter().enumerate().map(|(index, page)| {
            Segment::open(page, schema.field(index).data_type()).map_err(malformed(index))
        });
        let segments = segments.collect::<Result<Vec<_>, SqlError>>()?;
        let blocks = 0..segments.first().map_or(0, Segment::blocks);
        let blocks = blocks.map(|block| {
            let arrays = segments.iter().enumerate();
            let arrays = arrays.map(|(index, s)| s.block(block).map_err(malformed(index)));
            let arrays = arrays.collect::<Result<Vec<ArrayRef>, SqlError>>()?;
            let rows = arrays.first().map(|array| array.len());
            let options = RecordBatchOptions::new().with_row_count(rows);
            Ok(RecordBatch::try_new_with_options(schema.clone(), arrays, &options)?)
        });
        blocks.collect()
    }
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
        0 => taken.clone(),
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
            let value = cast(&value, schema.field(*column).data_type())?;
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
