//! Memory budget shared by the queries of an engine: the ledger, the pool behind it, and the bytes
//! that operators wait for.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use terrace_ledger::{Class, Consumer, Ledger};
use terrace_sys::size::{KIB, MIB, round_up};
use terrace_sys::sync::lock;

use super::fairness::Fairness;
use super::wakeup::Wakeup;

/// The minimum budget: one chunk being gathered, one being written, the longest segment of each in
/// a page, and some working memory.
pub const DRAM_BYTES_MIN: u64 = 32 * MIB;

/// Time after which queries that wait for each other's memory give up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Heap of paged operators that is not charged to the ledger, as a maximum and as 1 /
/// `HEAP_BESIDE_SHARE` of the budget: the process has more than this outside the budget in any
/// case, and the pool of a small budget needs every frame.
const HEAP_BESIDE: u64 = 32 * MIB;
const HEAP_BESIDE_SHARE: u64 = 8;
/// Charges for sessions and for unaccounted bytes leave at least 1 / `LEFT_SHARE` of the budget.
const LEFT_SHARE: u64 = 2;
/// Number of times that the pool is asked to make room.
const ROOM_TRIES: usize = 4;

/// Memory that the ledger can reclaim: the frames of a buffer pool above its floor.
pub trait Reserve: Send + Sync + fmt::Debug {
    /// Gives up to `bytes`, rounded up to whole frames, back to the ledger without I/O. Returns the
    /// number of bytes given.
    fn release(&self, bytes: u64) -> u64;

    /// Releases as [`Reserve::release`] does, and writes pages to the store if needed.
    fn release_by_writing(&self, bytes: u64) -> u64;

    /// Estimates the bytes that could be released, at once or by writing.
    fn releasable(&self) -> u64;

    /// Returns the bytes of the ledger that it holds in total.
    fn held(&self) -> u64;

    /// Returns the number of frames lent beyond the budget so far, because operators hold all
    /// others.
    fn lent_frames(&self) -> u64 {
        0
    }
}

/// Memory budget of an engine, which its queries share.
#[derive(Debug)]
pub struct MemoryBudget {
    pub(super) ledger: Ledger,
    pub(super) reserve: Arc<dyn Reserve>,
    /// Time that an operator waits while other queries hold the memory it lacks.
    pub(super) patience: Duration,
    waiting_bytes: AtomicU64,
    /// Bytes of the pool's pages that paged operators keep pinned.
    pinned_bytes: AtomicU64,
    /// Bytes of heap that paged operators hold, and the part of them that is charged to the ledger.
    /// They change together.
    heap_bytes: Mutex<u64>,
    heap_known: AtomicU64,
    heap: Consumer,
    /// Consumer for memory of the process that no other consumer accounts for.
    unaccounted: Consumer,
    /// Bytes that sessions hold apart from their queries, and the charge for them.
    sessions_held: Mutex<u64>,
    sessions: Consumer,
    /// Signal that wakes the market.
    wakeup: Wakeup,
}

impl MemoryBudget {
    /// Creates the budget of `ledger`, of which `reserve` holds what queries do not.
    #[must_use]
    pub fn new(ledger: Ledger, reserve: Arc<dyn Reserve>) -> Self {
        Self {
            patience: PATIENCE,
            waiting_bytes: AtomicU64::new(0),
            pinned_bytes: AtomicU64::new(0),
            heap_bytes: Mutex::new(0),
            heap_known: AtomicU64::new(0),
            heap: ledger.register("heap of operators", Class::Query),
            unaccounted: ledger.register("unaccounted", Class::Other),
            sessions_held: Mutex::new(0),
            sessions: ledger.register("sessions", Class::Other),
            wakeup: Wakeup::default(),
            ledger,
            reserve,
        }
    }

    /// Returns the same budget, in which operators wait at most `patience` for memory that other
    /// queries hold.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Returns the ledger.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the thresholds for the current budget.
    pub(super) fn fairness(&self) -> Fairness {
        Fairness::of_budget(self.ledger.budget())
    }

    /// Returns the bytes that a query leases from the ledger at a time.
    pub(super) fn lease_bytes(&self) -> u64 {
        (self.ledger.budget() / 256).clamp(64 * KIB, MIB)
    }

    fn heap_beside(&self) -> u64 {
        HEAP_BESIDE.min(self.ledger.budget() / HEAP_BESIDE_SHARE)
    }

    /// Returns the bytes held by consumers of the classes that `counts` accepts, without the charge
    /// for unaccounted bytes.
    pub(super) fn held_by(&self, counts: impl Fn(Class) -> bool) -> u64 {
        let consumers = self.ledger.consumers().into_iter().filter(|c| counts(c.class));
        let held: u64 = consumers.map(|consumer| consumer.held_bytes).sum();
        let own = if counts(Class::Other) { self.unaccounted.held() } else { 0 };
        held.saturating_sub(own)
    }

    /// Charges bytes that a session holds already, but leaves half of this budget and at least the
    /// smallest budget of an engine. The pool gives up clean frames for what the ledger lacks.
    pub fn hold_for_sessions(&self, bytes: u64) {
        self.charge_sessions(|held| held.saturating_add(bytes));
        let debt = self.ledger.debt();
        if debt > 0 {
            self.reserve.release(debt);
        }
    }

    /// Ends the charge for bytes that a session held.
    pub fn release_of_sessions(&self, bytes: u64) {
        self.charge_sessions(|held| held.saturating_sub(bytes));
    }

    fn charge_sessions(&self, held: impl FnOnce(u64) -> u64) {
        let mut all = lock(&self.sessions_held);
        *all = held(*all);
        charge(&self.sessions, (*all).min(self.chargeable_bytes()));
    }

    /// Returns the maximum charge for bytes that are held already; queries need the rest.
    fn chargeable_bytes(&self) -> u64 {
        let budget = self.ledger.budget();
        budget.saturating_sub((budget / LEFT_SHARE).max(DRAM_BYTES_MIN))
    }

    /// Returns the bytes charged for what sessions hold apart from their queries.
    pub(super) fn sessions_bytes(&self) -> u64 {
        self.sessions.held()
    }

    /// Charges `bytes` that the process holds and no consumer accounts for, but leaves half of this
    /// budget and at least the smallest budget of an engine. What the ledger lacks becomes debt,
    /// and the pool gives up frames for that at once.
    pub(super) fn charge_unaccounted(&self, bytes: u64) {
        let bytes = bytes.min(self.chargeable_bytes().saturating_sub(self.sessions.held()));
        charge(&self.unaccounted, bytes);
        let debt = self.ledger.debt();
        if bytes > 0 && debt > 0 && self.reserve.release(debt) < debt {
            self.reserve.release_by_writing(self.ledger.debt());
        }
    }

    /// Returns the bytes that are charged as unaccounted.
    pub(super) fn unaccounted_bytes(&self) -> u64 {
        self.unaccounted.held()
    }

    /// Returns the bytes charged for what is held already, which no query can release.
    fn charged_bytes(&self) -> u64 {
        self.unaccounted.held().saturating_add(self.sessions.held())
    }

    /// Returns the bytes that could be granted now if nothing were charged for what is held
    /// already.
    pub(super) fn free_without_charges(&self) -> u64 {
        let free = self.ledger.available().saturating_add(self.charged_bytes());
        free.saturating_sub(self.ledger.debt())
    }

    /// Returns the signal that wakes the market.
    pub fn wakeup(&self) -> &Wakeup {
        &self.wakeup
    }

    /// Returns the bytes that queries and cached tables share: free bytes, those that the pool
    /// would give up or paged operators pin of it, and those that queries hold.
    pub(crate) fn market_bytes(&self) -> u64 {
        self.unpinnable_bytes().saturating_add(self.held_beside(0))
    }

    /// Returns the bytes of the pool that paged operators do not pin.
    pub(crate) fn cached_bytes(&self) -> u64 {
        self.reserve.held().saturating_sub(self.pinned_in_pool())
    }

    /// Returns true if idle bytes are needed: an operator waits for some, or the ledger has debt.
    pub(super) fn is_short(&self) -> bool {
        self.waiting_bytes.load(Ordering::Relaxed) > 0 || self.ledger.debt() > 0
    }

    /// Returns the bytes that are free or that the pool would give up, less those that operators
    /// wait for.
    pub(super) fn free_bytes(&self) -> u64 {
        let waiting = self.waiting_bytes.load(Ordering::Relaxed);
        self.obtainable_bytes().saturating_sub(waiting)
    }

    /// Returns the bytes that are free or that the pool would give up.
    pub(crate) fn obtainable_bytes(&self) -> u64 {
        self.unpinnable_bytes().saturating_sub(self.pinned_in_pool())
    }

    /// Returns the bytes that are free or that the pool would give up if none of its pages were
    /// pinned.
    fn unpinnable_bytes(&self) -> u64 {
        let there = self.ledger.available().saturating_add(self.reserve.releasable());
        there.saturating_sub(self.ledger.debt())
    }

    /// Returns the bytes of pages that paged operators keep pinned.
    pub fn pinned_bytes(&self) -> u64 {
        self.pinned_bytes.load(Ordering::Relaxed)
    }

    /// Lets a paged operator pin `bytes` if there is room for them in addition to all that is
    /// pinned.
    pub(super) fn try_pin(&self, bytes: u64) -> bool {
        let room = self.unpinnable_bytes().saturating_add(self.heap_in_ledger());
        let fits = |pinned: u64| pinned.checked_add(bytes).filter(|pinned| *pinned <= room);
        self.pinned_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// Counts `bytes` that a paged operator cannot work without.
    pub(super) fn pin(&self, bytes: u64) {
        self.pinned_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn unpin(&self, bytes: u64) {
        self.pinned_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes of the pool, or of heap outside the ledger, that paged operators hold.
    fn pinned_in_pool(&self) -> u64 {
        self.pinned_bytes().saturating_sub(self.heap_in_ledger())
    }

    /// Returns the bytes of heap that are charged to the ledger.
    fn heap_in_ledger(&self) -> u64 {
        self.heap_known.load(Ordering::Relaxed)
    }

    /// Records that paged operators hold `bytes` more of heap. What the ledger lacks becomes debt,
    /// and the pool gives up clean frames for that.
    pub(super) fn hold_heap(&self, bytes: u64) {
        self.change_heap(|heap| heap + bytes);
        let debt = self.ledger.debt();
        if debt > 0 {
            self.reserve.release(debt);
        }
    }

    pub(super) fn release_heap(&self, bytes: u64) {
        self.change_heap(|heap| heap.saturating_sub(bytes));
    }

    fn change_heap(&self, change: impl FnOnce(u64) -> u64) {
        let mut heap = lock(&self.heap_bytes);
        *heap = change(*heap);
        let known = heap.saturating_sub(self.heap_beside());
        let before = self.heap_known.swap(known, Ordering::Relaxed);
        match known.checked_sub(before) {
            Some(more) => self.heap.grow_or_owe(more),
            None => self.heap.shrink(before - known),
        }
    }

    /// Returns the bytes that a paged operator which pins `held` bytes should release: its part, in
    /// proportion to what it holds, of the bytes pinned beyond the available room and of those that
    /// other operators wait for.
    pub(super) fn excess_of(&self, held: u64) -> u64 {
        let pinned = self.pinned_in_pool();
        let room = self.unpinnable_bytes();
        let waiting = self.waiting_bytes.load(Ordering::Relaxed);
        let over = pinned.saturating_add(waiting).saturating_sub(room);
        let floor = self.fairness().floor_bytes;
        if over == 0 || held <= floor {
            return 0;
        }
        let part = u128::from(over) * u128::from(held) / u128::from(pinned.max(1));
        let part = u64::try_from(part).unwrap_or(u64::MAX);
        part.min(held - floor)
    }

    /// Returns true if `bytes` can go to an optional use: no operator waits for them, and the
    /// headroom of operators that cannot spill remains.
    pub(crate) fn can_spare(&self, bytes: u64) -> bool {
        self.free_bytes() >= bytes.saturating_add(self.fairness().headroom_bytes)
    }

    /// Asks the pool for the part of `bytes` that the ledger lacks, also by writing dirty pages if
    /// `by_writing`; returns false if the pool released nothing.
    pub fn reclaim(&self, bytes: u64, by_writing: bool) -> bool {
        let missing = bytes.saturating_sub(self.ledger.available()).max(1);
        let missing = round_up(missing, self.lease_bytes());
        let given = match by_writing {
            true => self.reserve.release_by_writing(missing),
            false => self.reserve.release(missing),
        };
        given > 0
    }

    /// Returns true if the ledger has `bytes` free, after the pool has given what it can spare.
    pub fn make_room(&self, bytes: u64) -> bool {
        for _ in 0..ROOM_TRIES {
            if self.ledger.available() >= bytes || !self.reclaim(bytes, true) {
                break;
            }
        }
        self.ledger.available() >= bytes
    }

    /// Returns the bytes held by consumers other than the pool and the one that holds `own`. They
    /// may become free.
    pub(super) fn held_beside(&self, own: u64) -> u64 {
        let held = self.ledger.granted().saturating_sub(self.reserve.held());
        held.saturating_sub(self.charged_bytes()).saturating_sub(own)
    }

    /// Registers an operator that waits for `bytes` until the value is dropped.
    pub(super) fn wait_for(&self, bytes: u64) -> Waiter<'_> {
        self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        Waiter { budget: self, bytes }
    }
}

/// Sets the bytes held by a consumer; what the ledger lacks becomes debt.
fn charge(consumer: &Consumer, bytes: u64) {
    let before = consumer.held();
    match bytes.checked_sub(before) {
        Some(more) => consumer.grow_or_owe(more),
        None => consumer.shrink(before - bytes),
    }
}

/// Guard that keeps bytes which an operator waits for away from operators that can spill.
pub(super) struct Waiter<'a> {
    budget: &'a MemoryBudget,
    bytes: u64,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.budget.waiting_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
