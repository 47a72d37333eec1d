//! Handles page faults.

use std::io;
use std::time::Instant;

use terrace_sys::userfault::Fault;

use super::core::Core;
use super::fill::begin;
use super::place::put_back;
use super::windows::look_ahead;
use crate::block::BlockState;

/// Handles all faults that can be read. `faults` is an empty buffer.
pub(super) fn answer(core: &mut Core, faults: &mut Vec<Fault>) -> io::Result<()> {
    loop {
        let result = core.pages.userfault().read(faults);
        let told = faults.len();
        let now = Instant::now();
        faults.drain(..).for_each(|fault| answer_one(core, fault, now));
        result?;
        if told == 0 {
            return Ok(());
        }
    }
}

/// Handles the faults of transfers alone, which are on blocks being written from mapped pages.
/// `faults` is an empty buffer.
pub(super) fn answer_transfers(core: &mut Core, faults: &mut Vec<Fault>) -> io::Result<()> {
    let result = core.pages.userfault().read(faults);
    let now = Instant::now();
    for fault in faults.drain(..) {
        let place = core.pages.block_at(fault).map(|block| core.blocks.place(block));
        if matches!(place, Some(BlockState::Writing(None, _))) {
            answer_one(core, fault, now);
        }
    }
    result.map(drop)
}

/// Handles one fault, which was read at `now`.
pub(super) fn answer_one(core: &mut Core, fault: Fault, now: Instant) {
    let Some(block) = core.pages.block_at(fault) else {
        return core.pages.refuse_page(&mut core.frames, fault);
    };
    let at = core.pages.offset_of(fault);
    core.shared.counters.faults.add(1);
    let state = core.blocks.get_mut(block);
    match state.place {
        BlockState::Absent => {
            (state.dirty, state.faulted, state.marker) = (fault.write, true, false);
            look_ahead(core, block);
            begin(core, block, now);
        }
        BlockState::Queued(_) | BlockState::Filling(..) => {
            state.dirty |= fault.write;
            // Latency counts from the first thread that faulted.
            if !std::mem::replace(&mut state.faulted, true) {
                if let BlockState::Filling(_, since) = &mut state.place {
                    *since = now;
                }
                look_ahead(core, block);
            }
        }
        BlockState::Resident if fault.protected => {
            state.dirty = true;
            core.pages.protect(block, false);
        }
        BlockState::Unmapped if fault.protected => core.pages.unprotect_page(at),
        // The process dropped pages of the block, or the block came into place meanwhile.
        BlockState::Resident | BlockState::Unmapped => mend_page(core, block, at),
        BlockState::Aside(slot) => {
            core.aside.left();
            core.shared.counters.returned.add(1);
            state.hot = !std::mem::take(&mut state.marker);
            put_back(core, block, Some(slot));
            look_ahead(core, block);
            core.record(now);
        }
        BlockState::Writing(slot, _) if slot.is_some() || fault.protected => {
            state.place = BlockState::Writing(slot, true);
        }
        BlockState::Writing(slot, _) => {
            // Writes to a page filled here are not detected, so the block counts as dirty.
            mend_page(core, block, at);
            core.blocks.set_place(block, BlockState::Writing(slot, true));
        }
        // The process has dropped the poison marker.
        BlockState::Poisoned => core.pages.poison_again(block, at),
    }
}

/// Fills a hole in a resident block, made by `madvise`, with zeros; if the page is present, wakes
/// the threads that faulted on it.
fn mend_page(core: &mut Core, block: usize, at: usize) {
    if core.pages.fill_hole(at) {
        // The new page is not write-protected.
        core.blocks.get_mut(block).dirty = true;
    }
}
