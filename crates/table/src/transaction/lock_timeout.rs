//! Limit of the time that a statement waits for a lock.

use std::time::Duration;

use tokio::time::timeout;

use crate::error::SqlError;

/// Maximum time that a statement waits for each lock of a table. By default there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockTimeout(Option<Duration>);

impl LockTimeout {
    /// No limit.
    pub const NONE: Self = Self(None);

    /// Returns a limit of `time`; zero stands for no limit.
    #[must_use]
    pub fn new(time: Duration) -> Self {
        Self((!time.is_zero()).then_some(time))
    }

    /// Returns the limit, if there is one.
    #[must_use]
    pub fn limit(self) -> Option<Duration> {
        self.0
    }

    /// Waits for a lock of the table of this name to be granted. Dropping `granted` must leave the
    /// lock's queue.
    ///
    /// # Errors
    /// [`SqlError::LockTimeout`].
    pub(crate) async fn wait<T>(
        self,
        table: impl FnOnce() -> String,
        granted: impl Future<Output = T>,
    ) -> Result<T, SqlError> {
        let Some(limit) = self.0 else { return Ok(granted.await) };
        let late = |_elapsed| SqlError::LockTimeout { table: table(), limit };
        timeout(limit, granted).await.map_err(late)
    }
}
