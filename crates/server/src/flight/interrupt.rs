//! Events that end a statement early.

use std::sync::Arc;
use std::time::Duration;

use terrace_sql::interrupt::{Interruptible, Stop};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::failure::{Failure, SqlState};
use crate::registry::RunningStatement;

/// Ends the running statement early: the client's request to cancel, the end of its session, or its
/// time limit.
pub(super) struct Interrupt {
    pub(super) statement: RunningStatement,
    /// Becomes true when the session ends.
    pub(super) ended: watch::Receiver<bool>,
    pub(super) timeout: Option<Duration>,
    pub(super) deadline: Option<Instant>,
}

impl Interrupt {
    /// Waits for a future that plans a statement, like [`Interrupt::wait`]; an event also stops the
    /// planner, which does not yield to other tasks.
    pub(super) async fn plan<T>(&self, future: impl Future<Output = T>) -> Result<T, Failure> {
        let stop = Stop::new({
            let (statement, ended, deadline) =
                (self.statement.end(), self.ended.clone(), self.deadline);
            let is_late = move || deadline.is_some_and(|deadline| deadline <= Instant::now());
            move || statement.is_due() || *ended.borrow() || is_late()
        });
        let planned = self.wait(Interruptible::new(Arc::clone(&stop), future)).await?;
        match stop.has_stopped() {
            false => Ok(planned),
            true if self.statement.end().is_due() => Err(cancelled()),
            true if *self.ended.borrow() => Err(ended()),
            true => Err(self.late()),
        }
    }

    /// Waits for a future, unless the client cancels the statement, its session ends, or the
    /// statement reaches its time limit.
    pub(super) async fn wait<T>(&self, future: impl Future<Output = T>) -> Result<T, Failure> {
        let late = async {
            match self.deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let mut has_ended = self.ended.clone();
        tokio::select! {
            biased;
            () = self.statement.cancelled() => Err(cancelled()),
            _ = has_ended.wait_for(|ended| *ended) => Err(ended()),
            result = future => Ok(result),
            () = late => Err(self.late()),
        }
    }

    fn late(&self) -> Failure {
        Failure::late(self.timeout.unwrap_or_default())
    }
}

fn cancelled() -> Failure {
    Failure::new(SqlState::CANCELLED, "the client has cancelled the statement")
}

fn ended() -> Failure {
    Failure::new(SqlState::TERMINATED, "the session of the statement has ended")
}
