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

mod commands;
mod discard;
mod evict;
mod faults;
mod fill;
mod frames;
mod poison;
mod reclaim;
mod request_queue;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use terrace_sys::event_loop::EventLoop;
use terrace_sys::event_ring::Event;
use terrace_sys::map::Mapping;
use terrace_sys::size::to_u64;
use terrace_sys::userfault::{Fault, Userfault};

use self::request_queue::{Asked, Waits};
use crate::block::{Block, Place, Slot};
use crate::command_queue::UNUSED_MAX;
use crate::config::{Contents, DEPTH_MAX, Method};
use crate::error::RegionError;
use crate::readahead::Streams;
use crate::state::{Shared, system};
use crate::transfers::Transfers;

/// Frames that blocks are moved or copied from: those being read into, and some to spare.
const FRESH_MAX: usize = 2 * DEPTH_MAX;
/// Frames kept aside or in write-back: one in so many of the cap, within the bounds `ASIDE`.
const ASIDE_SHARE: usize = 16;
const ASIDE: (usize, usize) = (1, 64);
/// Maximum number of blocks that are written from their mapped pages at a time.
const WRITES_MAX: usize = 64;
/// Frames that a pager never gives back.
const FRAMES_MIN: usize = 2;
/// Capacity of a pager's ring: transfers in both directions, and two polled descriptors.
const REQUESTS_MAX: u32 = 256;
/// Immediate retries of a failed transfer.
const RETRIES: u32 = 3;
/// Back-off before a block that the source refused is written again.
const STUCK: Duration = Duration::from_secs(1);
/// Maximum time spent on other work before pending faults are handled again.
const AT_ONCE: Duration = Duration::from_micros(500);
/// Interval at which a pager checks again for blocks or frames that it waits for.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

const FAULTS: u64 = u64::MAX;
const BELL: u64 = u64::MAX - 1;

/// Opens a userfaultfd; the error says why this process cannot have one.
pub(crate) fn open_fault(region: &str) -> Result<Userfault, RegionError> {
    let refused = |what, source| RegionError::Platform { region: region.to_owned(), what, source };
    let fault = Userfault::open().map_err(|error| refused("opening userfaultfd", error))?;
    let features = fault.features();
    if !features.poisons || !features.protects {
        let old = io::Error::other("the kernel is older than Linux 6.6");
        return Err(refused("poisoning and protecting pages", old));
    }
    Ok(fault)
}

pub(crate) struct Pager {
    shared: Arc<Shared>,
    number: usize,
    fault: Userfault,
    waiting: EventLoop,
    transfers: Transfers,
    /// State of this pager's blocks, indexed by [`Pager::local`].
    blocks: Vec<Block>,
    /// Frames that pages are moved out to; registered, so that a touch of an empty one faults
    /// instead of mapping a zero page.
    staging: Arc<Mapping>,
    /// Frames that pages are moved or copied from.
    fresh: Arc<Mapping>,
    empty_staging: Vec<usize>,
    /// Pages of empty staging frames that the kernel faulted on, see [`Pager::refuse_page`].
    refused_pages: Vec<usize>,
    empty_fresh: Vec<usize>,
    /// Frames that have pages but hold no block.
    free: Vec<Slot>,
    /// Second-chance list: blocks aside, the oldest first; some may have returned to their place.
    aside: VecDeque<usize>,
    aside_count: usize,
    writing_count: usize,
    filling_count: usize,
    /// Eviction queue: resident blocks, the next victim first.
    queue: VecDeque<usize>,
    /// Blocks that wait for a frame.
    wanted: VecDeque<usize>,
    ahead: VecDeque<usize>,
    waiters: HashMap<usize, Vec<Waits>>,
    asked: Asked,
    /// Blocks that the source refused to take, and the end of the back-off of each.
    stuck: HashMap<usize, Instant>,
    /// Number of frames held, each charged to the ledger.
    frames: usize,
    /// True if the budget or the cap has refused a frame and none has been given back since.
    is_full: bool,
    /// Frames given back beyond the cap while blocks waited for one, where blocks are copied. Two
    /// of them allow one frame to be taken, so that waiting blocks make progress before the cap is
    /// met.
    owed: usize,
    streams: Streams,
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
        let slots = FRESH_MAX + 2 * ASIDE.1;
        let reserve = |slots, huge| {
            staging(slots * bytes, huge).map_err(system(name, "reserving staging memory"))
        };
        let staging = reserve(slots, false)?;
        let fresh = reserve(FRESH_MAX, shared.has_huge_pages())?;
        if shared.method == Method::Move {
            fault.register(&staging, 0, staging.len(), false).map_err(registering())?;
        }
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
            empty_staging: (0..slots).rev().collect(),
            empty_fresh: (0..FRESH_MAX).rev().collect(),
            refused_pages: Vec::new(),
            free: Vec::new(),
            aside: VecDeque::new(),
            aside_count: 0,
            writing_count: 0,
            filling_count: 0,
            queue: VecDeque::new(),
            wanted: VecDeque::new(),
            ahead: VecDeque::new(),
            waiters: HashMap::new(),
            asked: Asked::default(),
            stuck: HashMap::new(),
            frames: 0,
            is_full: false,
            owed: 0,
            streams: Streams::default(),
            faults: Vec::new(),
            zeros: None,
            unused: Vec::with_capacity(UNUSED_MAX),
            fault,
            waiting,
            transfers,
            staging,
            fresh,
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
            let Some(slot) = self.grow(bytes).filter(|_| is_there) else {
                let source = io::Error::other("the budget has no room for two blocks");
                return Err(system(&self.shared.name, "taking the first frames")(source));
            };
            self.free.push(slot);
        }
        Ok(())
    }

    fn serve(&mut self) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let inbox = &shared.inboxes[self.number];
        self.waiting.poll(self.fault.as_fd(), FAULTS)?;
        self.waiting.poll(inbox.bell.as_fd(), BELL)?;
        let mut events = Vec::new();
        // True if work is left over; the loop then polls for faults without blocking.
        let mut has_more = false;
        loop {
            let stops = self.stops();
            if stops && self.in_flight() == 0 {
                return Ok(());
            }
            let waits = !self.wanted.is_empty()
                || self.is_asked()
                || !self.stuck.is_empty()
                || self.frames > self.cap();
            let time = if has_more { Some(Duration::ZERO) } else { waits.then_some(LOOK_AGAIN) };
            self.waiting.wait(time, &mut events)?;
            for event in events.drain(..) {
                match event {
                    Event::Readable(FAULTS) => self.waiting.poll(self.fault.as_fd(), FAULTS)?,
                    Event::Readable(_) => {
                        inbox.bell.clear();
                        self.waiting.poll(inbox.bell.as_fd(), BELL)?;
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
            inbox.take().into_iter().for_each(|command| self.obey(command));
            self.drop_unused(inbox);
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

    fn cap(&self) -> usize {
        self.shared.cap_frames.load(Ordering::Relaxed)
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

    fn place(&self, block: usize) -> Place {
        self.blocks[self.local(block)].place
    }

    fn offset(&self, block: usize) -> usize {
        block * self.shared.block_bytes
    }

    fn memory(&self, slot: Slot) -> (&Arc<Mapping>, usize) {
        let mapping = if slot.fresh { &self.fresh } else { &self.staging };
        (mapping, slot.index * self.shared.block_bytes)
    }

    /// Returns the bytes of a frame.
    ///
    /// # Safety
    /// The frame has pages for `len` bytes, and no transfer uses it.
    unsafe fn bytes(&mut self, slot: Slot, len: usize) -> &mut [u8] {
        let (mapping, at) = self.memory(slot);
        debug_assert!(at + len <= mapping.len());
        // SAFETY: the range is inside of a mapping that this thread alone reads and writes, except
        // for transfers, which the caller rules out; the slice borrows the pager.
        unsafe { std::slice::from_raw_parts_mut(mapping.as_ptr().add(at), len) }
    }

    fn fingerprint_of_zeros(&mut self, len: usize) -> u128 {
        let take = || fingerprint(&vec![0; len]);
        let is_whole = len == self.shared.block_bytes;
        if is_whole { *self.zeros.get_or_insert_with(take) } else { take() }
    }

    fn clear_slot(&mut self, slot: Slot) {
        let empty = if slot.fresh { &mut self.empty_fresh } else { &mut self.empty_staging };
        empty.push(slot.index);
    }
}

/// Reserves memory for frames. `UFFDIO_MOVE` requires that both sides are locked or that neither
/// is; this memory and the region's are unlocked.
fn staging(bytes: usize, huge: bool) -> io::Result<Arc<Mapping>> {
    let mapping = Mapping::reserve(bytes)?;
    mapping.unlock()?;
    // Fails on kernels without huge pages, where there is nothing to request or to decline.
    let _ = mapping.advise_huge(huge);
    mapping.leave_out_of_forks()?;
    Ok(Arc::new(mapping))
}

/// Returns the fingerprint of a block's bytes; two different blocks collide with probability
/// 2^-128.
fn fingerprint(bytes: &[u8]) -> u128 {
    twox_hash::XxHash3_128::oneshot(bytes)
}
