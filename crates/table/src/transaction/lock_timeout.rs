//! Limit of the time that a statement waits for a lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use terrace_governor::query::Suspension;
use tokio::time::timeout;

use crate::error::SqlError;

/// Maximum time that a statement waits for each lock of a table. By default there is none. Two
/// limits of the same time are equal, whichever queries show their waits.
#[derive(Clone, Default)]
pub struct LockTimeout {
    limit: Option<Duration>,
    /// The query of the statement, which shows that it waits.
    query: Option<Arc<Suspension>>,
}

impl LockTimeout {
    /// No limit.
    pub const NONE: Self = Self { limit: None, query: None };

    /// Returns a limit of `time`; zero stands for no limit.
    #[must_use]
    pub fn new(time: Duration) -> Self {
        Self { limit: (!time.is_zero()).then_some(time), query: None }
    }

    /// Returns the same limit, for waits that a query shows as its own.
    #[must_use]
    pub fn shown_by(&self, query: &Arc<Suspension>) -> Self {
        Self { limit: self.limit, query: Some(Arc::clone(query)) }
    }

    /// Returns the limit, if there is one.
    #[must_use]
    pub fn limit(&self) -> Option<Duration> {
        self.limit
    }

    /// Waits for a lock of the table of this name to be granted. Dropping `granted` must leave the
    /// lock's queue.
    ///
    /// # Errors
    /// [`SqlError::LockTimeout`].
    pub(crate) async fn wait<T>(
        &self,
        table: impl FnOnce() -> String,
        granted: impl Future<Output = T>,
    ) -> Result<T, SqlError> {
        let _shown = self.query.as_ref().map(|query| query.wait_for_lock());
        let Some(limit) = self.limit else { return Ok(granted.await) };
        let late = |_elapsed| SqlError::LockTimeout { table: table(), limit };
        timeout(limit, granted).await.map_err(late)
    }
}

impl PartialEq for LockTimeout {
    fn eq(&self, other: &Self) -> bool {
        self.limit == other.limit
    }
}

impl Eq for LockTimeout {}

impl fmt::Debug for LockTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockTimeout").field(&self.limit).finish()
    }
}
