//! Streams written as straight code.
//!
//! An operator that unpins, fetches and goes on where it was has many states. Written as an `async`
//! function that hands batches to an [`Emitter`], it is a loop again, and the compiler keeps the
//! states. Nothing is spawned: the function runs inside the poll of its stream, as far as the next
//! batch, and dropping the stream drops it where it stands. A join can make any number of batches
//! of what it has in memory, so the stream lets other tasks go first now and then, even when its
//! reader does not.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use datafusion::physical_plan::coop::cooperative;
use futures::Stream;
use futures::future::BoxFuture;

/// Where the batches of a stream come from.
#[derive(Clone, Debug, Default)]
pub struct Emitter(Arc<Mutex<Option<RecordBatch>>>);

impl Emitter {
    /// Hands a batch to the stream's reader and waits until the stream is polled again.
    pub fn emit(&self, batch: RecordBatch) -> impl Future<Output = ()> + Send + use<> {
        *self.slot() = Some(batch);
        Turn(false)
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<RecordBatch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets other tasks of this thread go first; long work without a batch calls it now and then.
pub async fn give_way() {
    tokio::task::yield_now().await;
}

/// Pending once. Nobody has to be woken: the batch in the slot is why the stream is ready.
struct Turn(bool);

impl Future for Turn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// A stream of the batches that the future of `run` emits; an error is its last item.
pub fn generate<F>(schema: SchemaRef, run: impl FnOnce(Emitter) -> F) -> SendableRecordBatchStream
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let emitter = Emitter::default();
    let future: BoxFuture<'static, Result<()>> = Box::pin(run(emitter.clone()));
    Box::pin(cooperative(Generated { schema, emitter, future: Some(future) }))
}

struct Generated {
    schema: SchemaRef,
    emitter: Emitter,
    future: Option<BoxFuture<'static, Result<()>>>,
}

impl Stream for Generated {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(future) = &mut self.future else { return Poll::Ready(None) };
        let polled = future.as_mut().poll(context);
        let emitted = self.emitter.slot().take();
        match (emitted, polled) {
            (Some(batch), Poll::Pending) => Poll::Ready(Some(Ok(batch))),
            (None, Poll::Pending) => Poll::Pending,
            (_, Poll::Ready(result)) => {
                self.future = None;
                Poll::Ready(result.err().map(Err))
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
    use futures::StreamExt;

    use super::*;

    fn batch(value: i32) -> RecordBatch {
        let array: ArrayRef = Arc::new(Int32Array::from(vec![value]));
        RecordBatch::try_from_iter([("v", array)]).expect("one column")
    }

    #[tokio::test]
    async fn batches_come_in_order_and_an_error_is_the_last() {
        let stream = generate(batch(0).schema(), |emitter| async move {
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
}
