//! Backlog: queue of the batches for the next iteration, in memory or in pages.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use terrace_pool::Space;
use terrace_sys::size::to_u64;

use crate::block::batch::{fitted, load, store};
use crate::block::{Block, Lease};
use crate::memory::Grant;
use crate::sort::piece::batch_bytes;

/// Readahead in blocks.
const AHEAD: usize = 2;

#[derive(Debug)]
enum Item {
    /// In memory, charged to the grant.
    Held(Lease, RecordBatch),
    /// In unpinned pages.
    Stored(Block),
}

/// FIFO queue of batches; those that the grant refuses are in unpinned pages.
#[derive(Debug)]
pub(super) struct Backlog {
    items: VecDeque<Item>,
    space: Space,
    grant: Arc<dyn Grant>,
    schema: SchemaRef,
}

impl Backlog {
    /// Creates an empty backlog for batches of this schema, in pages of `space` and memory of
    /// `grant`.
    pub(super) fn new(space: &Space, grant: &Arc<dyn Grant>, schema: &SchemaRef) -> Self {
        let (space, grant, schema) = (space.clone(), Arc::clone(grant), Arc::clone(schema));
        Self { items: VecDeque::new(), space, grant, schema }
    }

    /// Returns an empty backlog for batches of the same kind.
    pub(super) fn empty(&self) -> Self {
        Self::new(&self.space, &self.grant, &self.schema)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Appends a batch: in memory if there is room, otherwise in pages.
    ///
    /// # Errors
    /// If it cannot be stored.
    pub(super) fn put(&mut self, batch: RecordBatch) -> Result<()> {
        let batch = fitted(batch)?;
        let item = match Lease::ask_heap(&self.grant, to_u64(batch_bytes(&batch))) {
            Some(lease) => Item::Held(lease, batch),
            None if batch.num_columns() == 0 => Item::Held(Lease::take(&self.grant, 0), batch),
            None => Item::Stored(store(&self.space, &self.grant, &batch)?),
        };
        self.items.push_back(item);
        self.let_go_while(|grant| grant.excess_bytes() > 0)
    }

    /// Spills batches, the last first, for as long as `wanted` returns true.
    fn let_go_while(&mut self, wanted: impl Fn(&dyn Grant) -> bool) -> Result<()> {
        for item in self.items.iter_mut().rev() {
            if !wanted(self.grant.as_ref()) {
                break;
            }
            if let Item::Held(_, batch) = item
                && batch.num_columns() > 0
            {
                *item = Item::Stored(store(&self.space, &self.grant, batch)?);
            }
        }
        Ok(())
    }

    /// Spills all batches while the query is suspended, and waits for its resumption.
    ///
    /// # Errors
    /// If a batch cannot be stored.
    pub(super) async fn let_go_if_suspended(&mut self) -> Result<()> {
        if let Some(resumed) = self.grant.suspended() {
            self.let_go_while(|_| true)?;
            resumed.await;
        }
        Ok(())
    }

    /// Removes and returns the first batch; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read back.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        self.let_go_if_suspended().await?;
        let Some(item) = self.items.pop_front() else { return Ok(None) };
        for next in self.items.iter().take(AHEAD) {
            if let Item::Stored(block) = next {
                block.prefetch();
            }
        }
        Ok(Some(match item {
            Item::Held(_lease, batch) => batch,
            Item::Stored(block) => load(&self.schema, &self.grant, &block).await?,
        }))
    }
}
