//! Eviction queue: resident blocks in the order in which they become victims.

use std::collections::VecDeque;

/// Resident blocks, the next victim first. Some blocks of it may have left their place.
#[derive(Debug, Default)]
pub(super) struct EvictionQueue(VecDeque<usize>);

impl EvictionQueue {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Appends a block and sets `queued`, the block's own flag; does nothing if the flag is set,
    /// since the block is in the queue then.
    pub(super) fn push(&mut self, block: usize, queued: &mut bool) {
        if !std::mem::replace(queued, true) {
            self.0.push_back(block);
        }
    }

    /// Takes the first block.
    pub(super) fn pop(&mut self) -> Option<usize> {
        self.0.pop_front()
    }
}
