//! Fetches: pages that are being loaded by the loader threads, awaited as a future.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::error::PoolError;
use crate::guard::Pinned;
use crate::owner::Owner;
use crate::page::PageId;
use crate::sync::lock;

/// Time that a fetch waits for frames. Shorter than the pool's timeout, because a fetch holds the
/// pages it has while it waits for the rest, and its caller can always fix pages one by one.
pub(crate) const FETCH_PATIENCE: Duration = Duration::from_secs(1);
/// Time that a fetch waits whose caller cannot proceed with fewer pages: long enough to get frames
/// beyond the budget.
pub(crate) const NEED_PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
struct Progress {
    pinned: Vec<Option<Pinned>>,
    /// Set once: success if all pages are pinned, or the error.
    done: Option<Result<(), PoolError>>,
    waker: Option<Waker>,
    abandoned: bool,
}

/// A fetch, shared by its future and the loader that serves it.
#[derive(Debug)]
pub(crate) struct FetchState {
    pages: Vec<PageId>,
    /// The space whose pages are fetched.
    owner: Owner,
    /// Time that the fetch waits for frames.
    patience: Duration,
    progress: Mutex<Progress>,
}

/// Future of pages that are being loaded; resolves to a pin on each, in the order requested.
///
/// The loader threads read the pages in batches, so awaiting a fetch never blocks a thread.
/// Dropping the future releases the pages pinned so far.
///
/// # Errors
/// [`PoolError::Exhausted`] if frames for all pages at once did not come free within a second, or
/// three for [`crate::Space::fetch_needed`]; one by one the pages may still be fixed.
/// [`PoolError::LatchTimeout`] if another loader or a writer kept a page for five seconds, or for
/// the pool's timeout if that is less. Otherwise as [`crate::Space::read`].
#[derive(Debug)]
pub struct Fetch(Arc<FetchState>);

impl Fetch {
    pub(crate) fn new(state: Arc<FetchState>) -> Self {
        Self(state)
    }

    /// Blocks the calling thread until the pages are pinned.
    ///
    /// # Errors
    /// As awaiting the fetch.
    pub fn wait(self) -> Result<Vec<Pinned>, PoolError> {
        struct Unpark(std::thread::Thread);
        impl std::task::Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut fetch = std::pin::pin!(self);
        loop {
            match fetch.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(result) => return result,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}

impl Future for Fetch {
    type Output = Result<Vec<Pinned>, PoolError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // A waker may run any code when it is cloned, woken or dropped, and may even drop this
        // fetch: none of that happens under the lock.
        let mut waker = Some(context.waker().clone());
        let mut progress = lock(&self.0.progress);
        match progress.done.take() {
            Some(Ok(())) => {
                let pinned = std::mem::take(&mut progress.pinned);
                Poll::Ready(Ok(pinned.into_iter().flatten().collect()))
            }
            Some(Err(error)) => Poll::Ready(Err(error)),
            None => {
                std::mem::swap(&mut progress.waker, &mut waker);
                Poll::Pending
            }
        }
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        let mut progress = lock(&self.0.progress);
        progress.abandoned = true;
        let given_up = (std::mem::take(&mut progress.pinned), progress.waker.take());
        drop(progress);
        drop(given_up);
    }
}

impl FetchState {
    /// Returns a fetch of pages of which some are pinned; it is done if all are.
    pub(crate) fn new(
        pages: Vec<PageId>,
        pinned: Vec<Option<Pinned>>,
        owner: Owner,
        patience: Duration,
    ) -> Self {
        let all = pinned.iter().all(Option::is_some);
        let progress = Progress { pinned, done: all.then_some(Ok(())), ..Default::default() };
        Self { pages, owner, patience, progress: Mutex::new(progress) }
    }

    pub(crate) fn page(&self, index: usize) -> PageId {
        self.pages[index]
    }

    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    pub(crate) fn abandoned(&self) -> bool {
        lock(&self.progress).abandoned
    }

    pub(crate) fn put(&self, index: usize, pin: Pinned) {
        let mut progress = lock(&self.progress);
        if !progress.abandoned {
            progress.pinned[index] = Some(pin);
        }
        // If the fetch was abandoned, `pin` is dropped after the lock, which was taken later.
    }

    pub(crate) fn missing(&self) -> Vec<usize> {
        let progress = lock(&self.progress);
        if progress.abandoned {
            return Vec::new();
        }
        (0..self.pages.len()).filter(|index| progress.pinned[*index].is_none()).collect()
    }

    pub(crate) fn finish(&self, result: Result<(), PoolError>) {
        let mut progress = lock(&self.progress);
        let failed = result.is_err().then(|| std::mem::take(&mut progress.pinned));
        progress.done = Some(result);
        let waker = progress.waker.take();
        drop(progress);
        drop(failed);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
