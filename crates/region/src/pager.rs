//! Pager: the thread that handles page faults. It alone moves blocks, and it waits for nothing but
//! events.
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

mod allocate;
mod commands;
mod discard;
mod evict;
mod faults;
mod fill;
mod frames;
mod limits;
mod poison;
mod readahead_queue;
mod reclaim;
mod refusals;
mod request_queue;
mod requests;
mod second_chance;
mod waiters;

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use terrace_sys::event_loop::EventLoop;
use terrace_sys::event_ring::Event;
use terrace_sys::map::Mapping;
use terrace_sys::size::to_u64;
use terrace_sys::userfault::{Fault, Userfault};

use self::frames::Frames;
use self::limits::{FRAMES_MIN, LOOK_AGAIN};
use self::readahead_queue::ReadaheadQueue;
use self::refusals::Refusals;
use self::request_queue::RequestQueue;
use self::second_chance::SecondChance;
use self::waiters::Waiters;
use crate::block::{Block, BlockState, Slot};
use crate::command_queue::UNUSED_MAX;
use crate::config::{Contents, Method};
use crate::error::RegionError;
use crate::state::{Shared, system};
use crate::transfers::Transfers;
use crate::userfault::open_fault;

/// Capacity of a pager's ring: transfers in both directions, and two polled descriptors.
const REQUESTS_MAX: u32 = 256;

const FAULTS: u64 = u64::MAX;
const BELL: u64 = u64::MAX - 1;

pub(crate) struct Pager {
    shared: Arc<Shared>,
    number: usize,
    fault: Userfault,
    waiting: EventLoop,
    transfers: Transfers,
    /// State of this pager's blocks, indexed by [`Pager::local`].
    blocks: Vec<Block>,
    frames: Frames,
    aside: SecondChance,
    ahead: ReadaheadQueue,
    refusals: Refusals,
    waiters: Waiters,
    requests: RequestQueue,
    writing_count: usize,
    filling_count: usize,
    /// Eviction queue: resident blocks, the next victim first.
    queue: VecDeque<usize>,
    /// Blocks that wait for a frame.
    wanted: VecDeque<usize>,
    faults: Vec<Fault>,
    /// Fingerprint of a whole block of zeros; `None` until it is computed.
    zeros: Option<u128>,
    /// Ranges declared unused that are not processed yet.
    unused: Vec<Range<usize>>,
}

impl Pager {
    pub(crate) fn new(shared: Arc<Shared>, number: usize) -> Result<Self, RegionError> {
        let name = &shared.name;
        let fault = open_fault(name)?;
        let (bytes, blocks) = (shared.block_bytes, shared.words.len());
        let stripe = shared.stripe_blocks;
        let protects = shared.method == Method::Copy;
        let registering = || system(name, "registering the region");
        for first in (number * stripe..blocks).step_by(stripe * shared.pagers) {
            let at = first * bytes;
            let len = (stripe * bytes).min(shared.len - at);
            fault.register(&shared.mapping, at, len, protects).map_err(registering())?;
            // If this process locks its memory, the kernel has filled the range already; its zeros
            // would be read in place of the source's bytes.
            shared.mapping.decommit(at, len).map_err(system(name, "emptying the region"))?;
        }
        let frames = Frames::open(&shared, &fault)?;
        let (mut waiting, refused) = EventLoop::new(REQUESTS_MAX);
        if let Some(error) = refused {
            tracing::warn!(region = name, %error, "io_uring is refused: threads move blocks");
        }
        let has_ring = waiting.ring().is_some();
        shared.has_rings.fetch_and(has_ring, Ordering::Relaxed);
        let bell = &shared.inboxes[number].bell;
        let transfers = Transfers::open(&shared.source.blocks, has_ring, shared.depth, bell)
            .map_err(system(name, "starting threads for transfers"))?;
        let block = Block::new(shared.source.contents == Contents::Stored);
        let stripes = blocks.div_ceil(stripe).div_ceil(shared.pagers);
        let mut pager = Self {
            blocks: vec![block; stripes * stripe],
            frames,
            aside: SecondChance::default(),
            ahead: ReadaheadQueue::default(),
            refusals: Refusals::new(&shared),
            waiters: Waiters::default(),
            requests: RequestQueue::default(),
            writing_count: 0,
            filling_count: 0,
            queue: VecDeque::new(),
            wanted: VecDeque::new(),
            faults: Vec::new(),
            zeros: None,
            unused: Vec::with_capacity(UNUSED_MAX),
            fault,
            waiting,
            transfers,
            number,
            shared,
        };
        pager.take_floor()?;
        Ok(pager)
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

    fn serve(&mut self) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let command_queue = &shared.inboxes[self.number];
        self.waiting.poll(self.fault.as_fd(), FAULTS)?;
        self.waiting.poll(command_queue.bell.as_fd(), BELL)?;
        let mut events = Vec::new();
        // True if work is left over; the loop then polls for faults without blocking.
        let mut has_more = false;
        loop {
            let stops = self.stops();
            if stops && self.in_flight() == 0 {
                return Ok(());
            }
            let waits = !self.wanted.is_empty()
                || self.has_requests()
                || !self.refusals.is_empty()
                || self.frames.is_beyond_cap();
            let time = if has_more { Some(Duration::ZERO) } else { waits.then_some(LOOK_AGAIN) };
            self.waiting.wait(time, &mut events)?;
            for event in events.drain(..) {
                match event {
                    Event::Readable(FAULTS) => self.waiting.poll(self.fault.as_fd(), FAULTS)?,
                    Event::Readable(_) => {
                        command_queue.bell.clear();
                        self.waiting.poll(command_queue.bell.as_fd(), BELL)?;
                    }
                    Event::Moved(token, result) => self.ended((token, result)),
                }
            }
            self.transfers.ended().into_iter().for_each(|ended| self.ended(ended));
            if stops {
                // No more requests are accepted; only the transfers in flight are awaited.
                has_more = false;
                self.answer_transfers()?;
                continue;
            }
            self.answer()?;
            command_queue.take().into_iter().for_each(|command| self.obey(command));
            self.drop_unused(command_queue);
            let is_late = self.serve_asked();
            has_more = self.balance() || is_late || !self.unused.is_empty();
        }
    }

    /// True if the region is being dropped.
    fn stops(&self) -> bool {
        self.shared.stop.load(Ordering::Acquire)
    }

    fn in_flight(&self) -> usize {
        self.filling_count + self.writing_count
    }

    /// Returns the index of a block among those of this pager.
    fn local(&self, block: usize) -> usize {
        let (stripe, pagers) = (self.shared.stripe_blocks, self.shared.pagers);
        block / stripe / pagers * stripe + block % stripe
    }

    fn block(&mut self, block: usize) -> &mut Block {
        let local = self.local(block);
        &mut self.blocks[local]
    }

    fn place(&self, block: usize) -> BlockState {
        self.blocks[self.local(block)].place
    }

    fn offset(&self, block: usize) -> usize {
        block * self.shared.block_bytes
    }

    fn memory(&self, slot: Slot) -> (&Arc<Mapping>, usize) {
        self.frames.memory(slot)
    }

    /// Returns the bytes of a frame.
    ///
    /// # Safety
    /// The frame has pages for `len` bytes, and no transfer uses it.
    unsafe fn bytes(&mut self, slot: Slot, len: usize) -> &mut [u8] {
        // SAFETY: as the caller promises.
        unsafe { self.frames.bytes(slot, len) }
    }

    fn fingerprint_of_zeros(&mut self, len: usize) -> u128 {
        let take = || fingerprint(&vec![0; len]);
        let is_whole = len == self.shared.block_bytes;
        if is_whole { *self.zeros.get_or_insert_with(take) } else { take() }
    }
}

/// Returns the fingerprint of a block's bytes; two different blocks collide with probability
/// 2^-128.
fn fingerprint(bytes: &[u8]) -> u128 {
    twox_hash::XxHash3_128::oneshot(bytes)
}
