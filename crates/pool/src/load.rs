//! Loading of pages from the store: on a miss, for fetches, and for readahead in batches.

mod queue;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use terrace_store::Read;

use crate::arena::Taken;
use crate::error::PoolError;
use crate::evict::{Effort, random};
use crate::fix::Hold;
use crate::guard::Pinned;
use crate::page::{FrameId, PageId, PageRef, class_of};
use crate::pool::Inner;
use crate::residency::Access;
use crate::space::Owner;
use crate::state::PageState;
use crate::sync::lock;
use queue::Job;
pub(crate) use queue::LoadQueue;

/// Maximum bytes and pages of one read batch: beyond these the device has nothing more to overlap.
const READ_BATCH_BYTES: usize = 16 << 20;
const READ_BATCH_PAGES: usize = 64;
/// Background batches are sized to take about this part of a second, so that a foreground read does
/// not queue behind one for long.
const BATCHES_PER_SECOND: f64 = 400.0;
/// Minimum bytes of a batch, however slow the device is.
const BATCH_MIN_BYTES: usize = 512 << 10;
/// Time that a fetch waits for frames. Shorter than the pool's timeout, because a fetch holds the
/// pages it has while it waits for the rest, and its caller can always fix pages one by one.
pub(crate) const FETCH_PATIENCE: Duration = Duration::from_secs(1);
/// Time that a fetch waits whose caller cannot proceed with fewer pages: long enough to get frames
/// beyond the budget.
pub(crate) const NEED_PATIENCE: Duration = Duration::from_secs(3);
/// Time that a fetch waits for pages that other threads are loading: their own wait for frames, and
/// a batch from a slow device.
const OTHERS_PATIENCE: Duration = Duration::from_secs(5);
/// One in this many pages that a scan brings in is inserted as warm (bimodal insertion): a scan
/// larger than memory then keeps a part of its pages instead of evicting each before its reuse.
const WARM_INSERTION: u64 = 32;

/// Purpose of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    /// A fix by the page's owner.
    Fix,
    /// A scan: the page is cold until it is fixed again.
    Scan,
    /// Readahead for a scan that has not reached the page yet.
    Ahead,
}

#[derive(Debug, Default)]
struct Progress {
    pinned: Vec<Option<Pinned>>,
    /// Set once: success if all pages are pinned, or the error.
    done: Option<Result<(), PoolError>>,
    waker: Option<Waker>,
    abandoned: bool,
}

#[derive(Debug)]
struct FetchState {
    pages: Vec<PageId>,
    /// The space that was called.
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
    pub(crate) fn start(
        pool: &Arc<Inner>,
        pages: &[PageRef],
        owner: Owner,
        patience: Duration,
    ) -> Self {
        let pinned: Vec<_> = pages.iter().map(|page| pool.pin_resident(page.id(), owner)).collect();
        let all = pinned.iter().all(Option::is_some);
        let progress = Progress { pinned, done: all.then_some(Ok(())), ..Default::default() };
        let pages = pages.iter().map(|page| page.id()).collect();
        let progress = Mutex::new(progress);
        let state = Arc::new(FetchState { pages, owner, patience, progress });
        if !all {
            pool.loads.push(Job::Fetch(Arc::clone(&state)));
        }
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
    fn abandoned(&self) -> bool {
        lock(&self.progress).abandoned
    }

    fn put(&self, index: usize, pin: Pinned) {
        let mut progress = lock(&self.progress);
        if !progress.abandoned {
            progress.pinned[index] = Some(pin);
        }
        // If the fetch was abandoned, `pin` is dropped after the lock, which was taken later.
    }

    fn missing(&self) -> Vec<usize> {
        let progress = lock(&self.progress);
        if progress.abandoned {
            return Vec::new();
        }
        (0..self.pages.len()).filter(|index| progress.pinned[*index].is_none()).collect()
    }

    fn finish(&self, result: Result<(), PoolError>) {
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

impl Inner {
    /// Pins a page of `owner` if it is resident and its latch can be shared at once.
    fn pin_resident(self: &Arc<Self>, page: PageId, owner: Owner) -> Option<Pinned> {
        let entry = self.pages.find(page)?;
        let PageState::Resident(id) = entry.state.get() else { return None };
        if !self.try_hold(id, Hold::Shared, page) {
            return None;
        }
        if entry.owner() != owner {
            self.release_shared(id);
            return None;
        }
        self.counters.look_ups.add(1);
        self.after_fix(id, Access::Read);
        Some(Pinned::new(Arc::clone(self), id))
    }

    /// See [`crate::Space::prefetch`].
    pub(crate) fn prefetch(&self, pages: &[PageRef], owner: Owner) {
        let stored = |page: &PageRef| {
            let entry = self.pages.find(page.id());
            entry.is_some_and(|entry| entry.state.get() == PageState::Stored)
        };
        let pages: Vec<_> =
            pages.iter().filter(|page| stored(page)).map(|page| page.id()).collect();
        if pages.is_empty() || self.loads.is_full() {
            return;
        }
        self.loads.push(Job::Prefetch(pages, owner));
    }

    /// Main loop of a loader thread.
    pub(crate) fn run_loader(self: &Arc<Self>) {
        while let Some(job) = self.loads.take(&self.closed) {
            match job {
                Job::Fetch(fetch) => self.serve_fetch(&fetch),
                Job::Prefetch(pages, owner) => self.serve_prefetch(pages, owner),
            }
        }
    }

    /// Reads one batch of a prefetch. The rest goes back to the queue, where fetches come first.
    fn serve_prefetch(self: &Arc<Self>, mut pages: Vec<PageId>, owner: Owner) {
        let (most, mut bytes) = (self.batch_bytes(READ_BATCH_BYTES), 0);
        let fits = |page: &&PageId| {
            bytes += self.pages.find(**page).map_or(0, |entry| entry.len());
            bytes <= most
        };
        let count = pages.iter().take_while(fits).count().max(1);
        let rest = pages.split_off(count.min(pages.len()));
        if !rest.is_empty() {
            self.loads.put_back(rest, owner);
        }
        let claims = |page: &PageId| self.claim_of(*page, owner);
        let claimed: Vec<_> = pages.iter().copied().filter(claims).collect();
        // A page that cannot be read goes back to `Stored`; the fix that needs it reports the
        // error.
        self.load(&claimed, Purpose::Ahead, None, |_, loaded| {
            if let Ok(id) = loaded {
                self.frames[id].fixes.store(0, Ordering::Relaxed);
                self.release_shared(id);
            }
        });
    }

    fn serve_fetch(self: &Arc<Self>, fetch: &Arc<FetchState>) {
        let missing = fetch.missing();
        let deadline = Instant::now() + fetch.patience.min(self.patience);
        let claims = |index: &usize| self.claim_of(fetch.pages[*index], fetch.owner);
        let claimed: Vec<_> = missing.iter().copied().filter(claims).collect();
        let pages: Vec<_> = claimed.iter().map(|index| fetch.pages[*index]).collect();
        let mut failed = None;
        self.load(&pages, Purpose::Scan, Some(deadline), |index, loaded| match loaded {
            Ok(id) => {
                self.after_fix(id, Access::Read);
                fetch.put(claimed[index], Pinned::new(Arc::clone(self), id));
            }
            Err(error) => {
                failed.get_or_insert(error);
            }
        });
        // The remaining pages are resident by now, or another loader is loading them.
        let deadline = Instant::now() + OTHERS_PATIENCE.min(self.patience);
        for index in fetch.missing() {
            if failed.is_some() {
                break;
            }
            let mut page = PageRef::new(fetch.pages[index], None);
            match self.fix_until(&mut page, fetch.owner, Hold::Shared, Some(deadline)) {
                Ok(id) => fetch.put(index, Pinned::new(Arc::clone(self), id)),
                Err(error) => failed = Some(error),
            }
        }
        if !fetch.abandoned() {
            fetch.finish(failed.map_or(Ok(()), Err));
        }
    }

    /// Size in bytes of a background batch: less than `most` if the store is slow, so that a
    /// foreground read does not queue behind a batch for longer than some milliseconds.
    pub(crate) fn batch_bytes(&self, most: usize) -> usize {
        let rate = self.store.as_ref().and_then(|store| store.bytes_per_second());
        #[expect(clippy::cast_possible_truncation, reason = "the cast saturates, which is meant")]
        #[expect(clippy::cast_sign_loss, reason = "rates are positive")]
        rate.map_or(most, |rate| (rate / BATCHES_PER_SECOND) as usize).clamp(BATCH_MIN_BYTES, most)
    }

    /// Claims a page in state `Stored`, so that this thread loads it. Returns false if the page is
    /// in another state.
    pub(crate) fn claim(&self, page: PageId) -> bool {
        let (from, to) = (PageState::Stored, PageState::Loading);
        self.pages.find(page).is_some_and(|entry| entry.state.step(&self.lot, from, to).is_some())
    }

    /// Like [`Inner::claim`], but only for a page of `owner`.
    pub(crate) fn claim_of(self: &Arc<Self>, page: PageId, owner: Owner) -> bool {
        if self.check_owner(page, owner).is_err() || !self.claim(page) {
            return false;
        }
        // While it is claimed, the id cannot be freed and reused, so this check is final.
        let is_its_own = self.pages[page].owner() == owner;
        if !is_its_own {
            self.unclaim_page(page);
        }
        is_its_own
    }

    /// Loads a page for a fix that missed; does nothing if another thread claimed the page first.
    pub(crate) fn load_now(
        self: &Arc<Self>,
        page: PageId,
        deadline: Instant,
    ) -> Result<(), PoolError> {
        if !self.claim(page) {
            return Ok(());
        }
        let mut result = Ok(());
        self.load(&[page], Purpose::Fix, Some(deadline), |_, loaded| match loaded {
            Ok(id) => self.release_shared(id),
            Err(error) => result = Err(error),
        });
        result
    }

    /// See [`crate::Space::load`].
    pub(crate) fn load_batch(
        self: &Arc<Self>,
        pages: &mut [PageRef],
        owner: Owner,
    ) -> Result<(), PoolError> {
        let claims = |n: &usize| self.claim_of(pages[*n].id(), owner);
        let claimed: Vec<_> = (0..pages.len()).filter(claims).collect();
        let ids: Vec<_> = claimed.iter().map(|n| pages[*n].id()).collect();
        let mut result = pages.iter().try_for_each(|page| self.check_owner(page.id(), owner));
        self.load(&ids, Purpose::Fix, Some(self.deadline()), |n, loaded| match loaded {
            Ok(id) => {
                pages[claimed[n]].repair(id);
                self.release_shared(id);
            }
            Err(error) if result.is_ok() => result = Err(error),
            Err(_) => {}
        });
        result
    }

    /// Loads claimed pages, as many at a time as find frames. Calls `done` for each with its index
    /// and its frame, held shared, or its error, after which the page is `Stored` again. Without a
    /// deadline, pages that find no frame at once go back to `Stored` without a call.
    fn load(
        self: &Arc<Self>,
        pages: &[PageId],
        purpose: Purpose,
        deadline: Option<Instant>,
        mut done: impl FnMut(usize, Result<FrameId, PoolError>),
    ) {
        let mut start = 0;
        while start < pages.len() {
            let group = match self.take_group(&pages[start..], deadline) {
                Ok(group) if group.is_empty() => {
                    return pages[start..].iter().for_each(|page| self.unclaim_page(*page));
                }
                Ok(group) => group,
                Err(error) => {
                    self.unclaim_page(pages[start]);
                    done(start, Err(error));
                    start += 1;
                    continue;
                }
            };
            let count = group.len();
            let results = self.load_group(&pages[start..start + count], group, purpose);
            for (offset, result) in results.into_iter().enumerate() {
                done(start + offset, result);
            }
            start += count;
        }
    }

    /// Takes frames for a prefix of `pages`: waits for that of the first page only, and takes as
    /// many more as there is room for. Empty if there is no deadline and no room.
    fn take_group(
        self: &Arc<Self>,
        pages: &[PageId],
        deadline: Option<Instant>,
    ) -> Result<Vec<Taken>, PoolError> {
        let len_of = |page: PageId| self.pages[page].len();
        let mut bytes = len_of(pages[0]);
        let below = self.residency.fetch_tier(self.tiers.len()).min(self.tiers.len() - 1);
        let first = match self.take_below(below, pages[0], bytes) {
            Some(taken) => Some(taken),
            None => match deadline {
                Some(deadline) => Some(self.take_frame(pages[0], bytes, deadline)?),
                None => self.take_spare(pages[0], bytes),
            },
        };
        let Some(first) = first else { return Ok(Vec::new()) };
        // Pages of one batch are placed in one tier.
        let tier = self.frames[first.frame].tier();
        let mut group = vec![first];
        for page in &pages[1..pages.len().min(READ_BATCH_PAGES)] {
            let len = len_of(*page);
            bytes += len;
            if bytes > READ_BATCH_BYTES {
                break;
            }
            let taken = match tier {
                0 => self.take_spare(*page, len),
                _ => self.take_below(tier, *page, len),
            };
            let Some(taken) = taken else { break };
            group.push(taken);
        }
        Ok(group)
    }

    /// Takes a frame of a slower tier, dropping clean pages if necessary; `None` for DRAM.
    fn take_below(self: &Arc<Self>, tier: usize, page: PageId, len: usize) -> Option<Taken> {
        if tier == 0 {
            return None;
        }
        self.take_from(tier, page, len).or_else(|| {
            self.make_room(tier, len as u64, Effort::Clean, Some(class_of(len)));
            self.take_from(tier, page, len)
        })
    }

    fn load_group(
        self: &Arc<Self>,
        pages: &[PageId],
        group: Vec<Taken>,
        purpose: Purpose,
    ) -> Vec<Result<FrameId, PoolError>> {
        let Some(store) = &self.store else { return Vec::new() };
        let cold = purpose != Purpose::Fix;
        let mut reads = Vec::with_capacity(pages.len());
        for (page, taken) in pages.iter().zip(&group) {
            let entry = &self.pages[*page];
            let warm = !cold || random().is_multiple_of(WARM_INSERTION);
            self.occupy(taken.frame, *page, entry.owner().0, entry.len(), !warm);
            let Some(stored) = entry.stored() else {
                unreachable!("{page:?} is on the store alone and has no extent");
            };
            // SAFETY: `occupy` took the exclusive hold, which lasts until `publish`, and the frames
            // of the group are distinct.
            let data = unsafe { self.frames[taken.frame].bytes_mut() };
            reads.push(Read { stored, data });
        }
        let node = group.first().and_then(|taken| self.prefer(self.frames[taken.frame].tier()));
        let results = match purpose {
            Purpose::Ahead => store.read_batch_later(&mut reads),
            Purpose::Fix | Purpose::Scan => store.read_batch(&mut reads),
        };
        drop((reads, node));
        let pages = pages.iter().zip(&group).zip(results);
        pages
            .map(|((page, taken), read)| match read {
                Ok(()) => Ok(self.publish(*page, taken.frame)),
                Err(error) => {
                    self.give_room(&[taken.frame]);
                    self.vacate(taken.frame);
                    self.unclaim_page(*page);
                    Err(error.into())
                }
            })
            .collect()
    }

    /// Makes a page resident after its read and downgrades its exclusive hold to a shared one.
    fn publish(self: &Arc<Self>, page: PageId, id: FrameId) -> FrameId {
        let (entry, frame) = (&self.pages[page], &self.frames[id]);
        self.counters.loads.add(1);
        self.counters.loaded_bytes.add(frame.len() as u64);
        entry.state.step(&self.lot, PageState::Loading, PageState::Resident(id));
        // Must come after the state change: a thread that dooms the page later finds this frame.
        if entry.state.look().is_doomed() {
            frame.doom();
        }
        frame.latch.downgrade(&self.lot);
        id
    }

    /// Returns a page that could not be loaded to `Stored`, or frees it if it was doomed meanwhile.
    pub(crate) fn unclaim_page(self: &Arc<Self>, page: PageId) {
        let state = &self.pages[page].state;
        let stored = state.step(&self.lot, PageState::Loading, PageState::Stored);
        if let Some(seen) = stored.filter(|seen| seen.is_doomed()) {
            self.free_doomed(page, seen);
        }
    }
}
