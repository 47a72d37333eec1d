//! Tenants at run time: their sessions and queries, counted against their limits.
//!
//! A session of a tenant has a [`Seat`]; one beyond `max_connections` is refused. A query has a
//! [`Turn`], a slot of its tenant's concurrency limit; a query beyond `max_queries` waits for a
//! slot, in the order of arrival, at most `queue_timeout`. A statement of an open transaction waits
//! like any other, holding the locks of its transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use terrace_sys::sync::lock;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::error::GovernorError;
use crate::limits::TenantLimits;

/// Counts of the sessions and queries of all tenants.
#[derive(Default)]
pub struct Tenancy {
    counts: Mutex<BTreeMap<Arc<str>, Counts>>,
    /// Signals that a query has ended, or a limit has changed.
    changed: Notify,
}

/// Counts of the sessions and queries of one tenant.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Number of its open sessions.
    pub sessions: u64,
    /// Number of its running queries.
    pub running: u64,
    /// Waiting queries, by order of arrival.
    waiting: BTreeSet<u64>,
    arrivals: u64,
}

impl Counts {
    /// Returns the number of queries that wait for a slot.
    pub fn queued(&self) -> usize {
        self.waiting.len()
    }
}

impl Tenancy {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Counts>> {
        lock(&self.counts)
    }

    /// Returns the counts of a tenant's sessions and queries.
    pub fn counts(&self, tenant: &str) -> Counts {
        self.lock().get(tenant).cloned().unwrap_or_default()
    }

    /// Wakes the waiting queries to check the limits again.
    pub fn limits_changed(&self) {
        self.changed.notify_waiters();
    }

    /// Admits a session of a tenant, which may have `limit` sessions.
    ///
    /// # Errors
    /// [`GovernorError::TenantFull`].
    pub fn sit(self: &Arc<Self>, tenant: &str, limit: Option<u64>) -> Result<Seat, GovernorError> {
        let mut all = self.lock();
        let counts = all.entry(tenant.into()).or_default();
        if let Some(limit) = limit.filter(|limit| counts.sessions >= *limit) {
            return Err(GovernorError::TenantFull { name: tenant.to_owned(), limit });
        }
        counts.sessions += 1;
        Ok(Seat { tenancy: Arc::clone(self), tenant: tenant.into() })
    }

    /// Waits for a slot for a query of a tenant, whose limits may change meanwhile.
    ///
    /// # Errors
    /// [`GovernorError::TenantBusy`] if it has waited as long as the tenant allows.
    pub async fn turn(
        self: &Arc<Self>,
        tenant: &Arc<str>,
        limits: impl Fn() -> TenantLimits,
    ) -> Result<Turn, GovernorError> {
        let place = QueuePosition::take(self, tenant);
        let wait = limits().wait();
        let entered = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if self.enter(&place, limits().queries) {
                    return;
                }
                changed.await;
            }
        };
        match timeout(wait, entered).await {
            Ok(()) => {
                let (tenancy, tenant) = (Arc::clone(self), Arc::clone(tenant));
                Ok(Turn { tenancy, tenant, limits: limits() })
            }
            Err(_) => Err(GovernorError::TenantBusy {
                name: tenant.to_string(),
                running: self.counts(tenant).running,
                wait,
            }),
        }
    }

    /// Admits the first waiting query, if there is room. Returns false for any other query.
    fn enter(&self, place: &QueuePosition<'_>, limit: Option<u64>) -> bool {
        let mut all = self.lock();
        let Some(counts) = all.get_mut(place.tenant) else { return false };
        let is_first = counts.waiting.first() == Some(&place.number);
        let has_room = limit.is_none_or(|limit| counts.running < limit);
        if !(is_first && has_room) {
            return false;
        }
        counts.waiting.remove(&place.number);
        counts.running += 1;
        drop(all);
        // There may be room for the next query too.
        self.changed.notify_waiters();
        true
    }

    fn forget_if_idle(all: &mut BTreeMap<Arc<str>, Counts>, tenant: &str) {
        let is_idle = |it: &Counts| it.sessions == 0 && it.running == 0 && it.waiting.is_empty();
        if all.get(tenant).is_some_and(is_idle) {
            all.remove(tenant);
        }
    }
}

/// A place in the queue of a tenant.
struct QueuePosition<'a> {
    tenancy: &'a Tenancy,
    tenant: &'a str,
    number: u64,
}

impl<'a> QueuePosition<'a> {
    fn take(tenancy: &'a Tenancy, tenant: &'a Arc<str>) -> Self {
        let mut all = tenancy.lock();
        let counts = all.entry(Arc::clone(tenant)).or_default();
        counts.arrivals += 1;
        let number = counts.arrivals;
        counts.waiting.insert(number);
        Self { tenancy, tenant, number }
    }
}

impl Drop for QueuePosition<'_> {
    fn drop(&mut self) {
        let mut all = self.tenancy.lock();
        let waited =
            all.get_mut(self.tenant).is_some_and(|counts| counts.waiting.remove(&self.number));
        Tenancy::forget_if_idle(&mut all, self.tenant);
        drop(all);
        if waited {
            self.tenancy.changed.notify_waiters();
        }
    }
}

/// Guard of a session of a tenant, which is counted until the guard is dropped.
#[derive(Debug)]
pub struct Seat {
    tenancy: Arc<Tenancy>,
    tenant: Arc<str>,
}

impl Seat {
    /// Returns the name of the tenant.
    pub fn tenant(&self) -> &Arc<str> {
        &self.tenant
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut all = self.tenancy.lock();
        if let Some(counts) = all.get_mut(&self.tenant) {
            counts.sessions -= 1;
        }
        Tenancy::forget_if_idle(&mut all, &self.tenant);
    }
}

/// Guard of a running query of a tenant: its slot of the concurrency limit, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    tenancy: Arc<Tenancy>,
    tenant: Arc<str>,
    /// Limits as of the query's admission.
    limits: TenantLimits,
}

impl Turn {
    /// Returns the name of the tenant.
    pub fn tenant(&self) -> &Arc<str> {
        &self.tenant
    }

    /// Returns the limits as of the query's admission.
    pub fn limits(&self) -> &TenantLimits {
        &self.limits
    }

    /// Returns the bytes of working memory that each running query of the tenant may hold.
    pub(crate) fn share_bytes(&self) -> Option<u64> {
        let running = self.tenancy.counts(&self.tenant).running.max(1);
        self.limits.dram_bytes.map(|bytes| bytes / running)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut all = self.tenancy.lock();
        if let Some(counts) = all.get_mut(&self.tenant) {
            counts.running -= 1;
        }
        Tenancy::forget_if_idle(&mut all, &self.tenant);
        drop(all);
        self.tenancy.changed.notify_waiters();
    }
}

impl fmt::Debug for Tenancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.lock().iter()).finish()
    }
}
