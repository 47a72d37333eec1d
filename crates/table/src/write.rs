//! Write statements: rows become chunks, chunks become a commit.
//!
//! Rows stream through [`ChunkWriter`], which holds at most one chunk on the heap while the
//! previous one is encoded into pages and persisted. Nothing of a statement is visible, and none of
//! its space is kept, unless its commit succeeds: chunks that no commit names free their pages and
//! extents when they are dropped, as on an error or a cancellation.

mod alter;
mod block;
mod change;
mod checks;
mod chunk_writer;
mod columns;
mod commit;
mod encode;
mod merge;
mod merge_counters;
mod merge_queue;
mod merger;
mod plan;
mod read;
mod returning;
mod rewrite;
mod row_numbers;
mod sink;
#[cfg(test)]
mod tests;
mod texts;

use std::sync::Arc;

use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryPool;
use futures::StreamExt as _;
use futures::future::BoxFuture;

use crate::error::SqlError;
use crate::table::Table;
use crate::transaction::Scope;

pub use alter::ColumnSource;
pub use change::Changes;
pub(crate) use change::RowChange;
pub use checks::{Check, Checks};
pub use chunk_writer::ChunkWriter;
pub use merge_counters::MergeCounters;
pub(crate) use merge_queue::MergeQueue;
#[cfg(test)]
pub(crate) use merge_queue::Merged;
pub use merger::Merger;
pub use plan::{CountExec, Required, delete_plan, insert_plan, truncate_plan, update_plan};
pub use returning::{ReturnedColumns, Returning, Terms};
pub use rewrite::Assignment;
pub use rewrite::Selection;
pub use row_numbers::{ByNumber, MergedColumns, RowAction};
pub use sink::TableSink;

/// Writes `rows` into chunks of `table`, which are invisible until the returned changes are
/// committed. `terms` are the constraints on the rows and the store of the values that the
/// statement returns.
pub async fn write_rows(
    table: &Arc<Table>,
    mut rows: SendableRecordBatchStream,
    terms: Terms,
    memory: &Arc<dyn MemoryPool>,
) -> Result<Changes, SqlError> {
    let mut writer = ChunkWriter::new(table.clone(), memory).under(terms);
    while let Some(batch) = rows.next().await {
        writer.push(batch?).await?;
    }
    writer.finish().await
}

impl Table {
    /// Adds `rows`, all of them or none, and returns their number. `memory` accounts for the rows
    /// in flight.
    ///
    /// # Errors
    /// Errors of the rows; [`SqlError::NotNull`], [`SqlError::Columns`] and
    /// [`SqlError::ValueTooLarge`]; errors of the pool, the store and the catalog.
    pub fn append<'a>(
        self: &'a Arc<Self>,
        rows: SendableRecordBatchStream,
        memory: &'a Arc<dyn MemoryPool>,
    ) -> BoxFuture<'a, Result<u64, SqlError>> {
        let terms = Terms::default();
        Box::pin(async move { self.append_in(&Scope::ALONE, rows, terms, memory).await })
    }

    /// Appends as [`Table::append`] does, possibly in a transaction. `terms` are those of
    /// [`write_rows`].
    pub(crate) async fn append_in(
        self: &Arc<Self>,
        scope: &Scope,
        rows: SendableRecordBatchStream,
        terms: Terms,
        memory: &Arc<dyn MemoryPool>,
    ) -> Result<u64, SqlError> {
        let changes = write_rows(self, rows, terms, memory).await?;
        let count = changes.rows();
        if count > 0 {
            scope.append(self, changes).await?;
        }
        Ok(count)
    }

    /// Replaces all rows by `rows` atomically, and returns their number.
    ///
    /// # Errors
    /// As [`Table::append`].
    pub fn overwrite<'a>(
        self: &'a Arc<Self>,
        rows: SendableRecordBatchStream,
        memory: &'a Arc<dyn MemoryPool>,
    ) -> BoxFuture<'a, Result<u64, SqlError>> {
        let terms = Terms::default();
        Box::pin(async move { self.overwrite_in(&Scope::ALONE, rows, terms, memory).await })
    }

    /// Overwrites as [`Table::overwrite`] does, possibly in a transaction. `terms` are those of
    /// [`write_rows`].
    pub(crate) async fn overwrite_in(
        self: &Arc<Self>,
        scope: &Scope,
        rows: SendableRecordBatchStream,
        terms: Terms,
        memory: &Arc<dyn MemoryPool>,
    ) -> Result<u64, SqlError> {
        let changes = write_rows(self, rows, terms, memory).await?;
        let count = changes.rows();
        scope.rewrite(self).await?.finish(changes.replacing_all()).await?;
        Ok(count)
    }

    /// Removes all rows and returns their number.
    ///
    /// # Errors
    /// Errors of the catalog.
    pub fn truncate<'a>(self: &'a Arc<Self>) -> BoxFuture<'a, Result<u64, SqlError>> {
        Box::pin(async move { self.truncate_in(&Scope::ALONE).await })
    }

    /// Truncates as [`Table::truncate`] does, possibly in a transaction.
    pub(crate) async fn truncate_in(self: &Arc<Self>, scope: &Scope) -> Result<u64, SqlError> {
        let rewrite = scope.rewrite(self).await?;
        let count = u64::try_from(rewrite.version().rows()).unwrap_or(u64::MAX);
        rewrite.finish(Changes::empty(self.schema()).replacing_all()).await?;
        Ok(count)
    }
}
