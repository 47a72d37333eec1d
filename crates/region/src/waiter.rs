//! Who waits for blocks.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::RegionError;
use crate::lock;

/// Counts blocks down; the first error stays.
#[derive(Debug, Default)]
pub(crate) struct Waiter {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    left: usize,
    /// When the last one was done.
    moved: Option<Instant>,
    /// Those that were done, where somebody wants to know.
    done: Option<Vec<usize>>,
    error: Option<RegionError>,
    /// Nobody waits any more.
    over: bool,
}

impl Waiter {
    /// For so many blocks; `lists` those that were done.
    pub(crate) fn new(blocks: usize, lists: bool) -> Self {
        let done = lists.then(Vec::new);
        let state = State { left: blocks, done, ..State::default() };
        Self { state: Mutex::new(state), ..Self::default() }
    }

    /// One block is done; false when nobody waits any more.
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

    /// Waits for all blocks, so long for each after the one before; the blocks that were not done.
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

    /// Whether nobody waits any more.
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.state).over
    }

    /// Blocks that were done.
    pub(crate) fn take_done(&self) -> Vec<usize> {
        lock(&self.state).done.take().unwrap_or_default()
    }

    /// Blocks that are not done.
    pub(crate) fn left(&self) -> usize {
        lock(&self.state).left
    }
}
