//! Tenant limits applied to queries: admission, and termination when a limit is exceeded.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use terrace_sys::size::format_bytes;

use super::ending::Ending;
use super::{Queries, Query, QueryState};
use crate::error::GovernorError;
use crate::tenancy::Turn;

impl Query {
    /// Ends the query with an error that states the reason.
    pub(super) fn end(&self, why: Ending) {
        // The first reason is kept.
        let _ = self.ended_by.set(why);
        self.cancel();
    }

    /// Returns its slot of its tenant's concurrency limit; `None` for a query without a tenant, or
    /// one that has ended.
    pub fn turn(&self) -> Option<Arc<Turn>> {
        self.turn.get()?.upgrade()
    }

    /// Returns the error that it ends with.
    pub fn ended(&self) -> GovernorError {
        let why = self.ended_by.get();
        why.map_or(GovernorError::Cancelled { id: self.id }, |why| why.error(self.id))
    }

    /// Waits for a slot of its tenant's concurrency limit, and keeps to the tenant's limits from
    /// then on.
    ///
    /// # Errors
    /// Waiting too long, and cancellation meanwhile.
    pub async fn wait_for(
        &self,
        turn: impl Future<Output = Result<Turn, GovernorError>>,
    ) -> Result<Arc<Turn>, GovernorError> {
        self.is_queued.store(true, Ordering::Relaxed);
        let turn = tokio::select! {
            turn = turn => turn,
            () = self.suspension.cancelled() => Err(self.ended()),
        };
        self.is_queued.store(false, Ordering::Relaxed);
        let turn = Arc::new(turn?);
        // A query waits once, so the slot is unset.
        let _ = self.turn.set(Arc::downgrade(&turn));
        self.limit(None);
        Ok(turn)
    }

    /// Ends the query because it has taken the time that its tenant allows a query.
    pub(crate) fn end_late(&self, tenant: &str, time: Duration) {
        self.end(Ending::Limit(format!(
            "tenant {tenant} allows a query {time:?}; say ALTER TENANT {tenant} SET \
             (query_timeout = '...')"
        )));
    }
}

impl Queries {
    /// Ends the youngest query with an error that states the reason, unless a query is ending
    /// already; returns true if it ended one.
    pub fn end_youngest(&self, why: String) -> bool {
        let running = self.running();
        if running.iter().any(|query| query.state() == QueryState::Cancelled) {
            return false;
        }
        let Some(query) = running.last() else { return false };
        tracing::warn!(query = query.id, why, "a query is ended");
        query.end(Ending::Memory(why));
        true
    }

    /// Ends queries of tenants whose running queries exceed their spill limit, the youngest query
    /// of a tenant first.
    pub(crate) fn end_spilling(&self) {
        let running = self.running();
        let mut spilled: BTreeMap<Arc<str>, (u64, Arc<Query>, u64)> = BTreeMap::new();
        for query in running.iter().filter(|query| query.state() != QueryState::Cancelled) {
            let Some(turn) = query.turn() else { continue };
            let Some(limit) = turn.limits().spill_bytes else { continue };
            let bytes = query.spilled().bytes();
            let all = spilled.entry(Arc::clone(turn.tenant()));
            let all = all.or_insert_with(|| (0, Arc::clone(query), limit));
            all.0 += bytes;
            if bytes > 0 {
                all.1 = Arc::clone(query);
            }
        }
        for (tenant, (bytes, youngest, limit)) in spilled {
            if bytes > limit {
                let (bytes, limit) = (format_bytes(bytes), format_bytes(limit));
                youngest.end(Ending::Limit(format!(
                    "the queries of tenant {tenant} have spilled {bytes} and may spill {limit}; \
                     say ALTER TENANT {tenant} SET (max_spill = '...')"
                )));
            }
        }
    }
}
