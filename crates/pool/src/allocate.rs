//! Finding a frame: what is free, then what is warm elsewhere, then by eviction, then by waiting.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::arena::{Taken, TierFrames};
use terrace_tier::store::StoreError;

use crate::error::PoolError;
use crate::evict::Effort;
use crate::page::{FrameId, PageId, class_of};
use crate::pool::Inner;
use crate::sync::lock;

/// How long a waiter sleeps before it looks again by itself: bytes that a query gives back to the
/// ledger wake nobody.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// How long a caller waits for other pages to come free while the store refuses dirty ones.
const STORE_GRACE: Duration = Duration::from_millis(200);

/// Bytes that an eviction makes room for at least.
const ROOM_MIN: u64 = 64 << 10;

/// One part in this many of DRAM stays evictable, so that stored pages can always be read.
const READ_RESERVE_SHARE: u64 = 8;

/// The share of DRAM that the background worker keeps free: 1/64 wakes it, 1/32 contents it.
const LOW_SHARE: u64 = 64;
const HIGH_SHARE: u64 = 32;
const HEADROOM_MAX: u64 = 256 << 20;

impl Inner {
    /// Headroom in DRAM below which the background worker is woken.
    pub(crate) fn low_water(&self) -> u64 {
        (self.tiers[0].account.budget() / LOW_SHARE).min(HEADROOM_MAX / 2)
    }

    /// Headroom in DRAM that the background worker restores.
    pub(crate) fn high_water(&self) -> u64 {
        (self.tiers[0].account.budget() / HIGH_SHARE).min(HEADROOM_MAX)
    }

    /// A frame of the fastest tier, or of the next that has one while all of DRAM is held.
    ///
    /// Waits at most until `deadline`; then the error names who holds the memory.
    pub(crate) fn take_frame(
        self: &Arc<Self>,
        len: usize,
        deadline: Instant,
    ) -> Result<Taken, PoolError> {
        let limit = self.tiers[0].account.budget();
        if len as u64 > limit {
            return Err(PoolError::page_size(&self.name, len, limit));
        }
        let start = Instant::now();
        loop {
            if let Some(taken) = self.take_from(0, len) {
                return Ok(taken);
            }
            if self.make_room(0, self.room_for(len), Effort::Write, Some(class_of(len))) > 0 {
                if Instant::now() < deadline {
                    continue;
                }
            } else if let Some(taken) = (1..self.tiers.len()).find_map(|t| self.take_from(t, len)) {
                return Ok(taken);
            }
            if self.closed.load(Ordering::Relaxed) {
                return Err(PoolError::Closed { pool: self.name.clone() });
            }
            if start.elapsed() > STORE_GRACE
                && let Some(error) = lock(&self.write_error).clone()
            {
                return Err(error.into());
            }
            if Instant::now() >= deadline {
                return Err(self.exhausted(len, start.elapsed()));
            }
            self.counters.waits.add(1);
            self.progress.wait(LOOK_AGAIN);
        }
    }

    /// Refuses a new page that would leave nothing to evict: every page in memory would be one that
    /// the store has no room for, and no stored page could be read again.
    pub(crate) fn admit_new(&self, len: usize) -> Result<(), PoolError> {
        let Some(store) = &self.store else { return Ok(()) };
        let unbacked = self.unbacked.load(Ordering::Relaxed) + len as u64;
        let room = |tier: &TierFrames| tier.account.used() + tier.account.room();
        let memory: u64 = self.tiers.iter().map(room).sum();
        let reserve = self.tiers[0].account.budget() / READ_RESERVE_SHARE;
        if unbacked + reserve <= memory {
            return Ok(());
        }
        let refused = lock(&self.write_error).clone();
        let full = refused.filter(|error| matches!(error, StoreError::Full { .. }));
        let stats = store.stats();
        let free = stats.capacity_bytes.saturating_sub(stats.used_bytes);
        let free_bytes = if full.is_some() { 0 } else { free };
        if unbacked + reserve <= memory + free_bytes {
            return Ok(());
        }
        let error = full.unwrap_or_else(|| StoreError::Full {
            store: store.name().to_owned(),
            asked_bytes: len as u64,
            free_bytes,
            largest_free_bytes: stats.largest_free_bytes,
            capacity_bytes: stats.capacity_bytes,
        });
        Err(error.into())
    }

    /// Bytes to evict for a page of `len`: some more than it needs, since one sample of the frames
    /// finds several victims for the price of one.
    fn room_for(&self, len: usize) -> u64 {
        (len as u64).max(ROOM_MIN.min(self.tiers[0].account.budget() / LOW_SHARE))
    }

    fn exhausted(&self, len: usize, waited: Duration) -> PoolError {
        let (pool, holders) = (self.name.clone(), self.holders());
        PoolError::Exhausted { pool, asked_bytes: len as u64, waited, holders }
    }

    /// A frame of one tier without evicting anything.
    pub(crate) fn take_from(&self, tier: usize, len: usize) -> Option<Taken> {
        let frames = &self.tiers[tier];
        // There are at most MEMORY_TIERS_MAX tiers.
        let taken = frames.take(&self.frames, u8::try_from(tier).unwrap_or(u8::MAX), len)?;
        self.handed_out.fetch_add(len as u64, Ordering::Relaxed);
        if tier == 0 && frames.headroom() < self.low_water() {
            self.progress.ask();
        }
        Some(taken)
    }

    /// Makes the frame the page's, under the exclusive hold that this takes.
    ///
    /// A reader with a stale hint may hold the frame for a moment, to find that its page is gone.
    pub(crate) fn occupy(&self, id: FrameId, page: PageId, space: u32, len: usize, cold: bool) {
        let frame = &self.frames[id];
        frame.latch.exclusive(&self.lot, None);
        frame.set_len(len);
        frame.space.store(space, Ordering::Relaxed);
        frame.last_fix.store(self.now(), Ordering::Relaxed);
        frame.fixes.store(0, Ordering::Relaxed);
        frame.cold.store(cold, Ordering::Relaxed);
        frame.dirty.store(false, Ordering::Relaxed);
        frame.clear_doom();
        frame.set_page(Some(page));
        self.spaces.came(space, len as u64);
    }

    /// Gives warm frames back and evicts pages for somebody else's bytes.
    pub(crate) fn release(self: &Arc<Self>, bytes: u64, effort: Effort) -> u64 {
        let tier = &self.tiers[0];
        let mut given = 0;
        for _ in 0..64 {
            let want = (bytes - given).min(tier.account.surplus());
            if want == 0 {
                break;
            }
            let warm = tier.release_warm(&self.frames, want);
            given += warm;
            if warm == 0 && self.evict(0, want, effort, None) == 0 {
                break;
            }
            if given >= bytes {
                break;
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
        let warm = self.tiers[tier].release_warm(&self.frames, bytes);
        if warm > 0 { warm } else { self.evict(tier, bytes, effort, class) }
    }
}
