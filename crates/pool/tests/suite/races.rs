//! Races between calls: on ids that are reused (ABA), on pages that two calls persist, on a fetch
//! whose waker drops it.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use super::common::{KIB, MIB, comes_to_hold, config, pool, space, stamp};
use terrace_pool::{Fetch, PageRef, Pool, PoolError, Space};
use terrace_store::{MemoryBlocks, Store};
use terrace_testkit::{Fault, FaultyBlocks, Rng, Target, When};

/// Runs `work` on its own thread and fails if it does not end within the time: a test that hangs
/// reports nothing.
fn ends<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        // The receiver is gone if the time is over.
        let _ = send.send(work());
    });
    match receive.recv_timeout(Duration::from_secs(20)) {
        Ok(value) => value,
        Err(_) => panic!("{what} did not end"),
    }
}

/// A pool of 4 MiB over a store whose writes take `delay`.
fn slow_pool(delay: Duration) -> (Pool, Space) {
    let blocks = Arc::new(FaultyBlocks::new(Arc::new(MemoryBlocks::new(64 * MIB)), 1));
    blocks.inject(Target::Write, When::Always, Fault::Delay(delay));
    let store = Store::open(blocks, "slow", 64 * MIB).expect("opens");
    let pool = Pool::new(config(4 * MIB, &[], Some(Arc::new(store)))).expect("opens");
    let space = space(&pool);
    (pool, space)
}

/// Threads allocate, evict and free pages of all sizes under few ids: each must find its own bytes.
#[test]
fn freeing_a_page_leaves_the_next_of_its_id_alone() {
    let pool = pool(4 * MIB, &[MIB]);
    let space = space(&pool);
    let end = Instant::now() + terrace_testkit::soak_time();
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let (space, pool) = (&space, &pool);
            scope.spawn(move || make_and_free(pool, space, Rng::new(thread), end));
        }
    });
    comes_to_hold(&pool, 0, 0);
}

fn make_and_free(pool: &Pool, space: &Space, mut rng: Rng, end: Instant) {
    let mut mine: Vec<(PageRef, u8)> = Vec::new();
    while Instant::now() < end {
        let len = (4 * KIB) << rng.index(4);
        let (mut page, mut bytes) = space.allocate(len).expect("room");
        let byte = stamp(rng.index(1000), 0);
        bytes.fill(byte);
        drop(bytes);
        if rng.one_in(16) {
            let stored = space.persist(std::slice::from_mut(&mut page)).expect("written");
            assert_eq!(stored.len(), 1);
        }
        mine.push((page, byte));
        if rng.one_in(64) {
            pool.release(MIB);
        }
        if mine.len() > rng.index(8) {
            let (mut page, byte) = mine.swap_remove(rng.index(mine.len()));
            let bytes = space.read(&mut page).expect("this thread alone frees it");
            assert!(bytes.iter().all(|found| *found == byte), "{page:?} has other bytes");
            // Randomly releases the last hold before or after the page is doomed.
            if rng.one_in(2) {
                drop(bytes);
                space.free(page).expect("its own page");
            } else {
                space.free(page).expect("its own page");
                drop(bytes);
            }
        }
    }
    mine.into_iter().for_each(|(page, _)| space.free(page).expect("its own page"));
}

#[test]
fn a_page_named_twice_is_persisted_once() {
    let stored = ends("persisting one page twice", || {
        let (_pool, space) = slow_pool(Duration::ZERO);
        let (page, bytes) = space.allocate(64 * KIB).expect("room");
        drop(bytes);
        let (other, bytes) = space.allocate(64 * KIB).expect("room");
        drop(bytes);
        space.persist(&mut [page, other, page]).expect("the store writes")
    });
    assert_eq!(stored.len(), 3);
    assert_eq!(stored[0], stored[2]);
    assert_ne!(stored[0].extent, stored[1].extent);
}

#[test]
fn two_may_persist_the_same_pages_in_any_order() {
    ends("persisting in two orders", || {
        let (_pool, space) = slow_pool(Duration::from_millis(1));
        for _ in 0..100 {
            let pages: Vec<_> = (0..4).map(|_| space.allocate(4 * KIB).expect("room").0).collect();
            let backwards: Vec<_> = pages.iter().rev().copied().collect();
            let persist = |mut pages: Vec<PageRef>| space.persist(&mut pages).expect("written");
            std::thread::scope(|scope| {
                let there = scope.spawn(|| persist(pages.clone()));
                let back = scope.spawn(|| persist(backwards.clone()));
                let mut back = back.join().expect("no panic");
                back.reverse();
                assert_eq!(there.join().expect("no panic"), back);
            });
            pages.into_iter().for_each(|page| space.free(page).expect("its own page"));
        }
    });
}

/// A writer changes a page that is on the store only, while it becomes durable.
#[test]
fn what_persist_names_stays_what_it_was() {
    let (pool, space) = slow_pool(Duration::from_millis(60));
    let (evicted, mut bytes) = space.allocate(64 * KIB).expect("room");
    bytes.fill(1);
    drop(bytes);
    pool.release(u64::MAX);
    assert_eq!(space.tier_of(evicted), None, "it is on the store alone");
    let (dirty, bytes) = space.allocate(64 * KIB).expect("room");
    drop(bytes);
    let (stored, byte) = std::thread::scope(|scope| {
        let persister = scope.spawn(|| space.persist(&mut [evicted, dirty]).expect("written"));
        std::thread::sleep(Duration::from_millis(20));
        let byte = match space.write(&mut PageRef::from_bits(evicted.to_bits())) {
            // On a busy machine the writer may be first.
            Ok(mut bytes) => {
                bytes.fill(2);
                2
            }
            Err(error) => {
                assert!(matches!(error, PoolError::Durable { .. }), "{error}");
                1
            }
        };
        (persister.join().expect("no panic"), byte)
    });
    pool.release(u64::MAX);
    let reopened = super::common::space(&pool);
    let mut page = reopened.adopt(stored[0]).expect("the extent is a page");
    let bytes = reopened.read(&mut page).expect("the bytes are those of the checksum");
    assert!(bytes.iter().all(|found| *found == byte));
    drop(bytes);
    drop(space);
}

/// Drops the fetch that it wakes, as an executor does with a task that was cancelled.
struct Cancel(Mutex<Option<Pin<Box<Fetch>>>>, AtomicBool);

impl Wake for Cancel {
    fn wake(self: Arc<Self>) {
        let fetch = self.0.lock().expect("no panic").take();
        drop(fetch);
        self.1.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_waker_may_drop_the_fetch() {
    ends("a fetch dropped by its waker", || {
        let (pool, space) = slow_pool(Duration::ZERO);
        let (page, bytes) = space.allocate(256 * KIB).expect("room");
        drop(bytes);
        for _ in 0..50 {
            pool.release(u64::MAX);
            let cancel = Arc::new(Cancel(Mutex::default(), AtomicBool::new(false)));
            let waker = Waker::from(Arc::clone(&cancel));
            let mut slot = cancel.0.lock().expect("no panic");
            let mut fetch = Box::pin(space.fetch(&[page]));
            let polled = fetch.as_mut().poll_once(&waker);
            *slot = Some(fetch);
            drop(slot);
            while polled.is_pending() && !cancel.1.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        }
    });
}

trait PollOnce: Future {
    fn poll_once(self: Pin<&mut Self>, waker: &Waker) -> Poll<Self::Output> {
        pin!(self).as_mut().poll(&mut Context::from_waker(waker))
    }
}

impl PollOnce for Fetch {}
