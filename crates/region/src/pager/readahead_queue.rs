//! Blocks to read ahead of demand, and the streams that they are derived from.

use std::collections::VecDeque;

use crate::readahead::Streams;

/// Queue of blocks to read ahead.
#[derive(Debug, Default)]
pub(super) struct ReadaheadQueue {
    queue: VecDeque<usize>,
    streams: Streams,
}

impl ReadaheadQueue {
    pub(super) fn streams(&mut self) -> &mut Streams {
        &mut self.streams
    }

    /// True if a sequential reader will touch the block soon.
    pub(super) fn awaits(&self, block: usize) -> bool {
        self.streams.awaits(block)
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn extend(&mut self, blocks: impl IntoIterator<Item = usize>) {
        self.queue.extend(blocks);
    }

    /// Returns the block that is read next.
    pub(super) fn first(&self) -> Option<usize> {
        self.queue.front().copied()
    }

    pub(super) fn pop(&mut self) {
        self.queue.pop_front();
    }

    /// Removes blocks, which are sorted.
    pub(super) fn cancel(&mut self, blocks: &[usize]) {
        self.queue.retain(|block| blocks.binary_search(block).is_err());
    }

    pub(super) fn clear(&mut self) {
        self.queue.clear();
    }
}
