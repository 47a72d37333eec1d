//! Completion handle of a request over one or more blocks.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use terrace_sys::sync::lock;

use crate::error::RegionError;

/// Counts the blocks of a request down and keeps the first error.
#[derive(Debug, Default)]
pub(crate) struct Waiter {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    left: usize,
    /// Time when the last block was done.
    moved: Option<Instant>,
    /// Blocks that were done, if the caller needs the list.
    done: Option<Vec<usize>>,
    error: Option<RegionError>,
    /// The caller has stopped waiting.
    over: bool,
}

impl Waiter {
    /// Creates a handle that completes after `blocks` blocks; it records those that were done if
    /// `lists` is set.
    pub(crate) fn new(blocks: usize, lists: bool) -> Self {
        let done = lists.then(Vec::new);
        let state = State { left: blocks, done, ..State::default() };
        Self { state: Mutex::new(state), ..Self::default() }
    }

    /// Reports one block as done; false if the caller has stopped waiting.
    pub(crate) fn done(&self, block: usize, result: Result<(), RegionError>) -> bool {
        let mut state = lock(&self.state);
        if state.over {
            return false;
        }
        state.left = state.left.saturating_sub(1);
        state.moved = Some(Instant::now());
        match result {
            Ok(()) => state.done.iter_mut().for_each(|done| done.push(block)),
            Err(error) => drop(state.error.get_or_insert(error)),
        }
        if state.left == 0 {
            self.changed.notify_all();
        }
        true
    }

    /// Waits until all blocks are done. `patience` limits the time from one block to the next.
    /// Returns the first error, or `Err(None)` on a timeout.
    pub(crate) fn wait(&self, patience: Duration) -> Result<(), Option<RegionError>> {
        let began = Instant::now();
        let mut state = lock(&self.state);
        while state.left > 0 {
            let Some(deadline) = state.moved.unwrap_or(began).checked_add(patience) else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.over = true;
        match (state.error.take(), state.left) {
            (Some(error), _) => Err(Some(error)),
            (None, 0) => Ok(()),
            (None, _) => Err(None),
        }
    }

    /// True if the caller has stopped waiting.
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.state).over
    }

    /// Takes the list of blocks that were done.
    pub(crate) fn take_done(&self) -> Vec<usize> {
        lock(&self.state).done.take().unwrap_or_default()
    }

    /// Number of blocks that are not done.
    pub(crate) fn left(&self) -> usize {
        lock(&self.state).left
    }
}
