//! Values of prepared statements, sent by clients as rows of batches.

use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::sql::server::PeekableFlightDataStream;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::ScalarValue;
use futures::{StreamExt as _, TryStreamExt as _};

use super::columns::plain_type;
use super::prepared_statement::{Rows, Statement};
use super::rows::failure_of;
use crate::failure::{Failure, SqlState};

/// Returns the schema of a statement's parameters: `$1`, `$2` and so on, in the types that clients
/// send.
pub(super) fn schema(statement: &Statement) -> Schema {
    let parameters = statement.parameters().iter().enumerate();
    let fields = parameters.map(|(index, data_type)| {
        Field::new(format!("${}", index + 1), plain_type(data_type), true)
    });
    Schema::new(fields.collect::<Vec<_>>())
}

/// Reads the rows of values that a client sends for a statement; `None` if it sends no batch.
///
/// # Errors
/// A number of values that differs from the number of parameters, values of wrong types, and more
/// bytes than a message may have.
pub(super) async fn read(
    statement: &Statement,
    mut messages: PeekableFlightDataStream,
    bytes_max: usize,
) -> Result<Option<Rows>, Failure> {
    // The message for a statement without parameters has no schema.
    let has_schema = match messages.peek().await {
        Some(Ok(message)) => !message.data_header.is_empty(),
        _ => false,
    };
    if !has_schema {
        return Ok(None);
    }
    let messages = messages.map_err(|status| FlightError::Tonic(Box::new(status)));
    let mut batches = FlightRecordBatchStream::new_from_flight_data(messages);
    let (mut rows, mut bytes, mut is_empty) = (Vec::new(), 0_usize, true);
    while let Some(batch) = batches.next().await {
        let batch = batch.map_err(failure_of)?;
        if batch.num_columns() == 0 && statement.parameters().is_empty() {
            continue;
        }
        is_empty = false;
        bytes = bytes.saturating_add(batch.get_array_memory_size());
        if bytes > bytes_max {
            let text = format!("values of more than {bytes_max} bytes; send them in parts");
            return Err(Failure::new(SqlState::TOO_LARGE, text));
        }
        add(statement.parameters(), &batch, &mut rows)?;
    }
    Ok((!is_empty).then_some(rows))
}

fn add(parameters: &[DataType], batch: &RecordBatch, rows: &mut Rows) -> Result<(), Failure> {
    let (wanted, given) = (parameters.len(), batch.num_columns());
    if wanted != given {
        let text = format!("the statement has {wanted} parameters, and {given} values are given");
        return Err(Failure::new(SqlState::PROTOCOL, text));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let columns = batch.columns().iter().zip(parameters);
    let columns = columns.map(|(array, wanted)| cast_with_options(array, wanted, &options));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    for row in 0..batch.num_rows() {
        let values = columns.iter().map(|array| ScalarValue::try_from_array(array, row));
        rows.push(values.collect::<Result<_, _>>()?);
    }
    Ok(())
}
