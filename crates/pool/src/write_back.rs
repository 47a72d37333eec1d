//! Writing dirty pages to the store, under shared holds, in batches.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use terrace_tier::store::{Extent, Store, StoreError, Stored, Write};

use crate::error::PoolError;
use crate::fix::Hold;
use crate::page::{FrameId, PageId, PageRef};
use crate::pool::Inner;
use crate::state::PageState;
use crate::sync::lock;
use crate::table::PageEntry;

/// A dirty page held shared, with the right to write it, and where it goes.
struct Pending {
    id: FrameId,
    page: PageId,
    extent: Extent,
    /// The extent was allocated for this write and goes back if it fails.
    fresh: bool,
}

impl Inner {
    /// Writes pages of these frames that are still there, dirty and unheld by writers; those that
    /// are clean now, each under a shared hold that the caller gives back.
    pub(crate) fn write_back(
        self: &Arc<Self>,
        dirty: &[(FrameId, PageId)],
    ) -> Vec<(FrameId, PageId)> {
        let Some(store) = &self.store else { return Vec::new() };
        let mut pending = Vec::with_capacity(dirty.len());
        for (id, page) in dirty {
            let frame = &self.frames[*id];
            if !self.try_hold(frame, Hold::Shared, *page) {
                continue;
            }
            match self.claim_write(store, *id, *page) {
                Ok(Some(write)) => pending.push(write),
                Ok(None) => self.release_shared(*id),
                Err(error) => {
                    self.release_shared(*id);
                    self.note_write_error(error);
                }
            }
        }
        let mut clean = Vec::with_capacity(pending.len());
        for (write, result) in self.write_pending(store, pending) {
            match result {
                Ok(_) => clean.push((write.id, write.page)),
                Err(error) => {
                    self.release_shared(write.id);
                    self.note_write_error(error);
                }
            }
        }
        clean
    }

    /// The right to write a page that the caller holds shared, with an extent for it; `None` when
    /// it is clean or somebody else is writing it.
    fn claim_write(
        &self,
        store: &Store,
        id: FrameId,
        page: PageId,
    ) -> Result<Option<Pending>, StoreError> {
        let frame = &self.frames[id];
        if frame.writing.swap(true, Ordering::SeqCst) {
            return Ok(None);
        }
        if !frame.dirty.load(Ordering::SeqCst) {
            frame.writing.store(false, Ordering::SeqCst);
            return Ok(None);
        }
        let old = self.pages[page].stored().map(|stored| stored.extent);
        let extent = match old {
            Some(extent) => Ok(extent),
            None => store.allocate(frame.len() as u64),
        };
        match extent {
            Ok(extent) => Ok(Some(Pending { id, page, extent, fresh: old.is_none() })),
            Err(error) => {
                frame.writing.store(false, Ordering::SeqCst);
                Err(error)
            }
        }
    }

    /// Writes in one batch. The holds stay, the rights to write end.
    fn write_pending(
        &self,
        store: &Store,
        pending: Vec<Pending>,
    ) -> Vec<(Pending, Result<Stored, StoreError>)> {
        let writes: Vec<_> = pending
            .iter()
            .map(|write| Write {
                extent: write.extent,
                // SAFETY: the frame is held shared until after the batch, which keeps its page in
                // place and writers out.
                data: unsafe { self.frames[write.id].bytes() },
            })
            .collect();
        let results = store.write_batch(&writes);
        drop(writes);
        let mut done = Vec::with_capacity(pending.len());
        for (write, result) in pending.into_iter().zip(results) {
            let frame = &self.frames[write.id];
            match &result {
                Ok(stored) => {
                    if write.fresh {
                        self.unbacked.fetch_sub(frame.len() as u64, Ordering::Relaxed);
                    }
                    self.pages[write.page].set_stored(Some(*stored));
                    frame.dirty.store(false, Ordering::SeqCst);
                    self.counters.write_backs.add(1);
                    self.counters.written_bytes.add(frame.len() as u64);
                }
                Err(_) => {
                    if write.fresh {
                        store.free(write.extent);
                    }
                    self.counters.write_failures.add(1);
                }
            }
            frame.writing.store(false, Ordering::SeqCst);
            done.push((write, result));
        }
        if done.iter().any(|(_, result)| result.is_ok()) {
            *lock(&self.write_error) = None;
        }
        done
    }

    /// Keeps the store's word for the caller who finds no frame because of it.
    fn note_write_error(&self, error: StoreError) {
        tracing::warn!(pool = self.name, %error, "a dirty page stays in memory");
        *lock(&self.write_error) = Some(error);
    }

    /// See [`crate::Space::persist`].
    pub(crate) fn persist(
        self: &Arc<Self>,
        pages: &mut [PageRef],
    ) -> Result<Vec<Stored>, PoolError> {
        let store = Arc::clone(self.store()?);
        let mut held = Vec::with_capacity(pages.len());
        let result = self.persist_held(&store, pages, &mut held);
        for id in held {
            self.release_shared(id);
        }
        result
    }

    fn persist_held(
        self: &Arc<Self>,
        store: &Store,
        pages: &mut [PageRef],
        held: &mut Vec<FrameId>,
    ) -> Result<Vec<Stored>, PoolError> {
        let mut pending = Vec::with_capacity(pages.len());
        for page in pages.iter_mut() {
            if self.pages.find(page.id()).map(|entry| entry.state.get()) == Some(PageState::Stored)
            {
                continue;
            }
            let claimed = self.fix(page, Hold::Shared).and_then(|id| {
                held.push(id);
                self.claim_or_wait(store, id, page.id()).map_err(PoolError::from)
            });
            match claimed {
                Ok(write) => pending.extend(write),
                Err(error) => {
                    self.unclaim(store, pending);
                    return Err(error);
                }
            }
        }
        let mut failed = None;
        for (_, result) in self.write_pending(store, pending) {
            if let Err(error) = result {
                failed.get_or_insert(error);
            }
        }
        if let Some(error) = failed {
            return Err(error.into());
        }
        let entries = || pages.iter().map(|page| &self.pages[page.id()]);
        let stored: Option<Vec<_>> = entries().map(|entry| entry.stored()).collect();
        let missing = || PoolError::NoStore { pool: self.name.clone() };
        let stored = stored.ok_or_else(missing)?;
        entries().for_each(PageEntry::set_durable);
        Ok(stored)
    }

    /// As `claim_write`, but waits while an evictor writes the page.
    fn claim_or_wait(
        &self,
        store: &Store,
        id: FrameId,
        page: PageId,
    ) -> Result<Option<Pending>, StoreError> {
        loop {
            let write = self.claim_write(store, id, page)?;
            if write.is_some() || !self.frames[id].dirty.load(Ordering::SeqCst) {
                return Ok(write);
            }
            // The other writer is within one batch of the store, which ends by itself.
            std::thread::yield_now();
        }
    }

    fn unclaim(&self, store: &Store, pending: Vec<Pending>) {
        for write in pending {
            if write.fresh {
                store.free(write.extent);
            }
            self.frames[write.id].writing.store(false, Ordering::SeqCst);
        }
    }
}
