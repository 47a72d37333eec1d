//! Input of the broker (`Standing`) and its output (`Target`).

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use terrace_ledger::Class;

use crate::{Performance, Sla};

/// One consumer at the beginning of a round: a cache, or an operator of a query.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Id of the consumer: the same in every round, never reused.
    pub id: u64,
    /// Name for display.
    pub name: Arc<str>,
    /// Kind of the consumer.
    pub class: Class,
    /// Bytes held.
    pub held_bytes: u64,
    /// Floor in bytes: the least memory the consumer can work with. Admission control must keep the
    /// sum of all floors within the budget.
    pub floor_bytes: u64,
    /// Demand in bytes: the most the consumer could use.
    pub demand_bytes: u64,
    /// True if the consumer can give memory back now.
    pub can_shrink: bool,
    /// Performance curve. Without one the consumer gets a fair share.
    pub performance: Option<Performance>,
    /// SLA of the requests; without one the broker's default applies.
    pub sla: Option<Arc<Sla>>,
    /// Requests per interval; for a running operator see [`crate::Run::requests`].
    pub requests: f64,
}

impl Standing {
    /// Returns a standing with defaults: the consumer holds nothing, has no floor and no curve, can
    /// shrink, could use any amount, and counts as one request per interval.
    #[must_use]
    pub fn new(id: u64, name: impl Into<Arc<str>>, class: Class) -> Self {
        Self {
            id,
            name: name.into(),
            class,
            held_bytes: 0,
            floor_bytes: 0,
            demand_bytes: u64::MAX,
            can_shrink: true,
            performance: None,
            sla: None,
            requests: 1.0,
        }
    }
}

/// Limit of one consumer, as of the last round. Reading takes no lock; clones share the value.
#[derive(Clone, Debug)]
pub struct Target(Arc<AtomicU64>);

impl Default for Target {
    /// Returns a target without a limit.
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

impl Target {
    /// Returns the limit in bytes; `u64::MAX` while nothing has been decided.
    #[must_use]
    pub fn grant_bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns the part of `held_bytes` above the limit, which the consumer should give back.
    #[must_use]
    pub fn excess_bytes(&self, held_bytes: u64) -> u64 {
        held_bytes.saturating_sub(self.grant_bytes())
    }

    /// True if the consumer may hold `bytes` more than `held_bytes`. The ledger must grant them
    /// too.
    #[must_use]
    pub fn allows(&self, held_bytes: u64, bytes: u64) -> bool {
        held_bytes.checked_add(bytes).is_some_and(|wanted| wanted <= self.grant_bytes())
    }

    pub(super) fn set(&self, bytes: u64) {
        // Relaxed: no other data is published with this number.
        self.0.store(bytes, Ordering::Relaxed);
    }
}
