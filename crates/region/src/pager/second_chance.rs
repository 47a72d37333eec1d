//! Second-chance list: blocks that are out of their place, with their bytes in a frame.

use std::collections::VecDeque;

/// Blocks aside, the oldest first.
#[derive(Debug, Default)]
pub(super) struct SecondChance {
    /// The list; some blocks of it may have returned to their place.
    list: VecDeque<usize>,
    count: usize,
}

impl SecondChance {
    /// Number of blocks aside.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Counts a block that came aside.
    pub(super) fn came(&mut self) {
        self.count += 1;
    }

    /// Subtracts a block that returned to its place or is only in the source now.
    pub(super) fn left(&mut self) {
        self.count -= 1;
    }

    /// Length of the list.
    pub(super) fn listed(&self) -> usize {
        self.list.len()
    }

    /// Appends a block to the list.
    pub(super) fn push(&mut self, block: usize) {
        self.list.push_back(block);
    }

    /// Takes the first block off the list.
    pub(super) fn pop(&mut self) -> Option<usize> {
        self.list.pop_front()
    }
}
