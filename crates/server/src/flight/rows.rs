//! Streams of a result's messages to a client.
//!
//! A task in the statements' runtime reads the query, encodes its batches and waits while the
//! client has not taken the previous messages (backpressure): a client that reads slowly slows its
//! query down. While the client takes longer than [`SLOW`] for a message, the query is suspended.
//! At most five messages of a result are in memory: one being encoded, three waiting, and one being
//! sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow_flight::FlightData;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use futures::{Stream, StreamExt as _, stream};
use terrace_sql::sessions::{HeldBytes, HeldFor};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tonic::Status;

use super::columns::pieces;
use super::query::Query;
use super::session::Call;
use crate::failure::{Failure, SqlState};
use crate::query_batches::SLOW;

/// Target size of a message in bytes; a single row may exceed it. Clients accept 4 MiB by default.
const MESSAGE_BYTES: usize = 1 << 20;
/// Maximum number of messages that wait to be sent.
const WAITING_MAX: usize = 3;

/// Stream of a result's messages.
pub(super) type Messages = Pin<Box<dyn Stream<Item = Result<FlightData, Status>> + Send>>;

/// Streams the rows of a query; `ticket` is its number, if it has one. The query ends when the
/// stream is dropped.
pub(super) fn send(call: Arc<Call>, query: Query, ticket: Option<u64>) -> Messages {
    let (sender, messages) = mpsc::channel(WAITING_MAX);
    let mut task = JoinSet::new();
    task.spawn(async move {
        let sent = pump(&call, query, &sender).await;
        if let Some(number) = ticket {
            call.finished(number);
        }
        match sent {
            Ok(()) => call.shared.counters.count_statement(),
            Err(failure) => {
                let _gone = sender.send((Err(call.refuse(&failure)), None)).await;
            }
        }
    });
    Box::pin(Sent { messages, _task: task })
}

/// Streams a result that consists of one batch.
pub(super) fn send_batch(schema: SchemaRef, batch: RecordBatch) -> Messages {
    let batches = stream::iter([Ok(batch)]);
    let encoder = FlightDataEncoderBuilder::new().with_schema(schema).build(batches);
    Box::pin(encoder.map(|message| message.map_err(Status::from)))
}

async fn pump(call: &Call, query: Query, sender: &mpsc::Sender<Waiting>) -> Result<(), Failure> {
    let (schema, interrupt) = (Arc::clone(query.schema()), query.interrupt());
    // Locked while a batch is computed, and between two of them to suspend the query.
    let query = Arc::new(Mutex::new(query));
    let (failed, mut failure) = mpsc::channel(1);
    let batches = stream::unfold((Arc::clone(&query), failed), async |(query, failed)| {
        let next = query.lock().await.next().await;
        match next {
            Ok(batch) => Some((batch?, (query, failed))),
            Err(failure) => {
                // Read after the last batch.
                let _sent = failed.try_send(failure);
                None
            }
        }
    });
    let cut = batches.flat_map(|batch| {
        let cut: Vec<Result<RecordBatch, FlightError>> = match pieces(&batch, MESSAGE_BYTES) {
            Ok(pieces) => pieces.map(Ok).collect(),
            Err(error) => vec![Err(error.into())],
        };
        stream::iter(cut)
    });
    // The encoder would split by the size of whole buffers, of which a batch may be a small part.
    let encoder = FlightDataEncoderBuilder::new().with_max_flight_data_size(usize::MAX);
    let mut messages = encoder.with_schema(schema).build(cut);
    while let Some(message) = messages.next().await {
        let message = message.map_err(failure_of)?;
        let bytes = u64::try_from(message.data_header.len() + message.data_body.len());
        let held = call.session.info().hold(HeldFor::Client, bytes.unwrap_or(u64::MAX));
        let sent = timeout(call.shared.limits.unread_time, sender.send((Ok(message), Some(held))));
        let rest = async {
            sleep(SLOW).await;
            query.lock().await.rest().await
        };
        let sent = tokio::select! {
            biased;
            sent = interrupt.wait(sent) => sent?,
            never = rest => match never {},
        };
        match sent {
            Ok(Ok(())) => {}
            Ok(Err(_gone)) => return Err(gone("the client has left the result")),
            Err(_late) => return Err(gone("the client has left messages unread for too long")),
        }
    }
    drop(messages);
    match failure.recv().await {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

fn gone(text: &str) -> Failure {
    Failure::new(SqlState::CONNECTION, text)
}

/// Converts an error in a client's data, or in the encoding of a result.
pub(super) fn failure_of(error: FlightError) -> Failure {
    match error {
        FlightError::Arrow(error) => error.into(),
        FlightError::Tonic(status) => Failure::new(SqlState::PROTOCOL, status.message()),
        error => Failure::new(SqlState::PROTOCOL, error.to_string()),
    }
}

/// A message that waits to be sent, and the reservation of its memory, which is released with it.
type Waiting = (Result<FlightData, Status>, Option<HeldBytes>);

/// The messages of a task, which is aborted when they are dropped.
struct Sent {
    messages: mpsc::Receiver<Waiting>,
    _task: JoinSet<()>,
}

impl Stream for Sent {
    type Item = Result<FlightData, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.messages.poll_recv(cx).map(|message| Some(message?.0))
    }
}
