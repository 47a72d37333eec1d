//! Start of a block's transfer, and its token.

use std::sync::Arc;

use terrace_sys::event_ring::Piece;
use terrace_sys::size::{to_u64, to_usize};

use super::core::Core;
use crate::block::BlockState;

/// Returns the token of a block's transfer.
fn token(block: usize, is_write: bool) -> u64 {
    to_u64(block) << 1 | u64::from(is_write)
}

/// Returns the block of a token, and true if it is written.
pub(super) fn block_of(token: u64) -> (usize, bool) {
    (to_usize(token >> 1), token & 1 == 1)
}

/// Starts the transfer of the bytes of a block that are not done yet, in either direction.
pub(super) fn transfer(core: &mut Core, block: usize, is_write: bool) {
    let (done, len) = (core.blocks.get(block).done, core.shared.transfer_len(block));
    let offset = core.shared.offset(block);
    let (mapping, at) = match core.blocks.place(block) {
        BlockState::Filling(slot, _) | BlockState::Writing(Some(slot), _) => {
            core.frames.memory(slot)
        }
        // Copied blocks are written from their mapped pages, which are write-protected.
        _ => (&core.shared.mapping, offset),
    };
    let piece = Piece {
        mapping: Arc::clone(mapping),
        at: at + done,
        len: len - done,
        offset: core.shared.source.offset + to_u64(offset + done),
        may_fault: Arc::ptr_eq(mapping, &core.shared.mapping),
    };
    core.transfers.start(piece, is_write, token(block, is_write));
}
