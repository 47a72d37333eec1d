//! End of a transfer: the next part of its block, a retry, or the block's next state.

use std::io;
use std::time::Instant;

use terrace_sys::size::{PAGE_BYTES, to_u64};

use super::core::Core;
use super::request_queue::Progress;
use super::requests::go_on_with;
use super::transfer::{block_of, transfer};
use super::{evict, fill};
use crate::block::BlockState;
use crate::transfers::Ended;

/// Immediate retries of a failed transfer.
const RETRIES: u32 = 3;

/// Continues or ends a block's transfer, of which a piece has ended.
pub(super) fn ended(core: &mut Core, (token, result): Ended) {
    let (block, is_write) = block_of(token);
    match result {
        Ok(moved) => go_on(core, block, is_write, moved),
        Err(error) => failed(core, block, is_write, &error),
    }
    if !core.waiters.has_any(block) {
        return;
    }
    // A block that is being evicted leaves at once, so that its frame serves the next one.
    let leaves = matches!(core.blocks.place(block), BlockState::Aside(_));
    if !leaves || go_on_with(core, block, Instant::now()) != Progress::Done {
        core.requests.look_at(block);
    }
}

/// Continues a transfer of which `moved` more bytes are done.
fn go_on(core: &mut Core, block: usize, is_write: bool, moved: usize) {
    let len = core.shared.transfer_len(block);
    let counters = &core.shared.counters;
    let bytes = if is_write { &counters.written_bytes } else { &counters.read_bytes };
    bytes.add(to_u64(moved));
    let start = core.shared.source.offset + to_u64(core.shared.offset(block));
    let file_end = core.shared.file_end.unwrap_or(u64::MAX);
    let state = core.blocks.get_mut(block);
    let before = state.done;
    state.done = len.min(before + moved);
    let whole = state.done / PAGE_BYTES * PAGE_BYTES;
    let has_file_end = !is_write && start + to_u64(state.done) >= file_end;
    if state.done == len || has_file_end {
        arrived(core, block, is_write);
    } else if whole > before {
        state.done = whole;
        transfer(core, block, is_write);
    } else if is_write {
        state.done = before;
        failed(core, block, is_write, &io::ErrorKind::WriteZero.into());
    } else if moved == 0 || state.short_reads == RETRIES {
        // The file ends here; bytes beyond its end read as zero.
        arrived(core, block, is_write);
    } else {
        state.done = before;
        state.short_reads += 1;
        transfer(core, block, is_write);
    }
}

fn arrived(core: &mut Core, block: usize, is_write: bool) {
    core.blocks.get_mut(block).short_reads = 0;
    if is_write { evict::written(core, block) } else { fill::read(core, block) }
}

fn failed(core: &mut Core, block: usize, is_write: bool, error: &io::Error) {
    core.shared.counters.failures.add(1);
    let stops = core.stops();
    let state = core.blocks.get_mut(block);
    state.failures += 1;
    if state.failures <= RETRIES && !stops {
        return transfer(core, block, is_write);
    }
    state.failures = 0;
    let (region, message) = (core.shared.name.clone(), error.to_string());
    let offset = to_u64(core.shared.offset(block));
    tracing::error!(region, offset, message, is_write, "a block's transfer fails");
    if is_write {
        evict::refused(core, block, &message);
    } else {
        fill::poison(core, block, &message);
    }
}
