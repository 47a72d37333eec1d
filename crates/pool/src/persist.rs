//! Persisting pages: writes them in one batch and holds all of them until they are durable, so that
//! a directory may refer to them.
//!
//! A page in memory is held shared. A page on the store only is claimed as if to be loaded, so that
//! no thread loads and changes it between the read of its extent and the moment that it becomes
//! durable.
//!
//! Two calls may name the same pages in any order and must not deadlock. So pages are held in the
//! order of their ids, and a call that waits for another thread's write first writes the pages that
//! it has claimed itself: it then blocks no other call on a page before that one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use terrace_store::{Store, Stored};

use crate::error::PoolError;
use crate::fix::Hold;
use crate::page::{FrameId, PageId, PageRef};
use crate::pool::Inner;
use crate::space::Owner;
use crate::table::PageEntry;
use crate::write_back::{Haste, Pending};

/// Sleep of a call between two checks whether another thread has written a page.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Holds and claims of one call.
#[derive(Default)]
struct Held {
    /// Frames held shared.
    frames: Vec<FrameId>,
    /// Pages on the store only, claimed to keep other threads from loading them.
    claimed: Vec<PageId>,
    /// Claimed rights to write pages of these frames, not used yet.
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

    /// Claims the right to write a dirty page, waiting while another thread writes it.
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

    /// Writes in one batch the pages that the call has claimed. Returns the first error, if any.
    fn write_claimed(&self, store: &Store, held: &mut Held) -> Result<(), PoolError> {
        let pending = std::mem::take(&mut held.pending);
        if pending.is_empty() {
            return Ok(());
        }
        let failed =
            self.write_pending(store, pending, Haste::Now).into_iter().find_map(|(_, r)| r.err());
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Marks pages durable that are all held and clean.
    fn make_durable(&self, pages: &[PageRef]) -> Result<Vec<Stored>, PoolError> {
        let entries = || pages.iter().map(|page| &self.pages[page.id()]);
        let stored: Option<Vec<_>> = entries().map(PageEntry::stored).collect();
        let stored = stored.ok_or_else(|| PoolError::NoStore { pool: self.name.clone() })?;
        entries().for_each(PageEntry::set_durable);
        Ok(stored)
    }
}
