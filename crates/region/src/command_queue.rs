//! Command queue from the callers of a region to a pager.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use terrace_sys::event_ring::Doorbell;
use terrace_sys::sync::lock;

use crate::waiter::Waiter;

/// Capacity of the list of unused ranges that a pager has not yet taken.
pub(crate) const UNUSED_MAX: usize = 256;

/// Commands and unused ranges for one pager, and the doorbell that wakes it.
#[derive(Debug)]
pub(crate) struct CommandQueue {
    commands: Mutex<Vec<Command>>,
    unused: Mutex<Unused>,
    pub(crate) bell: Arc<Doorbell>,
}

/// Ranges of unused blocks. A caller that declares one must not allocate, so the list has a fixed
/// capacity.
#[derive(Debug)]
struct Unused {
    ranges: Vec<Range<usize>>,
    /// The list overflowed: the pager must check all blocks.
    more: bool,
}

/// Command of a caller, or of another pager, to a pager.
#[derive(Debug)]
pub(crate) enum Command {
    /// Requests an operation on each of these blocks; the waiter is told of each block that is
    /// done.
    Want(Want, Vec<usize>, Arc<Waiter>),
    /// Reads these blocks ahead of demand.
    Ahead(Vec<usize>),
    /// Continues a sequential stream: its next window begins in a stripe of this pager.
    Follow(Range<usize>),
    /// The cap has changed: the pager must check it again.
    Look,
}

/// Operation requested on a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    Pin,
    Evict,
    Flush,
    /// Write the block from its mapped pages, pinned or not, because the region is being dropped.
    Save,
}

impl CommandQueue {
    pub(crate) fn new() -> std::io::Result<Self> {
        let unused = Mutex::new(Unused { ranges: Vec::with_capacity(UNUSED_MAX), more: false });
        Ok(Self { commands: Mutex::default(), unused, bell: Arc::new(Doorbell::new()?) })
    }

    pub(crate) fn send(&self, command: Command) {
        lock(&self.commands).push(command);
        self.bell.ring();
    }

    pub(crate) fn take(&self) -> Vec<Command> {
        std::mem::take(&mut *lock(&self.commands))
    }

    /// Tells the pager that blocks are unused. Does not allocate.
    pub(crate) fn tell_unused(&self, blocks: Range<usize>) {
        let mut unused = lock(&self.unused);
        let is_first = unused.ranges.is_empty();
        if unused.ranges.len() < UNUSED_MAX {
            unused.ranges.push(blocks);
        } else {
            unused.more = true;
        }
        drop(unused);
        if is_first {
            self.bell.ring();
        }
    }

    /// Swaps the list of unused ranges with `empty`, an empty list of the same capacity; false if
    /// the list has overflowed since the last swap.
    pub(crate) fn swap_unused(&self, empty: &mut Vec<Range<usize>>) -> bool {
        debug_assert!(empty.is_empty() && empty.capacity() >= UNUSED_MAX);
        let mut unused = lock(&self.unused);
        std::mem::swap(&mut unused.ranges, empty);
        !std::mem::take(&mut unused.more)
    }
}
