//! Stress test of any duration: several threads allocate, read, write, persist and free pages over
//! three tiers that are being resized, so that pages are evicted and loaded again, and check every
//! page against its expected contents.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use super::common::{KIB, MIB, comes_to_hold, pool, space};
use terrace_pool::{PageRef, Pool, PoolError, Space};
use terrace_testkit::{Rng, soak_time, with_seed};

const SLOTS: u64 = 1500;
const WORKERS: u64 = 3;
const LENS: [usize; 6] = [4 * KIB, 4 * KIB, 8 * KIB, 12 * KIB, 64 * KIB, 100 * KIB];

/// A page and the word that determines its expected contents.
#[derive(Clone, Copy, Debug)]
struct Known {
    page: PageRef,
    word: u64,
    len: usize,
    durable: bool,
}

type Slot = Mutex<Option<Known>>;

/// Fills a page with words that depend on their position, so that no page passes for another.
fn fill(bytes: &mut [u8], word: u64) {
    let words = bytes.chunks_exact_mut(8);
    (0..).zip(words).for_each(|(n, place)| place.copy_from_slice(&(word ^ n).to_le_bytes()));
}

fn check(bytes: &[u8], known: &Known) {
    assert_eq!(bytes.len(), known.len.next_multiple_of(4 * KIB), "{known:?}");
    for (n, place) in (0..).zip(bytes.chunks_exact(8)) {
        let found = u64::from_le_bytes(place.try_into().expect("eight bytes"));
        assert_eq!(found, known.word ^ n, "word {n} of {known:?}");
    }
}

/// Reads some words of the page optimistically.
fn check_optimistically(pages: &Space, known: &mut Known) -> bool {
    let seen = pages.optimistic(&mut known.page).expect("there");
    let words = (0..known.len / 8).step_by(97).map(|n| (n, seen.u64_at(n * 8)));
    let words: Vec<_> = words.collect();
    let valid = seen.is_valid();
    if valid {
        let right = |(n, word): &(usize, Option<u64>)| *word == Some(known.word ^ *n as u64);
        assert!(words.iter().all(right), "{known:?}: {words:?}");
    }
    valid
}

/// Kinds of steps.
#[derive(Clone, Copy)]
enum Did {
    Make,
    Look,
    Write,
    Upgrade,
    Persist,
    Free,
    Refuse,
}

const KINDS: [Did; 7] =
    [Did::Make, Did::Look, Did::Write, Did::Upgrade, Did::Persist, Did::Free, Did::Refuse];

/// State shared by all workers.
struct Churn<'a> {
    pages: &'a Space,
    slots: Vec<Slot>,
    next: AtomicU64,
    done: AtomicBool,
    done_of: [AtomicU64; KINDS.len()],
}

impl Churn<'_> {
    fn work(&self, seed: u64) {
        let mut rng = Rng::new(seed);
        while !self.done.load(Ordering::Relaxed) {
            let slot = &self.slots[usize::try_from(rng.below(SLOTS)).expect("small")];
            let mut slot = match slot.try_lock() {
                Ok(slot) => slot,
                Err(TryLockError::WouldBlock) => continue,
                Err(TryLockError::Poisoned(_)) => return,
            };
            *slot = match slot.take() {
                None => Some(self.make(&mut rng)),
                Some(known) => self.step(known, rng.below(100)),
            };
        }
    }

    /// Counts the steps of each kind, so that the test can check that every kind occurred.
    fn did(&self, what: Did) {
        self.done_of[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn word(&self) -> u64 {
        self.next.fetch_add(1 << 32, Ordering::Relaxed)
    }

    fn make(&self, rng: &mut Rng) -> Known {
        let len = LENS[usize::try_from(rng.below(LENS.len() as u64)).expect("small")];
        let word = self.word();
        let (page, mut bytes) = self.pages.allocate(len).expect("the store has room");
        assert!(bytes.iter().all(|byte| *byte == 0), "a new page is zero");
        fill(&mut bytes, word);
        self.did(Did::Make);
        Known { page, word, len, durable: false }
    }

    fn step(&self, mut known: Known, dice: u64) -> Option<Known> {
        let pages = self.pages;
        match dice {
            0..30 => check(&pages.read(&mut known.page).expect("there"), &known),
            30..50 => {
                if check_optimistically(pages, &mut known) {
                    self.did(Did::Look);
                }
            }
            50..70 => self.write(&mut known),
            70..80 => self.upgrade(&mut known),
            80..85 => pages.prefetch(&[known.page]),
            85..90 => pages.load(&mut [known.page]).expect("the store reads"),
            90..92 => {
                pages.persist(&mut [known.page]).expect("the store writes");
                known.durable = true;
                self.did(Did::Persist);
            }
            _ => {
                pages.free(known.page).expect("its own page");
                self.did(Did::Free);
                return None;
            }
        }
        Some(known)
    }

    fn write(&self, known: &mut Known) {
        match self.pages.write(&mut known.page) {
            Ok(mut bytes) => {
                check(&bytes, known);
                known.word = self.word();
                fill(&mut bytes, known.word);
                self.did(Did::Write);
            }
            Err(PoolError::Durable { .. }) => {
                assert!(known.durable);
                self.did(Did::Refuse);
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn upgrade(&self, known: &mut Known) {
        let seen = self.pages.optimistic(&mut known.page).expect("there");
        match seen.upgrade() {
            Ok(Some(mut bytes)) => {
                check(&bytes, known);
                known.word = self.word();
                fill(&mut bytes, known.word);
                self.did(Did::Upgrade);
            }
            // The page was moved or evicted meanwhile.
            Ok(None) => {}
            Err(PoolError::Durable { .. }) => assert!(known.durable),
            Err(error) => panic!("{error}"),
        }
    }

    fn done_of(&self) -> [u64; KINDS.len()] {
        self.done_of.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Resizes tiers and reclaims memory until the time is over and every kind of step has
    /// occurred. A slow machine is given a minute more for that.
    fn disturb(&self, pool: &Pool, seed: u64) {
        let _end = End(&self.done);
        let (mut rng, start) = (Rng::new(seed), Instant::now());
        let over = || {
            let spent = start.elapsed();
            spent >= soak_time() && !self.done_of().contains(&0)
                || spent >= soak_time() + Duration::from_secs(60)
        };
        while !over() {
            let tier = usize::try_from(rng.below(3)).expect("small");
            let bytes = MIB + rng.below(3 * MIB);
            pool.resize(tier, bytes).expect("pages are held for moments only");
            match rng.below(4) {
                0 => drop(pool.release(MIB)),
                1 => drop(pool.release_clean(MIB)),
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

/// Stops all workers when the disturbing thread ends, even by a panic.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn churn_over_tiers_that_change_loses_nothing() {
    with_seed(|seed| {
        let pool = pool(3 * MIB, &[MIB, 2 * MIB]);
        let pages = space(&pool);
        let churn = Churn {
            pages: &pages,
            slots: (0..SLOTS).map(|_| Mutex::default()).collect(),
            next: AtomicU64::new(1 << 32),
            done: AtomicBool::new(false),
            done_of: KINDS.map(|_| AtomicU64::new(0)),
        };
        std::thread::scope(|scope| {
            let churn = &churn;
            let workers: Vec<_> = (0..WORKERS)
                .map(|worker| scope.spawn(move || churn.work(seed ^ (worker + 1))))
                .collect();
            churn.disturb(&pool, seed);
            workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
        });
        let done = churn.done_of();
        assert!(!done.contains(&0), "some things were never done: {done:?}");
        let stats = pool.stats();
        let moved: u64 = stats.tiers.iter().map(|tier| tier.demoted).sum();
        assert!(moved > 0 && stats.loads > 0 && stats.write_backs > 0, "{stats:?}");
        for slot in churn.slots {
            let known = slot.into_inner().unwrap_or_else(PoisonError::into_inner);
            let Some(mut known) = known else { continue };
            check(&pages.read(&mut known.page).expect("there"), &known);
            pages.free(known.page).expect("its own page");
        }
        comes_to_hold(&pool, 0, 0);
    });
}
