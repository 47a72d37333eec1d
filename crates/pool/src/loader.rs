//! Loader threads: the fetches and prefetches that callers queue for them, and their main loop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::batch::{READ_BATCH_BYTES, batch_bytes};
use crate::claim::claim_of;
use crate::core::Core;
use crate::fetch::{Fetch, FetchState};
use crate::fix::fix_until;
use crate::guard::Pinned;
use crate::hold::{self, Hold};
use crate::load::{Purpose, load};
use crate::load_queue::{Job, LoadQueue};
use crate::owner::Owner;
use crate::page::{PageId, PageRef};
use crate::recency::after_fix;
use crate::residency::Access;
use crate::state::PageState;

/// Time that a fetch waits for pages that other threads are loading: their own wait for frames, and
/// a batch from a slow device.
const OTHERS_PATIENCE: Duration = Duration::from_secs(5);

/// See [`crate::Space::fetch`]. `patience` is the time that the fetch waits for frames.
pub(crate) fn fetch(
    core: &Arc<Core>,
    queue: &LoadQueue,
    pages: &[PageRef],
    owner: Owner,
    patience: Duration,
) -> Fetch {
    let pinned: Vec<_> = pages.iter().map(|page| pin_resident(core, page.id(), owner)).collect();
    let all = pinned.iter().all(Option::is_some);
    let pages = pages.iter().map(|page| page.id()).collect();
    let state = Arc::new(FetchState::new(pages, pinned, owner, patience));
    if !all {
        queue.push(Job::Fetch(Arc::clone(&state)));
    }
    Fetch::new(state)
}

/// Pins a page of `owner` if it is resident and its latch can be shared at once.
fn pin_resident(core: &Arc<Core>, page: PageId, owner: Owner) -> Option<Pinned> {
    let entry = core.pages.find(page)?;
    let PageState::Resident(id) = entry.state.get() else { return None };
    if !hold::try_hold(core, id, Hold::Shared, page) {
        return None;
    }
    if entry.owner() != owner {
        hold::release_shared(core, id);
        return None;
    }
    core.counters.look_ups.add(1);
    after_fix(core, id, Access::Read);
    Some(Pinned::new(Arc::clone(core), id))
}

/// See [`crate::Space::prefetch`].
pub(crate) fn prefetch(core: &Core, queue: &LoadQueue, pages: &[PageRef], owner: Owner) {
    let stored = |page: &PageRef| {
        let entry = core.pages.find(page.id());
        entry.is_some_and(|entry| entry.state.get() == PageState::Stored)
    };
    let pages: Vec<_> = pages.iter().filter(|page| stored(page)).map(|page| page.id()).collect();
    if pages.is_empty() || queue.is_full() {
        return;
    }
    queue.push(Job::Prefetch(pages, owner));
}

/// Main loop of a loader thread.
pub(crate) fn run(core: &Arc<Core>, queue: &LoadQueue) {
    while let Some(job) = queue.take() {
        match job {
            Job::Fetch(fetch) => serve_fetch(core, &fetch),
            Job::Prefetch(pages, owner) => serve_prefetch(core, queue, pages, owner),
        }
    }
}

/// Reads one batch of a prefetch. The rest goes back to the queue, where fetches come first.
fn serve_prefetch(core: &Core, queue: &LoadQueue, mut pages: Vec<PageId>, owner: Owner) {
    let (most, mut bytes) = (batch_bytes(core.store.as_deref(), READ_BATCH_BYTES), 0);
    let fits = |page: &&PageId| {
        bytes += core.pages.find(**page).map_or(0, |entry| entry.len());
        bytes <= most
    };
    let count = pages.iter().take_while(fits).count().max(1);
    let rest = pages.split_off(count.min(pages.len()));
    if !rest.is_empty() {
        queue.put_back(rest, owner);
    }
    let claims = |page: &PageId| claim_of(core, *page, owner);
    let claimed: Vec<_> = pages.iter().copied().filter(claims).collect();
    // A page that cannot be read goes back to `Stored`; the fix that needs it reports the
    // error.
    load(core, &claimed, Purpose::Ahead, None, |_, loaded| {
        if let Ok(id) = loaded {
            core.frames[id].forget_fixes();
            hold::release_shared(core, id);
        }
    });
}

fn serve_fetch(core: &Arc<Core>, fetch: &FetchState) {
    let missing = fetch.missing();
    let deadline = Instant::now() + fetch.patience().min(core.patience);
    let claims = |index: &usize| claim_of(core, fetch.page(*index), fetch.owner());
    let claimed: Vec<_> = missing.iter().copied().filter(claims).collect();
    let pages: Vec<_> = claimed.iter().map(|index| fetch.page(*index)).collect();
    let mut failed = None;
    load(core, &pages, Purpose::Scan, Some(deadline), |index, loaded| match loaded {
        Ok(id) => {
            after_fix(core, id, Access::Read);
            fetch.put(claimed[index], Pinned::new(Arc::clone(core), id));
        }
        Err(error) => {
            failed.get_or_insert(error);
        }
    });
    // The remaining pages are resident by now, or another loader is loading them.
    let deadline = Instant::now() + OTHERS_PATIENCE.min(core.patience);
    for index in fetch.missing() {
        if failed.is_some() {
            break;
        }
        let mut page = PageRef::new(fetch.page(index), None);
        match fix_until(core, &mut page, fetch.owner(), Hold::Shared, Some(deadline)) {
            Ok(id) => fetch.put(index, Pinned::new(Arc::clone(core), id)),
            Err(error) => failed = Some(error),
        }
    }
    if !fetch.abandoned() {
        fetch.finish(failed.map_or(Ok(()), Err));
    }
}
