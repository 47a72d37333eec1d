//! Frame allocation: takes a free frame, else reclaims warm frames of other classes, else evicts,
//! else waits.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use terrace_store::StoreError;

use crate::arena::Taken;
use crate::error::{PoolError, largest};
use crate::evict::{Effort, WRITE_BATCH_BYTES};
use crate::page::{FrameId, PAGE_MIN_BYTES, PageId, class_of};
use crate::pool::Inner;

/// Sleep of a waiter between two retries: bytes that a query gives back to the ledger wake no
/// waiter.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Time that a caller waits for other pages to come free while the store refuses dirty ones.
const STORE_GRACE: Duration = Duration::from_millis(200);

/// Time without a frame after which a caller gets one beyond the budget, and the part of the pool's
/// timeout that this is at most (1 / `OWE_AFTER_SHARE`).
const OWE_AFTER: Duration = Duration::from_secs(2);
const OWE_AFTER_SHARE: u32 = 2;

/// Minimum number of bytes that an eviction makes room for.
const ROOM_MIN: u64 = 64 << 10;

/// Share of DRAM that stays evictable (1 / `READ_RESERVE_SHARE`), so that stored pages can always
/// be read.
const READ_RESERVE_SHARE: u64 = 8;

/// Watermarks of a tier's free bytes: below 1/64 the background worker is woken, and it evicts up
/// to 1/32.
const LOW_SHARE: u64 = 64;
const HIGH_SHARE: u64 = 32;
const HEADROOM_MAX: u64 = 256 << 20;

impl Inner {
    /// Low watermark: headroom in a tier below which the background worker is woken.
    pub(crate) fn low_water(&self, tier: usize) -> u64 {
        (self.tiers[tier].account.budget() / LOW_SHARE).min(HEADROOM_MAX / 2)
    }

    /// High watermark: headroom in a tier that the background worker restores.
    pub(crate) fn high_water(&self, tier: usize) -> u64 {
        (self.tiers[tier].account.budget() / HIGH_SHARE).min(HEADROOM_MAX)
    }

    /// Takes a frame of the fastest tier, or of the next tier that has one while all of DRAM is
    /// held.
    ///
    /// Waits at most until `deadline`; then the error names the holders of the memory.
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
            // The freed frames are tried before the clock is read, which is slower.
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

    /// Takes a frame of the fastest tier for a page that no caller waits for: a free frame, or one
    /// made by dropping clean pages.
    pub(crate) fn take_spare(self: &Arc<Self>, page: PageId, len: usize) -> Option<Taken> {
        self.take_from(0, page, len).or_else(|| {
            let made = self.make_room(0, self.room_for(len), Effort::Clean, Some(class_of(len)));
            if made > 0 { self.take_from(0, page, len) } else { None }
        })
    }

    /// Takes a frame of DRAM beyond the budget, if the debt stays within the overdraft.
    fn owe_frame(&self, page: PageId, len: usize) -> Option<Taken> {
        let taken = self.tiers[0].owe(&self.frames, 0, page, len, self.overdraft)?;
        let debt_bytes = self.tiers[0].account.debt();
        tracing::warn!(pool = self.name, len, debt_bytes, "a frame beyond the budget");
        self.counters.owed_frames.add(1);
        self.handed_out.fetch_add(len as u64, Ordering::Relaxed);
        Some(taken)
    }

    /// Repays the pool's debt to the ledger by evicting pages that are not held.
    pub(crate) fn pay_debt(self: &Arc<Self>) {
        let debt = self.tiers[0].account.owed();
        if debt > 0 {
            self.release(0, debt, Effort::Write);
        }
    }

    /// Bytes of all memory tiers, in use by pages or available to them.
    fn memory_bytes(&self) -> u64 {
        self.tiers.iter().map(|tier| tier.account.used() + tier.account.room()).sum()
    }

    /// Bytes of unbacked pages that memory may hold in addition to the present ones, before fewer
    /// than `reserve` bytes would be left evictable. Unbacked pages cannot be evicted while the
    /// store fails or is full, and stored pages could then no longer be read.
    fn room_for_unbacked(&self, reserve: u64) -> u64 {
        self.memory_bytes().saturating_sub(self.unbacked.load(Ordering::Relaxed) + reserve)
    }

    /// Bytes of unbacked pages beyond that limit.
    fn unbacked_beyond(&self, reserve: u64) -> u64 {
        (self.unbacked.load(Ordering::Relaxed) + reserve).saturating_sub(self.memory_bytes())
    }

    /// Bytes of DRAM that stay evictable.
    fn read_reserve(&self) -> u64 {
        self.tiers[0].account.budget() / READ_RESERVE_SHARE
    }

    /// Writes a batch of unbacked pages to the store and keeps them in memory, if fewer bytes than
    /// one and a half times the reserve are evictable. Returns true if more is to be written. For
    /// the background worker.
    pub(crate) fn keep_reserve(self: &Arc<Self>) -> bool {
        let reserve = self.read_reserve() * 3 / 2;
        let short = self.unbacked_beyond(reserve).min(self.batch_bytes(WRITE_BATCH_BYTES) as u64);
        self.store.is_some()
            && short > 0
            && self.write_some(short) > 0
            && self.unbacked_beyond(reserve) > 0
    }

    /// Admission control for a new page: makes sure that something evictable is left beside it, by
    /// writing other pages, or refuses it with the store's error.
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
            // Pages that other threads are writing have their extents, and become evictable when
            // the write completes.
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
        // Every writable page is held or being written. The new page is admitted if the store has
        // room for all of them in the end; it finds a frame when the holders release theirs.
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

    /// Bytes to evict for a page of `len`: somewhat more than it needs, since one sample of the
    /// frames finds several victims for the price of one.
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

    /// Bytes of pages in DRAM that are latched or pinned. Visits every frame.
    fn held_bytes(&self) -> u64 {
        let frames = (0..self.tiers[0].begun()).filter_map(|n| self.tiers[0].nth(n));
        let frames = frames.map(|id| &self.frames[id]);
        let held = frames.filter(|frame| frame.page().is_some() && frame.latch.is_held());
        held.map(|frame| frame.len() as u64).sum()
    }

    /// Takes a frame of one tier without evicting anything.
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

    /// Assigns the frame to the page, under the exclusive latch, which this acquires and keeps.
    ///
    /// A reader with a stale hint may hold the latch for a moment, until it finds that the page is
    /// gone.
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

    /// Reclaims memory for other consumers of the ledger: releases warm frames of a tier and evicts
    /// pages. Returns the bytes that the ledger got.
    pub(crate) fn release(self: &Arc<Self>, tier: usize, bytes: u64, effort: Effort) -> u64 {
        let frames = &self.tiers[tier];
        let mut given = 0;
        // A round releases warm frames or makes some, of at least one page of the smallest size.
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
                // In a framed pool, the evicted pages' frames are warm now, and the next round
                // releases them.
                given += if self.range.is_some() { evicted.min(surplus) } else { 0 };
            }
        }
        given
    }

    /// Makes bytes available in a tier: releases warm frames of other classes first, then evicts
    /// pages. Returns the bytes freed.
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
