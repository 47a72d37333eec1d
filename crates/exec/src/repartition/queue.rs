//! Queue of the batches for one output.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::BatchCoalescer;
use datafusion::arrow::datatypes::{Field, SchemaRef};
use datafusion::common::{DataFusionError, Result};

use crate::block::{Block, Lease};
use crate::sort::piece::batch_bytes;

/// Readahead in blocks.
const AHEAD: usize = 2;

/// Approximate bytes, and minimum rows, that are gathered into one batch: every output of every
/// exchange has room for one.
const GATHERED_BYTES: usize = 512 << 10;
const GATHERED_ROWS_MIN: usize = 1024;

/// A queued batch.
#[derive(Debug)]
pub(super) enum Item {
    /// In memory, charged to the grant.
    Held(Lease, RecordBatch),
    /// In unpinned pages.
    Stored(Block),
    /// Being stored.
    Moving,
}

/// The batches of one output, first in, first out.
#[derive(Debug)]
pub(super) struct Queue {
    items: VecDeque<Item>,
    /// The number of the first item; the others are numbered consecutively.
    first: u64,
    /// Number of inputs that have not put all batches, and of those still reading batches.
    inputs: usize,
    gathering: usize,
    /// True while the reader exists.
    is_read: bool,
    error: Option<Arc<DataFusionError>>,
    reader: Option<Waker>,
    /// Coalesces smaller batches to the session's batch size.
    coalescer: Option<BatchCoalescer>,
    /// Bytes that it has gathered so far.
    gathered_bytes: usize,
}

impl Queue {
    /// Creates a queue for batches of `inputs` inputs, coalesced to `batch_size` rows if that is
    /// given.
    pub(super) fn new(schema: &SchemaRef, inputs: usize, batch_size: Option<usize>) -> Self {
        // Batches without columns cannot be coalesced.
        let batch_size = batch_size.filter(|_| !schema.fields().is_empty());
        let coalescer = batch_size.map(|batch_size| {
            let rows = batch_size.min((GATHERED_BYTES / row_bytes(schema)).max(GATHERED_ROWS_MIN));
            BatchCoalescer::new(Arc::clone(schema), rows)
                .with_biggest_coalesce_batch_size(Some(rows / 2))
        });
        Self {
            items: VecDeque::new(),
            first: 0,
            inputs,
            gathering: inputs,
            is_read: true,
            error: None,
            reader: None,
            coalescer,
            gathered_bytes: 0,
        }
    }

    /// Gathers a batch; returns the batches that this has completed.
    pub(super) fn gather(&mut self, batch: RecordBatch) -> Result<Vec<RecordBatch>> {
        if !self.is_read {
            return Ok(Vec::new());
        }
        let Some(coalescer) = &mut self.coalescer else { return Ok(vec![batch]) };
        self.gathered_bytes += batch_bytes(&batch);
        coalescer.push_batch(batch)?;
        // Long texts make few rows many bytes.
        if self.gathered_bytes >= 2 * GATHERED_BYTES {
            return self.flush();
        }
        let ready = completed(coalescer);
        if !ready.is_empty() {
            self.gathered_bytes = 0;
        }
        Ok(ready)
    }

    /// Returns all gathered rows, however few.
    pub(super) fn flush(&mut self) -> Result<Vec<RecordBatch>> {
        self.gathered_bytes = 0;
        let Some(coalescer) = &mut self.coalescer else { return Ok(Vec::new()) };
        coalescer.finish_buffered_batch()?;
        Ok(completed(coalescer))
    }

    /// Records that one input has read its last batch; for the last input, returns all rows that
    /// are still gathered.
    pub(super) fn remainder(&mut self) -> Result<Vec<RecordBatch>> {
        self.gathering -= 1;
        if self.gathering == 0 { self.flush() } else { Ok(Vec::new()) }
    }

    /// Records that an input has put all its batches.
    pub(super) fn end_input(&mut self) {
        self.inputs -= 1;
        self.wake();
    }

    /// Appends an item.
    pub(super) fn put(&mut self, item: Item) {
        if self.is_read {
            self.items.push_back(item);
            self.wake();
        }
    }

    /// Takes out the last batch that is in memory, to be stored; returns its number, lease and
    /// rows.
    pub(super) fn take_last_held(&mut self) -> Option<(u64, Lease, RecordBatch)> {
        let is_held = |item: &Item| matches!(item, Item::Held(_, batch) if batch.num_columns() > 0);
        let at = self.items.iter().rposition(is_held)?;
        match std::mem::replace(&mut self.items[at], Item::Moving) {
            Item::Held(lease, batch) => Some((self.first + at as u64, lease, batch)),
            Item::Stored(_) | Item::Moving => None,
        }
    }

    /// Puts a stored batch back in its place.
    pub(super) fn put_back(&mut self, number: u64, block: Block) {
        let place = number.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        if let Some(item) = place.and_then(|at| self.items.get_mut(at)) {
            *item = Item::Stored(block);
            self.wake();
        }
    }

    /// Ends the queue with an error for its reader.
    pub(super) fn fail(&mut self, error: Arc<DataFusionError>) {
        self.error.get_or_insert(error);
        self.wake();
    }

    /// Records that the reader has left, and returns the batches queued for it.
    pub(super) fn leave(&mut self) -> VecDeque<Item> {
        self.is_read = false;
        self.coalescer = None;
        std::mem::take(&mut self.items)
    }

    /// Returns true if the reader exists and its queue is empty.
    pub(super) fn is_hungry(&self) -> bool {
        self.is_read && self.items.is_empty()
    }

    pub(super) fn is_read(&self) -> bool {
        self.is_read
    }

    /// Returns the first item once there is one that is not being stored; `None` once all inputs
    /// have ended.
    pub(super) fn poll_next(&mut self, cx: &Context<'_>) -> Poll<Result<Option<Item>>> {
        if let Some(error) = &self.error {
            return Poll::Ready(Err(DataFusionError::Shared(Arc::clone(error))));
        }
        match self.items.front() {
            None if self.inputs == 0 => return Poll::Ready(Ok(None)),
            None | Some(Item::Moving) => {
                self.reader = Some(cx.waker().clone());
                return Poll::Pending;
            }
            Some(Item::Held(..) | Item::Stored(_)) => {}
        }
        self.first += 1;
        let item = self.items.pop_front();
        for next in self.items.iter().take(AHEAD) {
            if let Item::Stored(block) = next {
                block.prefetch();
            }
        }
        Poll::Ready(Ok(item))
    }

    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

fn completed(coalescer: &mut BatchCoalescer) -> Vec<RecordBatch> {
    std::iter::from_fn(|| coalescer.next_completed_batch()).collect()
}

/// Returns the bytes of a row, without text that is stored elsewhere.
fn row_bytes(schema: &SchemaRef) -> usize {
    let width = |field: &Arc<Field>| field.data_type().primitive_width().unwrap_or(16);
    schema.fields().iter().map(width).sum::<usize>().max(1)
}
