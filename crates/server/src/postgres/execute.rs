//! Runs statements: sends their rows, and stops them early on cancellation, timeout or a lost
//! client.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::datatypes::SchemaRef;
use futures::future::{BoxFuture, join_all};
use futures::{FutureExt as _, StreamExt as _};
use pgwire::messages::data::{FieldDescription, RowDescription};
use terrace_sql::{QueryHandle, Session};
use tokio::time::{Instant, sleep, sleep_until};

use super::cell::{ColumnWriter, Format};
use super::copy::count_of;
use super::failure::{Failure, SqlState};
use super::portal::{Portal, State};
use super::types::{field_type, type_modifier, type_size};
use super::wire::Wire;
use crate::registry::{Registered, RunningStatement};
use crate::stream::Watch;

/// Events that end a statement early.
pub(super) struct Guard<'a> {
    pub(super) statement: RunningStatement,
    pub(super) registered: &'a Registered,
    pub(super) watch: &'a Watch,
    pub(super) timeout: Option<Duration>,
    pub(super) deadline: Option<Instant>,
}

impl Guard<'_> {
    /// Waits for a future, unless the client cancels the statement or is gone, another connection
    /// terminates this one, or the statement reaches its time limit.
    pub(super) async fn wait<T>(&self, future: impl Future<Output = T>) -> Result<T, Failure> {
        let late = async {
            match self.deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.statement.cancelled() => {
                Err(Failure::new(SqlState::CANCELLED, "the client has cancelled the statement"))
            }
            () = self.registered.terminated() => Err(terminated()),
            result = future => Ok(result),
            () = late => Err(Failure::late(self.timeout.unwrap_or_default())),
            () = self.watch.gone() => {
                Err(Failure::fatal(SqlState::CONNECTION, "the client is gone"))
            }
        }
    }
}

/// Returns the failure of a connection that another one has terminated.
pub(super) fn terminated() -> Failure {
    Failure::fatal(SqlState::TERMINATED, "another connection has ended this one")
}

/// Time that a client may take to read what it was sent before its query is suspended.
const SLOW: Duration = Duration::from_millis(200);

/// The batches of a query, which is suspended while its client reads none.
pub(super) struct Batches {
    handle: QueryHandle,
    /// The item that the query returned while it was suspended.
    ahead: Option<Option<datafusion::error::Result<RecordBatch>>>,
}

impl Batches {
    pub(super) fn new(handle: QueryHandle) -> Self {
        Self { handle, ahead: None }
    }

    /// Returns the columns.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.handle.schema
    }

    /// Returns the next batch; `None` after the last one.
    ///
    /// # Errors
    /// The failure of the statement, or the event that ended it.
    pub(super) async fn next(&mut self, guard: &Guard<'_>) -> Result<Option<RecordBatch>, Failure> {
        let next = match self.ahead.take() {
            Some(next) => next,
            None => guard.wait(self.handle.stream.next()).await?,
        };
        Ok(next.transpose()?)
    }

    /// Suspends the query until this future is dropped.
    async fn rest(&mut self) -> Infallible {
        if self.ahead.is_none() {
            self.ahead = Some(self.handle.rest().await);
        }
        std::future::pending().await
    }

    /// Sends the buffered messages. Suspends the query if the client is slow to read them.
    ///
    /// # Errors
    /// A broken connection, or the event that ended the statement.
    pub(super) async fn flush(
        &mut self,
        wire: &mut Wire,
        guard: &Guard<'_>,
    ) -> Result<(), Failure> {
        let rest = async {
            sleep(SLOW).await;
            self.rest().await
        };
        tokio::select! {
            biased;
            sent = guard.wait(wire.flush()) => sent?,
            never = rest => match never {},
        }
    }
}

/// Suspends the queries of all running portals until this future is dropped.
pub(super) async fn rest_between(portals: &mut HashMap<String, Portal>) -> Infallible {
    let mut resting: Vec<BoxFuture<'_, Infallible>> = Vec::new();
    for portal in portals.values_mut() {
        if let State::Running(rows) = &mut portal.state {
            resting.push(rows.batches.rest().boxed());
        }
    }
    if !resting.is_empty() {
        sleep(SLOW).await;
        join_all(resting).await;
    }
    std::future::pending().await
}

/// The rows of a statement that has started.
pub(super) struct Rows {
    batches: Batches,
    formats: Vec<Format>,
    zone: Tz,
    /// The batch that is being sent, and the index of its next row.
    batch: Option<(RecordBatch, usize)>,
    sent: u64,
    /// True if rows have been skipped.
    passed: bool,
}

impl Rows {
    pub(super) fn new(handle: QueryHandle, formats: Vec<Format>, zone: Tz) -> Self {
        let batches = Batches::new(handle);
        Self { batches, formats, zone, batch: None, sent: 0, passed: false }
    }

    /// Returns the columns.
    pub(super) fn schema(&self) -> &SchemaRef {
        self.batches.schema()
    }

    /// Returns the number of rows sent.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Sends at most `limit` rows; all if `limit` is zero. Returns true if there may be more.
    ///
    /// # Errors
    /// The failure of the statement, or the event that ended it.
    pub(super) async fn send(
        &mut self,
        wire: &mut Wire,
        guard: &Guard<'_>,
        limit: u64,
    ) -> Result<bool, Failure> {
        let mut left = if limit == 0 { u64::MAX } else { limit };
        let schema = Arc::clone(self.schema());
        while left > 0 {
            let (batch, first) = match self.batch.take() {
                Some(rest) => rest,
                None => match self.batches.next(guard).await? {
                    Some(batch) => (batch, 0),
                    None => return Ok(false),
                },
            };
            let columns = batch.columns().iter().zip(schema.fields()).zip(&self.formats);
            let columns = columns.map(|((array, field), format)| {
                ColumnWriter::of_field(array, field, *format, self.zone)
            });
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            for row in first..batch.num_rows() {
                if left == 0 {
                    self.batch = Some((batch, row));
                    return Ok(true);
                }
                wire.put_row(&columns, row)?;
                self.sent += 1;
                left -= 1;
                if wire.is_full() {
                    self.batches.flush(wire, guard).await?;
                }
            }
        }
        Ok(true)
    }

    /// Changes the formats of further rows.
    pub(super) fn set_formats(&mut self, formats: &[Format]) {
        formats.clone_into(&mut self.formats);
    }

    /// Skips at most `limit` rows; all if `limit` is zero. Returns their number.
    ///
    /// # Errors
    /// The failure of the statement, or the event that ended it.
    pub(super) async fn pass(&mut self, guard: &Guard<'_>, limit: u64) -> Result<u64, Failure> {
        let limit =
            if limit == 0 { usize::MAX } else { usize::try_from(limit).unwrap_or(usize::MAX) };
        let mut passed = 0;
        while passed < limit {
            let (batch, first) = match self.batch.take() {
                Some(rest) => rest,
                None => match self.batches.next(guard).await? {
                    Some(batch) => (batch, 0),
                    None => break,
                },
            };
            let next = first + (batch.num_rows() - first).min(limit - passed);
            passed += next - first;
            if next < batch.num_rows() {
                self.batch = Some((batch, next));
            }
        }
        self.passed |= passed > 0;
        Ok(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    /// True if no row has been sent or skipped.
    pub(super) fn is_untouched(&self) -> bool {
        self.sent == 0 && !self.passed
    }

    /// Runs a statement that returns no rows to its end. Returns the number of changed rows.
    ///
    /// # Errors
    /// The failure of the statement, or the event that ended it.
    pub(super) async fn finish(&mut self, guard: &Guard<'_>) -> Result<u64, Failure> {
        let mut changed = 0;
        while let Some(batch) = self.batches.next(guard).await? {
            changed += count_of(&[batch]);
        }
        Ok(changed)
    }
}

/// Returns the zone in which a session shows timestamps with a time zone.
///
/// # Errors
/// A zone that Arrow does not know.
pub(crate) fn zone(session: &Session) -> Result<Tz, Failure> {
    let state = session.context().state_ref();
    let state = state.read();
    let name = state.config_options().execution.time_zone.as_deref();
    Ok(name.unwrap_or("+00:00").parse()?)
}

/// Returns the description of a result's columns for clients.
///
/// # Errors
/// More columns than the protocol can count.
pub(super) fn description(
    schema: &SchemaRef,
    formats: &[Format],
) -> Result<RowDescription, Failure> {
    let columns = schema.fields().len();
    if i16::try_from(columns).is_err() {
        let text = format!("a result of {columns} columns; at most {} are possible", i16::MAX);
        return Err(Failure::new(SqlState::TOO_LARGE, text));
    }
    let fields = schema.fields().iter().zip(formats).map(|(field, format)| {
        let of = field_type(field);
        let code = i16::from(*format == Format::Binary);
        let (size, modifier) = (type_size(&of), type_modifier(field.data_type()));
        FieldDescription::new(field.name().clone(), 0, 0, of.oid(), size, modifier, code)
    });
    Ok(RowDescription::new(fields.collect()))
}
