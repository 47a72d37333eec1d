//! The left side of a nested-loop join: collected once, in blocks.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::concat_batches;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use terrace_sys::size::{to_u64, to_usize};

use super::spec::LoopSpec;
use crate::block::{Block, BlockPlan, Lease};
use crate::hash_join::Flags;
use crate::sort::piece::batch_bytes;
use crate::{Grant, QueryMemory};

/// Approximate bytes of a block: enough to be read in one go, few compared to the memory of a
/// query.
const BLOCK_BYTES: usize = 512 << 10;

/// Consecutive rows of the left side, in a block that is not pinned.
#[derive(Debug)]
pub(super) struct LeftBlock {
    /// None if the rows have no columns.
    block: Option<Block>,
    /// The numbers of the rows, in the order of the input.
    pub(super) rows: Range<u64>,
}

impl LeftBlock {
    fn write(
        memory: &dyn QueryMemory,
        grant: &Arc<dyn Grant>,
        batch: &RecordBatch,
    ) -> Result<Block> {
        let plan = BlockPlan::new(batch.num_rows(), batch.columns())?;
        let _lease = Lease::take(grant, plan.bytes());
        // The pool decides if it stays in memory: it is fixed again for every round.
        let (block, _pins) = Block::write(memory.space(), plan)?;
        Ok(block)
    }

    /// Pins the block and returns its rows, with the lease that charges the pinned bytes to
    /// `grant`.
    pub(super) async fn read(
        &self,
        spec: &LoopSpec,
        grant: &Arc<dyn Grant>,
    ) -> Result<(Option<Lease>, RecordBatch)> {
        let count = to_usize(self.rows.end - self.rows.start);
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let schema = Arc::clone(&spec.left_schema);
        let Some(block) = &self.block else {
            return Ok((None, RecordBatch::try_new_with_options(schema, vec![], &options)?));
        };
        let lease = Lease::take(grant, block.bytes());
        let pins = block.pin(block.fetch()).await?;
        let columns = block.arrays(pins);
        Ok((Some(lease), RecordBatch::try_new_with_options(schema, columns, &options)?))
    }

    /// Prefetches the block.
    pub(super) fn prefetch(&self) {
        if let Some(block) = &self.block {
            block.prefetch();
        }
    }
}

/// A left side that has been collected.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) blocks: Vec<LeftBlock>,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    /// Flags of the rows that have a match, if the join needs them.
    pub(super) flags: Option<Flags>,
    _flags_lease: Lease,
    /// Number of right streams that have not ended.
    running: AtomicUsize,
}

impl Left {
    /// Collects the input to its end; `streams` right streams will read the rows.
    pub(super) async fn collect(
        spec: &LoopSpec,
        memory: &dyn QueryMemory,
        grant: &Arc<dyn Grant>,
        mut input: SendableRecordBatchStream,
        streams: usize,
    ) -> Result<Self> {
        let (mut blocks, mut rows, mut bytes) = (Vec::new(), 0, 0);
        let mut pending = Pending::default();
        loop {
            let batch = input.next().await.transpose()?;
            let ended = batch.is_none();
            if let Some(batch) = batch.filter(|batch| batch.num_rows() > 0) {
                pending.push(grant, batch);
            }
            if pending.batches.is_empty() || !(ended || pending.bytes >= BLOCK_BYTES) {
                if ended {
                    break;
                }
                continue;
            }
            let batch = concat_batches(&spec.left_schema, &pending.batches)?;
            pending = Pending::default();
            // A batch may be much longer than a block.
            let step = (batch.num_rows() * BLOCK_BYTES / batch_bytes(&batch).max(1)).max(1);
            for start in (0..batch.num_rows()).step_by(step) {
                let part = batch.slice(start, step.min(batch.num_rows() - start));
                let block = match part.num_columns() {
                    0 => None,
                    _ => Some(LeftBlock::write(memory, grant, &part)?),
                };
                bytes += block.as_ref().map_or(0, Block::bytes);
                let next = rows + to_u64(part.num_rows());
                blocks.push(LeftBlock { block, rows: rows..next });
                rows = next;
            }
            if let Some(resumed) = grant.suspended() {
                resumed.await;
            }
        }
        let flags = spec.emits_left().then(|| Flags::new(rows));
        let flag_bytes = if flags.is_some() { Flags::bytes_of(rows) } else { 0 };
        let _flags_lease = Lease::take_heap(grant, flag_bytes);
        let running = AtomicUsize::new(streams);
        Ok(Self { blocks, rows, bytes, flags, _flags_lease, running })
    }

    /// Records that a right stream has ended; returns true for the last one.
    pub(super) fn is_last_stream(&self) -> bool {
        self.running.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// Batches that will become a block.
#[derive(Default)]
struct Pending {
    batches: Vec<RecordBatch>,
    bytes: usize,
    leases: Vec<Lease>,
}

impl Pending {
    fn push(&mut self, grant: &Arc<dyn Grant>, batch: RecordBatch) {
        let bytes = batch_bytes(&batch);
        // Twice: the rows are gathered before they are written.
        self.leases.push(Lease::take_heap(grant, 2 * to_u64(bytes)));
        self.bytes += bytes.max(1);
        self.batches.push(batch);
    }
}
