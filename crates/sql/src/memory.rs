//! The working memory of queries, as DataFusion's operators see it.
//!
//! Each query has a [`QueryMemory`] of its own, so that whoever asks for bytes is known by name.
//! All of them draw on one ledger, which the buffer pool draws on too: when the ledger is empty,
//! the pool gives clean frames back before an operator is told to spill.
//!
//! A query takes bytes of the ledger in leases and hands them to its operators, so that a batch
//! costs one short lock of its own query and no traffic on the ledger's shared word. At most one
//! lease lies idle, and none once the operators hold nothing.
//!
//! Who may have how much while others need some too is decided in the module `fair`. Who is
//! entitled to bytes that are there, but not at once, waits for them with other tasks moved from
//! its thread: a moment while the pool writes pages or another operator spills, longer while other
//! queries hold what will come back. An operator that may spill is thus not told to for the pool's
//! slowness, and one that cannot does not fail its query because another is at its height.
//!
//! The market ([`crate::market`]) may say how much a query may hold. Then its operators share that
//! by the same thresholds, whatever others hold, and what is above it is given back within a batch.
//!
//! Locking order: `books` is held for arithmetic and for the ledger's lock-free grants, never
//! while the pool is asked for frames.

mod bell;
mod books;
mod budget;
mod fair;
mod limit;
mod paged;
mod watch;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, thread};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use terrace_market::{Class, Consumer};
use terrace_sys::size::{format_bytes, round_up, to_u64, to_usize};

use books::Books;
pub use books::OperatorMemory;
pub(crate) use books::OperatorState;
pub use budget::{MemoryBudget, Reserve};
use fair::{Asker, Fairness};
use limit::Limit;
pub(crate) use paged::PagedMemory;
use terrace_exec::aside;
pub use watch::ProcessMemory;
pub(crate) use watch::{Limit as ProcessLimit, Watch, Watched};

/// Times a query asks the pool for frames again when others took those it had just freed.
const RECLAIM_ATTEMPTS: usize = 4;

/// How often an operator that waits looks again.
const LOOK: Duration = Duration::from_millis(2);
/// How long it waits for the pool, which writes tens of MiB in that time on any device.
const PATIENCE_WITH_POOL: Duration = Duration::from_secs(1);
/// How long it waits for operators of its own query, which spill when they are refused more.
const PATIENCE_WITH_SIBLINGS: Duration = Duration::from_secs(3);
/// How many times as long both are where the query was suspended for others: it runs for a fifth of
/// its time at least.
const PREEMPTED_PATIENCE: u32 = 5;
/// Holders named in an error, largest first.
const HOLDERS_NAMED: usize = 5;

/// The memory of one query: a facade of the ledger for DataFusion's operators.
///
/// Dropping it gives everything back.
pub struct QueryMemory {
    budget: Arc<MemoryBudget>,
    consumer: Consumer,
    cancelled: AtomicBool,
    books: Mutex<Books>,
    limit: Limit,
    /// Bytes that its paged operators hold, in pages and on the heap.
    paged_bytes: AtomicU64,
}

impl QueryMemory {
    /// Registers a query with the ledger. `name` appears in errors and system tables.
    #[must_use]
    pub fn new(budget: &Arc<MemoryBudget>, name: impl Into<String>) -> Self {
        Self {
            consumer: budget.ledger.register(name, Class::Query),
            budget: Arc::clone(budget),
            cancelled: AtomicBool::new(false),
            books: Mutex::new(Books::default()),
            limit: Limit::default(),
            paged_bytes: AtomicU64::new(0),
        }
    }

    /// The name of the query in the ledger.
    #[must_use]
    pub fn query(&self) -> &str {
        self.consumer.name()
    }

    /// Bytes that the operators hold now.
    #[must_use]
    pub fn reserved_bytes(&self) -> u64 {
        self.books().reserved_bytes()
    }

    /// Bytes of pages that its paged operators keep pinned now.
    #[must_use]
    pub fn pinned_bytes(&self) -> u64 {
        self.books().pinned_bytes()
    }

    /// Bytes that its operators hold now, in pages and otherwise.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.reserved_bytes().saturating_add(self.paged_bytes.load(Ordering::Relaxed))
    }

    /// The most bytes that the operators held at one time.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.books().peak_bytes()
    }

    /// What each live operator holds, largest first.
    #[must_use]
    pub fn operators(&self) -> Vec<OperatorMemory> {
        self.books().operators()
    }

    /// The query has ended: operators that wait for bytes get none.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the rules of [`fair`] let `reservation` grow by `bytes` now.
    fn permits(&self, reservation: &MemoryReservation, bytes: u64) -> bool {
        let consumer = reservation.consumer();
        let asker = Asker::of(consumer);
        if matches!(asker, Asker::Rigid | Asker::Flows) {
            return true;
        }
        let own = to_u64(reservation.size());
        let (held, idle, promised) = {
            let books = self.books();
            let held = books.held_bytes(consumer.id());
            let rigid = match asker {
                Asker::Merges => !books.merges_runs(consumer.id()),
                _ if books.is_sort(consumer.id()) => Fairness::is_minor(own, held, bytes),
                _ => held > own,
            };
            if rigid {
                return true;
            }
            (held, books.idle_bytes(), books.promised_bytes())
        };
        let free = self.budget.free_bytes().saturating_add(idle).saturating_sub(promised);
        self.may_grow(held, bytes, free)
    }

    /// Takes `bytes` for `consumer`, waiting if need be; false if there is no room for it.
    fn take(&self, consumer: &MemoryConsumer, bytes: u64) -> bool {
        if self.take_at_once(consumer, bytes) {
            self.limit.feed();
            return true;
        }
        if !self.may_wait(consumer, bytes, Duration::ZERO) {
            return false;
        }
        let began = Instant::now();
        let _waiter = self.budget.wait_for(bytes);
        let _starving = self.starving();
        aside(|| {
            while self.may_wait(consumer, bytes, began.elapsed()) {
                let lacking = self.books().shortage_bytes(consumer.id(), bytes);
                let given = self.budget.reclaim(lacking, true);
                if self.take_at_once(consumer, bytes) {
                    self.limit.feed();
                    return true;
                }
                if !given {
                    thread::sleep(LOOK);
                }
            }
            false
        })
    }

    /// Whether what `consumer` lacks can still come.
    fn may_wait(&self, consumer: &MemoryConsumer, bytes: u64, waited: Duration) -> bool {
        if self.cancelled.load(Ordering::Relaxed) {
            return false;
        }
        let (lacking, beside) = {
            let books = self.books();
            let spillable = books.spillable_beside(consumer.id()) + books.pinned_bytes();
            (books.shortage_bytes(consumer.id(), bytes), spillable)
        };
        let from_pool = self.budget.obtainable_bytes();
        let from_others = self.budget.held_beside(self.consumer.held());
        let patience = self.budget.patience;
        // One that was suspended for others has had less of that time than the clock says.
        let longer = if self.limit.was_preempted() { PREEMPTED_PATIENCE } else { 1 };
        (waited < patience.min(PATIENCE_WITH_POOL) * longer && lacking <= from_pool)
            || (waited < patience.min(PATIENCE_WITH_SIBLINGS) * longer
                && lacking <= from_pool + beside)
            || (waited < patience && from_others > 0 && lacking <= from_pool + beside + from_others)
    }

    /// Takes `bytes` for `consumer`, from clean frames if need be; false if there are not enough.
    fn take_at_once(&self, consumer: &MemoryConsumer, bytes: u64) -> bool {
        for _ in 0..RECLAIM_ATTEMPTS {
            let Err(lacking) = self.take_free(consumer, bytes) else { return true };
            if !self.budget.reclaim(lacking, false) {
                break;
            }
        }
        self.take_free(consumer, bytes).is_ok()
    }

    /// Takes `bytes` from the lease or the ledger, or says what the ledger would have to grant.
    fn take_free(&self, consumer: &MemoryConsumer, bytes: u64) -> Result<(), u64> {
        let mut books = self.books();
        let lacking = books.shortage_bytes(consumer.id(), bytes);
        if lacking > 0 {
            let lease = round_up(lacking, self.budget.lease_bytes());
            let granted = [lease, lacking].into_iter().find(|b| self.consumer.try_grow(*b).is_ok());
            books.add_lease(granted.ok_or(lacking)?);
        }
        books.take(consumer, bytes);
        Ok(())
    }

    /// Takes `bytes` for a repartitioning, as debt if need be.
    fn flow(&self, consumer: &MemoryConsumer, bytes: u64) -> Result<()> {
        let held = self.books().held_bytes(consumer.id());
        if held.saturating_add(bytes) <= self.budget.fairness().flow_bytes {
            self.take_or_owe(consumer, bytes);
            return Ok(());
        }
        if self.take(consumer, bytes) { Ok(()) } else { Err(self.denied(consumer, bytes)) }
    }

    fn take_or_owe(&self, consumer: &MemoryConsumer, bytes: u64) {
        if self.take_at_once(consumer, bytes) {
            return;
        }
        let mut books = self.books();
        let lacking = books.shortage_bytes(consumer.id(), bytes);
        self.consumer.grow_or_owe(lacking);
        books.add_lease(lacking);
        books.take(consumer, bytes);
    }

    fn denied(&self, consumer: &MemoryConsumer, bytes: u64) -> DataFusionError {
        let held = self.books().held_bytes(consumer.id());
        DataFusionError::ResourcesExhausted(format!(
            "{} of {} asked for {} beside the {} it holds: of the DRAM budget of {} too little is \
             free ({} now, {} more in the buffer pool). Held by {}. A larger budget (--dram) or \
             fewer queries at a time leave more",
            consumer.name(),
            self.query(),
            format_bytes(bytes),
            format_bytes(held),
            format_bytes(self.budget.ledger.budget()),
            format_bytes(self.budget.ledger.available()),
            format_bytes(self.budget.reserve.releasable()),
            self.holders(),
        ))
    }

    /// The largest consumers of the ledger and operators of this query, for an error.
    fn holders(&self) -> String {
        let mut consumers = self.budget.ledger.consumers();
        consumers.sort_by_key(|consumer| std::cmp::Reverse(consumer.held_bytes));
        let consumers = consumers.iter().take(HOLDERS_NAMED).filter(|c| c.held_bytes > 0);
        let mut text: Vec<String> =
            consumers.map(|c| format!("{} {}", c.name, format_bytes(c.held_bytes))).collect();
        text.extend(self.operators_named());
        text.join("; ")
    }

    /// The largest operators of this query, for an error; none if they hold nothing.
    pub(crate) fn operators_named(&self) -> Option<String> {
        let operators = self.operators();
        let operators = operators.iter().take(HOLDERS_NAMED).filter(|o| o.reserved_bytes > 0);
        let own: Vec<String> =
            operators.map(|o| format!("{} {}", o.name, format_bytes(o.reserved_bytes))).collect();
        (!own.is_empty()).then(|| format!("in {}: {}", self.query(), own.join(", ")))
    }
}

impl MemoryPool for QueryMemory {
    fn name(&self) -> &str {
        self.query()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.books().register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.books().unregister(consumer.id());
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.take_or_owe(reservation.consumer(), to_u64(additional));
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        let mut books = self.books();
        books.give(reservation.consumer().id(), to_u64(shrink));
        let needed_elsewhere = self.budget.is_short();
        let keep = match books.reserved_bytes() {
            0 => 0,
            _ if needed_elsewhere => 0,
            _ => self.budget.lease_bytes(),
        };
        self.consumer.shrink(books.drop_lease(keep));
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let (consumer, bytes) = (reservation.consumer(), to_u64(additional));
        if Asker::of(consumer) == Asker::Flows {
            return self.flow(consumer, bytes);
        }
        if self.permits(reservation, bytes) && self.take(consumer, bytes) {
            return Ok(());
        }
        // Its query would fail for memory that no operator holds.
        if Asker::of(consumer) == Asker::Rigid && self.budget.free_without_charges() >= bytes {
            self.take_or_owe(consumer, bytes);
            return Ok(());
        }
        Err(self.denied(consumer, bytes))
    }

    fn reserved(&self) -> usize {
        to_usize(self.reserved_bytes())
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(to_usize(self.budget.ledger.budget()))
    }
}

impl fmt::Display for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = format_bytes(self.reserved_bytes());
        write!(f, "{}({held} of {})", self.query(), format_bytes(self.budget.ledger.budget()))
    }
}

impl fmt::Debug for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryMemory")
            .field("query", &self.query())
            .field("operators", &self.operators())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
