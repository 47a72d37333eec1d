//! Private state of a pager's blocks.

use std::sync::Arc;

use crate::block::{Block, BlockState};
use crate::config::Contents;
use crate::state::Shared;

/// State of the blocks that a pager serves: those of its stripes of the region.
pub(super) struct Blocks {
    shared: Arc<Shared>,
    /// Number of the pager.
    number: usize,
    /// States, indexed by [`Blocks::local`].
    states: Vec<Block>,
}

impl Blocks {
    pub(super) fn new(shared: &Arc<Shared>, number: usize) -> Self {
        let stripe = shared.stripe_blocks;
        let stripes = shared.words.len().div_ceil(stripe).div_ceil(shared.pagers);
        let block = Block::new(shared.source.contents == Contents::Stored);
        Self { shared: Arc::clone(shared), number, states: vec![block; stripes * stripe] }
    }

    /// Returns the index of a block among those of this pager.
    fn local(&self, block: usize) -> usize {
        let (stripe, pagers) = (self.shared.stripe_blocks, self.shared.pagers);
        block / stripe / pagers * stripe + block % stripe
    }

    pub(super) fn get(&self, block: usize) -> &Block {
        &self.states[self.local(block)]
    }

    pub(super) fn get_mut(&mut self, block: usize) -> &mut Block {
        let local = self.local(block);
        &mut self.states[local]
    }

    pub(super) fn place(&self, block: usize) -> BlockState {
        self.get(block).place
    }

    pub(super) fn set_place(&mut self, block: usize, place: BlockState) {
        self.get_mut(block).place = place;
    }

    /// True if the block belongs to this pager.
    pub(super) fn is_own(&self, block: usize) -> bool {
        self.shared.pager_of(block) == self.number
    }

    /// Returns the first block from `block` on that belongs to this pager, possibly beyond the last
    /// one.
    pub(super) fn next_own(&self, block: usize) -> usize {
        let (stripe, pagers) = (self.shared.stripe_blocks, self.shared.pagers);
        let others = (self.number + pagers - self.shared.pager_of(block)) % pagers;
        if others == 0 { block } else { (block / stripe + others) * stripe }
    }
}
