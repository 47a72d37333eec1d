//! Answers to calls: locations of results, results known at once, and errors.

use std::sync::Arc;

use arrow_flight::sql::{ProstMessageExt, TicketStatementQuery};
use arrow_flight::{FlightDescriptor, FlightEndpoint, FlightInfo, IpcMessage, SchemaAsIpc, Ticket};
use bytes::Bytes;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::ipc::writer::IpcWriteOptions;
use prost::Message as _;
use tonic::{Request, Response, Status};

use super::query::Outcome;
use super::rows::{Messages, send_batch};
use super::session::Call;
use crate::failure::Failure;

/// Ticket number of a statement that returns no rows.
pub(super) const NOTHING: u64 = 0;

/// The flight of a result: its schema and its ticket.
pub(super) type Info = Result<Response<FlightInfo>, Status>;
/// Stream of a result's messages.
pub(super) type Rows = Result<Response<Messages>, Status>;

/// Returns the call that the login has attached to a request; it dereferences to the session.
pub(super) fn call_of<T>(request: &Request<T>) -> Result<Arc<Call>, Status> {
    let call = request.extensions().get::<Arc<Call>>().cloned();
    call.ok_or_else(|| Status::internal("a call without a session"))
}

/// Encodes a schema as an Arrow message.
pub(super) fn encoded(schema: &Schema) -> Result<Bytes, Status> {
    let message = IpcMessage::try_from(SchemaAsIpc::new(schema, &IpcWriteOptions::default()));
    let message = message.map_err(|error| Status::internal(error.to_string()))?;
    Ok(message.0)
}

/// Converts the failure of a session's method to the status that the client receives, and counts
/// and logs it.
pub(super) fn told<T>(call: &Call, result: Result<T, Failure>) -> Result<T, Status> {
    result.map_err(|failure| call.refuse(&failure))
}

/// Returns the flight of a command. The client fetches its rows with `ticket` on the same
/// connection; `records` is the number of rows, `None` if it is not known.
pub(super) fn info(
    schema: &Schema,
    ticket: &impl ProstMessageExt,
    descriptor: FlightDescriptor,
    records: Option<u64>,
) -> Info {
    let ticket = Ticket::new(ticket.as_any().encode_to_vec());
    let records = records.map_or(-1, |records| i64::try_from(records).unwrap_or(i64::MAX));
    let info = FlightInfo::new()
        .try_with_schema(schema)
        .map_err(|error| Status::internal(error.to_string()))?
        .with_endpoint(FlightEndpoint::new().with_ticket(ticket))
        .with_descriptor(descriptor)
        .with_total_records(records)
        .with_ordered(true);
    Ok(Response::new(info))
}

/// Returns the flight of a statement. A statement without rows has been executed already.
pub(super) fn info_of(call: &Call, outcome: Outcome, descriptor: FlightDescriptor) -> Info {
    let (number, schema, changed) = match outcome {
        Outcome::Rows(query) => {
            let schema = Arc::clone(query.schema());
            (told(call, call.issue(query))?, schema, None)
        }
        Outcome::Done(changed) => (NOTHING, Arc::new(Schema::empty()), Some(changed)),
    };
    let statement_handle = Bytes::copy_from_slice(&number.to_be_bytes());
    info(&schema, &TicketStatementQuery { statement_handle }, descriptor, changed)
}

/// Streams a result that consists of one batch, such as the list of tables.
pub(super) fn known(call: &Call, batch: Result<RecordBatch, Failure>) -> Rows {
    let batch = told(call, batch)?;
    call.shared.counters.count_statement();
    Ok(Response::new(send_batch(batch.schema(), batch)))
}

/// Streams a result without rows.
pub(super) fn empty(schema: SchemaRef) -> Rows {
    let batch = RecordBatch::new_empty(Arc::clone(&schema));
    Ok(Response::new(send_batch(schema, batch)))
}

/// Converts a number of rows to the signed integer of Flight messages, at most `i64::MAX`.
pub(super) fn count(rows: u64) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}
