//! Job queue of the loader threads.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};

use crate::fetch::FetchState;
use crate::owner::Owner;
use crate::page::PageId;
use crate::sync::lock;

/// Maximum number of queued prefetches; more are dropped, since they only save time.
const PREFETCHES_MAX: usize = 1024;

/// A job for a loader thread.
#[derive(Debug)]
pub(crate) enum Job {
    Fetch(Arc<FetchState>),
    Prefetch(Vec<PageId>, Owner),
}

/// Queue of jobs for the loader threads. Fetches, which callers wait for, are served before
/// prefetches.
#[derive(Debug, Default)]
pub(crate) struct LoadQueue {
    jobs: Mutex<Jobs>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct Jobs {
    fetches: VecDeque<Arc<FetchState>>,
    prefetches: VecDeque<(Vec<PageId>, Owner)>,
    closed: bool,
}

impl Jobs {
    fn next(&mut self) -> Option<Job> {
        let fetch = self.fetches.pop_front().map(Job::Fetch);
        fetch.or_else(|| {
            self.prefetches.pop_front().map(|(pages, owner)| Job::Prefetch(pages, owner))
        })
    }
}

impl LoadQueue {
    pub(crate) fn push(&self, job: Job) {
        let mut jobs = lock(&self.jobs);
        match job {
            Job::Fetch(fetch) => jobs.fetches.push_back(fetch),
            Job::Prefetch(pages, owner) => jobs.prefetches.push_back((pages, owner)),
        }
        drop(jobs);
        self.wake.notify_one();
    }

    /// True if further prefetches are dropped.
    pub(crate) fn is_full(&self) -> bool {
        lock(&self.jobs).prefetches.len() >= PREFETCHES_MAX
    }

    /// Puts the pages of a prefetch that are not loaded yet back at the front of the prefetches.
    pub(crate) fn put_back(&self, pages: Vec<PageId>, owner: Owner) {
        lock(&self.jobs).prefetches.push_front((pages, owner));
        self.wake.notify_one();
    }

    /// Waits for the next job; `None` once the queue is closed and empty.
    pub(crate) fn take(&self) -> Option<Job> {
        let mut jobs = lock(&self.jobs);
        loop {
            let next = jobs.next();
            if next.is_some() || jobs.closed {
                return next;
            }
            jobs = self.wake.wait(jobs).unwrap_or_else(|e| e.into_inner());
        }
    }

    /// Ends every loader, once the jobs that are queued are served.
    pub(crate) fn close(&self) {
        lock(&self.jobs).closed = true;
        self.wake.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn fetches_come_before_prefetches_and_the_rest_of_one_before_the_next() {
        let (queue, owner) = (LoadQueue::default(), Owner::new(1, 1));
        queue.close();
        queue.push(Job::Prefetch(vec![PageId(1), PageId(2)], owner));
        queue.push(Job::Prefetch(vec![PageId(3)], owner));
        let first = queue.take();
        assert!(matches!(first, Some(Job::Prefetch(pages, _)) if pages.len() == 2));
        queue.put_back(vec![PageId(2)], owner);
        let fetch = FetchState::new(vec![PageId(4)], vec![None], owner, Duration::ZERO);
        queue.push(Job::Fetch(Arc::new(fetch)));
        assert!(matches!(queue.take(), Some(Job::Fetch(_))));
        for expected in [2, 3] {
            let next = queue.take();
            assert!(matches!(next, Some(Job::Prefetch(pages, _)) if pages == [PageId(expected)]));
        }
        assert!(queue.take().is_none());
    }
}
