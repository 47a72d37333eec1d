//! Finding a frame: what is free, then what is warm elsewhere, then by eviction, then by waiting.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use terrace_tier::store::StoreError;

use crate::arena::Taken;
use crate::error::{PoolError, largest};
use crate::evict::{Effort, WRITE_BATCH_BYTES};
use crate::page::{FrameId, PAGE_MIN_BYTES, PageId, class_of};
use crate::pool::Inner;

/// How long a waiter sleeps before it looks again by itself: bytes that a query gives back to the
/// ledger wake nobody.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// How long a caller waits for other pages to come free while the store refuses dirty ones.
const STORE_GRACE: Duration = Duration::from_millis(200);

/// How long a caller finds no frame before the ledger owes it one, and the part of the pool's
/// patience that this is at most.
const OWE_AFTER: Duration = Duration::from_secs(2);
const OWE_AFTER_SHARE: u32 = 2;

/// Bytes that an eviction makes room for at least.
const ROOM_MIN: u64 = 64 << 10;

/// One part in this many of DRAM stays evictable, so that stored pages can always be read.
const READ_RESERVE_SHARE: u64 = 8;

/// The share of a tier that the background worker keeps free: 1/64 wakes it, 1/32 contents it.
const LOW_SHARE: u64 = 64;
const HIGH_SHARE: u64 = 32;
const HEADROOM_MAX: u64 = 256 << 20;

impl Inner {
    /// Headroom in a tier below which the background worker is woken.
    pub(crate) fn low_water(&self, tier: usize) -> u64 {
        (self.tiers[tier].account.budget() / LOW_SHARE).min(HEADROOM_MAX / 2)
    }

    /// Headroom in a tier that the background worker restores.
    pub(crate) fn high_water(&self, tier: usize) -> u64 {
        (self.tiers[tier].account.budget() / HIGH_SHARE).min(HEADROOM_MAX)
    }

    /// A frame of the fastest tier, or of the next that has one while all of DRAM is held.
    ///
    /// Waits at most until `deadline`; then the error names who holds the memory.
    pub(crate) fn take_frame(
        self: &Arc<Self>,
        page: PageId,
        len: usize,
        deadline: Instant,
    ) -> Result<Taken, PoolError> {
        let limit = self.tiers[0].account.budget();
        if len as u64 > limit {
            return Err(PoolError::page_size(&self.name, len, limit));
        }
        let start = Instant::now();
        loop {
            if let Some(taken) = self.take_from(0, page, len) {
                return Ok(taken);
            }
            let made = self.make_room(0, self.room_for(len), Effort::Write, Some(class_of(len)));
            // What it freed is tried before the clock is asked.
            let tiers = if made > 0 { 0..1 } else { 1..self.tiers.len() };
            if let Some(taken) = tiers.into_iter().find_map(|tier| self.take_from(tier, page, len))
            {
                return Ok(taken);
            }
            if self.closed.load(Ordering::Relaxed) {
                return Err(PoolError::Closed { pool: self.name.clone() });
            }
            let now = Instant::now();
            if made > 0 && now < deadline {
                continue;
            }
            if now - start > STORE_GRACE
                && let Some(error) = self.refused_since(start)
            {
                return Err(error.into());
            }
            if now - start >= OWE_AFTER.min(self.patience / OWE_AFTER_SHARE)
                && let Some(taken) = self.owe_frame(page, len)
            {
                return Ok(taken);
            }
            if now >= deadline {
                return Err(self.exhausted(len, now - start));
            }
            self.counters.waits.add(1);
            self.progress.wait(LOOK_AGAIN);
        }
    }

    /// A frame of the fastest tier for a page that nobody waits for: what is free, or what clean
    /// pages leave.
    pub(crate) fn take_spare(self: &Arc<Self>, page: PageId, len: usize) -> Option<Taken> {
        self.take_from(0, page, len).or_else(|| {
            let made = self.make_room(0, self.room_for(len), Effort::Clean, Some(class_of(len)));
            if made > 0 { self.take_from(0, page, len) } else { None }
        })
    }

    /// A frame of DRAM beyond the budget, while the ledger may owe that much.
    fn owe_frame(&self, page: PageId, len: usize) -> Option<Taken> {
        let taken = self.tiers[0].owe(&self.frames, 0, page, len, self.overdraft)?;
        let debt_bytes = self.tiers[0].account.debt();
        tracing::warn!(pool = self.name, len, debt_bytes, "a frame beyond the budget");
        self.counters.owed_frames.add(1);
        self.handed_out.fetch_add(len as u64, Ordering::Relaxed);
        Some(taken)
    }

    /// Pays what the ledger owes for frames of the pool, with pages that nobody holds.
    pub(crate) fn pay_debt(self: &Arc<Self>) {
        let debt = self.tiers[0].account.owed();
        if debt > 0 {
            self.release(0, debt, Effort::Write);
        }
    }

    /// Bytes of all memory that pages have or may have.
    fn memory_bytes(&self) -> u64 {
        self.tiers.iter().map(|tier| tier.account.used() + tier.account.room()).sum()
    }

    /// Bytes of new pages that memory may have beside those it has, before too little would be left
    /// that can leave it. Every page that the store does not have must stay when the store fails or
    /// is full, and stored pages could then not be read any more.
    fn room_for_unbacked(&self, reserve: u64) -> u64 {
        self.memory_bytes().saturating_sub(self.unbacked.load(Ordering::Relaxed) + reserve)
    }

    /// Bytes of new pages that memory has beyond those.
    fn unbacked_beyond(&self, reserve: u64) -> u64 {
        (self.unbacked.load(Ordering::Relaxed) + reserve).saturating_sub(self.memory_bytes())
    }

    /// One part of DRAM in so many.
    fn read_reserve(&self) -> u64 {
        self.tiers[0].account.budget() / READ_RESERVE_SHARE
    }

    /// Writes a batch of new pages to the store, where they are, when they take more of memory than
    /// leaves the reserve and half as much again; whether more is to be written. For the background
    /// worker.
    pub(crate) fn keep_reserve(self: &Arc<Self>) -> bool {
        let reserve = self.read_reserve() * 3 / 2;
        let short = self.unbacked_beyond(reserve).min(self.batch_bytes(WRITE_BATCH_BYTES) as u64);
        self.store.is_some()
            && short > 0
            && self.write_some(short) > 0
            && self.unbacked_beyond(reserve) > 0
    }

    /// Makes sure that a new page leaves something to evict, by writing others, or refuses it with
    /// what the store said.
    pub(crate) fn admit_new(self: &Arc<Self>, len: usize) -> Result<(), PoolError> {
        let Some(store) = &self.store else { return Ok(()) };
        let (reserve, len) = (self.read_reserve(), len as u64);
        let room = self.room_for_unbacked(reserve);
        if room < len + reserve / 2 {
            self.progress.ask();
        }
        if room >= len {
            return Ok(());
        }
        let start = Instant::now();
        loop {
            if self.write_some(len.max(ROOM_MIN)) > 0 {
                if self.room_for_unbacked(reserve) >= len {
                    return Ok(());
                }
                continue;
            }
            let refused = self.refused_since(start);
            // What others are writing has its extents, and makes room in memory when it is done.
            if refused.is_none()
                || self.writing.load(Ordering::SeqCst) == 0
                || start.elapsed() > STORE_GRACE
            {
                refused.map_or(Ok(()), |error| Err(PoolError::from(error)))?;
                break;
            }
            self.progress.wait(LOOK_AGAIN);
            if self.room_for_unbacked(reserve) >= len {
                return Ok(());
            }
        }
        // All that could be written is held or being written: the page may come, and finds a frame
        // when the others let go, if the store has room for all of them in the end.
        let stats = store.stats();
        let free_bytes = stats.capacity_bytes.saturating_sub(stats.used_bytes);
        if free_bytes >= len + reserve {
            return Ok(());
        }
        let error = StoreError::Full {
            store: store.name().to_owned(),
            asked_bytes: len,
            free_bytes,
            largest_free_bytes: stats.largest_free_bytes,
            capacity_bytes: stats.capacity_bytes,
        };
        Err(error.into())
    }

    /// Bytes to evict for a page of `len`: some more than it needs, since one sample of the frames
    /// finds several victims for the price of one.
    fn room_for(&self, len: usize) -> u64 {
        (len as u64).max(ROOM_MIN.min(self.tiers[0].account.budget() / LOW_SHARE))
    }

    fn exhausted(&self, len: usize, waited: Duration) -> PoolError {
        let account = &self.tiers[0].account;
        PoolError::Exhausted {
            pool: self.name.clone(),
            asked_bytes: len as u64,
            waited,
            dram_bytes: account.budget(),
            holders: self.holders(),
            held_bytes: (waited >= LOOK_AGAIN).then(|| self.held_bytes()),
            others: largest(account.others()),
        }
    }

    /// Bytes of pages in DRAM that are latched or pinned. Looks at every frame.
    fn held_bytes(&self) -> u64 {
        let frames = (0..self.tiers[0].begun()).filter_map(|n| self.tiers[0].nth(n));
        let frames = frames.map(|id| &self.frames[id]);
        let held = frames.filter(|frame| frame.page().is_some() && frame.latch.is_held());
        held.map(|frame| frame.len() as u64).sum()
    }

    /// A frame of one tier without evicting anything.
    pub(crate) fn take_from(&self, tier: usize, page: PageId, len: usize) -> Option<Taken> {
        let frames = &self.tiers[tier];
        // There are at most MEMORY_TIERS_MAX tiers.
        let tier_byte = u8::try_from(tier).unwrap_or(u8::MAX);
        let taken = frames.take(&self.frames, tier_byte, page, len)?;
        self.handed_out.fetch_add(len as u64, Ordering::Relaxed);
        if frames.headroom() < self.low_water(tier) {
            self.progress.ask();
        }
        Some(taken)
    }

    /// Makes the frame the page's, under the exclusive hold that this takes.
    ///
    /// A reader with a stale hint may hold the frame for a moment, to find that its page is gone.
    pub(crate) fn occupy(&self, id: FrameId, page: PageId, space: u32, len: usize, cold: bool) {
        let frame = &self.frames[id];
        frame.latch.exclusive(&self.lot);
        frame.set_len(len);
        frame.space.store(space, Ordering::Relaxed);
        frame.begin_fixes(self.now(), self.heat.epoch());
        frame.cold.store(cold, Ordering::Relaxed);
        frame.asked.store(false, Ordering::Relaxed);
        frame.dirty.store(false, Ordering::Relaxed);
        frame.clear_doom();
        frame.set_page(Some(page));
        self.spaces.came(space, len as u64);
    }

    /// Gives warm frames of a tier back and evicts pages for somebody else's bytes; the bytes that
    /// the ledger got.
    pub(crate) fn release(self: &Arc<Self>, tier: usize, bytes: u64, effort: Effort) -> u64 {
        let frames = &self.tiers[tier];
        let mut given = 0;
        // A round gives frames back or makes some to give, a page of the smallest size at least.
        let rounds = 2 + 2 * bytes.min(frames.account.surplus()) / PAGE_MIN_BYTES as u64;
        for _ in 0..rounds {
            let want = bytes.saturating_sub(given).min(frames.account.surplus());
            if want == 0 {
                break;
            }
            let warm = frames.release_warm(&self.frames, want);
            given += warm.to_ledger;
            if given < bytes && warm.bytes == 0 {
                let surplus = frames.account.surplus();
                let evicted = self.evict(tier, want, effort, None);
                if evicted == 0 {
                    break;
                }
                // Framed, what was evicted is warm now.
                given += if self.range.is_some() { evicted.min(surplus) } else { 0 };
            }
        }
        given
    }

    /// Makes bytes available in a tier: warm frames of other classes first, then pages.
    pub(crate) fn make_room(
        self: &Arc<Self>,
        tier: usize,
        bytes: u64,
        effort: Effort,
        class: Option<usize>,
    ) -> u64 {
        let warm = self.tiers[tier].release_warm(&self.frames, bytes).bytes;
        if warm > 0 { warm } else { self.evict(tier, bytes, effort, class) }
    }
}
