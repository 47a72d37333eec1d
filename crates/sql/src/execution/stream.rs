//! The result stream of a query.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use datafusion::physical_plan::EmptyRecordBatchStream;
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt, future};
use terrace_exec::panics::{Supervised, catch};
use terrace_governor::running::RunningQuery;
use terrace_sys::size::to_u64;
use terrace_table::error::SqlError;
use terrace_table::transaction::Scope;

use crate::sessions::{HeldBytes, HeldFor, SessionInfo};

/// Maximum number of batches that a suspended query keeps for its reader.
const KEPT_MAX: usize = 16;

/// Result stream of a query; the query runs until it is dropped.
pub(super) struct QueryStream {
    /// Replaced by an empty stream, which frees the plan's memory, when the query was cancelled or
    /// an operator panicked.
    stream: SendableRecordBatchStream,
    /// Name of the plan's outermost operator.
    operator: String,
    running: RunningQuery,
    /// Transaction that fails with the query.
    scope: Scope,
    _supervised: Supervised,
    cancelled: BoxFuture<'static, ()>,
    /// Items that the plan returned while the query was suspended, in order.
    kept: VecDeque<Option<Result<RecordBatch>>>,
    /// Bytes of the items in `kept`, which the session accounts for.
    kept_bytes: HeldBytes,
    /// While the query is suspended, ends when it is resumed.
    resumed: Option<BoxFuture<'static, ()>>,
}

impl QueryStream {
    /// Wraps the rows of a running plan; `operator` is the name of its outermost operator.
    pub(super) fn new(
        running: RunningQuery,
        stream: SendableRecordBatchStream,
        supervised: Supervised,
        operator: String,
        scope: Scope,
        session: &Arc<SessionInfo>,
    ) -> Self {
        let cancelled = running.query().suspension().cancelled();
        let kept_bytes = session.hold(HeldFor::Client, 0);
        Self {
            stream,
            operator,
            running,
            scope,
            _supervised: supervised,
            cancelled,
            kept: VecDeque::new(),
            kept_bytes,
            resumed: None,
        }
    }

    /// Polls for the next batch of the plan and returns it when the query is not suspended. While
    /// it is suspended, the plan is polled further: operators unpin their pages when they are
    /// polled, and return nothing from then on. Operators above them may still hold some batches.
    fn poll_plan(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        if self.kept.is_empty() {
            let next = ready!(self.poll_operators(cx));
            self.kept.push_back(next);
        }
        if self.resumed.is_none() {
            self.resumed = self.running.query().suspension().wait();
        }
        if self.resumed.is_some() {
            while self.kept.len() < KEPT_MAX
                && let Some(Some(Ok(_))) = self.kept.back()
                && let Poll::Ready(next) = self.poll_operators(cx)
            {
                self.kept.push_back(next);
            }
            self.account();
        }
        if let Some(resumed) = &mut self.resumed {
            ready!(resumed.poll_unpin(cx));
            self.resumed = None;
        }
        let next = self.kept.pop_front().flatten();
        self.account();
        Poll::Ready(next)
    }

    /// Sets the bytes that the session accounts for to those of the batches in `kept`.
    fn account(&mut self) {
        let batches = self.kept.iter().filter_map(|item| item.as_ref()?.as_ref().ok());
        let bytes = batches.map(|batch| to_u64(batch.get_array_memory_size())).sum();
        self.kept_bytes.set(bytes);
    }

    /// Polls for the next batch of the plan. A panic of an operator, also in one of its tasks,
    /// becomes the last item.
    fn poll_operators(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        let Self { stream, operator, .. } = self;
        catch(operator, || stream.poll_next_unpin(cx)).unwrap_or_else(|panic| {
            self.let_go();
            Poll::Ready(Some(Err(panic.into())))
        })
    }

    /// Drops the plan, which frees its memory and its pins.
    fn let_go(&mut self) {
        let nothing = Box::pin(EmptyRecordBatchStream::new(self.stream.schema()));
        let plan = std::mem::replace(&mut self.stream, nothing);
        if let Err(panic) = catch(&self.operator, || drop(plan)) {
            tracing::debug!(%panic, "an operator panicked while it was dropped");
        }
    }

    /// Drops the plan and the batches in `kept`, and returns the query's error as the last item.
    fn end_cancelled(&mut self) -> Poll<Option<Result<RecordBatch>>> {
        let query = Arc::clone(self.running.query());
        self.let_go();
        self.kept.clear();
        self.account();
        self.resumed = None;
        self.cancelled = future::pending().boxed();
        Poll::Ready(Some(Err(SqlError::from(query.ended()).into())))
    }
}

impl Stream for QueryStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = match self.cancelled.poll_unpin(cx) {
            Poll::Ready(()) => self.end_cancelled(),
            Poll::Pending => {
                self.running.query().await_rows(true);
                self.poll_plan(cx)
            }
        };
        self.running.query().await_rows(polled.is_pending());
        let polled = polled.map_err(|error| self.running.query().explained(error));
        self.running.query().note_end(&polled);
        if let Poll::Ready(Some(Err(_))) = &polled {
            self.scope.fail();
        }
        if let Poll::Ready(Some(Ok(batch))) = &polled {
            let rows = to_u64(batch.num_rows());
            self.running.query().count_rows(rows);
        }
        polled
    }
}

impl Drop for QueryStream {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl RecordBatchStream for QueryStream {
    fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }
}
