//! What users ask of pagers.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use terrace_sys::event_ring::Doorbell;

use crate::lock;
use crate::waiter::Waiter;

/// Ranges that nobody needs which a pager is told of at a time.
pub(crate) const UNUSED_MAX: usize = 256;

/// What users ask of a pager.
#[derive(Debug)]
pub(crate) struct Inbox {
    commands: Mutex<Vec<Command>>,
    unused: Mutex<Unused>,
    pub(crate) bell: Arc<Doorbell>,
}

/// Blocks that nobody needs; who says so must not allocate.
#[derive(Debug)]
struct Unused {
    ranges: Vec<Range<usize>>,
    /// There was no room for all of them.
    more: bool,
}

#[derive(Debug)]
pub(crate) enum Command {
    Want(Want, Vec<usize>, Arc<Waiter>),
    Ahead(Vec<usize>),
    /// Who touches blocks in order comes to these next.
    Follow(Range<usize>),
    /// Something has changed that the pager looks at.
    Look,
}

/// What is to become of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    Pin,
    Evict,
    Flush,
    /// Written from where it is, pinned or not: the region ends.
    Save,
}

impl Inbox {
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

    /// Says that blocks are not needed.
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

    /// Exchanges the blocks that nobody needs for an empty list with room for more; false where
    /// there were more of them.
    pub(crate) fn swap_unused(&self, empty: &mut Vec<Range<usize>>) -> bool {
        debug_assert!(empty.is_empty() && empty.capacity() >= UNUSED_MAX);
        let mut unused = lock(&self.unused);
        std::mem::swap(&mut unused.ranges, empty);
        !std::mem::take(&mut unused.more)
    }
}
