//! Who waits for blocks, and when they are looked at.
//!
//! ```text
//!   orders --> a look --> done
//!               ^  |
//!   the end of  |  v  not yet
//!   a transfer, or after a while
//! ```
//!
//! However many blocks they are, faults come first: all of this has a little time, and then a turn
//! later. Pins come before the others, which take turns, so that nobody waits for the whole of
//! somebody else's range. What cannot be gone on with, since it is pinned for example, is looked at
//! again after a while, which is longer where looking takes long.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::vec;

use super::{ASIDE, AT_ONCE, LOOK_AGAIN, Pager};
use crate::block::Place;
use crate::inbox::Want;
use crate::waiter::Waiter;

/// Blocks of an order before the next order has its turn.
const TURN: usize = 64;
/// What could not be gone on with is looked at again after so many times as long as that took, at
/// most after this.
const LOOK_SHARE: u32 = 10;
const LOOK_AGAIN_MAX: Duration = Duration::from_millis(250);

/// What somebody waits for.
pub(super) type Waits = (Want, Arc<Waiter>);

/// What was asked for.
#[derive(Default)]
pub(super) struct Asked {
    pins: VecDeque<Order>,
    /// The others, the one whose turn it is first.
    orders: VecDeque<Order>,
    /// Blocks that it had.
    turn: usize,
    /// Blocks of which a transfer has ended, or for which there was no room.
    now: VecDeque<usize>,
    /// Blocks that could not be gone on with, those that are looked at again and those that will
    /// be; some have no waiters any more.
    again: VecDeque<usize>,
    later: VecDeque<usize>,
    /// Until when the latter are left alone.
    rest: Option<Instant>,
    /// The time that looking at them took.
    spent: Duration,
}

struct Order {
    want: Want,
    blocks: vec::IntoIter<usize>,
    waiter: Arc<Waiter>,
}

/// What there is to do.
enum Next {
    Look(usize),
    Note(Want, usize, Arc<Waiter>),
}

/// How it goes on with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nobody waits for it any more.
    Done,
    /// It is pinned, on its way, or refused.
    NotYet,
    /// There is no room for one more on its way.
    NoRoom,
}

impl Asked {
    pub(super) fn add_order(&mut self, want: Want, blocks: Vec<usize>, waiter: Arc<Waiter>) {
        let orders = if want == Want::Pin { &mut self.pins } else { &mut self.orders };
        orders.push_back(Order { want, blocks: blocks.into_iter(), waiter });
    }

    /// A transfer of a block with waiters has ended.
    pub(super) fn look_at(&mut self, block: usize) {
        self.now.push_back(block);
    }

    /// Takes all orders, as far as they were not taken note of.
    pub(super) fn take_orders(
        &mut self,
    ) -> impl Iterator<Item = (Want, vec::IntoIter<usize>, Arc<Waiter>)> + use<> {
        let orders = std::mem::take(&mut self.pins).into_iter();
        let orders = orders.chain(std::mem::take(&mut self.orders));
        orders.map(|order| (order.want, order.blocks, order.waiter))
    }

    /// What comes next. Pins take no room.
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

    /// A block could not be gone on with.
    fn put_off(&mut self, block: usize, took: Duration) {
        self.later.push_back(block);
        self.spent += took;
    }
}

/// The next block of the first order that has one, of which somebody waits.
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
    /// Whether somebody waits for a block.
    pub(super) fn is_asked(&self) -> bool {
        let Asked { pins, orders, .. } = &self.asked;
        !self.waiters.is_empty() || !pins.is_empty() || !orders.is_empty()
    }

    /// Goes on with what somebody waits for; true when there is more to do than there is time for.
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
                    // The end of a transfer makes some, or who waits aside.
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

    /// Takes note of who waits for a block, if there is anything to do for it.
    fn note(&mut self, want: Want, block: usize, waiter: Arc<Waiter>) -> Option<usize> {
        // Most blocks of a large range are not in memory.
        if want != Want::Pin && matches!(self.place(block), Place::Absent) {
            waiter.done(block, Ok(()));
            return None;
        }
        self.waiters.entry(block).or_default().push((want, waiter));
        Some(block)
    }
}
