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
    let mut result = fetch.await;
    for _ in 0..FETCH_TRIES {
        if !matches!(result, Err(PoolError::Exhausted { .. })) {
            break;
        }
        result = space.fetch_needed(pages).await;
    }
    result
}
