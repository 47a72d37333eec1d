//! Source of the batches that a client receives: a running query, or the stored rows of a FETCH.

use std::convert::Infallible;

use datafusion::arrow::array::{AsArray as _, RecordBatch};
use datafusion::arrow::datatypes::{SchemaRef, UInt64Type};
use terrace_sql::{QueryHandle, StoredBatches};
use terrace_sys::size::to_u64;
use tokio::time::sleep;

use super::failure::Failure;
use super::guard::Guard;
use super::wire::Wire;
use crate::query_batches::{QueryBatches, SLOW};

/// Batches for a client; the query is suspended while the client reads none.
pub(super) struct Batches {
    source: Source,
}

/// Source of batches.
enum Source {
    Query(QueryBatches),
    /// Rows of a FETCH that the client requests in parts, and the number of rows passed on.
    Stored(StoredBatches, u64),
}

impl Batches {
    pub(super) fn new(handle: QueryHandle) -> Self {
        Self { source: Source::Query(QueryBatches::new(handle)) }
    }

    /// Creates the batches of stored rows.
    pub(super) fn of_stored(rows: StoredBatches) -> Self {
        Self { source: Source::Stored(rows, 0) }
    }

    /// Returns the columns.
    pub(super) fn schema(&self) -> &SchemaRef {
        match &self.source {
            Source::Query(batches) => batches.schema(),
            Source::Stored(rows, _) => rows.schema(),
        }
    }

    /// Returns an empty store for rows of the query; `None` for rows that are stored.
    pub(super) fn new_store(&self) -> Option<StoredBatches> {
        match &self.source {
            Source::Query(batches) => Some(batches.stored_batches("Cursor")),
            Source::Stored(..) => None,
        }
    }

    /// Returns the next batch; `None` after the last one.
    ///
    /// # Errors
    /// The failure of the statement, or the event that ended it.
    pub(super) async fn next(&mut self, guard: &Guard<'_>) -> Result<Option<RecordBatch>, Failure> {
        match &mut self.source {
            Source::Query(batches) => Ok(guard.wait(batches.next()).await??),
            Source::Stored(rows, taken) => {
                let batch = guard.wait(rows.batch_with(*taken)).await??;
                Ok(batch.map(|(_, batch)| {
                    *taken += to_u64(batch.num_rows());
                    batch
                }))
            }
        }
    }

    /// Fails if the query was cancelled.
    ///
    /// # Errors
    /// The reason of the cancellation.
    pub(super) fn refuse_cancelled(&self) -> Result<(), Failure> {
        match &self.source {
            Source::Query(batches) => Ok(batches.refuse_cancelled()?),
            Source::Stored(..) => Ok(()),
        }
    }

    /// Suspends the query until this future is dropped or the query is cancelled.
    pub(super) async fn rest(&mut self) {
        match &mut self.source {
            Source::Query(batches) => batches.rest().await,
            Source::Stored(..) => std::future::pending().await,
        }
    }

    /// Sends the buffered messages. Suspends the query if the client is slow to read them.
    ///
    /// # Errors
    /// A broken connection, or the event that ended the statement.
    pub(super) async fn flush(
        &mut self,
        wire: &mut Wire,
        guard: &Guard<'_>,
    ) -> Result<(), Failure> {
        let rest = async {
            sleep(SLOW).await;
            self.rest().await;
            std::future::pending::<Infallible>().await
        };
        tokio::select! {
            biased;
            sent = guard.wait(wire.flush()) => sent?,
            never = rest => match never {},
        }
    }
}

/// Returns the number of changed rows, which is the only value of the result of a change.
pub(crate) fn count_of(batches: &[RecordBatch]) -> u64 {
    let counts = batches.iter().filter_map(|batch| {
        batch.columns().first().and_then(|array| array.as_primitive_opt::<UInt64Type>())
    });
    counts.flat_map(|counts| counts.iter().flatten()).sum()
}
