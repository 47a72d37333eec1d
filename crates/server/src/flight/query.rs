//! Results of statements: running queries, and numbers of changed rows.

use std::convert::Infallible;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;

use super::columns::cast_batch;
use super::interrupt::Interrupt;
use crate::failure::Failure;
use crate::query_batches::QueryBatches;
use crate::registry::End;

/// The result of a statement.
pub(super) enum Outcome {
    /// A query that returns rows.
    Rows(Query),
    /// The number of changed rows.
    Done(u64),
}

impl Outcome {
    /// Returns the number of changed rows; the rows of a query are discarded.
    pub(super) async fn finish(self) -> Result<u64, Failure> {
        match self {
            Self::Done(changed) => Ok(changed),
            Self::Rows(mut query) => {
                while query.next().await?.is_some() {}
                Ok(0)
            }
        }
    }
}

/// A running query, whose rows a client fetches.
pub(super) struct Query {
    pub(super) schema: SchemaRef,
    pub(super) source: Source,
    pub(super) interrupt: Arc<Interrupt>,
}

/// Source of a query's rows.
pub(super) enum Source {
    Running(QueryBatches),
    /// A result of one batch, such as the value of a setting; `None` once the batch is taken.
    Known(Option<RecordBatch>),
}

impl Query {
    /// Returns the columns in the types in which they are sent to clients.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the events that end the query early.
    pub(super) fn interrupt(&self) -> Arc<Interrupt> {
        Arc::clone(&self.interrupt)
    }

    /// Returns the handle by which another call cancels the query.
    pub(super) fn end(&self) -> Arc<End> {
        self.interrupt.statement.end()
    }

    /// Returns the next batch, in the types in which it is sent to clients.
    ///
    /// # Errors
    /// The failure of the query, or the event that ended it.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>, Failure> {
        let batch = match &mut self.source {
            Source::Known(batch) => batch.take(),
            Source::Running(batches) => self.interrupt.wait(batches.next()).await??,
        };
        Ok(batch.map(|batch| cast_batch(&batch, &self.schema)).transpose()?)
    }

    /// Suspends the query while this future, which is never ready, is awaited.
    pub(super) async fn rest(&mut self) -> Infallible {
        if let Source::Running(batches) = &mut self.source {
            batches.rest().await;
        }
        std::future::pending().await
    }
}
