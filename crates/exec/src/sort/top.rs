//! Top-k: the first rows of an order.
//!
//! For a small limit, rows stay on the heap: rows before the boundary are collected, and as soon as
//! their number has doubled they are sorted and all but the first rows are dropped. If the first
//! rows exceed `HEAP_BYTES`, rows go to a sorter, whose runs are cut to the limit; every time it
//! holds twice that many rows it merges them, which moves the boundary.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;

use super::boundary::Boundary;
use super::key::SortKeys;
use super::piece::Piece;
use super::sorter::Sorter;
use crate::block::Lease;
use crate::memory::Grant;

/// Maximum bytes of the first rows for them to stay on the heap.
const HEAP_BYTES: usize = 1 << 20;
/// Number of rows that are collected before the first sort, however few are wanted.
const FIRST_ROWS: usize = 64;

/// Top-k of one partition: the first `limit` rows of the order.
#[derive(Debug)]
pub(crate) struct Top {
    keys: Arc<SortKeys>,
    /// Keys of the columns that the input is ordered by already.
    leading: Option<SortKeys>,
    boundary: Arc<Boundary>,
    schema: SchemaRef,
    grant: Arc<dyn Grant>,
    limit: usize,
    kept: Piece,
    /// Number of rows of `kept` that are sorted already.
    sorted_rows: usize,
    spread: bool,
}

impl Top {
    pub(crate) fn new(
        keys: Arc<SortKeys>,
        leading: Option<SortKeys>,
        boundary: Arc<Boundary>,
        schema: SchemaRef,
        grant: Arc<dyn Grant>,
        limit: usize,
    ) -> Self {
        let kept = Piece::default();
        Self { keys, leading, boundary, schema, grant, limit, kept, sorted_rows: 0, spread: false }
    }

    /// Adds rows, to `sorter` if they are too many for the heap; returns true if no later row can
    /// be in the result.
    ///
    /// # Errors
    /// As [`Sorter::push`].
    pub(crate) async fn push(&mut self, batch: RecordBatch, sorter: &mut Sorter) -> Result<bool> {
        let leading = self.leading.as_ref();
        let passed = leading.map(|keys| self.boundary.is_passed(keys, &batch)).transpose()?;
        if let Some(rows) = self.boundary.admit(&batch)? {
            if self.spread {
                self.push_to(sorter, rows).await?;
            } else {
                self.keep(rows)?;
                self.shorten(sorter).await?;
            }
        }
        Ok(passed.unwrap_or(false))
    }

    async fn push_to(&self, sorter: &mut Sorter, rows: RecordBatch) -> Result<()> {
        sorter.push(rows).await?;
        if sorter.rows() >= self.limit.saturating_mul(2)
            && let Some(last) = sorter.shorten().await?
        {
            self.boundary.tighten(&self.keys, &self.batch(1, last)?)?;
        }
        Ok(())
    }

    fn batch(
        &self,
        rows: usize,
        columns: Vec<datafusion::arrow::array::ArrayRef>,
    ) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    fn keep(&mut self, rows: RecordBatch) -> Result<()> {
        let keys = self.keys.evaluate(&rows)?;
        let bytes = super::piece::batch_bytes(&rows) as u64;
        self.kept.push(rows, keys, Some(Lease::take_heap(&self.grant, bytes)));
        Ok(())
    }

    /// Sorts the kept rows if it pays, and moves to `sorter` if the first rows are too many.
    async fn shorten(&mut self, sorter: &mut Sorter) -> Result<()> {
        let few = self.kept.rows() < self.sorted_rows + self.limit.max(FIRST_ROWS);
        if few && self.kept.bytes() < 2 * HEAP_BYTES {
            return Ok(());
        }
        let first = self.first_rows()?;
        if super::piece::batch_bytes(&first) > HEAP_BYTES {
            self.spread = true;
            return self.push_to(sorter, first).await;
        }
        self.sorted_rows = first.num_rows();
        self.keep(first)
    }

    /// Removes and returns the first rows, and publishes the last of them if there are `limit`.
    fn first_rows(&mut self) -> Result<RecordBatch> {
        let kept = std::mem::take(&mut self.kept);
        let sorted = kept.sort(&self.keys, Some(self.limit))?;
        let first = self.batch(sorted.rows(), sorted.columns)?;
        if first.num_rows() == self.limit {
            self.boundary.tighten(&self.keys, &first.slice(self.limit - 1, 1))?;
        }
        Ok(first)
    }

    /// Returns the first rows, unless they are in the sorter.
    ///
    /// # Errors
    /// If they cannot be sorted.
    pub(crate) fn finish(&mut self) -> Result<Option<RecordBatch>> {
        if self.spread || self.kept.rows() == 0 {
            return Ok(None);
        }
        self.first_rows().map(Some)
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        self.boundary.leave();
    }
}
