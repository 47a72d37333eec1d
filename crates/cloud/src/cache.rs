//! Cache of blocks of remote files, each in a page of the pool.
//!
//! A read copies the blocks that are cached, fetches the missing ones with one request per run of
//! adjacent blocks, and waits for those that another read is fetching. When the cache is full, the
//! CLOCK algorithm (second chance) selects the blocks to drop: a block that was used since the hand
//! last passed it is kept. An observer is told of every block that is read, cached or not, and of
//! the time that servers take.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures::future::{BoxFuture, try_join_all};
use terrace_pool::{PageRef, Space};
use terrace_sys::sync::lock;
use tokio::sync::Semaphore;

use crate::error::CloudError;

/// Bytes of a block. A request to S3 takes as long as the transfer of some 2 MiB, so that blocks
/// are fetched in runs; smaller blocks would waste less at the ends of Parquet's column chunks and
/// take more memory for their keys.
pub(crate) const BLOCK_BYTES: u64 = 256 << 10;
/// Maximum number of blocks of a request, 8 MiB.
const RUN_BLOCKS: u64 = 32;
/// Number of cached blocks that a read pins at a time.
const PINS: usize = 16;

/// Counters of the cache since it was created, and its current size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Number of blocks in the cache, in memory or in slower tiers.
    pub blocks: u64,
    /// Bytes of these blocks in memory.
    pub resident_bytes: u64,
    /// Number of requested blocks that were cached.
    pub hits: u64,
    /// Number of requested blocks that were neither cached nor being fetched.
    pub misses: u64,
    /// Number of requests to servers for bytes.
    pub requests: u64,
    /// Bytes that were fetched from servers.
    pub fetched_bytes: u64,
}

/// Observer of the reads of a cache: the market decides by it how much memory the cache gets.
pub trait CacheObserver: fmt::Debug + Send + Sync {
    /// Records that a read uses a block of `bytes` bytes, cached or not. `block` identifies the
    /// block: a hash of its file's version and its index.
    fn touched(&self, block: u64, bytes: u64);

    /// Records a read that has ended: its duration, the number of blocks fetched from a server
    /// during it, and the part of its duration that fetching them took.
    fn read(&self, took: Duration, fetched_blocks: u64, fetching: Duration);
}

type Key = (Arc<str>, u64);

/// Function that fetches a byte range of a file from the server.
pub(crate) type FetchRange =
    dyn Fn(Range<u64>) -> BoxFuture<'static, Result<Bytes, CloudError>> + Send + Sync;

/// A cached block.
struct Block {
    space: Space,
    page: PageRef,
    /// True if the block was used since the hand of the clock passed it.
    is_used: AtomicBool,
}

impl Drop for Block {
    fn drop(&mut self) {
        // The page is of this space.
        let _ = self.space.free(self.page);
    }
}

enum Slot {
    /// Being fetched by a read.
    Loading(Arc<Fetch>),
    Cached(Arc<Block>),
}

/// End of a fetch, which other reads wait for.
///
/// Each fetch has one of its own: reads that waited for any fetch would wake each other again and
/// again until theirs has ended.
struct Fetch(Semaphore);

impl Fetch {
    fn new() -> Arc<Self> {
        Arc::new(Self(Semaphore::new(0)))
    }

    /// Wakes the reads that wait for the end.
    fn end(&self) {
        self.0.close();
    }

    /// Waits for the end.
    async fn ended(&self) {
        // There are no permits: the answer comes when the semaphore is closed.
        let _ = self.0.acquire().await;
    }
}

#[derive(Default)]
struct State {
    slots: HashMap<Key, Slot>,
    /// Keys of the cached blocks, the hand of the clock at the front.
    clock: VecDeque<Key>,
}

#[derive(Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
    requests: AtomicU64,
    fetched_bytes: AtomicU64,
}

/// Cache of blocks of files.
pub(crate) struct BlockCache {
    space: Space,
    blocks_max: usize,
    state: Mutex<State>,
    counts: Counts,
    observer: Option<Arc<dyn CacheObserver>>,
}

/// Guard of the blocks that a read is fetching. Dropping it releases those not cached, so that
/// other reads may fetch them, and wakes the reads that wait.
struct Claim<'a> {
    cache: &'a BlockCache,
    keys: Vec<Key>,
    fetch: Arc<Fetch>,
}

/// Blocks of a read by their state.
#[derive(Default)]
struct Found {
    cached: Vec<(u64, Arc<Block>)>,
    missing: Vec<u64>,
    /// Blocks that other reads are fetching, and these fetches without repeats.
    loading: Vec<u64>,
    fetches: Vec<Arc<Fetch>>,
}

impl BlockCache {
    /// Creates a cache of at most `capacity_bytes` in pages of `space`.
    pub(crate) fn new(
        space: Space,
        capacity_bytes: u64,
        observer: Option<Arc<dyn CacheObserver>>,
    ) -> Self {
        let blocks_max = usize::try_from(capacity_bytes / BLOCK_BYTES).unwrap_or(usize::MAX);
        let (state, counts) = Default::default();
        Self { space, blocks_max, state, counts, observer }
    }

    /// Returns the bytes of `range`, which is within the file's `len` bytes. `version` identifies
    /// the file's version in the cache; `fetch` fetches ranges that are not cached.
    pub(crate) async fn read(
        &self,
        version: &Arc<str>,
        len: u64,
        range: Range<u64>,
        fetch: &FetchRange,
    ) -> Result<Bytes, CloudError> {
        let mut out = Output::new(range.clone());
        if range.is_empty() {
            return Ok(out.bytes.freeze());
        }
        let blocks = range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES);
        self.touch(version, len, blocks.clone());
        let (began, mut fetched_blocks, mut fetching) = (Instant::now(), 0, Duration::ZERO);
        let mut wanted: Vec<u64> = blocks.collect();
        while !wanted.is_empty() {
            let (found, claim) = self.find(version, &wanted);
            let mut missing = found.missing;
            for cached in found.cached.chunks(PINS) {
                missing.extend(self.copy(cached, &mut out).await);
            }
            let started = Instant::now();
            fetched_blocks += missing.len();
            let runs = runs(&mut missing, len).into_iter();
            let fetched = runs.map(|range| async move {
                self.counts.requests.fetch_add(1, Ordering::Relaxed);
                fetch(range.clone()).await.map(|bytes| (range.start, bytes))
            });
            for (start, bytes) in try_join_all(fetched).await? {
                self.keep(version, start, &bytes);
                out.put(start, &bytes);
            }
            if !missing.is_empty() {
                fetching += started.elapsed();
            }
            // Two reads that wait for each other's blocks have fetched theirs by now.
            drop(claim);
            for fetch in found.fetches {
                fetch.ended().await;
            }
            wanted = found.loading;
        }
        if let Some(observer) = &self.observer {
            let fetched_blocks = u64::try_from(fetched_blocks).unwrap_or(u64::MAX);
            observer.read(began.elapsed(), fetched_blocks, fetching);
        }
        Ok(out.bytes.freeze())
    }

    /// Tells the observer of the blocks that a read uses.
    fn touch(&self, version: &Arc<str>, len: u64, blocks: Range<u64>) {
        let Some(observer) = &self.observer else { return };
        let mut file = DefaultHasher::new();
        version.hash(&mut file);
        for block in blocks {
            let mut number = file.clone();
            block.hash(&mut number);
            let bytes = BLOCK_BYTES.min(len.saturating_sub(block * BLOCK_BYTES));
            observer.touched(number.finish(), bytes);
        }
    }

    /// Looks up blocks, and claims those that are neither cached nor being fetched.
    fn find(&self, version: &Arc<str>, blocks: &[u64]) -> (Found, Claim<'_>) {
        let (mut found, mut keys, own) = (Found::default(), Vec::new(), Fetch::new());
        let mut state = lock(&self.state);
        for block in blocks {
            let key = (Arc::clone(version), *block);
            match state.slots.get(&key) {
                Some(Slot::Cached(cached)) => {
                    cached.is_used.store(true, Ordering::Relaxed);
                    found.cached.push((*block, Arc::clone(cached)));
                }
                Some(Slot::Loading(fetch)) => {
                    found.loading.push(*block);
                    if !found.fetches.iter().any(|known| Arc::ptr_eq(known, fetch)) {
                        found.fetches.push(Arc::clone(fetch));
                    }
                }
                None => {
                    state.slots.insert(key.clone(), Slot::Loading(Arc::clone(&own)));
                    found.missing.push(*block);
                    keys.push(key);
                }
            }
        }
        let count = |blocks: usize| u64::try_from(blocks).unwrap_or(u64::MAX);
        self.counts.hits.fetch_add(count(found.cached.len()), Ordering::Relaxed);
        self.counts.misses.fetch_add(count(found.missing.len()), Ordering::Relaxed);
        (found, Claim { cache: self, keys, fetch: own })
    }

    /// Copies cached blocks into the output; returns those that could not be read from their pages.
    async fn copy(&self, cached: &[(u64, Arc<Block>)], out: &mut Output) -> Vec<u64> {
        let pages: Vec<_> = cached.iter().map(|(_, block)| block.page).collect();
        match self.space.fetch(&pages).await {
            Ok(pinned) => {
                for ((block, _), page) in cached.iter().zip(&pinned) {
                    out.put(block * BLOCK_BYTES, page);
                }
                Vec::new()
            }
            Err(error) => {
                tracing::debug!(%error, "cached blocks are fetched from the server again");
                cached.iter().map(|(block, _)| *block).collect()
            }
        }
    }

    /// Caches the blocks of fetched bytes, which begin at `start` of the file, as far as the pool
    /// has frames.
    fn keep(&self, version: &Arc<str>, start: u64, bytes: &Bytes) {
        let count = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.counts.fetched_bytes.fetch_add(count, Ordering::Relaxed);
        if self.blocks_max == 0 {
            return;
        }
        let size = usize::try_from(BLOCK_BYTES).unwrap_or(usize::MAX);
        for (block, bytes) in (start / BLOCK_BYTES..).zip(bytes.chunks(size)) {
            self.make_room();
            let Ok((page, mut guard)) = self.space.try_allocate(bytes.len()) else { return };
            guard[..bytes.len()].copy_from_slice(bytes);
            drop(guard);
            let (space, is_used) = (self.space.clone(), AtomicBool::new(false));
            let cached = Arc::new(Block { space, page, is_used });
            let key = (Arc::clone(version), block);
            let mut state = lock(&self.state);
            state.clock.push_back(key.clone());
            let replaced = state.slots.insert(key, Slot::Cached(cached));
            drop(state);
            // A page is freed without the lock.
            drop(replaced);
        }
    }

    /// Drops blocks until there is room for one more.
    fn make_room(&self) {
        loop {
            let mut state = lock(&self.state);
            if state.clock.len() < self.blocks_max {
                return;
            }
            let Some(key) = state.clock.pop_front() else { return };
            let Some(Slot::Cached(block)) = state.slots.get(&key) else { continue };
            if block.is_used.swap(false, Ordering::Relaxed) {
                state.clock.push_back(key);
                continue;
            }
            let dropped = state.slots.remove(&key);
            drop(state);
            drop(dropped);
        }
    }

    /// Returns counts of blocks and requests.
    pub(crate) fn stats(&self) -> CacheStats {
        let blocks = lock(&self.state).clock.len();
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        CacheStats {
            blocks: u64::try_from(blocks).unwrap_or(u64::MAX),
            resident_bytes: self.space.resident_bytes(),
            hits: get(&self.counts.hits),
            misses: get(&self.counts.misses),
            requests: get(&self.counts.requests),
            fetched_bytes: get(&self.counts.fetched_bytes),
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.cache.state);
        for key in self.keys.drain(..) {
            // A block that was evicted meanwhile may be fetched by another read.
            if let Some(Slot::Loading(fetch)) = state.slots.get(&key)
                && Arc::ptr_eq(fetch, &self.fetch)
            {
                state.slots.remove(&key);
            }
        }
        drop(state);
        self.fetch.end();
    }
}

/// Bytes that a read returns.
struct Output {
    range: Range<u64>,
    bytes: BytesMut,
}

impl Output {
    fn new(range: Range<u64>) -> Self {
        let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        Self { range, bytes: BytesMut::zeroed(len) }
    }

    /// Copies those of `bytes`, which begin at `start` of the file, that belong to the range.
    fn put(&mut self, start: u64, bytes: &[u8]) {
        let end = start + u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let (from, to) = (start.max(self.range.start), end.min(self.range.end));
        if from >= to {
            return;
        }
        let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        let source = index(from - start)..index(to - start);
        let target = index(from - self.range.start)..index(to - self.range.start);
        self.bytes[target].copy_from_slice(&bytes[source]);
    }
}

/// Returns the byte ranges to request for `blocks` of a file of `len` bytes: one per run of
/// adjacent blocks, of at most `RUN_BLOCKS` each.
fn runs(blocks: &mut [u64], len: u64) -> Vec<Range<u64>> {
    blocks.sort_unstable();
    let mut runs: Vec<Range<u64>> = Vec::new();
    for block in blocks.iter() {
        match runs.last_mut() {
            Some(run) if run.end == *block && run.end - run.start < RUN_BLOCKS => run.end += 1,
            _ => runs.push(*block..block + 1),
        }
    }
    let bytes = |run: Range<u64>| run.start * BLOCK_BYTES..(run.end * BLOCK_BYTES).min(len);
    runs.into_iter().map(bytes).collect()
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockCache").field("blocks_max", &self.blocks_max).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll};

    use futures::FutureExt as _;
    use futures::task::{ArcWake, waker};
    use terrace_ledger::Ledger;
    use terrace_pool::{Pool, PoolConfig};

    use super::*;

    const LEN: u64 = 5 * BLOCK_BYTES / 2 + 7;

    fn cache(capacity_bytes: u64) -> BlockCache {
        let pool = Pool::new(PoolConfig::new("files", Ledger::new(8 << 20))).expect("a pool");
        let space = pool.create_space("files", Some(0)).expect("a space");
        BlockCache::new(space, capacity_bytes, None)
    }

    /// Numbers of blocks that were touched, and their bytes.
    type Touched = Vec<(u64, u64)>;

    /// Blocks that were touched, and reads with the blocks that they fetched.
    #[derive(Debug, Default)]
    struct Seen(Mutex<(Touched, Vec<u64>)>);

    impl CacheObserver for Seen {
        fn touched(&self, block: u64, bytes: u64) {
            lock(&self.0).0.push((block, bytes));
        }

        fn read(&self, took: Duration, fetched_blocks: u64, fetching: Duration) {
            assert!(fetching <= took);
            lock(&self.0).1.push(fetched_blocks);
        }
    }

    #[tokio::test]
    async fn an_observer_sees_the_blocks_of_all_reads() {
        let seen = Arc::new(Seen::default());
        let observer = Arc::clone(&seen);
        let cache = BlockCache { observer: Some(observer), ..cache(4 << 20) };
        for _ in 0..2 {
            check(&cache, 0..LEN).await;
        }
        let (touched, reads) = std::mem::take(&mut *lock(&seen.0));
        assert_eq!(reads, [3, 0]);
        assert_eq!(touched[..3], touched[3..], "a block keeps its number");
        let bytes: Vec<u64> = touched[..3].iter().map(|(_, bytes)| *bytes).collect();
        assert_eq!(bytes, [BLOCK_BYTES, BLOCK_BYTES, LEN - 2 * BLOCK_BYTES]);
        assert!(touched[0].0 != touched[1].0 && touched[1].0 != touched[2].0);
    }

    fn content() -> Bytes {
        (0..LEN).map(|at| u8::try_from(at * 31 % 251).expect("a byte")).collect()
    }

    fn server() -> Box<FetchRange> {
        let content = content();
        Box::new(move |range| {
            let index = |at: u64| usize::try_from(at).expect("an index");
            let bytes = content.slice(index(range.start)..index(range.end));
            async move { Ok(bytes) }.boxed()
        })
    }

    async fn check(cache: &BlockCache, range: Range<u64>) {
        let got = cache.read(&"v1".into(), LEN, range.clone(), &server()).await.expect("read");
        let index = |at: u64| usize::try_from(at).expect("an index");
        assert_eq!(got, content().slice(index(range.start)..index(range.end)), "{range:?}");
    }

    #[tokio::test]
    async fn ranges_are_fetched_once_and_read_from_pages_afterwards() {
        let cache = cache(4 << 20);
        for range in [0..LEN, 3..9, BLOCK_BYTES - 1..BLOCK_BYTES + 1, LEN - 1..LEN, 8..8] {
            check(&cache, range).await;
        }
        let stats = cache.stats();
        assert_eq!((stats.requests, stats.misses, stats.fetched_bytes), (1, 3, LEN));
        assert_eq!((stats.hits, stats.blocks), (4, 3));
        let other = cache.read(&"v2".into(), LEN, 0..9, &server()).await.expect("read");
        assert_eq!(
            (other.len(), cache.stats().requests),
            (9, 2),
            "another version is another file"
        );
    }

    #[tokio::test]
    async fn a_full_cache_drops_blocks_and_one_without_room_reads_past_it() {
        let small = cache(2 * BLOCK_BYTES);
        for _ in 0..3 {
            check(&small, 0..LEN).await;
        }
        assert!(small.stats().blocks <= 2, "{:?}", small.stats());
        let none = cache(0);
        check(&none, 0..LEN).await;
        check(&none, 5..LEN).await;
        assert_eq!((none.stats().blocks, none.stats().requests), (0, 2));
    }

    #[tokio::test]
    async fn a_failed_fetch_leaves_blocks_to_the_next_read() {
        let cache = cache(4 << 20);
        let failing: Box<FetchRange> =
            Box::new(|_| async { Err(CloudError::Missing { address: "x".into() }) }.boxed());
        cache.read(&"v1".into(), LEN, 0..9, &failing).await.expect_err("the server fails");
        check(&cache, 0..9).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn reads_at_the_same_time_fetch_each_block_once() {
        let cache = Arc::new(cache(4 << 20));
        let reads = (0..16_u64).map(|reader| {
            let cache = Arc::clone(&cache);
            tokio::spawn(async move { check(&cache, reader..LEN - reader).await })
        });
        for read in reads.collect::<Vec<_>>() {
            read.await.expect("read");
        }
        assert_eq!(cache.stats().misses, 3, "{:?}", cache.stats());
    }

    /// Counts how often a task is woken.
    #[derive(Default)]
    struct Wakes(AtomicU64);

    impl ArcWake for Wakes {
        fn wake_by_ref(this: &Arc<Self>) {
            this.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn reads_that_wait_for_a_fetch_do_not_wake_each_other() {
        let cache = cache(4 << 20);
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let (receiver, content) = (Mutex::new(Some(receiver)), content());
        let held: Box<FetchRange> = Box::new(move |_| {
            let receiver = lock(&receiver).take().expect("one request");
            let content = content.clone();
            receiver.map(move |_| Ok(content)).boxed()
        });
        let version = Arc::from("v1");
        let mut reads: Vec<_> = (0..3)
            .map(|_| (cache.read(&version, LEN, 0..LEN, &held).boxed(), Arc::<Wakes>::default()))
            .collect();
        for (read, wakes) in &mut reads {
            let waker = waker(Arc::clone(wakes));
            assert!(read.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        let count = |wakes: &Wakes| wakes.0.load(Ordering::Relaxed);
        assert!(reads.iter().all(|(_, wakes)| count(wakes) == 0), "nothing has arrived");
        sender.send(()).expect("the first read waits");
        for (read, wakes) in &mut reads {
            assert_eq!(count(wakes), 1);
            let waker = waker(Arc::clone(wakes));
            let Poll::Ready(bytes) = read.as_mut().poll(&mut Context::from_waker(&waker)) else {
                panic!("the bytes have arrived");
            };
            assert_eq!(bytes.expect("read").len(), usize::try_from(LEN).expect("a length"));
        }
    }

    #[test]
    fn runs_join_neighbours_up_to_a_limit() {
        assert_eq!(
            runs(&mut [3, 1, 0], u64::MAX),
            [0..2 * BLOCK_BYTES, 3 * BLOCK_BYTES..4 * BLOCK_BYTES]
        );
        let mut all: Vec<u64> = (0..RUN_BLOCKS + 1).collect();
        let len = RUN_BLOCKS * BLOCK_BYTES + 5;
        assert_eq!(runs(&mut all, len).last(), Some(&(RUN_BLOCKS * BLOCK_BYTES..len)));
    }
}
