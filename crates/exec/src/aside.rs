//! Waiting in the middle of a poll.

use terrace_pool::{Fetch, PageRef, Pinned, PoolError, Space, WriteGuard};
use tokio::runtime::{Handle, RuntimeFlavor};

/// Tries to pin pages when frames do not come free; each waits about three seconds.
const FETCH_TRIES: usize = 10;

/// Runs what may wait, with other tasks of this thread moved to another where that is possible.
/// They may be the ones that are waited for.
pub fn aside<T>(wait: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
        _ => wait(),
    }
}

/// A new page of `space`. Where all frames are held, it is waited for aside: operators on the same
/// thread may be the ones that give some back.
///
/// # Errors
/// As [`Space::allocate`].
pub(crate) fn allocate(
    space: &Space,
    bytes: usize,
) -> Result<(PageRef, WriteGuard<'_>), PoolError> {
    match space.try_allocate(bytes) {
        Err(PoolError::Exhausted { .. }) => aside(|| space.allocate(bytes)),
        result => result,
    }
}

/// Pins on `pages`, which `fetch` asks for and without which an operator cannot go on.
///
/// # Errors
/// As [`Fetch`], when frames did not come free in a good while.
pub(crate) async fn pin(
    space: &Space,
    pages: &[PageRef],
    fetch: Fetch,
) -> Result<Vec<Pinned>, PoolError> {
    let together = fetch.await;
    if !matches!(together, Err(PoolError::Exhausted { .. })) {
        return together;
    }
    // One after the other: what came is kept while the next is waited for.
    let mut pins = Vec::with_capacity(pages.len());
    for page in pages {
        pins.extend(pin_needed(space, *page).await?);
    }
    Ok(pins)
}

/// A pin on a page without which a query cannot go on: where all frames are held, it is asked for
/// again and again, half a minute long.
///
/// # Errors
/// As [`Fetch`], when frames did not come free in that time.
pub async fn pin_needed(space: &Space, page: PageRef) -> Result<Vec<Pinned>, PoolError> {
    for _ in 1..FETCH_TRIES {
        match space.fetch_needed(&[page]).await {
            Err(PoolError::Exhausted { .. }) => {}
            result => return result,
        }
    }
    space.fetch_needed(&[page]).await
}
