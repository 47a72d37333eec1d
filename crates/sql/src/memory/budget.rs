//! What the queries of an engine share: the ledger, the pool behind it, and who waits for bytes.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use terrace_market::{Class, Consumer, Ledger};
use terrace_sys::size::{KIB, MIB, round_up};

use super::bell::Bell;
use super::fair::Fairness;
use crate::engine::DRAM_BYTES_MIN;

/// Queries that wait for each other end by this.
const PATIENCE: Duration = Duration::from_secs(30);

/// Heap of paged operators that the ledger does not know, at most and as one part of the budget in
/// so many: the process has more than this beside the budget in any case, and the pool of a small
/// budget needs every frame.
const HEAP_BESIDE: u64 = 32 * MIB;
const HEAP_BESIDE_SHARE: u64 = 8;
/// Charges for sessions and for unaccounted bytes leave at least one part of the budget in so many.
const LEFT_SHARE: u64 = 2;
/// Times that the pool is asked to make room.
const ROOM_TRIES: usize = 4;

/// Bytes that the ledger can get back: the frames of a buffer pool above its floor.
pub trait Reserve: Send + Sync + fmt::Debug {
    /// Gives up to `bytes` (and what else comes with the last frame) back to the ledger, without
    /// I/O, and returns how many it gave.
    fn release(&self, bytes: u64) -> u64;

    /// As [`Reserve::release`], and writes pages to the store for it if need be.
    fn release_by_writing(&self, bytes: u64) -> u64;

    /// An estimate of the bytes that could be given back, at once or by writing.
    fn releasable(&self) -> u64;

    /// Bytes of the ledger that it holds in all.
    fn held(&self) -> u64;

    /// Frames that it has lent beyond the budget so far, to operators that hold all others.
    fn lent_frames(&self) -> u64 {
        0
    }
}

/// The budget as queries see it.
#[derive(Debug)]
pub struct MemoryBudget {
    pub(super) ledger: Ledger,
    pub(super) reserve: Arc<dyn Reserve>,
    /// How long an operator waits while other queries hold what it lacks.
    pub(super) patience: Duration,
    waiting_bytes: AtomicU64,
    /// Bytes of the pool's pages that paged operators keep pinned.
    pinned_bytes: AtomicU64,
    /// Bytes of heap that paged operators hold, how many of them the ledger does not know, and what
    /// it knows. They change together.
    heap_bytes: Mutex<u64>,
    heap_known: AtomicU64,
    heap: Consumer,
    /// What the process holds beside what consumers account for.
    unaccounted: Consumer,
    /// Bytes that sessions hold beside their queries, and the charge for them.
    sessions_held: Mutex<u64>,
    sessions: Consumer,
    /// Rung when the market should look.
    bell: Bell,
}

impl MemoryBudget {
    /// The budget of `ledger`, of which `reserve` holds what queries do not.
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
            bell: Bell::default(),
            ledger,
            reserve,
        }
    }

    /// The same, with operators that wait no longer than this for what other queries hold.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The ledger.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The thresholds of the budget as it is now.
    pub(super) fn fairness(&self) -> Fairness {
        Fairness::of_budget(self.ledger.budget())
    }

    /// Bytes that a query takes of the ledger at a time.
    pub(super) fn lease_bytes(&self) -> u64 {
        (self.ledger.budget() / 256).clamp(64 * KIB, MIB)
    }

    fn heap_beside(&self) -> u64 {
        HEAP_BESIDE.min(self.ledger.budget() / HEAP_BESIDE_SHARE)
    }

    /// Bytes that consumers hold whose class is one of those that `counts`, what is charged as
    /// unaccounted aside.
    pub(super) fn held_by(&self, counts: impl Fn(Class) -> bool) -> u64 {
        let consumers = self.ledger.consumers().into_iter().filter(|c| counts(c.class));
        let held: u64 = consumers.map(|consumer| consumer.held_bytes).sum();
        let own = if counts(Class::Other) { self.unaccounted.held() } else { 0 };
        held.saturating_sub(own)
    }

    /// Accounts for bytes that a session holds already, as far as the smallest budget and half of
    /// this one are left. The pool gives up clean frames for what the ledger has not got.
    pub(crate) fn hold_for_sessions(&self, bytes: u64) {
        self.charge_sessions(|held| held.saturating_add(bytes));
        let debt = self.ledger.debt();
        if debt > 0 {
            self.reserve.release(debt);
        }
    }

    /// Accounts no more for bytes that a session held.
    pub(crate) fn release_of_sessions(&self, bytes: u64) {
        self.charge_sessions(|held| held.saturating_sub(bytes));
    }

    fn charge_sessions(&self, held: impl FnOnce(u64) -> u64) {
        let mut all = self.sessions_held.lock().unwrap_or_else(PoisonError::into_inner);
        *all = held(*all);
        charge(&self.sessions, (*all).min(self.chargeable_bytes()));
    }

    /// The most that may be charged for what is held already: queries need the rest.
    fn chargeable_bytes(&self) -> u64 {
        let budget = self.ledger.budget();
        budget.saturating_sub((budget / LEFT_SHARE).max(DRAM_BYTES_MIN))
    }

    /// Bytes that are charged for what sessions hold beside their queries.
    pub(super) fn sessions_bytes(&self) -> u64 {
        self.sessions.held()
    }

    /// Charges `bytes` that the process holds and no consumer accounts for, as far as the smallest
    /// budget and half of this one are left. What the ledger has not got it owes, and the pool
    /// gives up frames for that at once.
    pub(super) fn charge_unaccounted(&self, bytes: u64) {
        let bytes = bytes.min(self.chargeable_bytes().saturating_sub(self.sessions.held()));
        charge(&self.unaccounted, bytes);
        let debt = self.ledger.debt();
        if bytes > 0 && debt > 0 && self.reserve.release(debt) < debt {
            self.reserve.release_by_writing(self.ledger.debt());
        }
    }

    /// Bytes that are charged as unaccounted.
    pub(super) fn unaccounted_bytes(&self) -> u64 {
        self.unaccounted.held()
    }

    /// Bytes that are charged for what is held already, and no query gives back.
    fn charged_bytes(&self) -> u64 {
        self.unaccounted.held().saturating_add(self.sessions.held())
    }

    /// Bytes that could be granted now if nothing were charged for what is held already.
    pub(super) fn free_without_charges(&self) -> u64 {
        let free = self.ledger.available().saturating_add(self.charged_bytes());
        free.saturating_sub(self.ledger.debt())
    }

    /// What tells the market to look.
    pub(crate) fn bell(&self) -> &Bell {
        &self.bell
    }

    /// Bytes that queries and cached tables share: what is free, what the pool would give up and
    /// what paged operators pin of it, and what queries hold.
    pub(crate) fn market_bytes(&self) -> u64 {
        self.unpinnable_bytes().saturating_add(self.held_beside(0))
    }

    /// Bytes of the pool that nobody pins.
    pub(crate) fn cached_bytes(&self) -> u64 {
        self.reserve.held().saturating_sub(self.pinned_in_pool())
    }

    /// Whether idle bytes are wanted: somebody waits for some, or owes some.
    pub(super) fn is_short(&self) -> bool {
        self.waiting_bytes.load(Ordering::Relaxed) > 0 || self.ledger.debt() > 0
    }

    /// Bytes that nobody holds, or the pool would give up, less those that somebody waits for.
    pub(super) fn free_bytes(&self) -> u64 {
        let waiting = self.waiting_bytes.load(Ordering::Relaxed);
        self.obtainable_bytes().saturating_sub(waiting)
    }

    /// Bytes that nobody holds, or that the pool would give up.
    pub(crate) fn obtainable_bytes(&self) -> u64 {
        self.unpinnable_bytes().saturating_sub(self.pinned_in_pool())
    }

    /// Bytes that nobody holds, or that the pool would give up were none of its pages pinned.
    fn unpinnable_bytes(&self) -> u64 {
        let there = self.ledger.available().saturating_add(self.reserve.releasable());
        there.saturating_sub(self.ledger.debt())
    }

    /// Bytes of pages that paged operators keep pinned.
    pub fn pinned_bytes(&self) -> u64 {
        self.pinned_bytes.load(Ordering::Relaxed)
    }

    /// Lets a paged operator pin `bytes` if there is room for them beside all that is pinned.
    pub(super) fn try_pin(&self, bytes: u64) -> bool {
        let room = self.unpinnable_bytes().saturating_add(self.heap_in_ledger());
        let fits = |pinned: u64| pinned.checked_add(bytes).filter(|pinned| *pinned <= room);
        self.pinned_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// Counts `bytes` that a paged operator cannot go on without.
    pub(super) fn pin(&self, bytes: u64) {
        self.pinned_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn unpin(&self, bytes: u64) {
        self.pinned_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes of the pool, or of heap beside the ledger, that paged operators hold.
    fn pinned_in_pool(&self) -> u64 {
        self.pinned_bytes().saturating_sub(self.heap_in_ledger())
    }

    /// Bytes of heap that the ledger knows.
    fn heap_in_ledger(&self) -> u64 {
        self.heap_known.load(Ordering::Relaxed)
    }

    /// Paged operators hold `bytes` of heap more. The ledger owes what it has not got, and the pool
    /// gives up clean frames for that.
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
        let mut heap = self.heap_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        *heap = change(*heap);
        let known = heap.saturating_sub(self.heap_beside());
        let before = self.heap_known.swap(known, Ordering::Relaxed);
        match known.checked_sub(before) {
            Some(more) => self.heap.grow_or_owe(more),
            None => self.heap.shrink(before - known),
        }
    }

    /// What a paged operator that pins `held` bytes should give back: its part, by what it holds,
    /// of what is pinned beyond the room there is and of what others wait for.
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

    /// Whether `bytes` can go to somebody who can do without: nobody waits for them, and those who
    /// cannot spill still find some.
    pub(crate) fn can_spare(&self, bytes: u64) -> bool {
        self.free_bytes() >= bytes.saturating_add(self.fairness().headroom_bytes)
    }

    /// Asks the pool for what the ledger lacks of `bytes`; false if it gave nothing.
    pub(crate) fn reclaim(&self, bytes: u64, by_writing: bool) -> bool {
        let missing = bytes.saturating_sub(self.ledger.available()).max(1);
        let missing = round_up(missing, self.lease_bytes());
        let given = match by_writing {
            true => self.reserve.release_by_writing(missing),
            false => self.reserve.release(missing),
        };
        given > 0
    }

    /// Whether the ledger has `bytes`, once the pool has given what it can spare.
    pub(crate) fn make_room(&self, bytes: u64) -> bool {
        for _ in 0..ROOM_TRIES {
            if self.ledger.available() >= bytes || !self.reclaim(bytes, true) {
                break;
            }
        }
        self.ledger.available() >= bytes
    }

    /// Bytes that consumers beside the pool and the one that holds `own` hold. They may come back.
    pub(super) fn held_beside(&self, own: u64) -> u64 {
        let held = self.ledger.granted().saturating_sub(self.reserve.held());
        held.saturating_sub(self.charged_bytes()).saturating_sub(own)
    }

    /// Somebody waits for `bytes` until the value is dropped.
    pub(super) fn wait_for(&self, bytes: u64) -> Waiter<'_> {
        self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        Waiter { budget: self, bytes }
    }
}

/// Has a consumer hold so many bytes, which the ledger owes where it has not got them.
fn charge(consumer: &Consumer, bytes: u64) {
    let before = consumer.held();
    match bytes.checked_sub(before) {
        Some(more) => consumer.grow_or_owe(more),
        None => consumer.shrink(before - bytes),
    }
}

/// Keeps bytes that somebody waits for out of what operators that can spill may take.
pub(super) struct Waiter<'a> {
    budget: &'a MemoryBudget,
    bytes: u64,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.budget.waiting_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
