//! Making pages durable: written in one batch, and held until all are what a directory may name.
//!
//! A page in memory is held shared. A page on the store alone is claimed as if to be loaded, so
//! that nobody brings it in and changes it between the look at its extent and the moment that it
//! is durable.
//!
//! Two calls may name the same pages in any order and must not wait for each other in a circle. So
//! pages are held in the order of their ids, and a call that waits for a write of somebody else
//! first writes what it has claimed itself: it then keeps nobody from anything before that page.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use terrace_tier::store::{Store, Stored};

use crate::error::PoolError;
use crate::fix::Hold;
use crate::page::{FrameId, PageId, PageRef};
use crate::pool::Inner;
use crate::space::Owner;
use crate::table::PageEntry;
use crate::write_back::{Haste, Pending};

/// How long a call sleeps before it looks by itself whether a page has been written.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// What one call holds.
#[derive(Default)]
struct Held {
    /// Frames held shared.
    frames: Vec<FrameId>,
    /// Pages kept on the store alone.
    claimed: Vec<PageId>,
    /// Rights to write pages of these frames, not used yet.
    pending: Vec<Pending>,
}

impl Inner {
    /// See [`crate::Space::persist`].
    pub(crate) fn persist(
        self: &Arc<Self>,
        pages: &mut [PageRef],
        owner: Owner,
    ) -> Result<Vec<Stored>, PoolError> {
        let store = Arc::clone(self.store()?);
        let mut held = Held::default();
        let written = self.hold_and_write(&store, pages, owner, &mut held);
        let result = written.and_then(|()| self.make_durable(pages));
        self.unclaim_writes(&store, held.pending);
        held.claimed.into_iter().for_each(|page| self.unclaim_page(page));
        held.frames.into_iter().for_each(|id| self.release_shared(id));
        result
    }

    fn hold_and_write(
        self: &Arc<Self>,
        store: &Store,
        pages: &mut [PageRef],
        owner: Owner,
        held: &mut Held,
    ) -> Result<(), PoolError> {
        let deadline = self.deadline();
        let mut order: Vec<usize> = (0..pages.len()).collect();
        order.sort_unstable_by_key(|index| pages[*index].id());
        order.dedup_by_key(|index| pages[*index].id());
        for index in order {
            let page = &mut pages[index];
            if self.claim_of(page.id(), owner) {
                held.claimed.push(page.id());
                continue;
            }
            let id = self.fix_until(page, owner, Hold::Shared, Some(deadline))?;
            held.frames.push(id);
            self.claim_or_wait(store, id, page.id(), deadline, held)?;
        }
        self.write_claimed(store, held)
    }

    /// Claims the right to write a dirty page, waiting while somebody else writes it.
    fn claim_or_wait(
        &self,
        store: &Store,
        id: FrameId,
        page: PageId,
        deadline: Instant,
        held: &mut Held,
    ) -> Result<(), PoolError> {
        let start = Instant::now();
        loop {
            if let Some(write) = self.claim_write(store, id, page)? {
                held.pending.push(write);
                return Ok(());
            }
            if !self.frames[id].dirty.load(Ordering::SeqCst) {
                return Ok(());
            }
            self.write_claimed(store, held)?;
            if Instant::now() >= deadline {
                return Err(self.latch_timeout(page, start.elapsed()));
            }
            self.progress.wait(LOOK_AGAIN);
        }
    }

    /// Writes in one batch what the call has the right to write; the first error, if any.
    fn write_claimed(&self, store: &Store, held: &mut Held) -> Result<(), PoolError> {
        let pending = std::mem::take(&mut held.pending);
        if pending.is_empty() {
            return Ok(());
        }
        let failed =
            self.write_pending(store, pending, Haste::Now).into_iter().find_map(|(_, r)| r.err());
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Makes pages durable that are all held and clean.
    fn make_durable(&self, pages: &[PageRef]) -> Result<Vec<Stored>, PoolError> {
        let entries = || pages.iter().map(|page| &self.pages[page.id()]);
        let stored: Option<Vec<_>> = entries().map(PageEntry::stored).collect();
        let stored = stored.ok_or_else(|| PoolError::NoStore { pool: self.name.clone() })?;
        entries().for_each(PageEntry::set_durable);
        Ok(stored)
    }
}
