//! The Tokio runtimes in which statements run.

use std::panic::resume_unwind;

use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// A runtime for statements, and one for statements of sessions with a priority. Operators keep a
/// runtime's threads busy for long, and tasks of one runtime do not preempt each other: a statement
/// with a priority would wait for a step of every other statement. Threads of two runtimes are
/// scheduled, and preempted, by the operating system.
#[derive(Clone, Debug)]
pub(crate) struct Runtimes {
    all: Handle,
    urgent: Option<Handle>,
}

impl Runtimes {
    /// Creates one runtime for all statements.
    pub(crate) fn new(all: Handle) -> Self {
        Self { all, urgent: None }
    }

    /// Adds a runtime for urgent statements.
    pub(crate) fn with_urgent(self, urgent: Handle) -> Self {
        Self { urgent: Some(urgent), ..self }
    }

    /// Runs work in the runtime of urgent or of other statements. The work is aborted if this
    /// future is dropped.
    ///
    /// # Panics
    /// If the work panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        is_urgent: bool,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let mut task = JoinSet::new();
        task.spawn_on(work, self.of(is_urgent));
        match task.join_next().await {
            Some(Ok(done)) => done,
            Some(Err(error)) if error.is_panic() => resume_unwind(error.into_panic()),
            // A runtime that shuts down drops its tasks, and so will drop this one.
            _ => std::future::pending().await,
        }
    }

    /// Returns the runtime of urgent or of other statements.
    pub(crate) fn of(&self, is_urgent: bool) -> &Handle {
        self.urgent.as_ref().filter(|_| is_urgent).unwrap_or(&self.all)
    }
}
