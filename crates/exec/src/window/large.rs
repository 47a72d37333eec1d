//! Window partition larger than the grant, stored in blocks.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::physical_expr::window::WindowExpr;
use terrace_pool::Space;

use super::pass::Pass;
use super::ranks::{BlockRanks, Groups};
use crate::block::{Block, BlockPlan, Lease, copy_to_heap};
use crate::memory::Grant;
use crate::sort::piece::batch_bytes;

/// Approximate bytes of a block.
const BLOCK_BYTES: usize = 512 << 10;

/// The rows of a window partition that does not fit the grant, in unpinned blocks.
#[derive(Debug)]
pub(crate) struct Large {
    space: Space,
    grant: Arc<dyn Grant>,
    schema: SchemaRef,
    blocks: VecDeque<(Block, BlockRanks)>,
    /// Number of blocks whose last peer group has not ended yet.
    open: usize,
    peers: Groups,
    rows: u64,
    /// Start of the last row's peer group, and its number.
    last_start: u64,
    last_number: u64,
    /// The functions, if all of them can be computed in passes.
    passes: Option<Vec<Pass>>,
}

impl Large {
    /// Creates a partition of rows of `schema`, which `functions` are computed over.
    ///
    /// # Errors
    /// If a state cannot be created.
    pub(crate) fn new(
        space: Space,
        grant: Arc<dyn Grant>,
        schema: SchemaRef,
        functions: &[Arc<dyn WindowExpr>],
    ) -> Result<Self> {
        let order = |it: &Arc<dyn WindowExpr>| {
            it.order_by().iter().map(|key| Arc::clone(&key.expr)).collect::<Vec<_>>()
        };
        let first = functions.first().map(order).unwrap_or_default();
        let alike = functions.iter().all(|it| order(it) == first);
        let passes = functions.iter().map(Pass::of).collect::<Result<Option<Vec<_>>>>()?;
        Ok(Self {
            space,
            grant,
            schema,
            blocks: VecDeque::new(),
            open: 0,
            peers: Groups::new(first),
            rows: 0,
            last_start: 0,
            last_number: 0,
            passes: passes.filter(|_| alike),
        })
    }

    /// Adds rows.
    ///
    /// # Errors
    /// If a page cannot be allocated, or a function rejects the rows.
    pub(crate) fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        let step = (rows * BLOCK_BYTES / batch_bytes(batch).max(1)).max(1);
        for start in (0..rows).step_by(step) {
            self.push_block(&batch.slice(start, step.min(rows - start)))?;
        }
        Ok(())
    }

    fn push_block(&mut self, batch: &RecordBatch) -> Result<()> {
        for pass in self.passes.iter_mut().flatten() {
            pass.see(batch)?;
        }
        let ranks = self.rank(batch)?;
        let plan = BlockPlan::new(batch.num_rows(), batch.columns())?;
        let _lease = Lease::take(&self.grant, plan.bytes());
        let (block, _pins) = Block::write(&self.space, plan)?;
        self.grant.count_spilled(block.bytes());
        self.blocks.push_back((block, ranks));
        Ok(())
    }

    /// Numbers the peer groups of a block, and completes those of earlier blocks.
    fn rank(&mut self, batch: &RecordBatch) -> Result<BlockRanks> {
        let groups = self.peers.next(batch)?;
        let start = self.rows;
        self.rows += batch.num_rows() as u64;
        if !groups.continues {
            self.close(start);
            (self.last_start, self.last_number) = (start, self.last_number + 1);
        }
        let (first_start, first_number) = (self.last_start, self.last_number);
        if let [first, .., last] = &groups.ranges[..] {
            self.close(start + first.end as u64);
            self.last_start = start + last.start as u64;
            self.last_number += groups.ranges.len() as u64 - 1;
        }
        self.open += 1;
        let last_end = self.rows;
        Ok(BlockRanks { ranges: groups.ranges, start, first_start, first_number, last_end })
    }

    /// Ends the peer group of the open blocks' last rows at `end`.
    fn close(&mut self, end: u64) {
        for (_, ranks) in self.blocks.iter_mut().rev().take(self.open) {
            ranks.last_end = end;
        }
        self.open = 0;
    }

    /// Ends the input; returns true if the functions can be computed in passes.
    ///
    /// # Errors
    /// If a function has no value.
    pub(crate) fn finish(&mut self) -> Result<bool> {
        self.close(self.rows);
        self.passes.iter_mut().flatten().try_for_each(Pass::finish)?;
        Ok(self.passes.is_some())
    }

    /// Returns the next rows and their functions' values, with the lease for their bytes; `None` at
    /// the end.
    ///
    /// # Errors
    /// If a block cannot be read.
    pub(crate) async fn next(&mut self) -> Result<Option<(Lease, RecordBatch, Vec<ArrayRef>)>> {
        let Some((block, ranks)) = self.blocks.pop_front() else { return Ok(None) };
        if let Some((next, _)) = self.blocks.front() {
            next.prefetch();
        }
        // The page, and the copy that is returned.
        let lease = Lease::take(&self.grant, 2 * block.bytes());
        let pins = block.pin(block.fetch()).await?;
        let rows = block.rows();
        let columns = copy_to_heap(rows, &block.arrays(pins))?;
        let values = self.passes.iter().flatten();
        let values = values.map(|pass| pass.column(&ranks, rows, self.rows));
        let values = values.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.schema);
        Ok(Some((lease, RecordBatch::try_new_with_options(schema, columns, &options)?, values)))
    }
}
