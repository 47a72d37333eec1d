//! Frame arenas: the frames of one memory tier, by size class, under one account.
//!
//! Each size class has a reserved range with room for as many of its shortest pages as fit the
//! tier, so any mix of sizes fits without compaction; only touched memory is resident, and only
//! that is charged. A frame is charged by the length of the page that it holds, not by its class,
//! so a 5 MiB page costs 5 MiB.
//!
//! In a mapped pool a page has its own addresses and frame for life; an arena is a table of slots
//! that hold the tier's pages: the candidates for eviction, and the limit of their number.
//!
//! A released frame stays *warm*: charged, its memory kept for the next page of its class, which
//! then costs no page faults. Warm frames are the first to be reclaimed when any consumer needs
//! bytes. Mapped frames are decommitted at once.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use terrace_sys::map::Mapping;
use terrace_tier::MemoryTier;

use crate::account::Account;
use crate::array::{Zeroed, ZeroedArray};
use crate::frame::{Frame, FrameTable};
use crate::page::{CLASSES, FrameId, PageId, class_bytes, class_len_min, class_of};
use crate::sync::lock;

/// Location of the pages of one size class in one tier.
#[derive(Debug)]
enum Room {
    /// Framed: index `i` is frame `first + i`, whose bytes are the `i`th part of the mapping.
    Frames { mapping: Mapping, first: u32 },
    /// Mapped: index `i` is a slot with the frame of a page + 1, or 0; the bytes are at the page's
    /// own address.
    Slots { slots: ZeroedArray<AtomicU32>, range: Arc<Mapping> },
}

// SAFETY: an atomic, valid as zero, nothing to drop.
unsafe impl Zeroed for AtomicU32 {}

/// The frames of one size class in one tier.
#[derive(Debug)]
struct Arena {
    room: Room,
    class: usize,
    /// Number of frames or slots reserved.
    count: u32,
    /// Number of indexes handed out at least once.
    begun: AtomicU32,
    /// Number of frames that hold a page.
    in_use: AtomicU32,
    warm: Mutex<Vec<FrameId>>,
    /// Indexes handed out before and free now, without memory.
    cold: Mutex<Vec<u32>>,
}

impl Arena {
    fn new(room: Room, class: usize, count: u32) -> Self {
        Self {
            room,
            class,
            count,
            begun: AtomicU32::new(0),
            in_use: AtomicU32::new(0),
            warm: Mutex::default(),
            cold: Mutex::default(),
        }
    }

    fn framed(tier: &MemoryTier, class: usize, first: u32, count: u32) -> io::Result<Self> {
        let mapping = Mapping::reserve(count as usize * class_bytes(class))?;
        if let Some(node) = tier.node {
            mapping.bind(node)?;
        }
        decline_huge_pages(&mapping, &tier.name);
        Ok(Self::new(Room::Frames { mapping, first }, class, count))
    }

    fn mapped(range: &Arc<Mapping>, class: usize, count: u32) -> io::Result<Self> {
        let slots = ZeroedArray::reserve(count as usize)?;
        Ok(Self::new(Room::Slots { slots, range: Arc::clone(range) }, class, count))
    }

    fn offset(&self, frame: FrameId, first: u32) -> usize {
        (frame.0 - first) as usize * class_bytes(self.class)
    }

    /// Returns the frame of an index; `None` for an empty slot.
    fn frame(&self, index: u32) -> Option<FrameId> {
        match &self.room {
            Room::Frames { first, .. } => Some(FrameId(first + index)),
            Room::Slots { slots, .. } => {
                let frame = slots.get(index as usize)?.load(Ordering::Relaxed);
                frame.checked_sub(1).map(FrameId)
            }
        }
    }

    /// Takes a free index: one used before, or the next.
    fn pop_cold(&self) -> Option<u32> {
        if let Some(index) = lock(&self.cold).pop() {
            return Some(index);
        }
        let begin = |begun| (begun < self.count).then_some(begun + 1);
        self.begun.fetch_update(Ordering::Relaxed, Ordering::Relaxed, begin).ok()
    }

    /// Returns the frame of an index that was taken for `page`; a slot is set to it.
    fn assign(&self, index: u32, page: PageId, frames: &FrameTable) -> FrameId {
        match &self.room {
            Room::Frames { first, .. } => FrameId(first + index),
            Room::Slots { slots, .. } => {
                let frame = page.mapped_frame();
                frames[frame].slot.store(index, Ordering::Relaxed);
                if let Some(slot) = slots.get(index as usize) {
                    slot.store(frame.0 + 1, Ordering::Relaxed);
                }
                frame
            }
        }
    }
}

/// Declines huge pages for a mapping. A frame is charged by the length of its page: a huge page
/// would be resident memory that no account is charged for. A kernel without huge pages refuses the
/// advice and needs none.
pub(crate) fn decline_huge_pages(mapping: &Mapping, whose: &str) {
    if let Err(error) = mapping.advise_huge(false) {
        tracing::debug!(whose, %error, "huge pages were not declined");
    }
}

/// A frame taken for a page, and the number of its first bytes that may hold an older page.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) frame: FrameId,
    pub(crate) stale: usize,
}

/// Maximum number of frames returned to the kernel in one call.
const RELEASE_BATCH: usize = 256;

/// Bytes of warm frames returned to the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Released {
    /// All bytes returned.
    pub(crate) bytes: u64,
    /// Bytes that went back to the ledger; the rest belongs to the pool's floor.
    pub(crate) to_ledger: u64,
}

/// The frames of one memory tier.
#[derive(Debug)]
pub(crate) struct TierFrames {
    pub(crate) tier: MemoryTier,
    pub(crate) account: Account,
    /// Maximum size that the tier may grow to.
    pub(crate) most_bytes: u64,
    arenas: Vec<Arena>,
    warm_bytes: AtomicU64,
    page_bytes: AtomicU64,
}

/// Number of frames of each class that a tier of `capacity` bytes may need: pages are charged by
/// their length, and the shortest pages of a class are little more than half of its frames.
fn counts(capacity: u64) -> impl Iterator<Item = u64> {
    (0..CLASSES).map(move |class| (capacity / class_len_min(class) as u64).max(1))
}

impl TierFrames {
    /// Number of frames that a tier of `capacity` bytes adds to the frame table.
    pub(crate) fn frames(capacity: u64) -> u64 {
        counts(capacity).sum()
    }

    /// Reserves the frames of a tier that may grow to `most_bytes`, the first of which is `first`;
    /// in a mapped pool, whose pages are at addresses of `range`, reserves as many slots.
    pub(crate) fn reserve(
        tier: MemoryTier,
        account: Account,
        mut first: u32,
        most_bytes: u64,
        range: Option<&Arc<Mapping>>,
    ) -> io::Result<Self> {
        let mut arenas = Vec::with_capacity(CLASSES);
        for (class, count) in counts(most_bytes).enumerate() {
            let count = u32::try_from(count).map_err(io::Error::other)?;
            arenas.push(match range {
                None => Arena::framed(&tier, class, first, count)?,
                Some(range) => Arena::mapped(range, class, count)?,
            });
            first += count;
        }
        let (warm_bytes, page_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self { tier, account, most_bytes, arenas, warm_bytes, page_bytes })
    }

    /// Takes a frame for `page`, which has `len` bytes, within the tier's account; `None` if the
    /// tier has no room.
    pub(crate) fn take(
        &self,
        frames: &FrameTable,
        tier: u8,
        page: PageId,
        len: usize,
    ) -> Option<Taken> {
        let arena = &self.arenas[class_of(len)];
        let granted = || self.account.take(len as u64);
        let taken = self.take_warm(frames, arena, len);
        let taken = taken.or_else(|| self.take_cold(frames, arena, page, len, granted))?;
        Some(self.hand_out(frames, arena, tier, len, taken))
    }

    /// Takes a frame on debt, up to a debt of `limit` in all; `None` beyond it.
    pub(crate) fn owe(
        &self,
        frames: &FrameTable,
        tier: u8,
        page: PageId,
        len: usize,
        limit: u64,
    ) -> Option<Taken> {
        let arena = &self.arenas[class_of(len)];
        let granted = || self.account.owe(len as u64, limit);
        let taken = self.take_cold(frames, arena, page, len, granted)?;
        Some(self.hand_out(frames, arena, tier, len, taken))
    }

    fn hand_out(
        &self,
        frames: &FrameTable,
        arena: &Arena,
        tier: u8,
        len: usize,
        taken: Taken,
    ) -> Taken {
        let frame = &frames[taken.frame];
        let (mapping, offset) = match &arena.room {
            Room::Frames { mapping, first } => (mapping, arena.offset(taken.frame, *first)),
            Room::Slots { range, .. } => (&**range, taken.frame.mapped_offset()),
        };
        // SAFETY: the offset is below the mapping's length: the frame is one of the arena's
        // `count`, or that of a page id, all of which the range has room for.
        frame.set_data(unsafe { mapping.as_ptr().add(offset) });
        frame.set_committed(len.max(taken.stale).max(frame.committed()));
        frame.tier.store(tier, Ordering::Relaxed);
        // There are 13 classes, so a class fits a byte.
        frame.class.store(u8::try_from(arena.class).unwrap_or(u8::MAX), Ordering::Relaxed);
        self.came(arena, len);
        taken
    }

    fn came(&self, arena: &Arena, len: usize) {
        arena.in_use.fetch_add(1, Ordering::Relaxed);
        self.page_bytes.fetch_add(len as u64, Ordering::Relaxed);
    }

    fn left(&self, arena: &Arena, len: usize) {
        arena.in_use.fetch_sub(1, Ordering::Relaxed);
        self.page_bytes.fetch_sub(len as u64, Ordering::Relaxed);
    }

    /// Reserves a slot and bytes for the page of a mapped frame that moves here from another tier;
    /// `None` if the tier has no room.
    pub(crate) fn reserve_place(&self, frame: &Frame) -> Option<u32> {
        let len = frame.len() as u64;
        if !self.account.take(len) {
            return None;
        }
        let place = self.arenas[frame.class()].pop_cold();
        if place.is_none() {
            self.account.give(len);
        }
        place
    }

    /// Cancels the reservation for a page that did not move.
    pub(crate) fn cancel_place(&self, frame: &Frame, place: u32) {
        lock(&self.arenas[frame.class()].cold).push(place);
        self.account.give(frame.len() as u64);
    }

    /// Enters the page of a mapped frame, which the caller holds exclusively, into its slot here.
    pub(crate) fn enter(&self, frames: &FrameTable, tier: u8, id: FrameId, place: u32) {
        let frame = &frames[id];
        let arena = &self.arenas[frame.class()];
        arena.assign(place, id.mapped_page(), frames);
        frame.tier.store(tier, Ordering::Relaxed);
        self.came(arena, frame.len());
    }

    /// Removes the page of a mapped frame, which the caller holds exclusively, from this tier. Its
    /// memory is in another tier by now, or decommitted.
    pub(crate) fn leave(&self, frames: &FrameTable, id: FrameId) {
        let frame = &frames[id];
        let (arena, len) = (&self.arenas[frame.class()], frame.len());
        let index = frame.slot.load(Ordering::Relaxed);
        if let Room::Slots { slots, .. } = &arena.room
            && let Some(slot) = slots.get(index as usize)
        {
            slot.store(0, Ordering::Relaxed);
        }
        lock(&arena.cold).push(index);
        self.left(arena, len);
        self.account.give(len as u64);
    }

    fn take_warm(&self, frames: &FrameTable, arena: &Arena, len: usize) -> Option<Taken> {
        let id = lock(&arena.warm).pop()?;
        let frame = &frames[id];
        let had = frame.committed();
        self.warm_bytes.fetch_sub(had as u64, Ordering::Relaxed);
        if len > had && !self.account.take((len - had) as u64) {
            self.keep_warm(frame, arena, id);
            return None;
        }
        // A tail of up to an eighth stays committed: decommitting it costs more than it is worth.
        if had - had.min(len) > had / 8 && self.decommit(arena, id, len, had - len) {
            frame.set_committed(len);
            self.account.give((had - len) as u64);
        }
        Some(Taken { frame: id, stale: had.min(len) })
    }

    fn take_cold(
        &self,
        frames: &FrameTable,
        arena: &Arena,
        page: PageId,
        len: usize,
        granted: impl FnOnce() -> bool,
    ) -> Option<Taken> {
        if !granted() {
            return None;
        }
        let Some(index) = arena.pop_cold() else {
            self.account.give(len as u64);
            return None;
        };
        let frame = arena.assign(index, page, frames);
        // A mapped frame has older bytes only if the kernel failed to decommit them.
        let stale = frames[frame].committed().min(len);
        Some(Taken { frame, stale })
    }

    fn decommit(&self, arena: &Arena, frame: FrameId, from: usize, len: usize) -> bool {
        let Room::Frames { mapping, first } = &arena.room else { return false };
        let done = mapping.decommit(arena.offset(frame, *first) + from, len);
        if let Err(error) = &done {
            tracing::warn!(tier = self.tier.name, %error, "frame memory was not given back");
        }
        done.is_ok()
    }

    fn keep_warm(&self, frame: &Frame, arena: &Arena, id: FrameId) {
        self.warm_bytes.fetch_add(frame.committed() as u64, Ordering::Relaxed);
        lock(&arena.warm).push(id);
    }

    /// Takes back a frame whose page is gone, as warm. Its latch is free or held by the caller.
    pub(crate) fn release(&self, frames: &FrameTable, id: FrameId, len: usize) {
        let frame = &frames[id];
        let arena = &self.arenas[frame.class()];
        self.left(arena, len);
        self.keep_warm(frame, arena, id);
    }

    /// Returns at least `bytes` of warm frames to the kernel, or all there are.
    pub(crate) fn release_warm(&self, frames: &FrameTable, bytes: u64) -> Released {
        let mut all = Released::default();
        for arena in self.arenas.iter().rev() {
            while all.bytes < bytes {
                let some = self.release_some(frames, arena, bytes - all.bytes);
                if some.bytes == 0 {
                    break;
                }
                all.bytes += some.bytes;
                all.to_ledger += some.to_ledger;
            }
        }
        all
    }

    /// Returns warm frames of one class to the kernel, batched into one system call if the kernel
    /// has one for that.
    fn release_some(&self, frames: &FrameTable, arena: &Arena, wanted: u64) -> Released {
        let Room::Frames { mapping, first } = &arena.room else { return Released::default() };
        let (mut taken, mut ranges, mut bytes) = (Vec::new(), Vec::new(), 0);
        {
            let mut warm = lock(&arena.warm);
            while bytes < wanted && taken.len() < RELEASE_BATCH {
                let Some(id) = warm.pop() else { break };
                let had = frames[id].committed();
                ranges.push((arena.offset(id, *first), had));
                taken.push(id);
                bytes += had as u64;
            }
        }
        if taken.is_empty() {
            return Released::default();
        }
        if let Err(error) = mapping.decommit_batch(&ranges) {
            tracing::warn!(tier = self.tier.name, %error, "frame memory was not given back");
            lock(&arena.warm).extend(taken);
            return Released::default();
        }
        self.warm_bytes.fetch_sub(bytes, Ordering::Relaxed);
        taken.iter().for_each(|id| frames[*id].set_committed(0));
        lock(&arena.cold).extend(taken.iter().map(|id| id.0 - first));
        Released { bytes, to_ledger: self.account.give(bytes) }
    }

    /// Bytes available to a page without an eviction.
    pub(crate) fn headroom(&self) -> u64 {
        self.account.room() + self.warm_bytes()
    }

    pub(crate) fn warm_bytes(&self) -> u64 {
        self.warm_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of pages in this tier.
    pub(crate) fn page_bytes(&self) -> u64 {
        self.page_bytes.load(Ordering::Relaxed)
    }

    /// Returns the address of the page of frame 0.
    pub(crate) fn first_data(&self) -> *const u8 {
        match &self.arenas[0].room {
            Room::Frames { mapping, .. } => mapping.as_ptr().cast_const(),
            Room::Slots { range, .. } => range.as_ptr().cast_const(),
        }
    }

    /// Number of pages in this tier.
    pub(crate) fn pages(&self) -> u64 {
        self.arenas.iter().map(|arena| u64::from(arena.in_use.load(Ordering::Relaxed))).sum()
    }

    /// Number of frames or slots handed out at least once, over all classes: the range of
    /// [`TierFrames::nth`].
    pub(crate) fn begun(&self) -> u64 {
        self.arenas.iter().map(|arena| u64::from(arena.begun.load(Ordering::Relaxed))).sum()
    }

    /// Returns the `n`th frame of those, counted through the classes; `None` for an empty slot.
    pub(crate) fn nth(&self, mut n: u64) -> Option<FrameId> {
        for arena in &self.arenas {
            let begun = u64::from(arena.begun.load(Ordering::Relaxed));
            if n < begun {
                // `n` is below a u32 count.
                return u32::try_from(n).ok().and_then(|n| arena.frame(n));
            }
            n -= begun;
        }
        None
    }

    /// Spins for the latency of an emulated tier: the extra time of a fix in remote memory.
    pub(crate) fn delay(&self) {
        if self.tier.latency_ns == 0 {
            return;
        }
        let (start, delay) = (Instant::now(), Duration::from_nanos(self.tier.latency_ns));
        while start.elapsed() < delay {
            std::hint::spin_loop();
        }
    }

    /// Draws a random frame, of `class` or weighted by bytes in use: a class with twice the bytes
    /// is drawn twice as often. `None` if no frame holds a page, or the drawn slot is empty.
    pub(crate) fn draw(&self, random: u64, class: Option<usize>) -> Option<FrameId> {
        let begun_of = |arena: &Arena| {
            let begun = arena.begun.load(Ordering::Relaxed).max(1);
            // The remainder is below a u32.
            arena.frame(u32::try_from((random >> 20) % u64::from(begun)).unwrap_or(0))
        };
        let in_use = |arena: &Arena| arena.in_use.load(Ordering::Relaxed);
        if let Some(arena) = class.map(|c| &self.arenas[c]).filter(|arena| in_use(arena) > 0) {
            return begun_of(arena);
        }
        let weight = |arena: &Arena| u64::from(in_use(arena)) * class_bytes(arena.class) as u64;
        let total: u64 = self.arenas.iter().map(weight).sum();
        let mut point = random % total.max(1);
        for arena in &self.arenas {
            let weight = weight(arena);
            if point < weight {
                return begun_of(arena);
            }
            point -= weight;
        }
        None
    }
}
