//! Runs statements: the batches of their queries, and the rows that are sent of them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{AsArray as _, RecordBatch};
use datafusion::arrow::datatypes::{SchemaRef, UInt64Type};
use futures::StreamExt as _;
use terrace_sql::QueryHandle;
use tokio::time::sleep;

use super::cell::{ColumnWriter, Format};
use super::failure::Failure;
use super::guard::Guard;
use super::wire::Wire;

/// Time that a client may take to read what it was sent before its query is suspended.
pub(super) const SLOW: Duration = Duration::from_millis(200);

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

    /// Suspends the query until this future is dropped.
    pub(super) async fn rest(&mut self) -> Infallible {
        self.batches.rest().await
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

/// Returns the number of rows from the result of a change, whose only row holds it.
pub(crate) fn count_of(batches: &[RecordBatch]) -> u64 {
    let counts = batches.iter().filter_map(|batch| {
        batch.columns().first().and_then(|array| array.as_primitive_opt::<UInt64Type>())
    });
    counts.flat_map(|counts| counts.iter().flatten()).sum()
}
