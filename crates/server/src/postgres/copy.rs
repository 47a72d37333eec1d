//! COPY over the wire protocol: rows that a client sends into a table or receives from a query.

mod decode;
mod encode;
mod header;
mod line;

use bytes::BytesMut;
use pgwire::messages::copy::{CopyDone, CopyInResponse, CopyOutResponse};
use pgwire::messages::response::CommandComplete;
use pgwire::messages::{PgWireBackendMessage as Out, PgWireFrontendMessage as In};
use terrace_sql::session::{CopyFormat, CopyIn, CopyStatement};
use terrace_sql::sessions::HeldFor;
use terrace_sql::{Output, SqlError};
use tokio::task::JoinSet;

use super::cell::Format;
use super::connection::Connection;
use super::execute::{Batches, count_of};
use super::failure::{Failure, SqlState};
use super::guard::Guard;
use super::session::zone;
use super::wire::Wire;
use crate::pg_catalog::ColumnNames;
use encode::format_of;

pub(crate) use decode::RowDecoder;
pub(crate) use encode::RowEncoder;

impl Connection {
    /// Runs a COPY from or to the client.
    pub(super) async fn copy(&mut self, copy: &CopyStatement) -> Result<(), Failure> {
        let rows = match copy.is_in {
            true => self.copy_in(copy).await?,
            false => self.copy_out(copy).await?,
        };
        self.wire.put(Out::CommandComplete(CommandComplete::new(format!("COPY {rows}"))))
    }

    async fn copy_in(&mut self, copy: &CopyStatement) -> Result<u64, Failure> {
        let guard = self.control.guard(&self.settings);
        let CopyIn { schema, rows, handle } = guard.plan(self.session.copy_in(copy)).await??;
        let (format, columns, formats) = header(&copy.format, schema.fields().len())?;
        self.wire.put(Out::CopyInResponse(CopyInResponse::new(format, columns, formats)))?;
        self.wire.flush().await?;
        // The insertion is aborted when this function returns for whatever reason.
        let mut inserting = JoinSet::new();
        inserting.spawn(handle.collect());
        let mut decoder = RowDecoder::new(copy.format.clone(), schema);
        let mut held = self.session.info().hold(HeldFor::Client, 0);
        loop {
            // A failure of the insertion is noticed when the next batch is sent.
            match guard.wait(self.wire.next()).await?? {
                Some(In::CopyData(data)) => {
                    decoder.push(&data.data);
                    while let Some(batch) = decoder.next()? {
                        if !guard.wait(rows.send(Some(batch))).await? {
                            return inserted(&mut inserting, &guard).await;
                        }
                    }
                    held.set(decoder.held_bytes());
                }
                Some(In::CopyDone(_)) => break,
                Some(In::CopyFail(failed)) => {
                    let text = format!("the client has ended the COPY: {}", failed.message);
                    return Err(Failure::new(SqlState::CANCELLED, text));
                }
                // A client of the extended protocol sends these before the rows.
                Some(In::Flush(_) | In::Sync(_)) => {}
                Some(In::Terminate(_)) | None => {
                    return Err(Failure::fatal(SqlState::CONNECTION, "the client is gone"));
                }
                Some(_) => {
                    let text = "a message that is no part of a COPY";
                    return Err(Failure::fatal(SqlState::PROTOCOL, text));
                }
            }
        }
        if let Some(batch) = decoder.finish()? {
            // False if the insertion has failed, which is reported below.
            let _goes_on = guard.wait(rows.send(Some(batch))).await?;
        }
        let _goes_on = guard.wait(rows.send(None)).await?;
        inserted(&mut inserting, &guard).await
    }

    async fn copy_out(&mut self, copy: &CopyStatement) -> Result<u64, Failure> {
        let zone = zone(&self.session)?;
        let guard = self.control.guard(&self.settings);
        let handle = guard.plan(self.session.copy_out(copy)).await??;
        let mut batches = Batches::new(handle);
        let (format, columns, formats) = header(&copy.format, batches.schema().fields().len())?;
        self.wire.put(Out::CopyOutResponse(CopyOutResponse::new(format, columns, formats)))?;
        let encoder = RowEncoder::new(&copy.format);
        let (mut row, mut sent) = (BytesMut::new(), 0);
        encoder.begin(&ColumnNames::of_copy(copy).give(batches.schema()), &mut row);
        // The header of the binary format is sent with the first row, as clients expect.
        if copy.format != CopyFormat::Binary {
            put(&mut self.wire, &mut row)?;
        }
        while let Some(batch) = batches.next(&guard).await? {
            let columns = encoder.columns(&batch, zone)?;
            for place in 0..batch.num_rows() {
                encoder.row(&columns, place, &mut row);
                put(&mut self.wire, &mut row)?;
                sent += 1;
                if self.wire.is_full() {
                    batches.flush(&mut self.wire, &guard).await?;
                }
            }
        }
        encoder.end(&mut row);
        put(&mut self.wire, &mut row)?;
        self.wire.put(Out::CopyDone(CopyDone::new()))?;
        Ok(sent)
    }
}

/// Sends bytes of a COPY, if there are any.
fn put(wire: &mut Wire, bytes: &mut BytesMut) -> Result<(), Failure> {
    if !bytes.is_empty() {
        wire.put_copy(bytes)?;
        bytes.clear();
    }
    Ok(())
}

/// Returns the fields of the COPY response message: the overall format, the number of columns, and
/// the format of each.
fn header(format: &CopyFormat, columns: usize) -> Result<(i8, i16, Vec<i16>), Failure> {
    let code = i8::from(format_of(format) == Format::Binary);
    let Ok(count) = i16::try_from(columns) else {
        let text = format!("a COPY of {columns} columns; at most {} are possible", i16::MAX);
        return Err(Failure::new(SqlState::TOO_LARGE, text));
    };
    Ok((code, count, vec![i16::from(code); columns]))
}

/// Waits for the insertion, and returns the number of inserted rows.
async fn inserted(
    inserting: &mut JoinSet<Result<Output, SqlError>>,
    guard: &Guard<'_>,
) -> Result<u64, Failure> {
    let Some(ended) = guard.wait(inserting.join_next()).await? else { return Ok(0) };
    let failed = |error| Failure::new(SqlState::INTERNAL, format!("the insertion: {error}"));
    Ok(count_of(&ended.map_err(failed)??.batches))
}
