//! Events that end a statement early: cancellation, its time limit, and a lost client.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::failure::{Failure, SqlState};
use crate::registry::{Registered, RunningStatement};
use crate::stream::Watch;

/// Events that end a statement early.
pub(super) struct Guard<'a> {
    pub(super) statement: RunningStatement,
    pub(super) registered: &'a Registered,
    pub(super) watch: &'a Watch,
    pub(super) timeout: Option<Duration>,
    pub(super) deadline: Option<Instant>,
}

impl Guard<'_> {
    /// Waits for a future, unless the client cancels the statement or is gone, another connection
    /// terminates this one, or the statement reaches its time limit.
    pub(super) async fn wait<T>(&self, future: impl Future<Output = T>) -> Result<T, Failure> {
        let late = async {
            match self.deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.statement.cancelled() => {
                Err(Failure::new(SqlState::CANCELLED, "the client has cancelled the statement"))
            }
            () = self.registered.terminated() => Err(terminated()),
            result = future => Ok(result),
            () = late => Err(Failure::late(self.timeout.unwrap_or_default())),
            () = self.watch.gone() => {
                Err(Failure::fatal(SqlState::CONNECTION, "the client is gone"))
            }
        }
    }
}

/// Returns the failure of a connection that another one has terminated.
pub(super) fn terminated() -> Failure {
    Failure::fatal(SqlState::TERMINATED, "another connection has ended this one")
}
