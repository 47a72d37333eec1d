//! Commands of callers: pin, evict, flush, save and readahead of blocks.

use super::core::Core;
use super::windows::follow;
use crate::command_queue::{Command, Want};

/// Executes a command: changes the readahead queue, or queues requests for blocks.
pub(super) fn obey(core: &mut Core, command: Command) {
    match command {
        Command::Look => core.frames.retry(),
        Command::Ahead(blocks) => {
            let most = core.shared.blocks_ahead_max().saturating_sub(core.ahead.len());
            core.ahead.extend(blocks.into_iter().take(most));
        }
        Command::Follow(requested) => follow(core, requested),
        Command::Want(want, blocks, waiter) => {
            if want == Want::Evict {
                // An eviction cancels earlier readahead of the same blocks. The blocks of a command
                // are sorted.
                core.ahead.cancel(&blocks);
            }
            core.requests.add_order(want, blocks, waiter);
        }
    }
}
