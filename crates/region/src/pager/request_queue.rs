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

use super::{ASIDE, AT_ONCE, LOOK_AGAIN, Pager};
use crate::block::Place;
use crate::command_queue::Want;
use crate::waiter::Waiter;

/// Blocks served of one request before the next request has its turn.
const TURN: usize = 64;
/// Back-off of blocks that cannot progress: so many times the duration of the last checks, at most
/// [`LOOK_AGAIN_MAX`].
const LOOK_SHARE: u32 = 10;
const LOOK_AGAIN_MAX: Duration = Duration::from_millis(250);

/// Requested operation on a block, and the handle that its completion is reported to.
pub(super) type Waits = (Want, Arc<Waiter>);

/// Pending requests of a pager.
#[derive(Default)]
pub(super) struct Asked {
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
enum Next {
    Look(usize),
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

impl Asked {
    pub(super) fn add_order(&mut self, want: Want, blocks: Vec<usize>, waiter: Arc<Waiter>) {
        let orders = if want == Want::Pin { &mut self.pins } else { &mut self.orders };
        orders.push_back(Order { want, blocks: blocks.into_iter(), waiter });
    }

    /// Queues a block for a check after its transfer has ended.
    pub(super) fn look_at(&mut self, block: usize) {
        self.now.push_back(block);
    }

    /// Takes all requests, each with the blocks that are not noted yet.
    pub(super) fn take_orders(
        &mut self,
    ) -> impl Iterator<Item = (Want, vec::IntoIter<usize>, Arc<Waiter>)> + use<> {
        let orders = std::mem::take(&mut self.pins).into_iter();
        let orders = orders.chain(std::mem::take(&mut self.orders));
        orders.map(|order| (order.want, order.blocks, order.waiter))
    }

    /// Returns the next step. Without room for another block out of its place, only pins are
    /// served.
    fn next(&mut self, now: Instant, has_room: bool) -> Option<Next> {
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
    fn put_off(&mut self, block: usize, took: Duration) {
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

impl Pager {
    /// True if any request is pending.
    pub(super) fn is_asked(&self) -> bool {
        let Asked { pins, orders, .. } = &self.asked;
        !self.waiters.is_empty() || !pins.is_empty() || !orders.is_empty()
    }

    /// Serves requests; true if it ran out of time with work left over.
    pub(super) fn serve_asked(&mut self) -> bool {
        let began = Instant::now();
        let (mut now, mut has_room) = (began, true);
        while let Some(next) = self.asked.next(now, has_room) {
            let look = match next {
                Next::Look(block) => Some(block),
                Next::Note(want, block, waiter) => self.note(want, block, waiter),
            };
            let progress = look.map(|block| (block, self.go_on_with(block, now)));
            let before = std::mem::replace(&mut now, Instant::now());
            match progress {
                Some((block, Progress::NotYet)) => self.asked.put_off(block, now - before),
                Some((block, Progress::NoRoom)) => {
                    self.asked.now.push_front(block);
                    // A write in flight makes room. Without one, or with too many blocks aside,
                    // a block aside is evicted.
                    let is_soon = self.writing_count > 0 && self.aside_count <= ASIDE.1;
                    has_room = !is_soon && self.drop_aside();
                }
                Some((_, Progress::Done)) | None => {}
            }
            if now - began > AT_ONCE {
                return true;
            }
        }
        false
    }

    /// Registers a waiter for a block. Returns the block if it needs a check.
    fn note(&mut self, want: Want, block: usize, waiter: Arc<Waiter>) -> Option<usize> {
        // Most blocks of a large range are absent: there is nothing to evict or to flush.
        if want != Want::Pin && matches!(self.place(block), Place::Absent) {
            waiter.done(block, Ok(()));
            return None;
        }
        self.waiters.entry(block).or_default().push((want, waiter));
        Some(block)
    }
}
