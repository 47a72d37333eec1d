//! Events that end a statement early.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::failure::{Failure, SqlState};
use crate::registry::RunningStatement;

/// Events that end a statement early.
pub(super) struct Interrupt {
    pub(super) statement: RunningStatement,
    /// Becomes true when the session ends.
    pub(super) ended: watch::Receiver<bool>,
    pub(super) timeout: Option<Duration>,
    pub(super) deadline: Option<Instant>,
}

impl Interrupt {
    /// Waits for a future, unless the client cancels the statement, its session ends, or the
    /// statement reaches its time limit.
    pub(super) async fn wait<T>(&self, future: impl Future<Output = T>) -> Result<T, Failure> {
        let late = async {
            match self.deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let mut ended = self.ended.clone();
        tokio::select! {
            biased;
            () = self.statement.cancelled() => {
                Err(Failure::new(SqlState::CANCELLED, "the client has cancelled the statement"))
            }
            _ = ended.wait_for(|ended| *ended) => {
                Err(Failure::new(SqlState::TERMINATED, "the session of the statement has ended"))
            }
            result = future => Ok(result),
            () = late => Err(Failure::late(self.timeout.unwrap_or_default())),
        }
    }
}
