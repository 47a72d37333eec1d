//! What the engine tells the broker, and what it gets back.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::{Class, Performance, Sla};

/// One consumer at the beginning of a round: a cache, or an operator of a query.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Its number: the same in every round, never used again.
    pub id: u64,
    /// Its name, for people.
    pub name: Arc<str>,
    /// Its kind.
    pub class: Class,
    /// What it holds, in bytes.
    pub held_bytes: u64,
    /// What it cannot do without, in bytes. The floors of all should fit in the budget: whoever
    /// admits a consumer sees to it.
    pub floor_bytes: u64,
    /// What it would take if nobody said no, in bytes.
    pub demand_bytes: u64,
    /// Whether it can give back now.
    pub can_shrink: bool,
    /// How fast it is with how much. Without it the consumer gets a fair share.
    pub performance: Option<Performance>,
    /// What slowness costs; the broker's default if it named nothing.
    pub sla: Option<Arc<Sla>>,
    /// Requests an interval; for an operator under way see [`crate::Run::requests`].
    pub requests: f64,
}

impl Standing {
    /// A consumer of which nothing else is known: it holds nothing, can shrink to nothing, has no
    /// curve, and counts as one request an interval.
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

/// What one consumer may hold, as of the last round. Reading takes no lock; clones share it.
#[derive(Clone, Debug)]
pub struct Target(Arc<AtomicU64>);

impl Default for Target {
    /// No limit.
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

impl Target {
    /// What it may hold, in bytes; `u64::MAX` while nothing was decided.
    #[must_use]
    pub fn grant_bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// What it should give back of `held_bytes`; 0 while it holds no more than it may.
    #[must_use]
    pub fn excess_bytes(&self, held_bytes: u64) -> u64 {
        held_bytes.saturating_sub(self.grant_bytes())
    }

    /// Whether it may hold `bytes` more than `held_bytes`. The ledger must agree too.
    #[must_use]
    pub fn allows(&self, held_bytes: u64, bytes: u64) -> bool {
        held_bytes.checked_add(bytes).is_some_and(|wanted| wanted <= self.grant_bytes())
    }

    pub(super) fn set(&self, bytes: u64) {
        // One number on its own: nothing else is published with it.
        self.0.store(bytes, Ordering::Relaxed);
    }
}
