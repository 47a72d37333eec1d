//! Readahead windows of sequential streams, which are detected from page faults.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::core::Core;
use crate::block::BlockState;
use crate::command_queue::Command;

/// Divisor of the cap: a readahead window has at most this share of its frames (1 /
/// `WINDOW_SHARE`).
const WINDOW_SHARE: usize = 8;

/// Reads ahead if a touched block continues a sequential stream.
pub(super) fn look_ahead(core: &mut Core, block: usize) {
    // Each stream holds up to two windows; the streams together must not hold all frames.
    let most = core.shared.ahead_blocks.min(core.frames.cap() / WINDOW_SHARE);
    if most == 0 || !core.shared.looks_ahead.load(Ordering::Relaxed) {
        return;
    }
    let Some(requested) = core.ahead.streams().touch(block, most) else { return };
    let Some(pager) = window_pager(core, &requested) else { return };
    if pager == core.number {
        ask_window(core, requested);
    } else {
        core.ahead.streams().leave(requested.start);
        core.shared.send(pager, Command::Follow(requested));
    }
}

/// Returns the pager of a window's first block; `None` beyond the end of the region.
fn window_pager(core: &Core, requested: &Range<usize>) -> Option<usize> {
    let is_inside = requested.start < core.shared.words.len();
    is_inside.then(|| core.shared.pager_of(requested.start))
}

/// Takes over a sequential stream that began in another pager's stripe.
pub(super) fn follow(core: &mut Core, requested: Range<usize>) {
    core.ahead.streams().adopt(&requested);
    ask_window(core, requested);
}

/// Queues a window for readahead. Resident blocks are touched without a fault, so the window's
/// first block is kept out of its place: its first touch faults and triggers the next window.
fn ask_window(core: &mut Core, requested: Range<usize>) {
    let requested = requested.start..requested.end.min(core.shared.words.len());
    let (own, others): (Vec<usize>, Vec<usize>) =
        requested.partition(|block| core.blocks.is_own(*block));
    // Blocks of zeros are not read ahead: they are made as fast as they are requested.
    let absent = |block: &usize| {
        let state = core.blocks.get(*block);
        state.stored && matches!(state.place, BlockState::Absent)
    };
    let absent: Vec<usize> = own.into_iter().filter(absent).collect();
    absent.first().into_iter().for_each(|first| core.blocks.get_mut(*first).marker = true);
    core.ahead.extend(absent);
    core.shared.send_parts(others, Command::Ahead);
}
