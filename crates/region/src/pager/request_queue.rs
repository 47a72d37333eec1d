//! Queue of requests on blocks (pin, evict, flush, save) and the order in which they are served.
//!
//! ```text
//!   requests --> check --> done
//!                ^  |
//!    the end of  |  v  no progress
//!    a transfer, or the back-off
//! ```
//!
//! Faults come first, however many blocks are requested: requests are served for a bounded time and
//! then yield. Pins come before all other requests, which take turns, so that a small request does
//! not wait for the whole of a large one. A block that cannot progress, for example because it is
//! pinned, is checked again after a back-off that grows with the time that the checks take.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::vec;

use super::limits::LOOK_AGAIN;
use crate::command_queue::Want;
use crate::waiter::Waiter;

/// Blocks served of one request before the next request has its turn.
const TURN: usize = 64;
/// Back-off of blocks that cannot progress, as a multiple of the duration of the last checks; at
/// most [`LOOK_AGAIN_MAX`].
const LOOK_SHARE: u32 = 10;
const LOOK_AGAIN_MAX: Duration = Duration::from_millis(250);

/// Pending requests of a pager.
#[derive(Default)]
pub(super) struct RequestQueue {
    pins: VecDeque<Order>,
    /// Requests other than pins, the one whose turn it is first.
    orders: VecDeque<Order>,
    /// Blocks served of the current request in its turn.
    turn: usize,
    /// Blocks to check now: a transfer of theirs has ended, or there was no room for them.
    now: VecDeque<usize>,
    /// Blocks that could not progress: `again` is being checked, and `later` is checked after the
    /// back-off. Some have no waiters any more.
    again: VecDeque<usize>,
    later: VecDeque<usize>,
    /// End of the back-off, before which `later` is not checked.
    rest: Option<Instant>,
    /// Time spent on checks of blocks that could not progress, since the last back-off began.
    spent: Duration,
}

struct Order {
    want: Want,
    blocks: vec::IntoIter<usize>,
    waiter: Arc<Waiter>,
}

/// Next step of the pager.
pub(super) enum Next {
    /// Check this block, for which requests wait.
    Look(usize),
    /// Register a request for this block with the waiters, and check the block.
    Note(Want, usize, Arc<Waiter>),
}

/// Result of a check of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// No request waits for the block any more.
    Done,
    /// The block is pinned, in transfer or refused by the source.
    NotYet,
    /// All staging frames or write slots are in use.
    NoRoom,
}

impl RequestQueue {
    pub(super) fn add_order(&mut self, want: Want, blocks: Vec<usize>, waiter: Arc<Waiter>) {
        let orders = if want == Want::Pin { &mut self.pins } else { &mut self.orders };
        orders.push_back(Order { want, blocks: blocks.into_iter(), waiter });
    }

    /// True if every block of every request is registered with the waiters.
    pub(super) fn is_empty(&self) -> bool {
        self.pins.is_empty() && self.orders.is_empty()
    }

    /// Queues a block for a check before all others, since there was no room for it.
    pub(super) fn look_first(&mut self, block: usize) {
        self.now.push_front(block);
    }

    /// Queues a block for a check after its transfer has ended.
    pub(super) fn look_at(&mut self, block: usize) {
        self.now.push_back(block);
    }

    /// Takes all requests, each with its blocks that are not registered with the waiters yet.
    pub(super) fn take_orders(
        &mut self,
    ) -> impl Iterator<Item = (Want, vec::IntoIter<usize>, Arc<Waiter>)> + use<> {
        let orders = std::mem::take(&mut self.pins).into_iter();
        let orders = orders.chain(std::mem::take(&mut self.orders));
        orders.map(|order| (order.want, order.blocks, order.waiter))
    }

    /// Returns the next step. Without room for another block out of its place, only pins are
    /// served.
    pub(super) fn next(&mut self, now: Instant, has_room: bool) -> Option<Next> {
        if let Some(next) = next_of(&mut self.pins) {
            return Some(next);
        }
        if !has_room {
            return None;
        }
        if self.rest.is_some_and(|rest| rest <= now) {
            self.again.append(&mut self.later);
            self.rest = None;
        }
        let look = self.now.pop_front().or_else(|| self.again.pop_front());
        if let Some(block) = look {
            return Some(Next::Look(block));
        }
        if !self.later.is_empty() && self.rest.is_none() {
            let rest = (self.spent * LOOK_SHARE).clamp(LOOK_AGAIN, LOOK_AGAIN_MAX);
            self.rest = Some(now + rest);
            self.spent = Duration::ZERO;
        }
        if self.turn >= TURN {
            self.turn = 0;
            self.orders.rotate_left(1.min(self.orders.len()));
        }
        self.turn += 1;
        next_of(&mut self.orders)
    }

    /// Queues a block that could not progress for a check after the back-off.
    pub(super) fn put_off(&mut self, block: usize, took: Duration) {
        self.later.push_back(block);
        self.spent += took;
    }
}

/// Returns the next block of the first request that has one and whose caller still waits.
fn next_of(orders: &mut VecDeque<Order>) -> Option<Next> {
    while let Some(order) = orders.front_mut() {
        if let Some(block) = order.blocks.next().filter(|_| !order.waiter.is_over()) {
            return Some(Next::Note(order.want, block, Arc::clone(&order.waiter)));
        }
        orders.pop_front();
    }
    None
}
