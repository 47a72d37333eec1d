//! Blocks declared unused: they leave memory without write-back and are not read again.

use super::allocate::{drop_spare, forget};
use super::core::Core;
use super::evict::take_out;
use super::place::{lose_bytes, lose_frame_of};
use crate::block::BlockState;
use crate::command_queue::CommandQueue;

/// Blocks dropped, and blocks checked, before faults are handled again.
const DROPS: usize = 32;
const LOOKS: usize = 16 << 10;

/// Drops blocks that callers have declared unused, a bounded number at a time; the rest stays in
/// the list.
pub(super) fn drop_unused(core: &mut Core, command_queue: &CommandQueue) {
    let (mut drops, mut looks) = (DROPS, LOOKS);
    loop {
        if core.unused.is_empty() && !command_queue.swap_unused(&mut core.unused) {
            core.unused.clear();
            core.unused.push(0..core.shared.words.len());
        }
        let Some(blocks) = core.unused.pop() else { return };
        let mut block = core.blocks.next_own(blocks.start);
        while block < blocks.end {
            if drops == 0 || looks == 0 {
                core.unused.push(block..blocks.end);
                return;
            }
            looks -= 1;
            if core.shared.words[block].is_lost() {
                drops -= 1;
                drop_block(core, block);
                drop_spare(core);
            }
            block = core.blocks.next_own(block + 1);
        }
    }
}

fn drop_block(core: &mut Core, block: usize) {
    let word = &core.shared.words[block];
    match core.blocks.place(block) {
        BlockState::Absent => {
            word.take_lost();
            lose_bytes(core, block);
        }
        BlockState::Aside(slot) => {
            word.take_lost();
            forget(core, block);
            lose_frame_of(core, block, slot);
        }
        // A block that was declared used again may have been written to and must stay.
        BlockState::Resident if word.is_unused() => {
            take_out(core, block);
        }
        BlockState::Poisoned => {
            word.take_lost();
            core.pages.decommit(block);
            core.blocks.set_place(block, BlockState::Absent);
            lose_bytes(core, block);
        }
        // These blocks are checked when their fill or write-back ends, or cannot be dropped.
        BlockState::Resident
        | BlockState::Queued(_)
        | BlockState::Filling(..)
        | BlockState::Writing(..)
        | BlockState::Unmapped => {}
    }
}
