//! Write-back of dirty pages to the store, under shared holds, in batches.

use std::mem::Discriminant;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use terrace_store::{Extent, Store, StoreError, Stored, Write};

use crate::error::PoolError;
use crate::evict::WRITE_BATCH_BYTES;
use crate::fix::Hold;
use crate::page::{FrameId, PageId};
use crate::pool::Inner;
use crate::sync::lock;

/// A dirty page held shared, with the right to write it, and its target extent.
pub(crate) struct Pending {
    pub(crate) id: FrameId,
    page: PageId,
    extent: Extent,
    /// True if the extent was allocated for this write; it is freed if the write fails.
    fresh: bool,
}

/// Priority of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Haste {
    /// Foreground: a caller waits for the frame, or for the page's durability.
    Now,
    /// Background: after foreground requests.
    Later,
}

/// Interval in which a refusal of the same kind is not logged again: a full store refuses thousands
/// of pages a second.
const TELL_AGAIN: Duration = Duration::from_secs(10);

/// Errors with which the store refused dirty pages.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// The last refusal and its time; cleared by the next successful write.
    last: Option<(StoreError, Instant)>,
    /// The kind that was logged last, and its time.
    told: Option<(Discriminant<StoreError>, Instant)>,
}

impl Inner {
    /// Writes those pages that are still in their frames, dirty, and not held by a writer. Returns
    /// the pages that are clean now, each under a shared hold that the caller releases.
    pub(crate) fn write_back(
        self: &Arc<Self>,
        dirty: &[(FrameId, PageId)],
        haste: Haste,
    ) -> Vec<(FrameId, PageId)> {
        self.write_back_all(dirty, haste, &mut None)
    }

    /// Like [`Inner::write_back`]; `refused` keeps the first refusal of all calls that it is passed
    /// to.
    fn write_back_all(
        self: &Arc<Self>,
        dirty: &[(FrameId, PageId)],
        haste: Haste,
        refused: &mut Option<StoreError>,
    ) -> Vec<(FrameId, PageId)> {
        let Some(store) = &self.store else { return Vec::new() };
        let mut pending = Vec::with_capacity(dirty.len());
        for (id, page) in dirty {
            if !self.try_hold(*id, Hold::Shared, *page) {
                continue;
            }
            match self.claim_write(store, *id, *page) {
                Ok(Some(write)) => pending.push(write),
                Ok(None) => self.release_shared(*id),
                Err(error) => {
                    self.release_shared(*id);
                    refused.get_or_insert_with(|| error.clone());
                    self.note_write_error(error);
                }
            }
        }
        let mut clean = Vec::with_capacity(pending.len());
        for (write, result) in self.write_pending(store, pending, haste) {
            match result {
                Ok(_) => clean.push((write.id, write.page)),
                Err(error) => {
                    self.release_shared(write.id);
                    refused.get_or_insert_with(|| error.clone());
                    self.note_write_error(error);
                }
            }
        }
        clean
    }

    /// See [`crate::Pool::flush`].
    pub(crate) fn flush(self: &Arc<Self>) -> Result<u64, PoolError> {
        self.store()?;
        let mut refused = None;
        let (mut written, mut batch, mut batch_bytes) = (0, Vec::new(), 0);
        for tier in &self.tiers {
            for id in (0..tier.begun()).filter_map(|n| tier.nth(n)) {
                let frame = &self.frames[id];
                let page = frame.page().filter(|_| frame.dirty.load(Ordering::Relaxed));
                let Some(page) = page else { continue };
                batch_bytes += frame.len();
                batch.push((id, page));
                if batch_bytes >= WRITE_BATCH_BYTES {
                    written += self.write_and_keep(&batch, &mut refused);
                    batch.clear();
                    batch_bytes = 0;
                }
            }
        }
        written += self.write_and_keep(&batch, &mut refused);
        refused.map_or(Ok(written), |error| Err(error.into()))
    }

    /// Writes pages in the background and keeps them in memory. Returns the bytes written.
    pub(crate) fn write_and_keep(
        self: &Arc<Self>,
        dirty: &[(FrameId, PageId)],
        refused: &mut Option<StoreError>,
    ) -> u64 {
        let written =
            self.write_back_all(dirty, Haste::Later, refused).into_iter().map(|(id, _)| {
                let len = self.frames[id].len() as u64;
                self.release_shared(id);
                len
            });
        written.sum()
    }

    /// Claims the right to write a page that the caller holds shared, with an extent for it; `None`
    /// if the page is clean or another thread is writing it.
    pub(crate) fn claim_write(
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
        debug_assert!(!self.pages[page].is_durable(), "{page:?} is durable and dirty");
        let old = self.pages[page].stored().map(|stored| stored.extent);
        let extent = match old {
            Some(extent) => Ok(extent),
            None => store.allocate(frame.len() as u64),
        };
        match extent {
            Ok(extent) => {
                self.writing.fetch_add(1, Ordering::SeqCst);
                Ok(Some(Pending { id, page, extent, fresh: old.is_none() }))
            }
            Err(error) => {
                frame.writing.store(false, Ordering::SeqCst);
                Err(error)
            }
        }
    }

    /// Writes in one batch. The shared holds stay; the rights to write end.
    pub(crate) fn write_pending(
        &self,
        store: &Store,
        pending: Vec<Pending>,
        haste: Haste,
    ) -> Vec<(Pending, Result<Stored, StoreError>)> {
        let writes: Vec<_> = pending
            .iter()
            .map(|write| Write {
                extent: write.extent,
                // SAFETY: the frame is held shared until after the batch, which keeps its page in
                // place and excludes writers.
                data: unsafe { self.frames[write.id].bytes() },
            })
            .collect();
        let results = match haste {
            Haste::Now => store.write_batch(&writes),
            Haste::Later => store.write_batch_later(&writes),
        };
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
        self.writing.fetch_sub(done.len(), Ordering::SeqCst);
        if done.iter().any(|(_, result)| result.is_ok()) {
            lock(&self.refusals).last = None;
        }
        // Wakes the threads that wait for the right to write one of these pages.
        self.progress.notify();
        done
    }

    /// Records the store's error, for a caller that finds no frame because of it.
    fn note_write_error(&self, error: StoreError) {
        let (now, kind) = (Instant::now(), std::mem::discriminant(&error));
        let mut refusals = lock(&self.refusals);
        let told = refusals.told.is_some_and(|(k, at)| k == kind && now - at < TELL_AGAIN);
        if !told {
            refusals.told = Some((kind, now));
            tracing::warn!(pool = self.name, %error, "dirty pages stay in memory");
        }
        refusals.last = Some((error, now));
    }

    /// Returns the store's error if it refused a dirty page after `start`. An older error may be
    /// about space that has come free meanwhile.
    pub(crate) fn refused_since(&self, start: Instant) -> Option<StoreError> {
        let refusals = lock(&self.refusals);
        refusals.last.as_ref().filter(|(_, at)| *at >= start).map(|(error, _)| error.clone())
    }

    /// Releases rights to write that were not used.
    pub(crate) fn unclaim_writes(&self, store: &Store, pending: Vec<Pending>) {
        self.writing.fetch_sub(pending.len(), Ordering::SeqCst);
        for write in pending {
            if write.fresh {
                store.free(write.extent);
            }
            self.frames[write.id].writing.store(false, Ordering::SeqCst);
        }
    }
}
