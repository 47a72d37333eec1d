//! Serving of requests (pin, evict, flush, save), for a bounded time.

use std::sync::Arc;
use std::time::Instant;

use super::allocate::{drop_aside, drop_spare, forget, give_back};
use super::core::Core;
use super::evict::{has_room_to_take_out, save, take_out};
use super::fill::begin;
use super::limits::{ASIDE, AT_ONCE};
use super::place::{end_waiters_of_poisoned, open_for_system_calls, put_back};
use super::request_queue::{Next, Progress};
use crate::block::BlockState;
use crate::command_queue::Want;
use crate::config::Method;
use crate::waiter::Waiter;

const UNMAPPED: &str = "it was unmapped, or a part of it";

/// Serves requests; true if it ran out of time with work left over.
pub(super) fn serve_requests(core: &mut Core) -> bool {
    let began = Instant::now();
    let (mut now, mut has_room) = (began, true);
    while let Some(next) = core.requests.next(now, has_room) {
        let look = match next {
            Next::Look(block) => Some(block),
            Next::Note(want, block, waiter) => note(core, want, block, waiter),
        };
        let progress = look.map(|block| (block, go_on_with(core, block, now)));
        let before = std::mem::replace(&mut now, Instant::now());
        match progress {
            Some((block, Progress::NotYet)) => core.requests.put_off(block, now - before),
            Some((block, Progress::NoRoom)) => {
                core.requests.look_first(block);
                // A write in flight makes room. Without one, or with too many blocks aside, a block
                // aside is evicted.
                let is_soon = core.transfers.writes() > 0 && core.aside.count() <= ASIDE.1;
                has_room = !is_soon && drop_aside(core);
            }
            Some((_, Progress::Done)) | None => {}
        }
        if now - began > AT_ONCE {
            return true;
        }
    }
    false
}

/// Registers a waiter for a block. Returns the block if it needs a check.
fn note(core: &mut Core, want: Want, block: usize, waiter: Arc<Waiter>) -> Option<usize> {
    // Most blocks of a large range are absent: there is nothing to evict or to flush.
    if want != Want::Pin && matches!(core.blocks.place(block), BlockState::Absent) {
        waiter.done(block, Ok(()));
        return None;
    }
    core.waiters.add(block, want, waiter);
    Some(block)
}

/// Advances the requests that wait for a block, as far as its place allows.
pub(super) fn go_on_with(core: &mut Core, block: usize, now: Instant) -> Progress {
    if !core.waiters.retain(block, |(_, waiter)| !waiter.is_over()) {
        return Progress::Done;
    }
    match core.blocks.place(block) {
        BlockState::Absent if core.waiters.has(block, Want::Pin) => {
            let state = core.blocks.get_mut(block);
            (state.faulted, state.marker) = (false, false);
            begin(core, block, now);
        }
        BlockState::Absent => core.waiters.end(block),
        BlockState::Poisoned => end_waiters_of_poisoned(core, block, "it could not be read"),
        BlockState::Unmapped => tell_unmapped(core, block),
        BlockState::Aside(slot) if core.waiters.has(block, Want::Pin) => {
            core.aside.left();
            core.blocks.get_mut(block).marker = false;
            put_back(core, block, Some(slot));
        }
        BlockState::Aside(slot) => {
            if core.waiters.has(block, Want::Evict) {
                forget(core, block);
                give_back(core, slot, core.shared.block_len(block));
            }
            core.waiters.end(block);
        }
        BlockState::Resident => return serve_resident(core, block),
        BlockState::Queued(_) | BlockState::Filling(..) | BlockState::Writing(..) => {}
    }
    progress(core, block)
}

fn progress(core: &Core, block: usize) -> Progress {
    if core.waiters.has_any(block) { Progress::NotYet } else { Progress::Done }
}

fn serve_resident(core: &mut Core, block: usize) -> Progress {
    if core.waiters.has(block, Want::Pin) {
        pin_resident(core, block);
    }
    if !core.waiters.has_any(block) {
        return Progress::Done;
    }
    if core.waiters.has(block, Want::Save) {
        let saved = save(core, block);
        for (_, waiter) in core.waiters.take(block) {
            let saved = saved.clone().map_err(|text| core.shared.unwritable(block, &text));
            waiter.done(block, saved);
        }
        return Progress::Done;
    }
    let clean = core.shared.method == Method::Copy && !core.blocks.get(block).is_dirty();
    if clean && !core.waiters.has(block, Want::Evict) {
        core.waiters.end(block);
        return Progress::Done;
    }
    if !has_room_to_take_out(core, block) {
        return Progress::NoRoom;
    }
    if !take_out(core, block) {
        return Progress::NotYet;
    }
    match core.blocks.place(block) {
        BlockState::Aside(slot) if core.waiters.has(block, Want::Evict) => {
            forget(core, block);
            give_back(core, slot, core.shared.block_len(block));
            core.waiters.end(block);
        }
        BlockState::Aside(slot) => {
            core.aside.left();
            let waiters = core.waiters.take(block);
            put_back(core, block, Some(slot));
            core.waiters.put_back(block, waiters);
            core.waiters.end(block);
        }
        BlockState::Absent => {
            drop_spare(core);
            core.waiters.end(block);
        }
        BlockState::Unmapped => tell_unmapped(core, block),
        _ => {}
    }
    progress(core, block)
}

/// Completes the pins of a block that became resident without these waiters, for example before
/// the pin was requested.
fn pin_resident(core: &mut Core, block: usize) {
    open_for_system_calls(core, block);
    let word = &core.shared.words[block];
    core.waiters.retain(block, |(want, waiter)| {
        if *want == Want::Pin && word.try_pin() && !waiter.done(block, Ok(())) {
            word.unpin();
        }
        *want != Want::Pin
    });
}

fn tell_unmapped(core: &mut Core, block: usize) {
    for (want, waiter) in core.waiters.take(block) {
        let error = match want {
            Want::Pin => core.shared.unreadable(block, UNMAPPED),
            Want::Flush | Want::Evict | Want::Save => core.shared.unwritable(block, UNMAPPED),
        };
        waiter.done(block, Err(error));
    }
}
