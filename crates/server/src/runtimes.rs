//! The runtimes that statements run in.

use std::panic::resume_unwind;

use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// A runtime for statements, and one for those of sessions with a priority. Operators keep the
/// threads of a runtime busy for long, and its tasks wait for one another: a statement with a
/// priority would wait for a step of each of the others. Between threads of two runtimes the
/// operating system decides, which interrupts.
#[derive(Clone, Debug)]
pub(crate) struct Runtimes {
    all: Handle,
    urgent: Option<Handle>,
}

impl Runtimes {
    /// One runtime for all statements.
    pub(crate) fn new(all: Handle) -> Self {
        Self { all, urgent: None }
    }

    /// The same with a runtime for urgent statements.
    pub(crate) fn with_urgent(self, urgent: Handle) -> Self {
        Self { urgent: Some(urgent), ..self }
    }

    /// Does work in the runtime of statements that are urgent or are not. It ends early if this is
    /// dropped.
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
            // A runtime that ends drops its tasks; so does this one then.
            _ => std::future::pending().await,
        }
    }

    /// The runtime of statements that are urgent or are not.
    pub(crate) fn of(&self, is_urgent: bool) -> &Handle {
        self.urgent.as_ref().filter(|_| is_urgent).unwrap_or(&self.all)
    }
}
