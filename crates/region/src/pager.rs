//! Pager: the thread that handles page faults. It alone moves blocks. It waits for events alone,
//! with two exceptions: it blocks while it saves a block of a dropped region in its place, and for
//! up to a second where the kernel has no memory to copy a page into.
//!
//! ```text
//!            fault                    read                      cap
//!   absent --------> queued, filling ------> resident ---------------+--> aside --> absent
//!      ^                                        ^  ^                 |       |
//!      |                                        |  +-- wanted again -(-------+
//!      |                                        +-- wanted again -- writing  |
//!      +---------------------------------------------------------------------+
//! ```
//!
//! A victim is moved out of its place before it is inspected; it is written back if its fingerprint
//! differs from that of the bytes in the source. No thread can write to it meanwhile, so no write
//! is lost, and clean blocks cost no transfer. (Write-protecting a block after it was moved in
//! would leave a moment in which a write goes unnoticed.) A block that was read or written once has
//! a fingerprint when it is read again.
//!
//! The files are layers, from the lowest: the parts, which change by their own methods alone
//! (`pages`, `blocks`, `frames`, the queues, `second_chance`, `refusals`, `waiters`); `core`, the
//! parts together; one step of one block (`allocate`, `place`, `transfer`); the ways out of memory
//! and into it (`evict`, `fill`); progress of requests and readahead (`requests`, `windows`); the
//! sources of work (`completion`, `faults`, `commands`, `discard`, `reclaim`); `failure`; and the
//! event loop, which is this file.

mod allocate;
mod blocks;
mod commands;
mod completion;
mod core;
mod discard;
mod evict;
mod eviction_queue;
mod failure;
mod faults;
mod fill;
mod fingerprint;
mod frames;
mod limits;
mod pages;
mod place;
mod readahead_queue;
mod reclaim;
mod refusals;
mod request_queue;
mod requests;
mod second_chance;
mod transfer;
mod transfer_queue;
mod waiters;
mod windows;

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use terrace_sys::event_ring::Event;
use terrace_sys::userfault::Fault;

use self::commands::obey;
use self::completion::ended;
use self::core::Core;
use self::discard::drop_unused;
use self::failure::{give_up, refuse};
use self::faults::{answer, answer_transfers};
use self::limits::LOOK_AGAIN;
use self::reclaim::balance;
use self::requests::serve_requests;
use crate::error::RegionError;
use crate::state::Shared;

/// Tokens of the polled descriptors.
const FAULTS: u64 = u64::MAX;
const BELL: u64 = u64::MAX - 1;

/// A pager: its parts, and the buffer that faults are read into.
pub(crate) struct Pager {
    core: Core,
    faults: Vec<Fault>,
}

impl Pager {
    pub(crate) fn new(shared: Arc<Shared>, number: usize) -> Result<Self, RegionError> {
        Ok(Self { core: Core::new(shared, number)?, faults: Vec::new() })
    }

    /// Runs the pager until the region is dropped.
    pub(crate) fn run(mut self) {
        let why = match catch_unwind(AssertUnwindSafe(|| self.serve())) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it has panicked".to_owned(),
        };
        let mut broken = ManuallyDrop::new(self.core);
        let refused = catch_unwind(AssertUnwindSafe(|| {
            give_up(&mut broken, &why);
            refuse(&mut broken, &why);
        }));
        if refused.is_ok() {
            ManuallyDrop::into_inner(broken).transfers.leave();
        }
        // If that panicked, the descriptor stays open: threads that touch absent blocks block
        // forever instead of reading zeros.
    }

    fn serve(&mut self) -> io::Result<()> {
        let Self { core, faults } = self;
        let shared = Arc::clone(&core.shared);
        let command_queue = &shared.inboxes[core.number];
        core.transfers.poll(core.pages.userfault().as_fd(), FAULTS)?;
        core.transfers.poll(command_queue.bell.as_fd(), BELL)?;
        let mut events = Vec::new();
        // True if work is left over; the loop then polls for faults without blocking.
        let mut has_more = false;
        loop {
            let stops = core.stops();
            if stops && core.transfers.in_flight() == 0 {
                return Ok(());
            }
            let time = if has_more { Some(Duration::ZERO) } else { patience(core) };
            core.transfers.wait(time, &mut events)?;
            for event in events.drain(..) {
                match event {
                    Event::Readable(FAULTS) => {
                        core.transfers.poll(core.pages.userfault().as_fd(), FAULTS)?;
                    }
                    Event::Readable(_) => {
                        command_queue.bell.clear();
                        core.transfers.poll(command_queue.bell.as_fd(), BELL)?;
                    }
                    Event::Moved(token, result) => ended(core, (token, result)),
                }
            }
            core.transfers.take_ended().into_iter().for_each(|it| ended(core, it));
            if stops {
                // No more requests are accepted; only the transfers in flight are awaited.
                has_more = false;
                answer_transfers(core, faults)?;
                continue;
            }
            answer(core, faults)?;
            command_queue.take().into_iter().for_each(|command| obey(core, command));
            drop_unused(core, command_queue);
            let is_late = serve_requests(core);
            has_more = balance(core) || is_late || !core.unused.is_empty();
        }
    }
}

/// Returns the time after which a pager checks its blocks again even without an event; `None` if
/// nothing waits for a frame or for another check.
fn patience(core: &Core) -> Option<Duration> {
    let waits = !core.wanted.is_empty()
        || !core.waiters.is_empty()
        || !core.requests.is_empty()
        || !core.refusals.is_empty()
        || core.frames.is_beyond_cap();
    waits.then_some(LOOK_AGAIN)
}
