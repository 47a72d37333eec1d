//! Conversion of panics of operators into errors of their query.
//!
//! A panic is a bug, of an operator or of a function that it calls. It ends its query with an error
//! that names the operator and the location in the source, and nothing else: the process, the
//! session and other queries continue. [`catch`] is around every poll of a paged operator, and
//! around the outermost stream of a query, where panics in tasks of DataFusion's operators surface:
//! those tasks propagate a panic to the task that joins them.
//!
//! Data that an operator was changing when it panicked is never read again: its query ends, and
//! drops it. That is why this module may assert unwind safety. Structures that several queries
//! share take locks by `PoisonError::into_inner` and change state only where nothing can panic.
//!
//! The message of a panic is the query's error, so it is not printed as well: the first use of this
//! module installs a panic hook in front of the existing one. It records the message of a panic
//! that will be caught, and passes every other panic to the previous hook.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, PanicHookInfo};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once};
use std::task::{Context, Poll};

use datafusion::common::DataFusionError;
use terrace_sys::sync::lock;

/// Maximum number of panics of other threads whose location is kept until their query fails.
const NOTES_MAX: usize = 16;

/// Error of a query: an operator, or code that it called, panicked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "panic in {operator} or below it: {message}{}; this is a bug of that operator and has ended \
     this query alone; please report the statement with this message",
    At(location)
)]
pub struct Panic {
    /// The operator, or another activity of the query. The panic may be of code that was polled
    /// inside of it, such as its inputs: the location tells.
    pub operator: String,
    /// The message of the panic.
    pub message: String,
    /// Source file, line and column, where they are known.
    pub location: Option<String>,
}

struct At<'a>(&'a Option<String>);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(location) => write!(f, " (at {location})"),
            None => Ok(()),
        }
    }
}

impl Panic {
    /// True for a panic of Arrow's texts and lists, whose offsets have 31 bits: a batch of rows has
    /// more bytes or elements than that. Arrow checks it where it makes the array, and not before.
    fn is_of_offsets(&self) -> bool {
        let (message, location) = (self.message.as_str(), self.location.as_deref().unwrap_or(""));
        location.contains("arrow-")
            && (message.contains("offset overflow")
                || message.contains("overflow") && location.contains("offset.rs"))
    }
}

impl From<Panic> for DataFusionError {
    fn from(panic: Panic) -> Self {
        match panic.is_of_offsets() {
            true => Self::Execution(
                "program limit exceeded: the texts or lists of one column of a batch of rows have \
                 more than 2 GiB; make shorter ones, or set a smaller \
                 datafusion.execution.batch_size"
                    .to_owned(),
            ),
            false => Self::External(Box::new(panic)),
        }
    }
}

thread_local! {
    /// Number of nested calls of `catch` on this thread.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// Message and location of the last caught panic of this thread.
    static LAST: RefCell<Option<Note>> = const { RefCell::new(None) };
}

/// Number of running queries: while there is one, panics of tasks are attributed to it.
static QUERIES: AtomicUsize = AtomicUsize::new(0);
/// Panics of tasks, which propagate them to a query.
static NOTES: Mutex<VecDeque<Note>> = Mutex::new(VecDeque::new());

#[derive(Clone, Debug)]
struct Note {
    message: String,
    location: Option<String>,
}

/// Guard of a running query. While there is one, panics in tasks of the runtime are not printed:
/// they surface where the query is polled.
#[derive(Debug)]
pub struct Supervised(());

impl Supervised {
    /// Begins the supervision, which lasts until the guard is dropped.
    #[must_use]
    pub fn begin() -> Self {
        install_hook();
        QUERIES.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        QUERIES.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs `work`; turns a panic in it into an error that names `operator`.
///
/// # Errors
/// [`Panic`].
pub fn catch<T>(operator: &str, work: impl FnOnce() -> T) -> Result<T, Panic> {
    let _depth = Depth::enter();
    std::panic::catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        let message = message_of(payload.as_ref());
        let location = location_of(&message);
        // Dropping the payload may panic in turn.
        drop(std::panic::catch_unwind(AssertUnwindSafe(|| drop(payload))));
        Panic { operator: operator.to_owned(), message, location }
    })
}

/// Runs `work`. A panic of it is not printed, but recorded for the query that it propagates to, and
/// resumed.
pub fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let depth = Depth::enter();
    let result = std::panic::catch_unwind(AssertUnwindSafe(work));
    drop(depth);
    result.unwrap_or_else(|payload| {
        if let Some(note) = LAST.with(|last| last.borrow_mut().take()) {
            remember(note);
        }
        std::panic::resume_unwind(payload)
    })
}

/// Runs a future; turns its panics into errors that name `operator`.
pub async fn caught<T, E: From<Panic>>(
    operator: &str,
    future: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    Caught { operator, future: Box::pin(future) }.await
}

struct Caught<'a, F> {
    operator: &'a str,
    future: Pin<Box<F>>,
}

impl<T, E: From<Panic>, F: Future<Output = Result<T, E>>> Future for Caught<'_, F> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let operator = self.operator;
        let polled = catch(operator, || self.future.as_mut().poll(context));
        polled.unwrap_or_else(|panic| Poll::Ready(Err(panic.into())))
    }
}

/// Guard that marks the thread as one whose panics are caught.
struct Depth(());

impl Depth {
    fn enter() -> Self {
        install_hook();
        DEPTH.set(DEPTH.get() + 1);
        Self(())
    }
}

impl Drop for Depth {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

fn install_hook() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !note(info) {
                before(info);
            }
        }));
    });
}

/// Records a panic that will be an error of a query; returns false if it will not.
fn note(info: &PanicHookInfo<'_>) -> bool {
    let location = info.location().map(ToString::to_string);
    let note = Note { message: message_of(info.payload()), location };
    if DEPTH.get() > 0 {
        // A panic while the last one is being taken out is not recorded: it is caught all the same.
        LAST.with(|last| last.try_borrow_mut().map(|mut last| *last = Some(note)).ok());
        return true;
    }
    let is_task = tokio::task::try_id().is_some();
    if !is_task || QUERIES.load(Ordering::Relaxed) == 0 {
        return false;
    }
    remember(note);
    true
}

/// Keeps the location of a panic for the thread that will catch it.
fn remember(note: Note) {
    let mut notes = lock(&NOTES);
    if notes.len() == NOTES_MAX {
        notes.pop_front();
    }
    notes.push_back(note);
}

/// Returns the location of a panic with this message, on this thread or in a task.
fn location_of(message: &str) -> Option<String> {
    let last = LAST.with(|last| last.borrow_mut().take());
    if let Some(note) = last.filter(|note| note.message == message) {
        return note.location;
    }
    let mut notes = lock(&NOTES);
    let place = notes.iter().position(|note| note.message == message)?;
    notes.remove(place)?.location
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a value that is no text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_place() {
        let panic = catch("TestExec", || panic!("number {}", 7)).expect_err("it panics");
        assert_eq!((panic.operator.as_str(), panic.message.as_str()), ("TestExec", "number 7"));
        assert!(panic.location.as_ref().is_some_and(|it| it.contains("panics.rs")), "{panic:?}");
        assert!(panic.to_string().starts_with("panic in TestExec or below it: number 7 (at "));
        let inner = catch("Outer", || catch("Inner", || panic!("once"))).expect("caught inside");
        assert_eq!(inner.expect_err("it panics").operator, "Inner");
        assert_eq!(catch("TestExec", || 7).expect("no panic"), 7);
    }

    #[test]
    fn too_long_columns_are_a_limit() {
        let panic = |message: &str, location: &str| {
            DataFusionError::from(Panic {
                operator: "TestExec".to_owned(),
                message: message.to_owned(),
                location: Some(location.to_owned()),
            })
        };
        for (message, location, is_limit) in [
            ("offset overflow", "/registry/arrow-buffer-59.3.2/src/buffer/offset.rs:167:35", true),
            ("overflow", "/registry/arrow-buffer-59.3.2/src/builder/offset.rs:63:41", true),
            ("overflow", "/registry/arrow-buffer-59.3.2/src/builder/null.rs:1:1", false),
            ("offset overflow", "crates/exec/src/sort.rs:1:1", false),
        ] {
            let text = panic(message, location).to_string();
            assert_eq!(text.contains("program limit exceeded"), is_limit, "{text}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_panic_of_a_task_has_its_place_where_it_comes_out() {
        let _query = Supervised::begin();
        let task = tokio::spawn(async { panic!("in a task") });
        let thrown = task.await.expect_err("it panics").into_panic();
        let panic = catch("TestExec", || std::panic::resume_unwind(thrown)).expect_err("thrown");
        assert!(panic.location.as_ref().is_some_and(|it| it.contains("panics.rs")), "{panic:?}");
    }
}
