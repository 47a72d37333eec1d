//! Serving of requests, for a bounded time.

use std::sync::Arc;
use std::time::Instant;

use super::Pager;
use super::limits::{ASIDE, AT_ONCE};
use super::request_queue::{Next, Progress};
use crate::block::BlockState;
use crate::command_queue::Want;
use crate::waiter::Waiter;

impl Pager {
    /// True if any request is pending.
    pub(super) fn has_requests(&self) -> bool {
        !self.waiters.is_empty() || !self.requests.is_empty()
    }

    /// Serves requests; true if it ran out of time with work left over.
    pub(super) fn serve_asked(&mut self) -> bool {
        let began = Instant::now();
        let (mut now, mut has_room) = (began, true);
        while let Some(next) = self.requests.next(now, has_room) {
            let look = match next {
                Next::Look(block) => Some(block),
                Next::Note(want, block, waiter) => self.note(want, block, waiter),
            };
            let progress = look.map(|block| (block, self.go_on_with(block, now)));
            let before = std::mem::replace(&mut now, Instant::now());
            match progress {
                Some((block, Progress::NotYet)) => self.requests.put_off(block, now - before),
                Some((block, Progress::NoRoom)) => {
                    self.requests.look_first(block);
                    // A write in flight makes room. Without one, or with too many blocks aside,
                    // a block aside is evicted.
                    let is_soon = self.writing_count > 0 && self.aside.count() <= ASIDE.1;
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
        if want != Want::Pin && matches!(self.place(block), BlockState::Absent) {
            waiter.done(block, Ok(()));
            return None;
        }
        self.waiters.add(block, want, waiter);
        Some(block)
    }
}
