//! Blocks that the source refused to take, and the back-off of each.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use terrace_sys::sync::lock;

use crate::state::Shared;

/// Back-off before a block that the source refused is written again.
const BACK_OFF: Duration = Duration::from_secs(1);

/// Blocks that the source refused to take, and the end of the back-off of each.
pub(super) struct Refusals {
    ends: HashMap<usize, Instant>,
    shared: Arc<Shared>,
}

impl Refusals {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self { ends: HashMap::new(), shared: Arc::clone(shared) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// True before the end of the block's back-off.
    pub(super) fn is_resting(&self, block: usize, now: Instant) -> bool {
        self.ends.get(&block).is_some_and(|until| *until > now)
    }

    /// Begins the back-off of a block that the source refused, and latches the error.
    pub(super) fn begin(&mut self, block: usize, error: &str) {
        let mut latched = lock(&self.shared.counters.latched);
        if self.ends.insert(block, Instant::now() + BACK_OFF).is_none() {
            self.shared.stuck.fetch_add(1, Ordering::Relaxed);
        }
        *latched = Some(error.to_owned());
    }

    /// Ends the back-off of a block that was written or discarded. The last one clears the latched
    /// error.
    pub(super) fn end(&mut self, block: usize) {
        if self.ends.remove(&block).is_none() {
            return;
        }
        // Blocks of other pagers are counted under the same lock.
        let mut latched = lock(&self.shared.counters.latched);
        if self.shared.stuck.fetch_sub(1, Ordering::Relaxed) == 1 {
            *latched = None;
        }
    }
}
