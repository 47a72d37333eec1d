//! Write-back of dirty pages to the store, under shared holds, in batches.

use terrace_store::{Extent, Store, StoreError, Stored, Write};

use crate::batch::WRITE_BATCH_BYTES;
use crate::core::Core;
use crate::error::PoolError;
use crate::hold::{self, Hold};
use crate::page::{FrameId, PageId};

/// A dirty page held shared, with the right to write it, and its target extent.
pub(crate) struct Pending {
    id: FrameId,
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

/// Writes those pages that are still in their frames, dirty, and not held by a writer. Returns the
/// pages written, each under a shared hold that the caller releases.
pub(crate) fn write_back(
    core: &Core,
    dirty: &[(FrameId, PageId)],
    haste: Haste,
) -> Vec<(FrameId, PageId)> {
    write_back_all(core, dirty, haste, &mut None)
}

/// Like [`write_back`]; `refused` keeps the first refusal of all calls that it is passed to.
fn write_back_all(
    core: &Core,
    dirty: &[(FrameId, PageId)],
    haste: Haste,
    refused: &mut Option<StoreError>,
) -> Vec<(FrameId, PageId)> {
    let Some(store) = &core.store else { return Vec::new() };
    let mut refuse = |id, error: StoreError| {
        hold::release_shared(core, id);
        refused.get_or_insert_with(|| error.clone());
        core.backlog.note_refusal(&core.name, error);
    };
    let mut pending = Vec::with_capacity(dirty.len());
    for (id, page) in dirty {
        if !hold::try_hold(core, *id, Hold::Shared, *page) {
            continue;
        }
        match claim_write(core, store, *id, *page) {
            Ok(Some(write)) => pending.push(write),
            Ok(None) => hold::release_shared(core, *id),
            Err(error) => refuse(*id, error),
        }
    }
    let mut clean = Vec::with_capacity(pending.len());
    for (write, result) in write_pending(core, store, pending, haste) {
        match result {
            Ok(_) => clean.push((write.id, write.page)),
            Err(error) => refuse(write.id, error),
        }
    }
    clean
}

/// See [`crate::Pool::flush`].
pub(crate) fn flush(core: &Core) -> Result<u64, PoolError> {
    core.need_store()?;
    let mut refused = None;
    let (mut written, mut batch, mut batch_bytes) = (0, Vec::new(), 0);
    for tier in &core.tiers {
        for id in (0..tier.begun()).filter_map(|n| tier.nth(n)) {
            let frame = &core.frames[id];
            let Some(page) = frame.page().filter(|_| frame.is_dirty()) else { continue };
            batch_bytes += frame.len();
            batch.push((id, page));
            if batch_bytes >= WRITE_BATCH_BYTES {
                written += write_and_keep(core, &batch, &mut refused);
                batch.clear();
                batch_bytes = 0;
            }
        }
    }
    written += write_and_keep(core, &batch, &mut refused);
    refused.map_or(Ok(written), |error| Err(error.into()))
}

/// Writes dirty pages at background priority, while the caller waits, and keeps them in memory.
/// Returns the bytes written.
pub(crate) fn write_and_keep(
    core: &Core,
    dirty: &[(FrameId, PageId)],
    refused: &mut Option<StoreError>,
) -> u64 {
    let written = write_back_all(core, dirty, Haste::Later, refused).into_iter().map(|(id, _)| {
        let len = core.frames[id].len() as u64;
        hold::release_shared(core, id);
        len
    });
    written.sum()
}

/// Claims the right to write a page that the caller holds shared, with an extent for it; `None` if
/// the page is clean or another thread is writing it.
pub(crate) fn claim_write(
    core: &Core,
    store: &Store,
    id: FrameId,
    page: PageId,
) -> Result<Option<Pending>, StoreError> {
    let frame = &core.frames[id];
    if !frame.begin_write() {
        return Ok(None);
    }
    debug_assert!(!core.pages[page].is_durable(), "{page:?} is durable and dirty");
    let old = core.pages[page].stored().map(|stored| stored.extent);
    let extent = match old {
        Some(extent) => Ok(extent),
        None => store.allocate(frame.len() as u64),
    };
    match extent {
        Ok(extent) => {
            core.backlog.begin_write();
            Ok(Some(Pending { id, page, extent, fresh: old.is_none() }))
        }
        Err(error) => {
            frame.end_write();
            Err(error)
        }
    }
}

/// Writes pages in one batch and ends their rights to write. The caller keeps the shared holds.
pub(crate) fn write_pending(
    core: &Core,
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
            data: unsafe { core.frames[write.id].bytes() },
        })
        .collect();
    let results = match haste {
        Haste::Now => store.write_batch(&writes),
        Haste::Later => store.write_batch_later(&writes),
    };
    drop(writes);
    let mut done = Vec::with_capacity(pending.len());
    for (write, result) in pending.into_iter().zip(results) {
        let frame = &core.frames[write.id];
        match &result {
            Ok(stored) => {
                if write.fresh {
                    core.backlog.take_unbacked(frame.len());
                }
                core.pages[write.page].set_stored(Some(*stored));
                frame.set_clean();
                core.counters.write_backs.add(1);
                core.counters.written_bytes.add(frame.len() as u64);
            }
            Err(_) => {
                if write.fresh {
                    store.free(write.extent);
                }
                core.counters.write_failures.add(1);
            }
        }
        frame.end_write();
        done.push((write, result));
    }
    core.backlog.end_writes(done.len());
    if done.iter().any(|(_, result)| result.is_ok()) {
        core.backlog.clear_refusal();
    }
    // Wakes the threads that wait for the right to write one of these pages.
    core.progress.notify();
    done
}

/// Releases rights to write that were not used.
pub(crate) fn unclaim_writes(core: &Core, store: &Store, pending: Vec<Pending>) {
    core.backlog.end_writes(pending.len());
    for write in pending {
        if write.fresh {
            store.free(write.extent);
        }
        core.frames[write.id].end_write();
    }
}
