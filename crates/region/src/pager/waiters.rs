//! Requests that wait for blocks, by block.

use std::collections::HashMap;
use std::sync::Arc;

use crate::command_queue::Want;
use crate::waiter::Waiter;

/// Requested operation on a block, and the handle that its completion is reported to.
pub(super) type Waits = (Want, Arc<Waiter>);

/// Requests that wait for blocks; no block has an empty list.
#[derive(Debug, Default)]
pub(super) struct Waiters(HashMap<usize, Vec<Waits>>);

impl Waiters {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if any request waits for the block.
    pub(super) fn has_any(&self, block: usize) -> bool {
        self.0.contains_key(&block)
    }

    /// True if a request for this operation waits for the block.
    pub(super) fn has(&self, block: usize, wanted: Want) -> bool {
        self.0.get(&block).is_some_and(|all| all.iter().any(|(want, _)| *want == wanted))
    }

    pub(super) fn add(&mut self, block: usize, want: Want, waiter: Arc<Waiter>) {
        self.0.entry(block).or_default().push((want, waiter));
    }

    /// Takes all requests that wait for the block.
    pub(super) fn take(&mut self, block: usize) -> Vec<Waits> {
        self.0.remove(&block).unwrap_or_default()
    }

    /// Takes the requests for all blocks.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = (usize, Vec<Waits>)> + use<> {
        std::mem::take(&mut self.0).into_iter()
    }

    /// Puts back requests that were taken.
    pub(super) fn put_back(&mut self, block: usize, waiters: Vec<Waits>) {
        if !waiters.is_empty() {
            self.0.insert(block, waiters);
        }
    }

    /// Keeps the requests that wait for the block and for which `keeps` returns true. Returns true
    /// if any are left.
    pub(super) fn retain(&mut self, block: usize, keeps: impl FnMut(&Waits) -> bool) -> bool {
        let Some(waiters) = self.0.get_mut(&block) else { return false };
        waiters.retain(keeps);
        let has_any = !waiters.is_empty();
        if !has_any {
            self.0.remove(&block);
        }
        has_any
    }

    /// Ends all requests that wait for the block with success.
    pub(super) fn end(&mut self, block: usize) {
        for (_, waiter) in self.take(block) {
            waiter.done(block, Ok(()));
        }
    }

    /// Ends the requests for one operation with success.
    pub(super) fn end_for(&mut self, block: usize, wanted: Want) {
        self.retain(block, |(want, waiter)| {
            if *want == wanted {
                waiter.done(block, Ok(()));
            }
            *want != wanted
        });
    }
}
