//! Batches of a query, which is suspended while its client does not read.

use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use futures::{FutureExt as _, StreamExt as _};
use terrace_sql::{QueryHandle, SqlError, StoredBatches};

/// Time that a client may take to read what it was sent before its query is suspended.
pub(crate) const SLOW: Duration = Duration::from_millis(200);

/// Batches of a query.
pub(crate) struct QueryBatches {
    handle: QueryHandle,
    /// The item that the query returned while it was suspended.
    ahead: Option<Option<Result<RecordBatch>>>,
    has_ended: bool,
}

impl QueryBatches {
    pub(crate) fn new(handle: QueryHandle) -> Self {
        Self { handle, ahead: None, has_ended: false }
    }

    /// Returns the columns.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.handle.schema
    }

    /// Returns an empty store for batches, which are in spillable pages of the query.
    pub(crate) fn stored_batches(&self, name: &str) -> StoredBatches {
        self.handle.stored_batches(name)
    }

    /// Returns the next batch; `None` after the last one, also when it is called again.
    ///
    /// # Errors
    /// The failure of the query.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if self.has_ended {
            return Ok(None);
        }
        let next = match self.ahead.take() {
            Some(next) => next,
            None => self.handle.stream.next().await,
        };
        self.has_ended = next.is_none();
        next.transpose()
    }

    /// Suspends the query until this future is dropped. Returns when the query is cancelled.
    pub(crate) async fn rest(&mut self) {
        if self.ahead.is_none() && !self.has_ended {
            self.ahead = Some(self.handle.rest().await);
        }
        let _error = self.handle.cancelled().await;
    }

    /// Fails if the query was cancelled, also after its last batch.
    ///
    /// # Errors
    /// The reason of the cancellation.
    pub(crate) fn refuse_cancelled(&self) -> Result<(), SqlError> {
        self.handle.cancelled().now_or_never().map_or(Ok(()), Err)
    }
}
