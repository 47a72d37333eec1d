//! Blocking tasks that run to completion even if no caller waits for them any more.
//!
//! A commit that has begun runs to its end, and so does the writing of a chunk. Closing the engine
//! waits for the last of these tasks.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use terrace_exec::panics::quietly;
use terrace_sys::sync::lock;
use tokio::task::{JoinError, JoinHandle};

/// The tasks of one database. Clones share the same tasks.
#[derive(Clone, Default)]
pub struct Tasks(Arc<Shared>);

#[derive(Default)]
struct Shared {
    running: Mutex<usize>,
    ended: Condvar,
}

impl Shared {
    fn running(&self) -> MutexGuard<'_, usize> {
        lock(&self.running)
    }
}

/// Guard of a task that must end before the database is closed.
struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        *self.0.running() -= 1;
        self.0.ended.notify_all();
    }
}

/// Future of a task's result; if it is dropped, the task continues, and its result is dropped.
pub struct Task<T>(JoinHandle<(T, Running)>);

impl<T> Future for Task<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = Pin::new(&mut self.0).poll(context);
        polled.map(|ended| ended.map(|(result, _running)| result))
    }
}

impl Tasks {
    /// Runs `work` on a thread of the runtime for blocking work.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Task<T> {
        *self.0.running() += 1;
        let running = Running(Arc::clone(&self.0));
        // The guard is dropped after everything that the work holds, and after a result that no
        // caller takes. A panic becomes an error for the caller that takes the result.
        Task(tokio::task::spawn_blocking(move || (quietly(work), running)))
    }

    /// Waits until no task runs. Returns false if some still do after `patience`.
    pub fn wait(&self, patience: Duration) -> bool {
        let running = self.0.running();
        let waited = self.0.ended.wait_timeout_while(running, patience, |running| *running > 0);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_detached_task_is_waited_for_at_the_end() {
        let tasks = Tasks::default();
        assert_eq!(tasks.spawn(|| 7).await.expect("runs"), 7);
        assert!(tasks.wait(Duration::ZERO));
        let (sender, receiver) = mpsc::channel::<()>();
        drop(tasks.spawn(move || receiver.recv()));
        assert!(!tasks.wait(Duration::from_millis(20)));
        sender.send(()).expect("it runs");
        assert!(tasks.wait(Duration::from_secs(10)));
    }
}
