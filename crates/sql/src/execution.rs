//! Execution of a planned statement, from the start of its physical plan to its result.

mod plan;
mod stream;

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;
use futures::future::BoxFuture;
use terrace_exec::QueryMemory;
use terrace_exec::StoredBatches;
use terrace_exec::panics::{Supervised, catch, caught};
use terrace_governor::query::{PlanSize, Query, QueryState, Suspension};
use terrace_governor::running::RunningQuery;
use terrace_table::error::SqlError;
use terrace_table::transaction::Scope;

use crate::interrupt::{Interruptible, Stop};
use crate::sessions::SessionInfo;

use plan::ObservedPlan;
use stream::QueryStream;

/// Runs the planning of a statement, or other work before its rows are read; a panic becomes an
/// error of the statement.
pub(crate) async fn supervised<T>(
    work: impl Future<Output = Result<T, SqlError>>,
) -> Result<T, SqlError> {
    let _supervised = Supervised::begin();
    caught("the planner", work).await
}

/// Awaits the planning of a query, and ends it early if the query is cancelled.
///
/// # Errors
/// Those of `planning`; the reason for which the query was cancelled.
pub(crate) async fn planned<T>(
    query: &Arc<Query>,
    planning: impl Future<Output = Result<T, SqlError>>,
) -> Result<T, SqlError> {
    let stop = Stop::new({
        let query = Arc::clone(query);
        move || query.state() == QueryState::Cancelled
    });
    let planned = Interruptible::new(Arc::clone(&stop), planning).await;
    match planned {
        Err(_) if stop.has_stopped() => Err(query.ended().into()),
        planned => planned,
    }
}

/// Starts `plan` in the runtime of its query, as a part of the transaction of `scope`. Progress is
/// read from `watched`, or from `plan` if there is none. `session` accounts for the batches that
/// are kept for its client.
pub(crate) fn start(
    running: RunningQuery,
    plan: Arc<dyn ExecutionPlan>,
    watched: Option<Arc<dyn ExecutionPlan>>,
    context: TaskContext,
    scope: Scope,
    session: &Arc<SessionInfo>,
) -> Result<QueryHandle> {
    let config = running.configured(context.session_config().clone());
    let config = scope.shown_by(running.query().suspension()).put_in(config);
    let context = context.with_session_config(config).with_runtime(Arc::clone(running.runtime()));
    let context = Arc::new(context);
    let schema = plan.schema();
    let supervised = Supervised::begin();
    let stream = catch(plan.name(), || execute_stream(Arc::clone(&plan), context))??;
    let (query, name) = (Arc::clone(running.query()), plan.name().to_owned());
    let memory = Arc::clone(running.paged_memory());
    // A plan that changes rows is built around the watched query.
    let size = watched.is_some().then_some(PlanSize { rows: None, writes: true });
    query.begin_plan(Box::new(ObservedPlan(watched.unwrap_or(plan))), size);
    // It is planned, and its rows are not requested yet.
    query.await_rows(false);
    let stream = QueryStream::new(running, stream, supervised, name, scope, session);
    Ok(QueryHandle { id: query.id(), schema, stream: Box::pin(stream), query, memory })
}

/// A running statement and the stream of its rows.
///
/// Operators run when the stream is polled, and for batches that are read ahead. Dropping the
/// handle, or its stream, cancels the query: its tasks end at their next await, and release its
/// memory, its pins and its spill files.
pub struct QueryHandle {
    /// Id of the query.
    pub id: u64,
    /// Columns of the result; empty for statements that return nothing.
    pub schema: SchemaRef,
    /// Rows of the result.
    pub stream: SendableRecordBatchStream,
    query: Arc<Query>,
    memory: Arc<dyn QueryMemory>,
}

impl QueryHandle {
    /// Returns the running query.
    #[must_use]
    pub fn query(&self) -> &Arc<Query> {
        &self.query
    }

    /// Suspends the query while the stream's reader is busy, such as with a client that receives
    /// rows slowly: operators unpin their pages, which can then be evicted. Dropping the future
    /// resumes the query.
    ///
    /// It returns early with the next item of the stream: an error if the query was cancelled, a
    /// batch if a user has resumed it, and `None` at its end.
    pub async fn rest(&mut self) -> Option<Result<RecordBatch>> {
        self.query.suspension().rest(true);
        let _resting = Resting(self.query.suspension());
        self.stream.next().await
    }

    /// Returns a future that ends when the query is cancelled, with the error that the reader of
    /// the stream gets.
    pub fn cancelled(&self) -> BoxFuture<'static, SqlError> {
        let query = Arc::clone(&self.query);
        Box::pin(async move {
            query.suspension().cancelled().await;
            SqlError::from(query.ended())
        })
    }

    /// Returns an empty container for batches of the result, in pages that the query's memory
    /// accounts for and that may be spilled. `name` identifies it among the query's operators.
    #[must_use]
    pub fn stored_batches(&self, name: &str) -> StoredBatches {
        StoredBatches::new(self.memory.as_ref(), name, &self.schema)
    }

    /// Reads the stream to its end.
    ///
    /// # Errors
    /// The query's error.
    pub async fn collect(mut self) -> Result<Output, SqlError> {
        let mut batches = Vec::new();
        while let Some(batch) = self.stream.next().await {
            batches.push(batch?);
        }
        Ok(Output { id: self.id, schema: self.schema, batches })
    }
}

/// Guard that suspends a query whose reader takes no rows, until it is dropped.
struct Resting<'a>(&'a Suspension);

impl Drop for Resting<'_> {
    fn drop(&mut self) {
        self.0.rest(false);
    }
}

impl fmt::Debug for QueryHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryHandle").field("query", &self.query).finish_non_exhaustive()
    }
}

/// The complete result of a statement.
#[derive(Clone, Debug)]
pub struct Output {
    /// Id of the query.
    pub id: u64,
    /// Columns; empty for statements that return nothing.
    pub schema: SchemaRef,
    /// Rows.
    pub batches: Vec<RecordBatch>,
}

impl Output {
    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}
