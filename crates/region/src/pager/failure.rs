//! Shutdown of a failed pager: no absent block may read as zero, and no thread may wait for one
//! forever.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;

use terrace_sys::sync::lock;
use terrace_sys::userfault::Fault;

use super::core::Core;
use super::faults::answer_one;
use super::limits::LOOK_AGAIN;
use super::place::settle;
use crate::block::BlockState;
use crate::command_queue::{Command, Want};
use crate::config::Method;
use crate::waiter::Waiter;

/// Puts all blocks in memory back in their place, writable, poisons those that are queued or being
/// read, and fails all requests.
pub(super) fn give_up(core: &mut Core, why: &str) {
    lock(&core.shared.broken).get_or_insert_with(|| why.to_owned());
    core.shared.counters.break_for(format!("a pager cannot go on: {why}"));
    for block in 0..core.shared.words.len() {
        if core.blocks.is_own(block) {
            give_up_block(core, block);
        }
    }
    for (block, waiters) in core.waiters.take_all() {
        waiters.into_iter().for_each(|(want, waiter)| refuse_one(core, want, block, &waiter, why));
    }
    core.requests.take_orders().for_each(|(want, blocks, waiter)| {
        blocks.for_each(|block| refuse_one(core, want, block, &waiter, why));
    });
    tracing::error!(region = core.shared.name, why, "a pager cannot go on");
}

fn give_up_block(core: &mut Core, block: usize) {
    match core.blocks.place(block) {
        BlockState::Aside(slot) => {
            core.pages.move_in(&mut core.frames, block, slot);
            settle(core, block);
        }
        BlockState::Writing(Some(slot), _) => {
            // The write continues from the frame, whose bytes are copied into place.
            core.pages.copy_back(&mut core.frames, block, slot);
            settle(core, block);
        }
        BlockState::Writing(None, _) => {
            core.pages.protect(block, false);
            settle(core, block);
        }
        BlockState::Resident if core.shared.method == Method::Copy => {
            core.pages.protect(block, false)
        }
        BlockState::Queued(_) | BlockState::Filling(..) => poison_block(core, block),
        BlockState::Absent | BlockState::Resident | BlockState::Poisoned | BlockState::Unmapped => {
        }
    }
}

/// Poisons a block and wakes every thread that faulted on it; each receives SIGBUS.
fn poison_block(core: &mut Core, block: usize) {
    core.blocks.set_place(block, BlockState::Poisoned);
    core.pages.poison(block);
}

/// Fails faults on absent blocks, and requests, until the region is dropped; works without the
/// ring.
pub(super) fn refuse(core: &mut Core, why: &str) {
    let shared = Arc::clone(&core.shared);
    let mut faults = Vec::new();
    while !shared.stop.load(Ordering::Acquire) {
        thread::sleep(LOOK_AGAIN);
        // Faults that cannot be read now are read in the next round.
        let _ = core.pages.userfault().read(&mut faults);
        faults.drain(..).for_each(|fault| answer_broken(core, fault));
        for command in shared.inboxes[core.number].take() {
            let Command::Want(want, blocks, waiter) = command else { continue };
            for block in blocks {
                refuse_one(core, want, block, &waiter, why);
            }
        }
    }
}

fn answer_broken(core: &mut Core, fault: Fault) {
    let block = core.pages.block_at(fault);
    match block.map(|block| (block, core.blocks.place(block))) {
        Some((block, BlockState::Absent)) => poison_block(core, block),
        _ => answer_one(core, fault, Instant::now()),
    }
}

fn refuse_one(core: &Core, want: Want, block: usize, waiter: &Waiter, why: &str) {
    let is_there = matches!(core.blocks.place(block), BlockState::Resident);
    let word = &core.shared.words[block];
    let message = format!("its pager cannot go on: {why}");
    let result = match want {
        Want::Pin if word.try_pin() => Ok(()),
        Want::Pin => Err(core.shared.unreadable(block, &message)),
        // A block that is not resident has no unwritten changes.
        Want::Evict | Want::Flush | Want::Save if !is_there => Ok(()),
        Want::Evict | Want::Flush | Want::Save => Err(core.shared.unwritable(block, &message)),
    };
    let is_pinned = want == Want::Pin && result.is_ok();
    if !waiter.done(block, result) && is_pinned {
        word.unpin();
    }
}
