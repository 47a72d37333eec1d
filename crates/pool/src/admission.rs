//! Admission control of new pages: memory keeps a reserve of pages that can be evicted without the
//! store.
//!
//! Unbacked pages, which have no extent yet, cannot be evicted while the store fails or is full;
//! without the reserve, stored pages could then no longer be read.

use std::time::Instant;

use terrace_store::StoreError;

use crate::batch::{WRITE_BATCH_BYTES, batch_bytes};
use crate::core::Core;
use crate::error::PoolError;
use crate::progress::{LOOK_AGAIN, STORE_GRACE};
use crate::victims::{Eligible, Victim};
use crate::write_back::write_and_keep;

/// Share of DRAM that stays evictable (1 / `READ_RESERVE_SHARE`), so that stored pages can always
/// be read.
const READ_RESERVE_SHARE: u64 = 8;

/// Minimum number of bytes of other pages that are written at a time to admit a new page.
const WRITE_MIN: u64 = 64 << 10;

/// Bytes of all memory tiers, in use by pages or available to them.
fn memory_bytes(core: &Core) -> u64 {
    core.tiers.iter().map(|tier| tier.account().used() + tier.account().room()).sum()
}

/// Bytes of unbacked pages that memory may hold in addition to the present ones, before fewer than
/// `reserve` bytes would be left evictable.
fn room_for_unbacked(core: &Core, reserve: u64) -> u64 {
    memory_bytes(core).saturating_sub(core.backlog.unbacked() + reserve)
}

/// Bytes of unbacked pages in excess: they leave fewer than `reserve` bytes of memory evictable.
fn unbacked_beyond(core: &Core, reserve: u64) -> u64 {
    (core.backlog.unbacked() + reserve).saturating_sub(memory_bytes(core))
}

/// Bytes of DRAM that stay evictable.
fn read_reserve(core: &Core) -> u64 {
    core.tiers[0].account().budget() / READ_RESERVE_SHARE
}

/// Writes pages that have no copy on the store, lowest score first, about `bytes` of them, and
/// keeps them in memory. Returns the bytes written.
fn write_some(core: &Core, bytes: u64) -> u64 {
    let is_unbacked = |found: &Victim| found.dirty && core.pages[found.page].stored().is_none();
    let write = |tier| {
        let (mut batch, mut batch_bytes) = (Vec::new(), 0);
        let eligible = Eligible { tier, may_write: true, class: None };
        for found in eligible.select(core, bytes, is_unbacked) {
            if batch_bytes >= bytes {
                break;
            }
            batch_bytes += found.len as u64;
            batch.push((found.id, found.page));
        }
        write_and_keep(core, &batch, &mut None)
    };
    (0..core.tiers.len()).map(write).find(|written| *written > 0).unwrap_or(0)
}

/// Writes a batch of unbacked pages to the store and keeps them in memory, if fewer bytes than one
/// and a half times the reserve are evictable. Returns true if more is to be written. For the
/// background worker.
pub(crate) fn keep_reserve(core: &Core) -> bool {
    let reserve = read_reserve(core) * 3 / 2;
    let most = batch_bytes(core.store.as_deref(), WRITE_BATCH_BYTES) as u64;
    let short = unbacked_beyond(core, reserve).min(most);
    core.store.is_some()
        && short > 0
        && write_some(core, short) > 0
        && unbacked_beyond(core, reserve) > 0
}

/// Admits a new page of `len` bytes: writes other pages to the store until the page and the reserve
/// of evictable bytes fit in memory, or returns the store's error. If no other page can be written,
/// admits the page if the store has room for it and the reserve. Admits every page if the pool has
/// no store.
pub(crate) fn admit_new(core: &Core, len: usize) -> Result<(), PoolError> {
    let Some(store) = &core.store else { return Ok(()) };
    let (reserve, len) = (read_reserve(core), len as u64);
    let room = room_for_unbacked(core, reserve);
    if room < len + reserve / 2 {
        core.progress.ask();
    }
    if room >= len {
        return Ok(());
    }
    let start = Instant::now();
    loop {
        if write_some(core, len.max(WRITE_MIN)) > 0 {
            if room_for_unbacked(core, reserve) >= len {
                return Ok(());
            }
            continue;
        }
        let refused = core.backlog.refused_since(start);
        // Pages that other threads are writing have their extents, and become evictable when
        // the write completes.
        if refused.is_none() || !core.backlog.is_writing() || start.elapsed() > STORE_GRACE {
            refused.map_or(Ok(()), |error| Err(PoolError::from(error)))?;
            break;
        }
        core.progress.wait(LOOK_AGAIN);
        if room_for_unbacked(core, reserve) >= len {
            return Ok(());
        }
    }
    // Every writable page is held or being written. The new page is admitted if the store has
    // room for all of them in the end; it finds a frame when the holders release theirs.
    let stats = store.stats();
    let free_bytes = stats.capacity_bytes.saturating_sub(stats.used_bytes);
    if free_bytes >= len + reserve {
        return Ok(());
    }
    let error = StoreError::Full {
        store: store.name().to_owned(),
        asked_bytes: len,
        free_bytes,
        largest_free_bytes: stats.largest_free_bytes,
        capacity_bytes: stats.capacity_bytes,
    };
    Err(error.into())
}
