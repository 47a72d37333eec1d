//! Accounting of the bytes of pages that batches pin, and of the copies made in their place.
//!
//! A batch that points into pages keeps them in memory for as long as any operator holds it, and a
//! sort or the build side of a join holds its input to the end. The pool can neither evict nor
//! reuse such pages. Up to a share of the budget that is the price of zero-copy; above it, scans
//! and readers of spilled runs return copies and unpin their pages at once.
//!
//! The share is half of the pool's own reserve, so that the other half always remains for reading
//! and writing: otherwise operators that hold all the rest of the budget and wait for a page could
//! deadlock. So room below the limit is reserved before pages are requested, and a reader that gets
//! none pins one page at a time.
//!
//! Copies that wait to be consumed are a consumer of the ledger. If the ledger has nothing to spare
//! for them, a batch is copied only when it is due, at the price of fetching its pages once more.
//! The bytes come back when their query continues, so no query may wait for them: the reserve of
//! the queries counts them as the pool's.
//!
//! Reads of a query go through a view of the account for that query, which counts into the same
//! totals, records for the market which pages were touched, and waits while the query is suspended.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_ledger::Consumer;
use terrace_pool::Pinned;
use terrace_sys::size::to_u64;

use crate::market::CacheClass;
use crate::memory::MemoryBudget;
use crate::query::Suspension;

/// Account of pinned bytes: one for all queries of an engine.
#[derive(Debug)]
pub struct PagePins {
    account: Arc<Account>,
    reader: Option<Arc<Reader>>,
}

#[derive(Debug)]
struct Account {
    pinned_bytes: AtomicU64,
    limit_bytes: u64,
    copies: Option<Copies>,
}

/// The parts of a query that its scans use.
#[derive(Debug)]
pub struct Reader {
    /// Class of cached tables to which its reads are attributed.
    pub cache: Arc<CacheClass>,
    /// Its suspension, which its scans wait for.
    pub suspension: Arc<Suspension>,
}

/// Accounting of copies in the ledger.
struct Copies {
    budget: Arc<MemoryBudget>,
    consumer: Arc<Consumer>,
}

impl PagePins {
    /// Returns an account that lets batches pin `limit_bytes`. Copies are not accounted for.
    #[must_use]
    pub fn new(limit_bytes: u64) -> Self {
        Self::of(limit_bytes, None)
    }

    fn of(limit_bytes: u64, copies: Option<Copies>) -> Self {
        let account = Account { pinned_bytes: AtomicU64::new(0), limit_bytes, copies };
        Self { account: Arc::new(account), reader: None }
    }

    /// Returns the same account, with copies charged to `consumer` of the ledger of `budget`.
    #[must_use]
    pub fn with_copies(self, budget: Arc<MemoryBudget>, consumer: Arc<Consumer>) -> Self {
        Self::of(self.limit_bytes(), Some(Copies { budget, consumer }))
    }

    /// Returns the same account, for the reads of one query.
    pub fn for_reader(&self, reader: Arc<Reader>) -> Arc<Self> {
        Arc::new(Self { account: Arc::clone(&self.account), reader: Some(reader) })
    }

    /// Waits while the reading query is suspended or paused.
    pub async fn resumed(&self) {
        let Some(Reader { suspension, .. }) = self.reader.as_deref() else { return };
        while let Some(resumed) = suspension.wait().or_else(|| suspension.pause()) {
            resumed.await;
        }
    }

    fn touch(&self, page: &Pinned) {
        if let Some((reader, id)) = self.reader.as_ref().zip(page.id()) {
            reader.cache.touch(id.number(), to_u64(page.len()));
        }
    }

    /// Returns the bytes of pages that batches hold now.
    #[must_use]
    pub fn pinned_bytes(&self) -> u64 {
        self.account.pinned_bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes that batches may hold before copies are made.
    #[must_use]
    pub fn limit_bytes(&self) -> u64 {
        self.account.limit_bytes
    }

    /// Returns the bytes of copies that wait to be consumed.
    #[must_use]
    pub fn copied_bytes(&self) -> u64 {
        self.account.copies.as_ref().map_or(0, |copies| copies.consumer.held())
    }

    /// Reserves room for pages of `bytes`; `None` if that would exceed the limit.
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Option<PinRoom> {
        let limit = self.account.limit_bytes;
        let within = |pinned: u64| pinned.checked_add(bytes).filter(|sum| *sum <= limit);
        let pinned = &self.account.pinned_bytes;
        let taken = pinned.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within);
        taken.ok().map(|_| PinRoom { bytes, pins: Arc::clone(self) })
    }

    /// Reserves room for one page that is unpinned as soon as it is copied, whatever the limit.
    pub fn reserve_for_a_copy(self: &Arc<Self>, bytes: u64) -> PinRoom {
        self.account.pinned_bytes.fetch_add(bytes, Ordering::Relaxed);
        PinRoom { bytes, pins: Arc::clone(self) }
    }

    /// Returns an empty account of copies.
    pub fn copies(self: &Arc<Self>) -> CopyRoom {
        CopyRoom { bytes: 0, pins: Arc::clone(self) }
    }
}

/// Room reserved below the limit of pins; what no page uses is released when it is dropped.
#[derive(Debug)]
pub struct PinRoom {
    bytes: u64,
    pins: Arc<PagePins>,
}

impl PinRoom {
    /// Charges a page to the room for as long as its pin lives.
    pub fn pin(&mut self, page: Pinned) -> CountedPin {
        self.pins.touch(&page);
        let bytes = to_u64(page.len());
        let own = self.bytes.min(bytes);
        self.bytes -= own;
        // Room is reserved by the lengths of extents, which are those of their pages.
        self.pins.account.pinned_bytes.fetch_add(bytes - own, Ordering::Relaxed);
        CountedPin { page, _room: Self { bytes, pins: Arc::clone(&self.pins) } }
    }
}

impl Drop for PinRoom {
    fn drop(&mut self) {
        self.pins.account.pinned_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A pinned page that is accounted for as long as a batch points into it.
#[derive(Debug)]
pub struct CountedPin {
    page: Pinned,
    _room: PinRoom,
}

impl AsRef<[u8]> for CountedPin {
    fn as_ref(&self) -> &[u8] {
        &self.page
    }
}

/// Bytes of copies, released when this is dropped.
#[derive(Debug)]
pub struct CopyRoom {
    bytes: u64,
    pins: Arc<PagePins>,
}

impl CopyRoom {
    /// Takes `bytes` more; false if the ledger has none to spare and the pool has no clean frame.
    pub fn try_grow(&mut self, bytes: u64) -> bool {
        let granted = self.pins.account.copies.as_ref().is_none_or(|copies| {
            let take = || copies.consumer.try_grow(bytes).is_ok();
            copies.budget.can_spare(bytes)
                && (take() || copies.budget.reclaim(bytes, false) && take())
        });
        self.bytes += if granted { bytes } else { 0 };
        granted
    }

    /// Releases 1 / `parts` of the bytes, when one of that many remaining copies is consumed.
    pub fn hand_on(&mut self, parts: usize) {
        let bytes = self.bytes.checked_div(to_u64(parts)).unwrap_or(self.bytes);
        self.shrink(bytes);
    }

    fn shrink(&mut self, bytes: u64) {
        self.bytes -= bytes;
        if let Some(copies) = &self.pins.account.copies {
            copies.consumer.shrink(bytes);
        }
    }
}

impl Drop for CopyRoom {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

impl fmt::Debug for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Copies").field("held", &self.consumer.held()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_taken_once_and_comes_back() {
        let pins = Arc::new(PagePins::new(100));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let pins = Arc::clone(&pins);
                std::thread::spawn(move || {
                    let mut most = 0;
                    for _ in 0..10_000 {
                        let room = pins.reserve(40);
                        most = most.max(pins.pinned_bytes());
                        drop(room);
                    }
                    most
                })
            })
            .collect();
        let most = threads.into_iter().map(|thread| thread.join().expect("runs")).max();
        assert!(most <= Some(80), "{most:?}");
        assert_eq!(pins.pinned_bytes(), 0);
        let _copy = pins.reserve_for_a_copy(200);
        assert!(pins.reserve(1).is_none());
    }
}
