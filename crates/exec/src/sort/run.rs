//! Sorted runs, each a sequence of blocks.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, BinaryArray};
use datafusion::arrow::buffer::ScalarBuffer;
use datafusion::arrow::datatypes::UInt64Type;
use terrace_pool::Pinned;

use crate::block::{Block, Lease};

/// A pinned block of sorted rows.
#[derive(Debug)]
pub(crate) struct OpenBlock {
    pub(crate) columns: Vec<ArrayRef>,
    pub(crate) prefixes: ScalarBuffer<u64>,
    pub(crate) encoded: Option<BinaryArray>,
    _lease: Lease,
}

impl OpenBlock {
    /// Creates the arrays of `block`, which has `width` columns before its keys.
    pub(crate) fn new(block: &Block, pins: Vec<Pinned>, width: usize, lease: Lease) -> Self {
        let mut columns = block.arrays(pins);
        let mut keys = columns.split_off(width.min(columns.len())).into_iter();
        let prefixes = keys.next().and_then(|it| it.as_primitive_opt::<UInt64Type>().cloned());
        let prefixes = prefixes.map(|it| it.values().clone()).unwrap_or_default();
        let encoded = keys.next().and_then(|it| it.as_binary_opt::<i32>().cloned());
        Self { columns, prefixes, encoded, _lease: lease }
    }

    /// Returns the whole key of a row, empty if there is none.
    pub(crate) fn key(&self, row: usize) -> &[u8] {
        self.encoded.as_ref().map_or(&[], |keys| keys.value(row))
    }
}

/// Sorted rows in blocks; some rows of the first block may be consumed already.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) blocks: VecDeque<Block>,
    pub(crate) skip: usize,
    /// The first block, while it is pinned.
    pub(crate) open: Option<Arc<OpenBlock>>,
}

impl Run {
    pub(crate) fn of(block: Block, open: Option<OpenBlock>) -> Self {
        Self { blocks: VecDeque::from([block]), skip: 0, open: open.map(Arc::new) }
    }

    pub(crate) fn rows(&self) -> usize {
        self.blocks.iter().map(Block::rows).sum::<usize>() - self.skip
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.blocks.iter().map(Block::bytes).sum()
    }

    /// Returns the bytes of the block that a merge begins with.
    pub(crate) fn head_bytes(&self) -> u64 {
        self.blocks.front().map_or(0, Block::bytes)
    }
}
