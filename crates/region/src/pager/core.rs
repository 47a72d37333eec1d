//! Core of a pager: the structure that owns its frames, queues and block states. The operations in
//! the layers above take a reference to it.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use terrace_sys::size::to_u64;

use super::blocks::Blocks;
use super::eviction_queue::EvictionQueue;
use super::fingerprint::Zeros;
use super::frames::Frames;
use super::limits::FRAMES_MIN;
use super::pages::Pages;
use super::readahead_queue::ReadaheadQueue;
use super::refusals::Refusals;
use super::request_queue::RequestQueue;
use super::second_chance::SecondChance;
use super::transfer_queue::TransferQueue;
use super::waiters::Waiters;
use crate::command_queue::UNUSED_MAX;
use crate::config::Method;
use crate::error::RegionError;
use crate::state::{Shared, system};

/// Parts of a pager. Each part changes only by its own methods.
pub(super) struct Core {
    pub(super) shared: Arc<Shared>,
    /// Number of the pager.
    pub(super) number: usize,
    pub(super) pages: Pages,
    pub(super) blocks: Blocks,
    pub(super) frames: Frames,
    pub(super) transfers: TransferQueue,
    pub(super) queue: EvictionQueue,
    pub(super) aside: SecondChance,
    pub(super) ahead: ReadaheadQueue,
    pub(super) refusals: Refusals,
    pub(super) waiters: Waiters,
    pub(super) requests: RequestQueue,
    pub(super) zeros: Zeros,
    /// Blocks that wait for a frame.
    pub(super) wanted: VecDeque<usize>,
    /// Ranges declared unused that are not processed yet.
    pub(super) unused: Vec<Range<usize>>,
}

impl Core {
    pub(super) fn new(shared: Arc<Shared>, number: usize) -> Result<Self, RegionError> {
        let pages = Pages::open(&shared, number)?;
        let frames = Frames::open(&shared, pages.userfault())?;
        let mut core = Self {
            transfers: TransferQueue::open(&shared, number)?,
            blocks: Blocks::new(&shared, number),
            refusals: Refusals::new(&shared),
            frames,
            pages,
            queue: EvictionQueue::default(),
            aside: SecondChance::default(),
            ahead: ReadaheadQueue::default(),
            waiters: Waiters::default(),
            requests: RequestQueue::default(),
            zeros: Zeros::default(),
            wanted: VecDeque::new(),
            unused: Vec::with_capacity(UNUSED_MAX),
            number,
            shared,
        };
        core.take_floor()?;
        Ok(core)
    }

    /// Takes the first frames, which are held for good, so that faults can always be handled.
    fn take_floor(&mut self) -> Result<(), RegionError> {
        let bytes = self.shared.block_bytes;
        let is_there = self.shared.consumer.ledger().available() >= to_u64(FRAMES_MIN * bytes);
        let count = if self.shared.method == Method::Move { FRAMES_MIN } else { 1 };
        for _ in 0..count {
            let Some(slot) = self.frames.grow(bytes, 0).filter(|_| is_there) else {
                let source = io::Error::other("the budget has no room for two blocks");
                return Err(system(&self.shared.name, "taking the first frames")(source));
            };
            self.frames.push_free(slot);
        }
        Ok(())
    }

    /// True if the region is being dropped.
    pub(super) fn stops(&self) -> bool {
        self.shared.stop.load(Ordering::Acquire)
    }

    /// Records the latency of a fault that began at `since`.
    pub(super) fn record(&self, since: Instant) {
        let ns = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.shared.recorders[self.number].record(ns);
    }
}
