//! Frame arenas: the room of one memory tier, by size class, under one account.
//!
//! Each size class has a reserved range with room for as many of its shortest pages as fit the
//! tier, so any mix of sizes fits without compaction; only touched memory is resident, and only it
//! is counted. A frame is counted by the length of the page that it holds, not by its class, so a 5
//! MiB page costs 5 MiB.
//!
//! A released frame stays *warm*: counted, its memory kept for the next page of its class, which
//! then costs no page faults. Warm frames are the first to be given back when anybody needs bytes.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use terrace_sys::map::Mapping;
use terrace_tier::MemoryTier;

use crate::account::Account;
use crate::frame::{Frame, FrameTable};
use crate::page::{CLASSES, FrameId, class_bytes, class_len_min, class_of};
use crate::sync::lock;

/// The frames of one size class in one tier.
#[derive(Debug)]
struct Arena {
    mapping: Mapping,
    class: usize,
    /// Id of the first frame, and how many there are room for.
    first: u32,
    count: u32,
    /// Frames handed out at least once.
    begun: AtomicU32,
    /// Frames that hold a page.
    in_use: AtomicU32,
    warm: Mutex<Vec<FrameId>>,
    cold: Mutex<Vec<FrameId>>,
}

impl Arena {
    fn reserve(tier: &MemoryTier, class: usize, first: u32, count: u32) -> io::Result<Self> {
        let mapping = Mapping::reserve(count as usize * class_bytes(class))?;
        if let Some(node) = tier.node {
            mapping.bind(node)?;
        }
        // A frame is counted by the length of its page: a huge page would be memory that no account
        // knows of. A kernel without huge pages refuses the advice and needs none.
        if let Err(error) = mapping.advise_huge(false) {
            tracing::debug!(tier = tier.name, %error, "huge pages were not declined");
        }
        Ok(Self {
            mapping,
            class,
            first,
            count,
            begun: AtomicU32::new(0),
            in_use: AtomicU32::new(0),
            warm: Mutex::default(),
            cold: Mutex::default(),
        })
    }

    fn offset(&self, frame: FrameId) -> usize {
        (frame.0 - self.first) as usize * class_bytes(self.class)
    }

    /// A frame without memory: a cold one, or one never used.
    fn pop_cold(&self) -> Option<FrameId> {
        if let Some(frame) = lock(&self.cold).pop() {
            return Some(frame);
        }
        let begin = |begun| (begun < self.count).then_some(begun + 1);
        let begun = self.begun.fetch_update(Ordering::Relaxed, Ordering::Relaxed, begin);
        begun.ok().map(|index| FrameId(self.first + index))
    }
}

/// A frame for a page, and how many of its first bytes may hold an older page.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) frame: FrameId,
    pub(crate) stale: usize,
}

/// Frames that go back to the kernel in one call.
const RELEASE_BATCH: usize = 256;

/// Bytes of frames that were given back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Released {
    /// All of them.
    pub(crate) bytes: u64,
    /// Those that the ledger got; the rest is the pool's floor.
    pub(crate) to_ledger: u64,
}

/// The frames of one memory tier.
#[derive(Debug)]
pub(crate) struct TierFrames {
    pub(crate) tier: MemoryTier,
    pub(crate) account: Account,
    arenas: Vec<Arena>,
    warm_bytes: AtomicU64,
    page_bytes: AtomicU64,
}

/// How many frames of each class a tier of `capacity` bytes may need: pages are counted by their
/// length, and the shortest of a class are little more than half of its frames.
fn counts(capacity: u64) -> impl Iterator<Item = u64> {
    (0..CLASSES).map(move |class| (capacity / class_len_min(class) as u64).max(1))
}

impl TierFrames {
    /// Frames that a tier of `capacity` bytes adds to the frame table.
    pub(crate) fn frames(capacity: u64) -> u64 {
        counts(capacity).sum()
    }

    pub(crate) fn reserve(tier: MemoryTier, account: Account, mut first: u32) -> io::Result<Self> {
        let mut arenas = Vec::with_capacity(CLASSES);
        for (class, count) in counts(tier.capacity_bytes).enumerate() {
            let count = u32::try_from(count).map_err(io::Error::other)?;
            arenas.push(Arena::reserve(&tier, class, first, count)?);
            first += count;
        }
        let (warm_bytes, page_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self { tier, account, arenas, warm_bytes, page_bytes })
    }

    /// A frame for a page of `len` bytes out of what the tier has left, or `None`.
    pub(crate) fn take(&self, frames: &FrameTable, tier: u8, len: usize) -> Option<Taken> {
        let arena = &self.arenas[class_of(len)];
        let granted = || self.account.take(len as u64);
        let taken = self.take_warm(frames, arena, len);
        let taken = taken.or_else(|| self.take_cold(arena, len, granted))?;
        Some(self.hand_out(frames, arena, tier, len, taken))
    }

    /// A frame that the ledger may owe, up to `limit` in all, or `None`.
    pub(crate) fn owe(
        &self,
        frames: &FrameTable,
        tier: u8,
        len: usize,
        limit: u64,
    ) -> Option<Taken> {
        let arena = &self.arenas[class_of(len)];
        let taken = self.take_cold(arena, len, || self.account.owe(len as u64, limit))?;
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
        let start = arena.offset(taken.frame);
        // SAFETY: `offset` is below the mapping's length: the frame is one of the arena's `count`.
        frame.set_data(unsafe { arena.mapping.as_ptr().add(start) });
        frame.set_committed(len.max(taken.stale).max(frame.committed()));
        frame.tier.store(tier, Ordering::Relaxed);
        // There are 13 classes.
        frame.class.store(u8::try_from(arena.class).unwrap_or(u8::MAX), Ordering::Relaxed);
        arena.in_use.fetch_add(1, Ordering::Relaxed);
        self.page_bytes.fetch_add(len as u64, Ordering::Relaxed);
        taken
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
        // A tail of up to an eighth stays: giving it back costs more than it is worth.
        if had - had.min(len) > had / 8 && self.decommit(arena, id, len, had - len) {
            frame.set_committed(len);
            self.account.give((had - len) as u64);
        }
        Some(Taken { frame: id, stale: had.min(len) })
    }

    fn take_cold(
        &self,
        arena: &Arena,
        len: usize,
        granted: impl FnOnce() -> bool,
    ) -> Option<Taken> {
        if !granted() {
            return None;
        }
        match arena.pop_cold() {
            Some(frame) => Some(Taken { frame, stale: 0 }),
            None => {
                self.account.give(len as u64);
                None
            }
        }
    }

    fn decommit(&self, arena: &Arena, frame: FrameId, from: usize, len: usize) -> bool {
        let done = arena.mapping.decommit(arena.offset(frame) + from, len);
        if let Err(error) = &done {
            tracing::warn!(tier = self.tier.name, %error, "frame memory was not given back");
        }
        done.is_ok()
    }

    fn keep_warm(&self, frame: &Frame, arena: &Arena, id: FrameId) {
        self.warm_bytes.fetch_add(frame.committed() as u64, Ordering::Relaxed);
        lock(&arena.warm).push(id);
    }

    /// Takes back a frame whose page is gone and whose latch is free or held by the caller.
    pub(crate) fn release(&self, frames: &FrameTable, id: FrameId, len: usize) {
        let frame = &frames[id];
        let arena = &self.arenas[frame.class()];
        arena.in_use.fetch_sub(1, Ordering::Relaxed);
        self.page_bytes.fetch_sub(len as u64, Ordering::Relaxed);
        self.keep_warm(frame, arena, id);
    }

    /// Gives at least `bytes` of warm frames back, or all there are.
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

    /// Gives warm frames of one class back by one call of the kernel, where it has such a call.
    fn release_some(&self, frames: &FrameTable, arena: &Arena, wanted: u64) -> Released {
        let (mut taken, mut ranges, mut bytes) = (Vec::new(), Vec::new(), 0);
        {
            let mut warm = lock(&arena.warm);
            while bytes < wanted && taken.len() < RELEASE_BATCH {
                let Some(id) = warm.pop() else { break };
                let had = frames[id].committed();
                ranges.push((arena.offset(id), had));
                taken.push(id);
                bytes += had as u64;
            }
        }
        if taken.is_empty() {
            return Released::default();
        }
        if let Err(error) = arena.mapping.decommit_batch(&ranges) {
            tracing::warn!(tier = self.tier.name, %error, "frame memory was not given back");
            lock(&arena.warm).extend(taken);
            return Released::default();
        }
        self.warm_bytes.fetch_sub(bytes, Ordering::Relaxed);
        taken.iter().for_each(|id| frames[*id].set_committed(0));
        lock(&arena.cold).extend(taken);
        Released { bytes, to_ledger: self.account.give(bytes) }
    }

    /// Bytes that a page could have without evicting one.
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

    /// Frames begun so far, over all classes: the range of [`TierFrames::nth`].
    pub(crate) fn begun(&self) -> u64 {
        self.arenas.iter().map(|arena| u64::from(arena.begun.load(Ordering::Relaxed))).sum()
    }

    /// The `n`th frame begun, counted through the classes.
    pub(crate) fn nth(&self, mut n: u64) -> Option<FrameId> {
        for arena in &self.arenas {
            let begun = u64::from(arena.begun.load(Ordering::Relaxed));
            if n < begun {
                // `n` is below a u32 count.
                return u32::try_from(n).ok().map(|n| FrameId(arena.first + n));
            }
            n -= begun;
        }
        None
    }

    /// Lets the delay of an emulated tier pass, as long as a fix of remote memory takes longer.
    pub(crate) fn delay(&self) {
        if self.tier.latency_ns == 0 {
            return;
        }
        let (start, delay) = (Instant::now(), Duration::from_nanos(self.tier.latency_ns));
        while start.elapsed() < delay {
            std::hint::spin_loop();
        }
    }

    /// A random frame begun, of `class` or drawn by bytes in use: a class with twice the bytes is
    /// drawn twice as often. `None` when no frame holds a page.
    pub(crate) fn draw(&self, random: u64, class: Option<usize>) -> Option<FrameId> {
        let begun_of = |arena: &Arena| {
            let begun = arena.begun.load(Ordering::Relaxed).max(1);
            // The remainder is below a u32.
            let index = u32::try_from((random >> 20) % u64::from(begun)).unwrap_or(0);
            FrameId(arena.first + index)
        };
        let in_use = |arena: &Arena| arena.in_use.load(Ordering::Relaxed);
        if let Some(arena) = class.map(|c| &self.arenas[c]).filter(|arena| in_use(arena) > 0) {
            return Some(begun_of(arena));
        }
        let weight = |arena: &Arena| u64::from(in_use(arena)) * class_bytes(arena.class) as u64;
        let total: u64 = self.arenas.iter().map(weight).sum();
        let mut point = random % total.max(1);
        for arena in &self.arenas {
            let weight = weight(arena);
            if point < weight {
                return Some(begun_of(arena));
            }
            point -= weight;
        }
        None
    }
}
