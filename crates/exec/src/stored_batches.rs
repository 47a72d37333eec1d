//! Store of batches in pages: appended in order, and read again by row number.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use terrace_pool::Space;
use terrace_sys::size::to_u64;

use crate::batch_limit::cut;
use crate::block::batch::{fitted, load, store};
use crate::block::{Block, Lease};
use crate::memory::{Grant, QueryMemory};
use crate::sort::piece::batch_bytes;

/// Bytes and rows at which the batches in memory are written as a block: smaller blocks would waste
/// parts of their pages, and larger ones would be read for a single row.
const BLOCK_BYTES: usize = 256 << 10;
const BLOCK_ROWS: usize = 8_192;

/// Rows of a query in unpinned pages, in the order in which they were appended. The pool decides
/// how long the pages stay in memory, and moves them to slower tiers. Dropping the store frees
/// them, also after the end of the query.
#[derive(Debug)]
pub struct StoredBatches {
    space: Space,
    grant: Arc<dyn Grant>,
    schema: SchemaRef,
    /// The blocks, each with the number of its first row.
    blocks: Vec<(u64, Block)>,
    block_rows: u64,
    block_bytes: u64,
    /// The rows that follow those of the blocks, in memory.
    open: Vec<RecordBatch>,
    open_rows: usize,
    /// Charge for the bytes of `open`.
    lease: Lease,
}

impl StoredBatches {
    /// Creates an empty store of rows of this schema, in pages of the query whose memory is
    /// `memory`. Its grant is registered as `name`, like that of an operator.
    #[must_use]
    pub fn new(memory: &dyn QueryMemory, name: &str, schema: &SchemaRef) -> Self {
        let grant = memory.register(name);
        Self {
            space: memory.space().clone(),
            lease: Lease::take_heap(&grant, 0),
            grant,
            schema: Arc::clone(schema),
            blocks: Vec::new(),
            block_rows: 0,
            block_bytes: 0,
            open: Vec::new(),
            open_rows: 0,
        }
    }

    /// Returns the schema of the rows.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.block_rows + to_u64(self.open_rows)
    }

    /// Returns the bytes of the rows, in pages and in memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.block_bytes + self.lease.bytes()
    }

    /// Appends rows.
    ///
    /// # Errors
    /// If they cannot be stored: there is no page left, or one row does not fit memory.
    pub fn append(&mut self, batch: RecordBatch) -> Result<()> {
        for piece in cut(batch) {
            if piece.num_rows() == 0 {
                continue;
            }
            let piece = fitted(piece)?;
            self.lease.extend(to_u64(batch_bytes(&piece)));
            self.open_rows += piece.num_rows();
            self.open.push(piece);
            if self.lease.bytes() >= to_u64(BLOCK_BYTES) || self.open_rows >= BLOCK_ROWS {
                self.close()?;
            }
        }
        Ok(())
    }

    /// Stores the rows that are in memory as a block.
    fn close(&mut self) -> Result<()> {
        let block = store(&self.space, &self.grant, &self.open_batch()?)?;
        self.block_bytes += block.bytes();
        self.blocks.push((self.block_rows, block));
        self.block_rows += to_u64(self.open_rows);
        self.open_rows = 0;
        self.open.clear();
        self.lease = Lease::take_heap(&self.grant, 0);
        Ok(())
    }

    /// Returns the rows that are in memory as one batch.
    fn open_batch(&self) -> Result<RecordBatch> {
        match self.open.as_slice() {
            [batch] => Ok(batch.clone()),
            batches => Ok(concat_batches(&self.schema, batches)?),
        }
    }

    /// Returns the batch that contains row number `row`, counted from 0, and the number of the
    /// batch's first row. `None` if there is no such row.
    ///
    /// # Errors
    /// If the batch cannot be read back.
    pub async fn batch_with(&self, row: u64) -> Result<Option<(u64, RecordBatch)>> {
        if row >= self.rows() {
            return Ok(None);
        }
        if row >= self.block_rows {
            return Ok(Some((self.block_rows, self.open_batch()?)));
        }
        let after = self.blocks.partition_point(|(first, _)| *first <= row);
        let Some((first, block)) = after.checked_sub(1).and_then(|index| self.blocks.get(index))
        else {
            return Ok(None);
        };
        Ok(Some((*first, load(&self.schema, &self.grant, block).await?)))
    }
}
