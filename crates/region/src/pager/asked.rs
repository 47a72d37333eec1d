//! Who waits for blocks, and when they are looked at.
//!
//! ```text
//!   orders --> now --> done
//!               | ^
//!    not yet    v |  an event, or after a while
//!              later
//! ```
//!
//! However many they are, faults come first: all of this has a little time, and then a turn later.
//! What cannot be gone on with, since it is pinned for example, is looked at again after a while,
//! which is longer where looking takes long.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::vec;

use super::{LOOK_AGAIN, Pager};
use crate::block::Place;
use crate::inbox::Want;
use crate::waiter::Waiter;

/// How long they are served before faults are.
const AT_ONCE: Duration = Duration::from_micros(500);
/// Blocks of an order that are taken note of between two looks at the time.
const NOTES: usize = 256;
/// The share of a pager's time in which it looks at what it could not go on with before.
const LOOK_SHARE: u32 = 10;

/// What somebody waits for.
pub(super) type Waits = (Want, Arc<Waiter>);

/// The blocks that have waiters.
#[derive(Default)]
pub(super) struct Asked {
    /// What was asked for and has not been taken note of yet.
    orders: VecDeque<Order>,
    /// Blocks that are looked at now, and some that have no waiters any more.
    now: VecDeque<usize>,
    /// Blocks that are looked at again after a while.
    later: VecDeque<usize>,
    /// Until when those are left alone; none while they are looked at.
    again: Option<Instant>,
    /// The time since they were looked at first.
    spent: Duration,
}

struct Order {
    want: Want,
    blocks: vec::IntoIter<usize>,
    waiter: Arc<Waiter>,
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
        self.orders.push_back(Order { want, blocks: blocks.into_iter(), waiter });
    }

    /// What has not been taken note of.
    pub(super) fn take_all(
        &mut self,
    ) -> impl Iterator<Item = (Want, vec::IntoIter<usize>, Arc<Waiter>)> + use<> {
        let orders = std::mem::take(&mut self.orders).into_iter();
        orders.map(|order| (order.want, order.blocks, order.waiter))
    }

    /// A transfer of a block with waiters has ended: it comes first, since it has what others lack
    /// room for.
    pub(super) fn look_at_first(&mut self, block: usize) {
        self.now.push_front(block);
    }

    /// The next block to look at.
    fn next(&mut self, now: Instant) -> Option<usize> {
        if self.now.is_empty() && self.again.is_some_and(|again| again <= now) {
            self.now.append(&mut self.later);
            self.again = None;
        }
        let next = self.now.pop_front();
        if next.is_none() && self.again.is_none() && !self.later.is_empty() {
            self.again = Some(now + LOOK_AGAIN.max(self.spent * LOOK_SHARE));
            self.spent = Duration::ZERO;
        }
        next
    }
}

impl Pager {
    /// Whether somebody waits for a block.
    pub(super) fn is_asked(&self) -> bool {
        !self.waiters.is_empty() || !self.asked.orders.is_empty()
    }

    /// Goes on with what somebody waits for; true when there is more to do than there is time for.
    pub(super) fn serve_asked(&mut self) -> bool {
        let began = Instant::now();
        let is_late = self.take_orders(began) || self.look_at_waiters(began);
        self.asked.spent += began.elapsed();
        is_late
    }

    fn take_orders(&mut self, began: Instant) -> bool {
        while let Some(mut order) = self.asked.orders.pop_front() {
            if order.waiter.is_over() {
                continue;
            }
            loop {
                let blocks = order.blocks.by_ref().take(NOTES);
                let left = blocks.map(|block| self.note(order.want, block, &order.waiter)).count();
                if left < NOTES {
                    break;
                }
                if began.elapsed() > AT_ONCE {
                    self.asked.orders.push_front(order);
                    return true;
                }
            }
        }
        false
    }

    fn note(&mut self, want: Want, block: usize, waiter: &Arc<Waiter>) {
        // Most blocks of a large range are not in memory: nothing is left to do.
        if want != Want::Pin && matches!(self.place(block), Place::Absent) {
            waiter.done(block, Ok(()));
        } else {
            self.waiters.entry(block).or_default().push((want, Arc::clone(waiter)));
            self.asked.now.push_back(block);
        }
    }

    fn look_at_waiters(&mut self, began: Instant) -> bool {
        let mut now = began;
        while let Some(block) = self.asked.next(now) {
            match self.go_on_with(block, now) {
                Progress::Done => {}
                Progress::NotYet => self.asked.later.push_back(block),
                Progress::NoRoom => {
                    // The end of a transfer makes some.
                    self.asked.now.push_front(block);
                    return false;
                }
            }
            now = Instant::now();
            if now - began > AT_ONCE {
                return true;
            }
        }
        false
    }
}
