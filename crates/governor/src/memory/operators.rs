//! Requests of DataFusion's operators for the memory of their query.

use std::thread;
use std::time::{Duration, Instant};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use terrace_exec::run_blocking;
use terrace_sys::size::{format_bytes, round_up, to_u64, to_usize};

use super::fairness::{Asker, Fairness};
use super::query_pool::QueryMemoryPool;

/// Number of attempts to get frames from the pool when others took those just freed.
const RECLAIM_ATTEMPTS: usize = 4;

/// Polling interval of a waiting operator.
const LOOK: Duration = Duration::from_millis(2);
/// Time that an operator waits for the pool, which writes tens of MiB in that time on any device.
pub(super) const PATIENCE_WITH_POOL: Duration = Duration::from_secs(1);
/// Time that an operator waits for operators of its own query, which spill when they are refused
/// more.
const PATIENCE_WITH_SIBLINGS: Duration = Duration::from_secs(3);
/// Factor on both times for a query that was suspended for others: it runs for at least a fifth of
/// its time.
const PREEMPTED_PATIENCE: u32 = 5;
/// Number of holders named in an error, largest first.
const HOLDERS_NAMED: usize = 5;

impl QueryMemoryPool {
    /// Returns true if the rules of [`fairness`] let `reservation` grow by `bytes` now.
    fn permits(&self, reservation: &MemoryReservation, bytes: u64) -> bool {
        let consumer = reservation.consumer();
        let asker = Asker::of(consumer);
        if matches!(asker, Asker::Rigid | Asker::Flows) {
            return true;
        }
        let own = to_u64(reservation.size());
        let (held, idle, promised) = {
            let reservations = self.reservations();
            let held = reservations.held_bytes(consumer.id());
            let rigid = match asker {
                Asker::Merges => !reservations.merges_runs(consumer.id()),
                _ if reservations.is_sort(consumer.id()) => Fairness::is_minor(own, held, bytes),
                _ => held > own,
            };
            if rigid {
                return true;
            }
            (held, reservations.idle_bytes(), reservations.promised_bytes())
        };
        let free = self.budget.free_bytes().saturating_add(idle).saturating_sub(promised);
        self.may_grow(held, bytes, free)
    }

    /// Takes `bytes` for `consumer`, waiting if needed; false if there is no room for them.
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
        run_blocking(|| {
            while self.may_wait(consumer, bytes, began.elapsed()) {
                let lacking = self.reservations().shortage_bytes(consumer.id(), bytes);
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

    /// Returns true if the bytes that `consumer` lacks may still become free.
    fn may_wait(&self, consumer: &MemoryConsumer, bytes: u64, waited: Duration) -> bool {
        if self.is_cancelled() {
            return false;
        }
        let (lacking, beside) = {
            let reservations = self.reservations();
            let spillable =
                reservations.spillable_beside(consumer.id()) + reservations.pinned_bytes();
            (reservations.shortage_bytes(consumer.id(), bytes), spillable)
        };
        let from_pool = self.budget.obtainable_bytes();
        let from_others = self.budget.held_beside(self.consumer.held());
        let patience = self.budget.patience;
        // A query that was suspended for others has had less of that time than the clock shows.
        let longer = if self.limit.was_preempted() { PREEMPTED_PATIENCE } else { 1 };
        (waited < patience.min(PATIENCE_WITH_POOL) * longer && lacking <= from_pool)
            || (waited < patience.min(PATIENCE_WITH_SIBLINGS) * longer
                && lacking <= from_pool + beside)
            || (waited < patience && from_others > 0 && lacking <= from_pool + beside + from_others)
    }

    /// Takes `bytes` for `consumer`, reclaiming clean frames if needed; false if there are too few.
    fn take_at_once(&self, consumer: &MemoryConsumer, bytes: u64) -> bool {
        for _ in 0..RECLAIM_ATTEMPTS {
            let Err(lacking) = self.take_free(consumer, bytes) else { return true };
            if !self.budget.reclaim(lacking, false) {
                break;
            }
        }
        self.take_free(consumer, bytes).is_ok()
    }

    /// Takes `bytes` from the lease or the ledger, or returns the bytes that the ledger lacks.
    fn take_free(&self, consumer: &MemoryConsumer, bytes: u64) -> Result<(), u64> {
        let mut reservations = self.reservations();
        let lacking = reservations.shortage_bytes(consumer.id(), bytes);
        if lacking > 0 {
            let lease = round_up(lacking, self.budget.lease_bytes());
            let granted = [lease, lacking].into_iter().find(|b| self.consumer.try_grow(*b).is_ok());
            reservations.add_lease(granted.ok_or(lacking)?);
        }
        reservations.take(consumer, bytes);
        Ok(())
    }

    /// Takes `bytes` for a repartitioning, as debt if needed.
    fn flow(&self, consumer: &MemoryConsumer, bytes: u64) -> Result<()> {
        let held = self.reservations().held_bytes(consumer.id());
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
        let mut reservations = self.reservations();
        let lacking = reservations.shortage_bytes(consumer.id(), bytes);
        self.consumer.grow_or_owe(lacking);
        reservations.add_lease(lacking);
        reservations.take(consumer, bytes);
    }

    fn denied(&self, consumer: &MemoryConsumer, bytes: u64) -> DataFusionError {
        let held = self.reservations().held_bytes(consumer.id());
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

    /// Lists the largest consumers of the ledger and operators of this query, for an error.
    fn holders(&self) -> String {
        let mut consumers = self.budget.ledger.consumers();
        consumers.sort_by_key(|consumer| std::cmp::Reverse(consumer.held_bytes));
        let consumers = consumers.iter().take(HOLDERS_NAMED).filter(|c| c.held_bytes > 0);
        let mut text: Vec<String> =
            consumers.map(|c| format!("{} {}", c.name, format_bytes(c.held_bytes))).collect();
        text.extend(self.operators_named());
        text.join("; ")
    }

    /// Lists the largest operators of this query, for an error; `None` if they hold nothing.
    pub(crate) fn operators_named(&self) -> Option<String> {
        let operators = self.operators();
        let operators = operators.iter().take(HOLDERS_NAMED).filter(|o| o.reserved_bytes > 0);
        let own: Vec<String> =
            operators.map(|o| format!("{} {}", o.name, format_bytes(o.reserved_bytes))).collect();
        (!own.is_empty()).then(|| format!("in {}: {}", self.query(), own.join(", ")))
    }
}

impl MemoryPool for QueryMemoryPool {
    fn name(&self) -> &str {
        self.query()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.reservations().register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.reservations().unregister(consumer.id());
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.take_or_owe(reservation.consumer(), to_u64(additional));
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        let mut reservations = self.reservations();
        reservations.give(reservation.consumer().id(), to_u64(shrink));
        let needed_elsewhere = self.budget.is_short();
        let keep = match reservations.reserved_bytes() {
            0 => 0,
            _ if needed_elsewhere => 0,
            _ => self.budget.lease_bytes(),
        };
        self.consumer.shrink(reservations.drop_lease(keep));
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let (consumer, bytes) = (reservation.consumer(), to_u64(additional));
        if Asker::of(consumer) == Asker::Flows {
            return self.flow(consumer, bytes);
        }
        if self.permits(reservation, bytes) && self.take(consumer, bytes) {
            return Ok(());
        }
        // Otherwise the query would fail because of charged memory that no operator holds.
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
