//! Blocking calls from async code (`block_in_place`), and pins that operators must wait for.

use terrace_pool::{Fetch, PageRef, Pinned, PoolError, Space, WriteGuard};
use tokio::runtime::{Handle, RuntimeFlavor};

/// Number of attempts to pin pages while frames do not come free; each waits about three seconds.
const FETCH_TRIES: usize = 10;

/// Runs `wait`, which may block, by `block_in_place` on a multi-threaded runtime, and inline
/// elsewhere. The former moves the other tasks of this thread to another thread, so that `wait` may
/// depend on them.
pub fn run_blocking<T>(wait: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
        _ => wait(),
    }
}

/// Allocates a page of `space`. If all frames are held, it waits for one with [`run_blocking`]:
/// operators on the same thread may be the ones that give some back.
///
/// # Errors
/// As [`Space::allocate`].
pub(crate) fn allocate(
    space: &Space,
    bytes: usize,
) -> Result<(PageRef, WriteGuard<'_>), PoolError> {
    match space.try_allocate(bytes) {
        Err(PoolError::Exhausted { .. }) => run_blocking(|| space.allocate(bytes)),
        result => result,
    }
}

/// Waits for `fetch` to load `pages`, without which an operator cannot continue, and returns their
/// pins; while all frames are held, it pins the pages one by one with retries.
///
/// # Errors
/// As [`Fetch`], and `PoolError::Exhausted` if no frame came free for a page in about half a
/// minute.
pub(crate) async fn pin(
    space: &Space,
    pages: &[PageRef],
    fetch: Fetch,
) -> Result<Vec<Pinned>, PoolError> {
    let together = fetch.await;
    if !matches!(together, Err(PoolError::Exhausted { .. })) {
        return together;
    }
    // One by one: pages already loaded stay pinned while the next one is waited for.
    let mut pins = Vec::with_capacity(pages.len());
    for page in pages {
        pins.extend(pin_needed(space, *page).await?);
    }
    Ok(pins)
}

/// Pins a page without which a query cannot continue: while all frames are held, it retries for
/// about half a minute.
///
/// # Errors
/// As [`Fetch`], if no frames came free in that time.
pub async fn pin_needed(space: &Space, page: PageRef) -> Result<Vec<Pinned>, PoolError> {
    for _ in 1..FETCH_TRIES {
        match space.fetch_needed(&[page]).await {
            Err(PoolError::Exhausted { .. }) => {}
            result => return result,
        }
    }
    space.fetch_needed(&[page]).await
}
