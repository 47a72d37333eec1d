//! DELETE and UPDATE: chunks with affected rows are rewritten without these rows or with their new
//! values; all other chunks are kept.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::compute::{filter_record_batch, not, prep_null_mask_filter};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::DataFusionError;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use futures::future::BoxFuture;
use terrace_sys::size::to_u64;

use super::chunk_writer::ChunkWriter;
use super::columns::{put, with_columns};
use super::read::next_batch;
use super::returning::{Returning, Terms};
use super::row_numbers::{ByNumber, NumberedRows};
use crate::chunk::Chunk;
use crate::error::SqlError;
use crate::scan::ChunkReader;
use crate::statistics::prune;
use crate::table::{Table, TableVersion};
use crate::transaction::{Rewrite, Scope};

/// A new value for a column: the column's index in the table, and an expression over the table's
/// columns.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// Index of the column in the table's schema.
    pub column: usize,
    /// New value.
    pub value: Arc<dyn PhysicalExpr>,
}

impl Table {
    /// Removes the rows for which `filter` is true, or all rows without a filter, and returns their
    /// number. Chunks without such rows are kept.
    ///
    /// # Errors
    /// Errors of the expression, the pool, the store and the catalog.
    pub fn delete<'a>(
        self: &'a Arc<Self>,
        filter: Option<Arc<dyn PhysicalExpr>>,
        memory: &'a Arc<dyn MemoryPool>,
    ) -> BoxFuture<'a, Result<u64, SqlError>> {
        let terms = Terms::default();
        Box::pin(async move { self.delete_in(&Scope::ALONE, filter, terms, memory).await })
    }

    /// Deletes as [`Table::delete`] does, possibly in a transaction. The store of `terms` takes
    /// values of the deleted rows.
    pub(crate) async fn delete_in(
        self: &Arc<Self>,
        scope: &Scope,
        filter: Option<Arc<dyn PhysicalExpr>>,
        terms: Terms,
        memory: &Arc<dyn MemoryPool>,
    ) -> Result<u64, SqlError> {
        match filter {
            None if terms.returning.is_none() => self.truncate_in(scope).await,
            filter => self.rewrite(scope, filter, None, terms, memory).await,
        }
    }

    /// Sets new values in the rows for which `filter` is true, or in all rows without a filter, and
    /// returns their number. Chunks without such rows are kept.
    ///
    /// # Errors
    /// Those of [`Table::delete`], and [`SqlError::NotNull`] for a null in a column that allows
    /// none.
    pub fn update<'a>(
        self: &'a Arc<Self>,
        assignments: Vec<Assignment>,
        filter: Option<Arc<dyn PhysicalExpr>>,
        memory: &'a Arc<dyn MemoryPool>,
    ) -> BoxFuture<'a, Result<u64, SqlError>> {
        let terms = Terms::default();
        Box::pin(
            async move { self.update_in(&Scope::ALONE, assignments, filter, terms, memory).await },
        )
    }

    /// Updates as [`Table::update`] does, possibly in a transaction. `terms` has constraints on the
    /// new rows, and the store of values of these rows.
    pub(crate) async fn update_in(
        self: &Arc<Self>,
        scope: &Scope,
        assignments: Vec<Assignment>,
        filter: Option<Arc<dyn PhysicalExpr>>,
        terms: Terms,
        memory: &Arc<dyn MemoryPool>,
    ) -> Result<u64, SqlError> {
        self.rewrite(scope, filter, Some(assignments), terms, memory).await
    }

    async fn rewrite(
        self: &Arc<Self>,
        scope: &Scope,
        filter: Option<Arc<dyn PhysicalExpr>>,
        assignments: Option<Vec<Assignment>>,
        terms: Terms,
        memory: &Arc<dyn MemoryPool>,
    ) -> Result<u64, SqlError> {
        let rewrite = scope.rewrite(self).await?;
        let selection = ByCondition::new(self, rewrite.version(), filter, assignments)?;
        self.rewrite_rows(rewrite, Selection::Condition(selection), terms, memory).await
    }

    /// Rewrites the chunks with rows of `selection`, without these rows or with their new values,
    /// adds its new rows, and returns the number of rows deleted, updated and added. Of a chunk
    /// with new values, all rows are checked against the constraints of `terms`.
    pub async fn rewrite_rows(
        self: &Arc<Self>,
        rewrite: Rewrite,
        mut selection: Selection,
        terms: Terms,
        memory: &Arc<dyn MemoryPool>,
    ) -> Result<u64, SqlError> {
        let writer = ChunkWriter::new(self.clone(), memory);
        let mut writer = match selection.is_deletion() {
            true => writer.unchecked(),
            false => writer.under(terms.checks.into()),
        };
        let returning = terms.returning.as_ref();
        let all = self.reader((0..self.schema().fields().len()).collect())?;
        let (mut rewritten, mut count, mut first_row) = (HashSet::new(), 0, 0_u64);
        for (index, chunk) in rewrite.version().chunks.iter().enumerate() {
            let picked = selection.pick(index, chunk, first_row).await?;
            first_row += to_u64(chunk.rows);
            let Some(mut picked) = picked else { continue };
            count += to_u64(picked.count());
            rewritten.insert(chunk.id);
            if returning.is_none() && picked.is_deletion() && picked.count() == chunk.rows {
                continue;
            }
            let mut blocks = all.open(chunk).await?;
            let mut rows = 0;
            while let Some(block) = next_batch(&mut blocks, all.schema()).await? {
                rows += block.num_rows();
                writer.push(picked.apply(&block, self.schema(), returning)?).await?;
            }
            if rows != chunk.rows {
                return Err(ended(self, chunk));
            }
        }
        while let Some(rows) = selection.next_inserted(self.schema(), returning).await? {
            count += to_u64(rows.num_rows());
            writer.push(rows).await?;
        }
        let changes = writer.finish().await?;
        if count > 0 {
            rewrite.finish(changes.replacing(rewritten)).await?;
        }
        Ok(count)
    }

    /// Returns a reader of these columns of chunks.
    ///
    /// # Errors
    /// If the table does not have the columns.
    pub fn reader(&self, columns: Vec<usize>) -> Result<Arc<ChunkReader>, SqlError> {
        let (name, pins) = (self.full_name().into(), Arc::clone(&self.journal().pins));
        Ok(Arc::new(ChunkReader::new(name, self.schema(), columns, pins)?))
    }
}

/// Selection of the rows that a statement changes, and their new values.
pub enum Selection {
    /// Rows for which a condition over their own values is true.
    Condition(ByCondition),
    /// Rows whose numbers a plan returns.
    Numbers(ByNumber),
}

impl Selection {
    /// Returns the selected rows of a chunk; `None` if there are none. Must be called in the order
    /// of the chunks.
    async fn pick(
        &mut self,
        index: usize,
        chunk: &Arc<Chunk>,
        first_row: u64,
    ) -> Result<Option<Picked>, SqlError> {
        match self {
            Self::Condition(condition) => condition.pick(index, chunk).await,
            Self::Numbers(numbers) => {
                let rows = numbers.pick(first_row, chunk.rows).await?;
                Ok(rows.map(Picked::Numbered))
            }
        }
    }

    /// Returns true if the rows are deleted.
    fn is_deletion(&self) -> bool {
        match self {
            Self::Condition(condition) => condition.assignments.is_none(),
            Self::Numbers(numbers) => numbers.is_deletion(),
        }
    }

    /// Returns the next rows to insert; must be called after the last chunk.
    async fn next_inserted(
        &mut self,
        schema: &SchemaRef,
        returning: Option<&Returning>,
    ) -> Result<Option<RecordBatch>, SqlError> {
        match self {
            Self::Condition(_) => Ok(None),
            Self::Numbers(numbers) => numbers.next_inserted(schema, returning).await,
        }
    }
}

/// Rows of one chunk that a statement changes, and the change.
enum Picked {
    Masked {
        /// One mask per block of the chunk, set for the rows to be changed.
        masks: VecDeque<BooleanArray>,
        count: usize,
        assignments: Option<Arc<[Assignment]>>,
    },
    Numbered(NumberedRows),
}

impl Picked {
    fn count(&self) -> usize {
        match self {
            Self::Masked { count, .. } => *count,
            Self::Numbered(rows) => rows.count(),
        }
    }

    /// Returns true if the rows are deleted.
    fn is_deletion(&self) -> bool {
        match self {
            Self::Masked { assignments, .. } => assignments.is_none(),
            Self::Numbered(rows) => rows.is_deletion(),
        }
    }

    /// Applies the change to the next block of the chunk.
    fn apply(
        &mut self,
        block: &RecordBatch,
        schema: &SchemaRef,
        returning: Option<&Returning>,
    ) -> Result<RecordBatch, SqlError> {
        match self {
            Self::Masked { masks, assignments, .. } => {
                let mask = masks.pop_front().filter(|mask| mask.len() == block.num_rows());
                let mask = mask.ok_or_else(|| SqlError::Task("a block has no mask".to_owned()))?;
                let changed = match assignments {
                    None => None,
                    Some(assignments) => Some(assign(block, &mask, assignments, schema)?),
                };
                if let Some(returning) = returning {
                    let rows = changed.as_ref().unwrap_or(block);
                    returning.add(&filter_record_batch(rows, &mask)?)?;
                }
                match changed {
                    None => Ok(filter_record_batch(block, &not(&mask)?)?),
                    Some(changed) => Ok(changed),
                }
            }
            Self::Numbered(rows) => rows.apply(block, schema, returning),
        }
    }
}

/// The condition of a statement, over the columns that it names.
pub struct ByCondition {
    filter: Option<Arc<dyn PhysicalExpr>>,
    assignments: Option<Arc<[Assignment]>>,
    /// Per chunk: false if the statistics of its columns exclude every row.
    possible: Vec<bool>,
    reader: Arc<ChunkReader>,
}

impl ByCondition {
    fn new(
        table: &Table,
        version: &TableVersion,
        filter: Option<Arc<dyn PhysicalExpr>>,
        assignments: Option<Vec<Assignment>>,
    ) -> Result<Self, SqlError> {
        let possible = match &filter {
            Some(filter) => prune(filter, table.schema(), &version.chunks),
            None => vec![true; version.chunks.len()],
        };
        let read = filter.as_ref().map(collect_columns).unwrap_or_default();
        let mut columns: Vec<usize> = read.iter().map(|column| column.index()).collect();
        columns.sort_unstable();
        if columns.is_empty() {
            // Any column tells the number of rows of a block.
            columns.push(0);
        }
        let reader = table.reader(columns)?;
        let filter = filter.map(|filter| reassign_expr_columns(filter, reader.schema()));
        let (filter, assignments) = (filter.transpose()?, assignments.map(Into::into));
        Ok(Self { filter, assignments, possible, reader })
    }

    async fn pick(&self, index: usize, chunk: &Arc<Chunk>) -> Result<Option<Picked>, SqlError> {
        if !self.possible.get(index).copied().unwrap_or(true) {
            return Ok(None);
        }
        let mut blocks = self.reader.open(chunk).await?;
        let mut masks = VecDeque::new();
        while let Some(block) = next_batch(&mut blocks, self.reader.schema()).await? {
            masks.push_back(mask(self.filter.as_ref(), &block)?);
        }
        let count = masks.iter().map(BooleanArray::true_count).sum();
        let assignments = self.assignments.clone();
        Ok((count > 0).then_some(Picked::Masked { masks, count, assignments }))
    }
}

/// Builds the error for a chunk whose columns do not have the same blocks.
fn ended(table: &Table, chunk: &Chunk) -> SqlError {
    SqlError::Task(format!(
        "chunk {} of table {} has fewer blocks in one column than in another",
        chunk.id,
        table.full_name()
    ))
}

/// Returns the mask of a block's rows for which the filter is true, not null.
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
        // A new array, since the column itself would keep its page pinned.
        0 => BooleanArray::new(taken.values() & taken.values(), None),
        _ => prep_null_mask_filter(taken),
    })
}

/// Returns the block with new values in the rows of the mask.
fn assign(
    block: &RecordBatch,
    mask: &BooleanArray,
    assignments: &[Assignment],
    schema: &SchemaRef,
) -> Result<RecordBatch, SqlError> {
    let mut columns = block.columns().to_vec();
    if mask.true_count() > 0 {
        // Values are computed only for changed rows: for others the expression might fail.
        let affected = filter_record_batch(block, mask)?;
        for Assignment { column, value } in assignments {
            let value = value.evaluate(&affected)?.into_array(affected.num_rows())?;
            columns[*column] = put(&columns[*column], mask, &value, schema.field(*column))?;
        }
    }
    with_columns(block.num_rows(), columns, schema)
}
