//! Interruption of planning.
//!
//! A statement is cancelled by dropping its future, or by setting the state of its query. Neither
//! reaches a planner that works for seconds within one poll of the future. Such a future is wrapped
//! in [`Interruptible`]: while it is polled, a thread-local variable holds the [`Stop`] of the
//! statement, and the planner tests it between two steps (`check`).
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicBool, Ordering};
//! use terrace_sql::interrupt::{Interruptible, Stop};
//! use terrace_sql::{Engine, EngineConfig};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), terrace_sql::SqlError> {
//! let engine = Engine::open(&EngineConfig::new(64 << 20))?;
//! let session = engine.session()?;
//! let is_cancelled = Arc::new(AtomicBool::new(true));
//! let stop = Stop::new(move || is_cancelled.load(Ordering::Relaxed));
//! let planned = Interruptible::new(Arc::clone(&stop), session.sql("SELECT 1 + 1")).await;
//! assert!(planned.is_err() && stop.has_stopped());
//! # drop(session);
//! # engine.close()
//! # }
//! ```

use std::cell::RefCell;
use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use datafusion::common::{Result, exec_err};
use futures::future::{Either, select};
use terrace_governor::pins::Reader;
use terrace_table::error::SqlError;

thread_local! {
    /// The stops of the futures that the thread polls, the outermost first.
    static STOPS: RefCell<Vec<Arc<Stop>>> = const { RefCell::new(Vec::new()) };
}

/// Cancellation condition of a statement, which its planner tests.
pub struct Stop {
    is_due: Box<dyn Fn() -> bool + Send + Sync>,
    has_stopped: AtomicBool,
}

impl Stop {
    /// Creates the stop of a statement that ends once `is_due` returns true. It is called often,
    /// and must not wait.
    pub fn new(is_due: impl Fn() -> bool + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { is_due: Box::new(is_due), has_stopped: AtomicBool::new(false) })
    }

    /// Returns true if planning has ended early because this condition was true.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        self.has_stopped.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stop").field("has_stopped", &self.has_stopped).finish_non_exhaustive()
    }
}

/// A future whose planning ends with an error at its next step once the condition of its [`Stop`]
/// is true.
pub struct Interruptible<F> {
    future: Pin<Box<F>>,
    stop: Arc<Stop>,
}

impl<F: Future> Interruptible<F> {
    /// Wraps `future`.
    pub fn new(stop: Arc<Stop>, future: F) -> Self {
        Self { future: Box::pin(future), stop }
    }
}

impl<F: Future> Future for Interruptible<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let _known = Known::add(&self.stop);
        self.future.as_mut().poll(context)
    }
}

impl<F> fmt::Debug for Interruptible<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interruptible").field("stop", &self.stop).finish_non_exhaustive()
    }
}

/// Guard that keeps a stop in the thread's list until it is dropped.
struct Known;

impl Known {
    fn add(stop: &Arc<Stop>) -> Self {
        STOPS.with_borrow_mut(|stops| stops.push(Arc::clone(stop)));
        Self
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        STOPS.with_borrow_mut(Vec::pop);
    }
}

/// Awaits `work`, a part of the planning of a statement such as a lock, but ends with an error when
/// the query of `reader` is cancelled.
///
/// # Errors
/// Those of `work`; if the query is cancelled.
pub(crate) async fn wait<T>(
    reader: &Reader,
    work: impl Future<Output = std::result::Result<T, SqlError>>,
) -> std::result::Result<T, SqlError> {
    match select(pin!(work), reader.suspension.cancelled()).await {
        Either::Left((done, _)) => done,
        Either::Right(_) => {
            check()?;
            Ok(exec_err!("the statement was cancelled while it waited")?)
        }
    }
}

/// Ends the planning of a statement that has been cancelled.
///
/// # Errors
/// If a stop of a future that the thread polls is due.
pub(crate) fn check() -> Result<()> {
    STOPS.with_borrow(|stops| match stops.iter().find(|stop| (stop.is_due)()) {
        None => Ok(()),
        Some(stop) => {
            stop.has_stopped.store(true, Ordering::Relaxed);
            exec_err!("the statement was cancelled while it was planned")
        }
    })
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn the_innermost_future_sees_all_stops() {
        let is_due = Arc::new(AtomicBool::new(false));
        let outer = Stop::new({
            let is_due = Arc::clone(&is_due);
            move || is_due.load(Ordering::Relaxed)
        });
        let inner = Stop::new(|| false);
        let work = async {
            check()?;
            is_due.store(true, Ordering::Relaxed);
            check()
        };
        let work = Interruptible::new(Arc::clone(&outer), Interruptible::new(inner, work));
        let ended = work.now_or_never().expect("it does not wait");
        assert!(ended.expect_err("due").to_string().contains("cancelled"));
        assert!(outer.has_stopped());
        assert!(check().is_ok(), "no future is polled");
    }
}
