//! Events that end a statement early: cancellation, its time limit, and a lost client.

use std::sync::Arc;
use std::time::Duration;

use terrace_sql::interrupt::{Interruptible, Stop};
use tokio::time::{Instant, sleep_until};

use super::failure::{Failure, SqlState};
use crate::registry::{Registered, RunningStatement};
use crate::stream::Watch;

/// Ends the running statement early: the client's request to cancel, its time limit, a lost client,
/// or the termination of the connection.
pub(super) struct Guard<'a> {
    pub(super) statement: RunningStatement,
    pub(super) registered: &'a Registered,
    pub(super) watch: &'a Watch,
    pub(super) timeout: Option<Duration>,
    pub(super) deadline: Option<Instant>,
}

impl Guard<'_> {
    /// Waits for a future that plans a statement, like [`Guard::wait`]; an event also stops the
    /// planner, which does not yield to other tasks.
    pub(super) async fn plan<T>(&self, future: impl Future<Output = T>) -> Result<T, Failure> {
        let (statement, connection) = (self.statement.end(), self.registered.end());
        let stop = Stop::new({
            let (statement, connection) = (Arc::clone(&statement), Arc::clone(&connection));
            let deadline = self.deadline;
            let is_late = move || deadline.is_some_and(|deadline| deadline <= Instant::now());
            move || statement.is_due() || connection.is_due() || is_late()
        });
        let planned = self.wait(Interruptible::new(Arc::clone(&stop), future)).await?;
        match stop.has_stopped() {
            false => Ok(planned),
            true if statement.is_due() => Err(cancelled()),
            true if connection.is_due() => Err(terminated()),
            true => Err(self.late()),
        }
    }

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
            () = self.statement.cancelled() => Err(cancelled()),
            () = self.registered.terminated() => Err(terminated()),
            result = future => Ok(result),
            () = late => Err(self.late()),
            () = self.watch.gone() => {
                Err(Failure::fatal(SqlState::CONNECTION, "the client is gone"))
            }
        }
    }

    fn late(&self) -> Failure {
        Failure::late(self.timeout.unwrap_or_default())
    }
}

fn cancelled() -> Failure {
    Failure::new(SqlState::CANCELLED, "the client has cancelled the statement")
}

/// Returns the failure of a connection that another one has terminated.
pub(super) fn terminated() -> Failure {
    Failure::fatal(SqlState::TERMINATED, "another connection has ended this one")
}
