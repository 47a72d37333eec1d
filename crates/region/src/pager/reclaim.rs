//! Distribution of frames to waiting blocks, and choice of victims.

use std::time::Instant;

use super::allocate::{drop_frame, take_aside, take_frame};
use super::core::Core;
use super::evict::take_out;
use super::fill::fill;
use super::limits::{ASIDE, AT_ONCE, FRAMES_MIN};
use crate::block::BlockState;
use crate::command_queue::Want;
use crate::config::Method;

/// Divisor of the cap: this share of the frames is kept aside or in write-back, within the bounds
/// `ASIDE`.
const ASIDE_SHARE: usize = 16;
/// Maximum number of blocks checked to find a victim.
const LOOKS: usize = 16 << 10;

/// Hands frames to waiting blocks and to readahead, enforces the cap, and evicts ahead of demand.
/// Returns true if it ran out of time.
pub(super) fn balance(core: &mut Core) -> bool {
    let end = Instant::now() + AT_ONCE;
    let is_late = serve_wanted(core, end) | shrink(core, end);
    keep_ready(core);
    is_late | serve_wanted(core, end) | serve_ahead(core, end)
}

fn serve_wanted(core: &mut Core, end: Instant) -> bool {
    while let Some(block) = core.wanted.front().copied() {
        let BlockState::Queued(since) = core.blocks.place(block) else {
            core.wanted.pop_front();
            continue;
        };
        if !core.blocks.get(block).faulted && !core.waiters.has(block, Want::Pin) {
            // The caller that wanted to pin the block has stopped waiting.
            core.blocks.set_place(block, BlockState::Absent);
            core.wanted.pop_front();
            continue;
        }
        if core.transfers.fills() >= core.shared.depth {
            return false;
        }
        let Some(slot) = take_frame(core, core.shared.block_len(block)) else { return false };
        core.wanted.pop_front();
        fill(core, block, slot, since);
        // Blocks of zeros complete without a transfer, so this loop is bounded by time.
        if Instant::now() > end {
            return !core.wanted.is_empty();
        }
    }
    false
}

fn serve_ahead(core: &mut Core, end: Instant) -> bool {
    while let Some(block) = core.ahead.first() {
        if !matches!(core.blocks.place(block), BlockState::Absent) {
            core.ahead.pop();
            continue;
        }
        if !core.wanted.is_empty() || core.transfers.fills() >= core.shared.depth {
            return false;
        }
        let len = core.shared.block_len(block);
        let slot = take_frame(core, len).or_else(|| {
            keep_ready(core);
            take_frame(core, len)
        });
        let Some(slot) = slot else {
            // Readahead waits for transfers in flight, but not for frames that other blocks hold.
            if core.transfers.in_flight() == 0 {
                core.ahead.clear();
            }
            return false;
        };
        core.ahead.pop();
        core.shared.counters.ahead.add(1);
        let state = core.blocks.get_mut(block);
        (state.dirty, state.faulted) = (false, false);
        fill(core, block, slot, Instant::now());
        keep_ready(core);
        if Instant::now() > end {
            return !core.ahead.is_empty();
        }
    }
    false
}

/// Gives back frames beyond the cap. Returns true if it ran out of time.
fn shrink(core: &mut Core, end: Instant) -> bool {
    // Blocks in write-back leave soon and are not counted.
    while core.frames.count().saturating_sub(core.transfers.writes())
        > core.frames.cap().max(FRAMES_MIN)
    {
        if Instant::now() > end {
            return true;
        }
        let spare = core.frames.pop_free().or_else(|| take_aside(core));
        match spare {
            Some(slot) if core.shared.method == Method::Copy && core.frames.free() == 0 => {
                // The last copy buffer is kept.
                core.frames.push_free(slot);
                if !take_out_next(core) {
                    return false;
                }
            }
            Some(slot) => drop_frame(core, slot),
            None if take_out_next(core) => {}
            None => return false,
        }
    }
    false
}

/// Evicts ahead of demand, to keep spare frames ready for the next faults.
fn keep_ready(core: &mut Core) {
    if !core.frames.is_full() && core.frames.count() < core.frames.cap() {
        return;
    }
    let spare = (core.frames.cap() / ASIDE_SHARE).clamp(ASIDE.0, ASIDE.1);
    // Beyond the cap, `shrink` evicts as time permits; here only blocks for waiting ones are
    // evicted.
    let spare = if core.frames.is_beyond_cap() { 0 } else { spare };
    let target = spare + core.wanted.len();
    // Bounded: beyond the cap a dropped frame makes no room.
    for _ in 0..target {
        let is_ready = ready(core) >= target.min(core.frames.empty_staging());
        if is_ready || !take_out_next(core) {
            return;
        }
    }
}

/// Returns the number of frames that are ready for blocks, or will be soon.
fn ready(core: &Core) -> usize {
    let frames = &core.frames;
    let free = match core.shared.method {
        Method::Move => frames.free(),
        // Copy buffers are freed to make room, except for one.
        Method::Copy => (frames.free() + core.transfers.fills()).saturating_sub(1),
    };
    let room = frames.cap().saturating_sub(frames.count());
    let room = if frames.is_full() { 0 } else { room };
    core.aside.count() + core.transfers.writes() + free + room
}

/// Evicts the next victim; false if there is none, or none within `LOOKS` blocks.
fn take_out_next(core: &mut Core) -> bool {
    if core.shared.method == Method::Move && core.frames.empty_staging() == 0 {
        return false;
    }
    let now = Instant::now();
    for _ in 0..LOOKS.min(2 * core.queue.len()) {
        let Some(block) = core.queue.pop() else { return false };
        let state = core.blocks.get_mut(block);
        state.queued = false;
        if !matches!(state.place, BlockState::Resident) {
            continue;
        }
        let stuck = core.refusals.is_resting(block, now);
        let hot = std::mem::take(&mut state.hot);
        if stuck || hot || core.shared.words[block].is_pinned() || !take_out(core, block) {
            core.queue.push(block, &mut core.blocks.get_mut(block).queued);
            continue;
        }
        return true;
    }
    false
}
