//! Writer that gathers blocks into chunks and persists them.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use terrace_pool::PAGE_MAX_BYTES;
use terrace_sys::size::to_u64;

use super::Changes;
use super::block::{Blocker, Columns, halves, len};
use super::columns::with_columns;
use super::encode::{Gathered, Sealed, Written, write_chunk};
use super::returning::Terms;
use crate::chunk::{BLOCK_BYTES, CHUNK_BYTES, CHUNK_ROWS, Chunk, SEGMENT_BYTES};
use crate::error::SqlError;
use crate::segment::{BlockPlan, SegmentPlan};
use crate::sketch::Sketch;
use crate::table::Table;
use crate::tasks::Task;

/// Writer of rows into chunks of a table. While one chunk is encoded and persisted on a thread for
/// blocking work, the next one gathers its rows here, and no more than that is in memory.
pub struct ChunkWriter {
    table: Arc<Table>,
    blocker: Blocker,
    gathered: Gathered,
    /// Chunk that is being written.
    in_flight: Option<Task<Result<Written, SqlError>>>,
    written: Vec<Arc<Chunk>>,
    sketches: Vec<Sketch>,
    reservation: MemoryReservation,
    /// Place of the chunks in the table ([`Chunk::place`]); `None` for their ids.
    place: Option<u64>,
    /// Constraints on the rows, and store of returned values; `None` for rows that need neither.
    terms: Option<Terms>,
}

impl ChunkWriter {
    /// Creates a writer of rows for `table`. The rows that it gathers are accounted for in
    /// `memory`.
    #[must_use]
    pub fn new(table: Arc<Table>, memory: &Arc<dyn MemoryPool>) -> Self {
        let columns = table.schema().fields().len();
        let name = format!("TableWriter[{}]", table.full_name());
        Self {
            blocker: Blocker::new(table.full_name(), table.schema().clone()),
            gathered: Gathered::new(columns),
            in_flight: None,
            written: Vec::new(),
            sketches: vec![Sketch::default(); columns],
            reservation: MemoryConsumer::new(name).register(memory),
            table,
            place: None,
            terms: Some(Terms::default()),
        }
    }

    /// Returns the same writer, for rows that are checked against the constraints of `terms`, and
    /// whose values its store takes.
    pub(super) fn under(self, terms: Terms) -> Self {
        Self { terms: Some(terms), ..self }
    }

    /// Returns the same writer, for rows that are known to satisfy the constraints, such as those
    /// read from the table itself.
    pub(super) fn unchecked(self) -> Self {
        Self { terms: None, blocker: self.blocker.of_table(), ..self }
    }

    /// Returns the same writer, for chunks at `place`.
    pub(super) fn at(self, place: u64) -> Self {
        Self { place: Some(place), ..self }
    }

    /// Adds the rows of `batch`.
    ///
    /// # Errors
    /// [`SqlError::NotNull`], [`SqlError::CheckViolated`], [`SqlError::Columns`],
    /// [`SqlError::ValueTooLarge`]; errors of the pool and the store for the previous chunk.
    pub async fn push(&mut self, batch: RecordBatch) -> Result<(), SqlError> {
        if let Some(terms) = &self.terms {
            terms.checks.refuse_missing(&self.table)?;
        }
        for block in self.blocker.push(&batch)? {
            self.add(block).await?;
        }
        Ok(())
    }

    /// Writes the remaining rows. The result is durable and visible once it is committed.
    pub async fn finish(mut self) -> Result<Changes, SqlError> {
        for block in self.blocker.finish()? {
            self.add(block).await?;
        }
        self.seal(false).await?;
        self.land().await?;
        Ok(Changes::adding(self.written, self.sketches))
    }

    /// Adds a block, split into smaller ones if one of its columns is too wide.
    async fn add(&mut self, block: Columns) -> Result<(), SqlError> {
        if let Some(Terms { checks, returning }) = &self.terms {
            checks.check(&self.table, &block)?;
            if let Some(returning) = returning {
                returning.add(&with_columns(len(&block), block.clone(), self.table.schema())?)?;
            }
        }
        let mut waiting = vec![block];
        while let Some(block) = waiting.pop() {
            let plans = self.plans(&block)?;
            let widest = plans.iter().map(BlockPlan::bytes).max().unwrap_or(0);
            if widest > BLOCK_BYTES && len(&block) > 1 {
                let [first, second] = halves(&block);
                waiting.extend([second, first]);
                continue;
            }
            self.fits_a_page(&plans)?;
            if !self.has_room_for(len(&block), &plans) {
                self.seal(true).await?;
            }
            self.reserve(plans.iter().map(BlockPlan::bytes).sum()).await?;
            self.gathered.add(block, plans);
        }
        if self.gathered.rows() == CHUNK_ROWS {
            self.seal(true).await?;
        }
        Ok(())
    }

    fn plans(&self, block: &Columns) -> Result<Vec<BlockPlan>, SqlError> {
        let plans = block.iter().zip(self.table.schema().fields()).map(|(column, field)| {
            BlockPlan::of(column).map_err(|source| SqlError::Segment {
                table: self.table.full_name(),
                column: field.name().clone(),
                source,
            })
        });
        plans.collect()
    }

    fn fits_a_page(&self, plans: &[BlockPlan]) -> Result<(), SqlError> {
        for (plan, field) in plans.iter().zip(self.table.schema().fields()) {
            let bytes = SegmentPlan::bytes_around(plan.bytes());
            if bytes > PAGE_MAX_BYTES {
                return Err(SqlError::ValueTooLarge {
                    table: self.table.full_name(),
                    column: field.name().clone(),
                    bytes: to_u64(bytes),
                    limit_bytes: to_u64(PAGE_MAX_BYTES),
                });
            }
        }
        Ok(())
    }

    fn has_room_for(&self, rows: usize, plans: &[BlockPlan]) -> bool {
        let gathered = &self.gathered;
        let segments = gathered.bytes().iter().zip(plans);
        let segments = segments.map(|(b, plan)| SegmentPlan::bytes_around(b + plan.bytes()));
        let segments: Vec<usize> = segments.collect();
        gathered.rows() == 0
            || gathered.rows() + rows <= CHUNK_ROWS
                && segments.iter().all(|&bytes| bytes <= SEGMENT_BYTES)
                && segments.iter().sum::<usize>() <= CHUNK_BYTES
    }

    /// Accounts for the bytes of a block. If the budget has none left, the gathered rows are first
    /// written to pages; a single block is then taken as debt rather than refused.
    async fn reserve(&mut self, bytes: usize) -> Result<(), SqlError> {
        if self.reservation.try_grow(bytes).is_ok() {
            return Ok(());
        }
        self.seal(false).await?;
        self.land().await?;
        if self.reservation.try_grow(bytes).is_err() {
            self.reservation.grow(bytes);
        }
        Ok(())
    }

    /// Starts writing the gathered rows as a chunk, once the previous chunk is written. `is_full`:
    /// the chunk has no room for more rows; any other may be merged with others later.
    async fn seal(&mut self, is_full: bool) -> Result<(), SqlError> {
        self.land().await?;
        if self.gathered.rows() == 0 {
            return Ok(());
        }
        let columns = self.table.schema().fields().len();
        let gathered = std::mem::replace(&mut self.gathered, Gathered::new(columns));
        let table = self.table.clone();
        let reservation = self.reservation.take();
        let sealed = Sealed { place: self.place, is_full };
        self.in_flight = Some(self.table.journal().tasks.spawn(move || {
            let written = write_chunk(&table, gathered, sealed);
            // The heap bytes are charged until they are in pages, even if the writer was dropped.
            drop(reservation);
            written
        }));
        Ok(())
    }

    /// Waits for the chunk that is being written.
    async fn land(&mut self) -> Result<(), SqlError> {
        let Some(in_flight) = &mut self.in_flight else {
            return Ok(());
        };
        let written = in_flight.await;
        self.in_flight = None;
        let written = written??;
        for (sketch, part) in self.sketches.iter_mut().zip(&written.sketches) {
            sketch.merge(part);
        }
        self.written.push(written.chunk);
        Ok(())
    }
}
