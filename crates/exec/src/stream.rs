//! Streams implemented as `async` functions that emit batches.
//!
//! An operator that unpins, fetches and resumes between batches has many states. Written as an
//! `async` function that passes batches to an [`Emitter`], it is a loop, and the compiler generates
//! the state machine. Nothing is spawned: the function runs inside the poll of its stream, up to
//! the next batch, and dropping the stream drops it at its current await. A join can produce any
//! number of batches from memory, so each batch consumes tokio's cooperative budget and the stream
//! yields when that is used up. While its query is paused, the function is not polled at all. A
//! panic of the function becomes the last item, an error, of its stream ([`crate::panics`]).

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use futures::future::BoxFuture;
use futures::{Stream, StreamExt};
use terrace_sys::sync::lock;
use tokio::task::coop::poll_proceed;

use crate::panics::catch;
use crate::{Grant, QueryMemory};

/// Minimum stack for an operator and those of DataFusion between it and the next one here. A query
/// of hundreds of joins polls them all inside each other.
const STACK_LEFT_BYTES: usize = 256 << 10;
/// Stack that is added when less is left.
const STACK_BYTES: usize = 8 << 20;

/// Runs code that recurses from operator to operator on a stack large enough for the next one.
fn on_ample_stack<T>(run: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK_LEFT_BYTES, STACK_BYTES, run)
}

/// Starts the input of an operator; plans may nest hundreds of them.
///
/// # Errors
/// Those of the input.
pub(crate) fn execute_input(
    input: &Arc<dyn ExecutionPlan>,
    partition: usize,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    on_ample_stack(|| input.execute(partition, context))
}

/// Output of a stream's function: the slot for its next batch.
#[derive(Clone, Debug, Default)]
pub struct Emitter(Arc<Mutex<Option<RecordBatch>>>);

impl Emitter {
    /// Passes a batch to the stream's consumer; the future completes when the stream is polled
    /// again.
    pub fn emit(&self, batch: RecordBatch) -> impl Future<Output = ()> + Send + use<> {
        *self.slot() = Some(batch);
        Turn(false)
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<RecordBatch>> {
        lock(&self.0)
    }
}

/// Returns the next batch of an operator's input. If the query is suspended before it arrives,
/// `unpin` drops what the operator has pinned: operators below may have stopped already, and then
/// return nothing until the query is resumed.
pub(crate) async fn next_batch(
    input: &mut SendableRecordBatchStream,
    grant: &Arc<dyn Grant>,
    mut unpin: impl FnMut() -> Result<()>,
) -> Option<Result<RecordBatch>> {
    // A suspension, and then its end, are awaited in turn.
    let mut begin: Option<BoxFuture<'static, ()>> = None;
    let mut end: Option<BoxFuture<'static, ()>> = None;
    poll_fn(|context| {
        if let Poll::Ready(item) = input.poll_next_unpin(context) {
            return Poll::Ready(item);
        }
        loop {
            if let Some(resumed) = &mut end {
                ready!(resumed.as_mut().poll(context));
                end = None;
            }
            ready!(begin.get_or_insert_with(|| grant.suspends()).as_mut().poll(context));
            begin = None;
            if let Err(error) = unpin() {
                return Poll::Ready(Some(Err(error)));
            }
            end = grant.suspended();
        }
    })
    .await
}

/// Yields to other tasks of this thread; long loops call it when they emit no batch.
pub async fn give_way() {
    tokio::task::yield_now().await;
}

/// Future that is pending once. It wakes no task: the batch in the slot makes the stream ready.
struct Turn(bool);

impl Future for Turn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Returns a stream of the batches that the future of `run` emits; an error is its last item. The
/// stream pauses when the query of `memory` does. Panics are reported as those of `operator`.
pub fn generate<F>(
    operator: &'static str,
    memory: &Arc<dyn QueryMemory>,
    schema: SchemaRef,
    run: impl FnOnce(Emitter) -> F,
) -> SendableRecordBatchStream
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let emitter = Emitter::default();
    let future: BoxFuture<'static, Result<()>> = Box::pin(run(emitter.clone()));
    let memory = Arc::clone(memory);
    let future = Some(future);
    let (paused, has_emitted) = (None, false);
    Box::pin(Generated { operator, memory, schema, emitter, future, paused, has_emitted })
}

struct Generated {
    operator: &'static str,
    memory: Arc<dyn QueryMemory>,
    schema: SchemaRef,
    emitter: Emitter,
    future: Option<BoxFuture<'static, Result<()>>>,
    /// Future that ends the current pause.
    paused: Option<BoxFuture<'static, ()>>,
    /// True from a batch to the next poll, which charges tokio's budget of the task for it. Polls
    /// that emit nothing are free: streams poll each other, and hundreds of them would spend the
    /// budget before the innermost is reached, on every poll.
    has_emitted: bool,
}

impl Stream for Generated {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.has_emitted {
            ready!(poll_proceed(context)).made_progress();
            self.has_emitted = false;
        }
        if self.paused.is_none() {
            self.paused = self.memory.paused();
        }
        if let Some(paused) = &mut self.paused {
            ready!(paused.as_mut().poll(context));
            self.paused = None;
        }
        let operator = self.operator;
        let Some(future) = &mut self.future else { return Poll::Ready(None) };
        let polled = catch(operator, || on_ample_stack(|| future.as_mut().poll(context)));
        let polled = polled.unwrap_or_else(|panic| Poll::Ready(Err(panic.into())));
        let emitted = self.emitter.slot().take();
        self.has_emitted = emitted.is_some();
        match (emitted, polled) {
            (Some(batch), Poll::Pending) => Poll::Ready(Some(Ok(batch))),
            (None, Poll::Pending) => Poll::Pending,
            (_, Poll::Ready(result)) => {
                let future = self.future.take();
                // State left behind by a panic may panic when it is dropped.
                let dropped = catch(operator, || drop(future));
                Poll::Ready(result.and(dropped.map_err(Into::into)).err().map(Err))
            }
        }
    }
}

impl RecordBatchStream for Generated {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, Int32Array};
    use datafusion::common::DataFusionError;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use futures::FutureExt;
    use terrace_ledger::Ledger;
    use terrace_pool::{Pool, PoolConfig};

    use super::*;
    use crate::memory::FixedMemory;

    fn memory() -> FixedMemory {
        let pool = Pool::new(PoolConfig::new("test", Ledger::new(1 << 20))).expect("pool");
        FixedMemory::new(pool.create_space("test", None).expect("space"), 1 << 20)
    }

    fn batch(value: i32) -> RecordBatch {
        let array: ArrayRef = Arc::new(Int32Array::from(vec![value]));
        RecordBatch::try_from_iter([("v", array)]).expect("one column")
    }

    #[tokio::test]
    async fn batches_come_in_order_and_an_error_is_the_last() {
        let memory: Arc<dyn QueryMemory> = Arc::new(memory());
        let stream = generate("TestExec", &memory, batch(0).schema(), |emitter| async move {
            for value in 0..3 {
                emitter.emit(batch(value)).await;
                give_way().await;
            }
            Err(DataFusionError::Execution("done".to_owned()))
        });
        let items: Vec<_> = stream.collect().await;
        assert_eq!(items.len(), 4);
        assert!(items[..3].iter().enumerate().all(|(n, item)| {
            item.as_ref().expect("a batch") == &batch(i32::try_from(n).expect("small"))
        }));
        assert!(items[3].is_err());
    }

    #[tokio::test]
    async fn an_operator_that_waits_unpins_once_for_each_suspension() {
        let memory = memory();
        let grant = memory.register("TestExec[0]");
        let (sender, receiver) = futures::channel::mpsc::unbounded();
        let input = RecordBatchStreamAdapter::new(batch(0).schema(), receiver);
        let mut input: SendableRecordBatchStream = Box::pin(input);
        let mut unpinned = 0;
        {
            let next = next_batch(&mut input, &grant, || {
                unpinned += 1;
                Ok(())
            });
            let mut next = std::pin::pin!(next);
            for _ in 0..3 {
                assert!(next.as_mut().now_or_never().is_none());
                memory.suspend();
                assert!(next.as_mut().now_or_never().is_none());
                assert!(next.as_mut().now_or_never().is_none());
                memory.resume();
            }
            sender.unbounded_send(Ok(batch(7))).expect("it is read");
            let found = next.now_or_never().flatten().expect("a batch").expect("no error");
            assert_eq!(found, batch(7));
        }
        assert_eq!(unpinned, 3);
        drop(sender);
        memory.suspend();
        assert!(next_batch(&mut input, &grant, || Ok(())).await.is_none());
    }

    #[tokio::test]
    async fn a_panic_is_the_last_item_and_drops_what_the_stream_had() {
        let memory: Arc<dyn QueryMemory> = Arc::new(memory());
        let held = Arc::new(());
        let had = Arc::clone(&held);
        let mut stream = generate("TestExec", &memory, batch(0).schema(), |emitter| async move {
            emitter.emit(batch(0)).await;
            assert_eq!(Arc::strong_count(&had), 1, "on purpose");
            Ok(())
        });
        assert_eq!(stream.next().await.expect("one").expect("a batch"), batch(0));
        let error = stream.next().await.expect("two").expect_err("a panic").to_string();
        assert!(error.contains("panic in TestExec") && error.contains("on purpose"), "{error}");
        assert_eq!(Arc::strong_count(&held), 1);
        assert!(stream.next().await.is_none());
    }

    #[tokio::test]
    async fn a_paused_stream_stands_still_and_goes_on_where_it_was() {
        let fixed = memory();
        let memory: Arc<dyn QueryMemory> = Arc::new(fixed.clone());
        let mut stream = generate("TestExec", &memory, batch(0).schema(), |emitter| async move {
            for value in 0..2 {
                emitter.emit(batch(value)).await;
            }
            Ok(())
        });
        assert_eq!(stream.next().await.expect("one").expect("a batch"), batch(0));
        fixed.pause();
        assert!(stream.next().now_or_never().is_none());
        let next = tokio::spawn(async move { stream.next().await });
        tokio::task::yield_now().await;
        assert!(!next.is_finished());
        fixed.resume();
        assert_eq!(next.await.expect("woken").expect("two").expect("a batch"), batch(1));
    }
}
