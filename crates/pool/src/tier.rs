//! The frames of one memory tier, by size class, under one account.
//!
//! Each size class has a reserved range with room for as many of its shortest pages as fit the
//! tier, so any mix of sizes fits without compaction; only touched memory is resident, and only
//! that is charged. A frame is charged by the length of the page that it holds, not by its class,
//! so a 5 MiB page costs 5 MiB.
//!
//! A released frame stays *warm*: charged, its memory kept for the next page of its class, which
//! then costs no page faults. Warm frames are the first to be reclaimed when any consumer needs
//! bytes. Mapped frames are decommitted at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use terrace_sys::map::Mapping;
use terrace_tier::MemoryTier;

use crate::account::Account;
use crate::arena::Arena;
use crate::frame::{Frame, FrameTable};
use crate::page::{CLASSES, FrameId, PageId, class_bytes, class_len_min, class_of};

/// Maximum number of memory tiers of a pool; a frame stores its tier in a byte, and eviction visits
/// every tier.
pub const MEMORY_TIERS_MAX: usize = 8;

/// Watermarks of a tier's free bytes: below 1/64 the background worker is woken, and it evicts up
/// to 1/32.
const LOW_SHARE: u64 = 64;
const HIGH_SHARE: u64 = 32;
const HEADROOM_MAX: u64 = 256 << 20;

/// A frame taken for a page, and the number of its first bytes that may hold an older page.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) frame: FrameId,
    pub(crate) stale: usize,
}

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
    tier: MemoryTier,
    /// Index of the tier in its pool.
    index: u8,
    account: Account,
    /// Maximum size that the tier may grow to.
    most_bytes: u64,
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

    /// Reserves the frames of the tier `index`, which may grow to `most_bytes`; the first of them
    /// is `first`. In a mapped pool, whose pages are at addresses of `range`, reserves as many
    /// slots.
    pub(crate) fn reserve(
        tier: MemoryTier,
        index: usize,
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
        // There are at most MEMORY_TIERS_MAX tiers.
        let index = u8::try_from(index).unwrap_or(u8::MAX);
        let (warm_bytes, page_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self { tier, index, account, most_bytes, arenas, warm_bytes, page_bytes })
    }

    /// Returns the tier's configuration.
    pub(crate) fn memory(&self) -> &MemoryTier {
        &self.tier
    }

    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    /// Returns the maximum size that the tier may grow to.
    pub(crate) fn most_bytes(&self) -> u64 {
        self.most_bytes
    }

    /// Takes a frame for `page`, which has `len` bytes, within the tier's account; `None` if the
    /// tier has no room.
    pub(crate) fn take(&self, frames: &FrameTable, page: PageId, len: usize) -> Option<Taken> {
        let arena = &self.arenas[class_of(len)];
        let granted = || self.account.take(len as u64);
        let taken = self.take_warm(frames, arena, len);
        let taken = taken.or_else(|| self.take_cold(frames, arena, page, len, granted))?;
        Some(self.hand_out(frames, arena, len, taken))
    }

    /// Takes a frame beyond the budget, as a debt of the ledger; `None` if the ledger's debt would
    /// exceed `limit` bytes.
    pub(crate) fn owe(
        &self,
        frames: &FrameTable,
        page: PageId,
        len: usize,
        limit: u64,
    ) -> Option<Taken> {
        let arena = &self.arenas[class_of(len)];
        let granted = || self.account.owe(len as u64, limit);
        let taken = self.take_cold(frames, arena, page, len, granted)?;
        Some(self.hand_out(frames, arena, len, taken))
    }

    fn hand_out(&self, frames: &FrameTable, arena: &Arena, len: usize, taken: Taken) -> Taken {
        let frame = &frames[taken.frame];
        frame.set_data(arena.address(taken.frame));
        frame.set_committed(len.max(taken.stale).max(frame.committed()));
        frame.set_tier(self.index);
        frame.set_class(arena.class());
        self.came(arena, len);
        taken
    }

    fn came(&self, arena: &Arena, len: usize) {
        arena.came();
        self.page_bytes.fetch_add(len as u64, Ordering::Relaxed);
    }

    fn left(&self, arena: &Arena, len: usize) {
        arena.left();
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
        self.arenas[frame.class()].push_cold(place);
        self.account.give(frame.len() as u64);
    }

    /// Enters the page of a mapped frame, which the caller holds exclusively, into its slot here.
    pub(crate) fn enter(&self, frames: &FrameTable, id: FrameId, place: u32) {
        let frame = &frames[id];
        let arena = &self.arenas[frame.class()];
        arena.assign(place, id.mapped_page(), frames);
        frame.set_tier(self.index);
        self.came(arena, frame.len());
    }

    /// Removes the page of a mapped frame, which the caller holds exclusively, from this tier. Its
    /// memory is in another tier by now, or decommitted.
    pub(crate) fn leave(&self, frames: &FrameTable, id: FrameId) {
        let frame = &frames[id];
        let (arena, len) = (&self.arenas[frame.class()], frame.len());
        arena.clear(frame.slot());
        self.left(arena, len);
        self.account.give(len as u64);
    }

    fn take_warm(&self, frames: &FrameTable, arena: &Arena, len: usize) -> Option<Taken> {
        let id = arena.pop_warm()?;
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
        let done = arena.decommit(frame, from, len);
        done.unwrap_or_else(|error| self.note_kept_memory(&error))
    }

    /// Logs that the kernel kept the memory of frames. Returns false.
    fn note_kept_memory(&self, error: &io::Error) -> bool {
        tracing::warn!(tier = self.tier.name, %error, "frame memory was not given back");
        false
    }

    fn keep_warm(&self, frame: &Frame, arena: &Arena, id: FrameId) {
        self.warm_bytes.fetch_add(frame.committed() as u64, Ordering::Relaxed);
        arena.push_warm(id);
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

    /// Returns warm frames of one class to the kernel.
    fn release_some(&self, frames: &FrameTable, arena: &Arena, wanted: u64) -> Released {
        let freed = |bytes| {
            self.warm_bytes.fetch_sub(bytes, Ordering::Relaxed);
        };
        match arena.decommit_warm(frames, wanted, freed) {
            Ok(0) => Released::default(),
            Ok(bytes) => Released { bytes, to_ledger: self.account.give(bytes) },
            Err(error) => {
                self.note_kept_memory(&error);
                Released::default()
            }
        }
    }

    /// Bytes available to a page without an eviction.
    pub(crate) fn headroom(&self) -> u64 {
        self.account.room() + self.warm_bytes()
    }

    /// Low watermark: headroom below which the background worker is woken.
    pub(crate) fn low_water(&self) -> u64 {
        (self.account.budget() / LOW_SHARE).min(HEADROOM_MAX / 2)
    }

    /// High watermark: headroom that the background worker restores.
    pub(crate) fn high_water(&self) -> u64 {
        (self.account.budget() / HIGH_SHARE).min(HEADROOM_MAX)
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
        self.arenas[0].first_address()
    }

    /// Number of pages in this tier.
    pub(crate) fn pages(&self) -> u64 {
        self.arenas.iter().map(|arena| u64::from(arena.in_use())).sum()
    }

    /// Number of frames or slots handed out at least once, over all classes: the range of
    /// [`TierFrames::nth`].
    pub(crate) fn begun(&self) -> u64 {
        self.arenas.iter().map(|arena| u64::from(arena.begun())).sum()
    }

    /// Returns the `n`th frame of those, counted through the classes; `None` for an empty slot.
    pub(crate) fn nth(&self, mut n: u64) -> Option<FrameId> {
        for arena in &self.arenas {
            let begun = u64::from(arena.begun());
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

    /// Picks a frame by the random number `random`: of `class`, or of any class, weighted by the
    /// bytes in use, so that a class with twice the bytes is picked twice as often. `None` if no
    /// frame holds a page, or the drawn slot is empty.
    pub(crate) fn draw(&self, random: u64, class: Option<usize>) -> Option<FrameId> {
        let begun_of = |arena: &Arena| {
            let begun = arena.begun().max(1);
            // The remainder is below a u32.
            arena.frame(u32::try_from((random >> 20) % u64::from(begun)).unwrap_or(0))
        };
        if let Some(arena) = class.map(|c| &self.arenas[c]).filter(|arena| arena.in_use() > 0) {
            return begun_of(arena);
        }
        let weight = |arena: &Arena| u64::from(arena.in_use()) * class_bytes(arena.class()) as u64;
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
