//! Queue of pages of slower memory that the background worker promotes to faster memory.

use std::collections::VecDeque;
use std::sync::Mutex;

use crate::page::{FrameId, PageId};
use crate::sync::lock;

/// Maximum length of the queue; a page left out is queued again by a later fix.
const LENGTH_MAX: usize = 1024;

/// Queue of pages to promote, with the frames that they were in when they were queued.
#[derive(Debug, Default)]
pub(crate) struct Promotions(Mutex<VecDeque<(FrameId, PageId)>>);

impl Promotions {
    /// Calls `mark` under the queue's lock, then queues `page`. Returns false, without a call of
    /// `mark`, if the queue is full.
    pub(crate) fn push(&self, id: FrameId, page: PageId, mark: impl FnOnce()) -> bool {
        let mut queue = lock(&self.0);
        let has_room = queue.len() < LENGTH_MAX;
        if has_room {
            mark();
            queue.push_back((id, page));
        }
        has_room
    }

    /// Takes all pages off the queue.
    pub(crate) fn take(&self) -> Vec<(FrameId, PageId)> {
        lock(&self.0).drain(..).collect()
    }
}
