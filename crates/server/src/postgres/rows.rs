//! Rows of a running statement, and the position of a cursor among them. For a cursor that can move
//! backward, rows that were read are kept in spillable pages of the query.

use std::convert::Infallible;
use std::ops::Range;

use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{RecordBatch, UInt32Array};
use datafusion::arrow::compute::take_record_batch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use terrace_sql::{QueryHandle, StoredBatches};
use terrace_sys::size::{to_u64, to_usize};

use super::cell::{ColumnWriter, Format};
use super::execute::{Batches, count_of};
use super::failure::{Failure, SqlState};
use super::guard::Guard;
use super::wire::Wire;

/// Maximum number of bytes kept for a cursor that was declared without SCROLL and NO SCROLL.
const KEPT_BYTES_MAX: u64 = 4 << 20;

/// PostgreSQL's advice on cursors that cannot go back.
pub(super) const SCROLL_HINT: &str = "Declare it with SCROLL option to enable backward scan.";

/// Rows that are kept to be returned again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    Nothing,
    /// All, as long as they have at most [`KEPT_BYTES_MAX`] bytes; none after that.
    Few,
    All,
}

/// Receiver of rows.
pub(super) enum Target<'a> {
    Client(&'a mut Wire),
    Store(&'a mut StoredBatches),
    /// No receiver: the rows are skipped, as by MOVE.
    Nowhere,
}

/// The rows of a statement that has started.
pub(super) struct Rows {
    batches: Batches,
    formats: Vec<Format>,
    zone: Tz,
    keep: Keep,
    /// All rows that were read; `None` if rows are not kept.
    kept: Option<StoredBatches>,
    /// The batch that was read last, and the number of its first row.
    hand: Option<(u64, RecordBatch)>,
    /// Number of rows that the statement has returned.
    read: u64,
    /// Number of the current row, counted from 1; 0 before the first row, and after the last one a
    /// number more than there are rows.
    at: u64,
}

impl Rows {
    pub(super) fn new(handle: QueryHandle, formats: Vec<Format>, zone: Tz, keep: Keep) -> Self {
        let batches = Batches::new(handle);
        let kept = if keep == Keep::Nothing { None } else { batches.new_store() };
        Self { batches, formats, zone, keep, kept, hand: None, read: 0, at: 0 }
    }

    /// Returns stored rows, to be sent in `formats` with timestamps in `zone`.
    pub(super) fn of_stored(rows: StoredBatches, formats: Vec<Format>, zone: Tz) -> Self {
        let (batches, keep) = (Batches::of_stored(rows), Keep::Nothing);
        Self { batches, formats, zone, keep, kept: None, hand: None, read: 0, at: 0 }
    }

    /// Returns the columns.
    pub(super) fn schema(&self) -> &SchemaRef {
        self.batches.schema()
    }

    /// Returns the zone in which timestamps with a time zone are shown.
    pub(super) fn zone(&self) -> Tz {
        self.zone
    }

    /// Returns an empty store for rows of the query; `None` for rows that are stored.
    pub(super) fn new_store(&self) -> Option<StoredBatches> {
        self.batches.new_store()
    }

    /// Changes the formats of further rows.
    pub(super) fn set_formats(&mut self, formats: &[Format]) {
        formats.clone_into(&mut self.formats);
    }

    /// Returns the kind of rows that are kept.
    pub(super) fn keep(&self) -> Keep {
        self.keep
    }

    /// Keeps all rows from now on, if all rows read so far are kept.
    pub(super) fn keep_all(&mut self) {
        if self.is_kept() {
            self.keep = Keep::All;
        }
    }

    /// True if all rows that were read are kept.
    pub(super) fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// Returns the number of the current row.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// True if the position is that of a row.
    pub(super) fn is_on_row(&self) -> bool {
        (1..=self.read).contains(&self.at)
    }

    /// Fails if the query was cancelled.
    ///
    /// # Errors
    /// The reason of the cancellation.
    pub(super) fn refuse_cancelled(&self) -> Result<(), Failure> {
        self.batches.refuse_cancelled()
    }

    /// Sends at most `limit` rows; all if `limit` is zero. Returns their number, and true if there
    /// may be more.
    ///
    /// # Errors
    /// The failure of the statement, or the event that ended it.
    pub(super) async fn send(
        &mut self,
        wire: &mut Wire,
        guard: &Guard<'_>,
        limit: u64,
    ) -> Result<(u64, bool), Failure> {
        let limit = (limit > 0).then_some(limit);
        let sent = self.forward(&mut Target::Client(wire), guard, limit).await?;
        Ok((sent, limit == Some(sent)))
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

    /// Suspends the query until this future is dropped. Kept rows of a query that is cancelled
    /// meanwhile are freed.
    pub(super) async fn rest(&mut self) -> Infallible {
        self.batches.rest().await;
        (self.kept, self.hand) = (None, None);
        std::future::pending().await
    }

    /// Passes the next rows on: at most the given number, or all. Returns their number.
    ///
    /// # Errors
    /// The failure of the statement, or the event that ended it.
    pub(super) async fn forward(
        &mut self,
        target: &mut Target<'_>,
        guard: &Guard<'_>,
        limit: Option<u64>,
    ) -> Result<u64, Failure> {
        let limit = limit.unwrap_or(u64::MAX);
        let mut passed = 0;
        if matches!(target, Target::Nowhere) {
            passed = self.read.saturating_sub(self.at).min(limit);
            self.at += passed;
        }
        while passed < limit {
            let Some((batch, index)) = self.find(self.at + 1, guard).await? else {
                self.at = self.read + 1;
                break;
            };
            let rows = index..index.saturating_add(to_usize(limit - passed)).min(batch.num_rows());
            let count = to_u64(rows.len());
            if rows.end == batch.num_rows() {
                self.hand = None;
            }
            self.give(target, guard, &batch, rows, false).await?;
            self.at += count;
            passed += count;
        }
        Ok(passed)
    }

    /// Passes the rows before the current one on, the nearest first: at most the given number, or
    /// all. Returns their number. The rows must be kept.
    ///
    /// # Errors
    /// The event that ended the statement, and kept rows that cannot be read.
    pub(super) async fn backward(
        &mut self,
        target: &mut Target<'_>,
        guard: &Guard<'_>,
        limit: Option<u64>,
    ) -> Result<u64, Failure> {
        let limit = limit.unwrap_or(u64::MAX);
        let mut passed = 0;
        while passed < limit {
            let number = self.at.saturating_sub(1);
            let found = if number == 0 { None } else { self.find(number, guard).await? };
            let Some((batch, index)) = found else {
                self.at = 0;
                break;
            };
            let rows = (index + 1).saturating_sub(to_usize(limit - passed))..index + 1;
            let count = to_u64(rows.len());
            self.give(target, guard, &batch, rows, true).await?;
            self.at -= count;
            passed += count;
        }
        Ok(passed)
    }

    /// Sets the position to the row of a number, or before the first row. The row must be kept if
    /// it is one that was read before.
    pub(super) fn place(&mut self, number: u64) {
        self.at = number.min(self.read + 1);
    }

    /// Returns the batch that has row `number`, counted from 1, and the index of the row in the
    /// batch; `None` if there are fewer rows.
    async fn find(
        &mut self,
        number: u64,
        guard: &Guard<'_>,
    ) -> Result<Option<(RecordBatch, usize)>, Failure> {
        loop {
            if let Some((first, batch)) = &self.hand
                && let Some(index) = number.checked_sub(*first)
                && index < to_u64(batch.num_rows())
            {
                return Ok(Some((batch.clone(), to_usize(index))));
            }
            self.hand = None;
            if number > self.read {
                let Some(batch) = self.batches.next(guard).await? else { return Ok(None) };
                self.keep_rows(&batch)?;
                let rows = to_u64(batch.num_rows());
                self.hand = Some((self.read + 1, batch));
                self.read += rows;
                continue;
            }
            let Some(kept) = &self.kept else { return Err(forward_only()) };
            let Some((first, batch)) = guard.wait(kept.batch_with(number - 1)).await?? else {
                return Ok(None);
            };
            self.hand = Some((first + 1, batch));
        }
    }

    /// Keeps rows that were read, if rows are kept.
    fn keep_rows(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let Some(kept) = &mut self.kept else { return Ok(()) };
        let stored = kept.append(batch.clone());
        if self.keep == Keep::All {
            return Ok(stored?);
        }
        if let Err(error) = &stored {
            tracing::debug!(%error, "the rows of a cursor without SCROLL are not kept");
        }
        if stored.is_err() || kept.bytes() > KEPT_BYTES_MAX {
            self.kept = None;
        }
        Ok(())
    }

    /// Passes `rows` of a batch on to `target`; in reverse order if `backward`.
    async fn give(
        &mut self,
        target: &mut Target<'_>,
        guard: &Guard<'_>,
        batch: &RecordBatch,
        rows: Range<usize>,
        backward: bool,
    ) -> Result<(), Failure> {
        match target {
            Target::Nowhere => {}
            Target::Store(store) => {
                let picked = match backward && batch.num_columns() > 0 {
                    true => reversed(batch, rows)?,
                    false => batch.slice(rows.start, rows.len()),
                };
                store.append(picked)?;
            }
            Target::Client(wire) => {
                let columns = self.writers(batch)?;
                for place in 0..rows.len() {
                    let row = if backward { rows.end - 1 - place } else { rows.start + place };
                    wire.put_row(&columns, row)?;
                    if wire.is_full() {
                        self.batches.flush(wire, guard).await?;
                    }
                }
            }
        }
        Ok(())
    }

    fn writers(&self, batch: &RecordBatch) -> Result<Vec<ColumnWriter>, ArrowError> {
        let columns = batch.columns().iter().zip(self.schema().fields()).zip(&self.formats);
        let columns = columns.map(|((array, field), format)| {
            ColumnWriter::of_field(array, field, *format, self.zone)
        });
        columns.collect()
    }
}

/// Returns the failure of a cursor that cannot move backward, with PostgreSQL's message.
pub(super) fn forward_only() -> Failure {
    let failure = Failure::new(SqlState::STATE, "cursor can only scan forward");
    failure.with_hint(SCROLL_HINT)
}

/// Returns `rows` of a batch in reverse order.
fn reversed(batch: &RecordBatch, rows: Range<usize>) -> Result<RecordBatch, ArrowError> {
    let indices = rows.rev().map(|row| u32::try_from(row).unwrap_or(u32::MAX));
    take_record_batch(batch, &UInt32Array::from_iter_values(indices))
}
