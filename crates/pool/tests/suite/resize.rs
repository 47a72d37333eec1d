//! Resizing of tiers while their pages are used.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::common::{KIB, MIB, config, pool, space, stamp, store};
use terrace_pool::{PageRef, Pool, PoolError, Space};
use terrace_testkit::Rng;

const PAGES: usize = 1024;

/// Allocates pages of 4 to 16 KiB, each filled with its stamp.
fn filled(pages: &Space) -> Vec<PageRef> {
    let fill = |n: usize| {
        let (page, mut bytes) = pages.allocate((1 + n % 4) * 4 * KIB).expect("room");
        bytes.fill(stamp(n, 0));
        page
    };
    (0..PAGES).map(fill).collect()
}

/// Reads and rewrites random pages until `stop` is set. Returns the number of operations.
fn churn(pages: &Space, refs: &[PageRef], seed: u64, stop: &AtomicBool) -> usize {
    let (mut rng, mut refs, mut done) = (Rng::new(seed), refs.to_vec(), 0);
    while !stop.load(Ordering::Relaxed) {
        let n = usize::try_from(rng.below(PAGES as u64)).expect("small");
        if n % 3 == 0 {
            pages.write(&mut refs[n]).expect("there").fill(stamp(n, 0));
        } else {
            let bytes = pages.read(&mut refs[n]).expect("there");
            assert!(bytes.iter().all(|byte| *byte == stamp(n, 0)), "page {n} lost its bytes");
        }
        done += 1;
    }
    done
}

#[test]
fn tiers_shrink_to_a_quarter_and_grow_back_while_pages_are_used() {
    let pool = pool(4 * MIB, &[4 * MIB]);
    let pages = space(&pool);
    let refs = filled(&pages);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|seed| {
                scope.spawn({
                    let (pages, refs, stop) = (&pages, &refs, &stop);
                    move || churn(pages, refs, seed, stop)
                })
            })
            .collect();
        for (tier, bytes) in [(0, MIB), (1, MIB), (0, 4 * MIB), (1, 4 * MIB), (0, 6 * MIB)] {
            pool.resize(tier, bytes).expect("resized");
            let stats = pool.stats();
            assert_eq!(stats.tiers[tier].capacity_bytes, bytes);
            assert!(stats.tiers[tier].used_bytes <= bytes, "{stats:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
        stop.store(true, Ordering::Relaxed);
        assert!(workers.into_iter().all(|worker| worker.join().expect("no panic") > 0));
    });
    let end = Instant::now() + Duration::from_secs(5);
    while pool.stats().tiers[0].page_bytes < 5 * MIB && Instant::now() < end {
        churn_once(&pages, &refs);
    }
    assert!(pool.stats().tiers[0].page_bytes >= 5 * MIB, "the room that came is used");
}

fn churn_once(pages: &Space, refs: &[PageRef]) {
    for (n, page) in refs.iter().enumerate() {
        assert_eq!(pages.read(&mut page.without_hint()).expect("there")[0], stamp(n, 0));
    }
}

#[test]
fn what_is_held_keeps_a_tier_from_shrinking() {
    let mut config = config(2 * MIB, &[], Some(store(64 * MIB)));
    config.patience = Duration::from_millis(700);
    let pool = Pool::new(config).expect("opens");
    let pages = space(&pool);
    let pins: Vec<_> =
        (0..6).map(|_| pages.allocate(256 * KIB).expect("room").1.downgrade().pin()).collect();
    let refused = pool.resize(0, MIB).expect_err("held");
    assert!(matches!(refused, PoolError::Resize { .. }), "{refused}");
    assert!(refused.to_string().contains("dram did not shrink to 1MiB"), "{refused}");
    assert!(pool.stats().tiers[0].capacity_bytes >= MIB + 512 * KIB as u64);
    drop(pins);
    pool.resize(0, MIB).expect("no page is held");
    assert_eq!(pool.stats().tiers[0].capacity_bytes, MIB);
}

#[test]
fn a_tier_gives_up_what_was_asked_for_and_little_more() {
    let config = config(16 * MIB, &[16 * MIB], Some(store(64 * MIB)));
    let pool = Pool::new(config).expect("opens");
    let pages = space(&pool);
    let mut refs: Vec<_> = (0..3000).map(|_| pages.allocate(4 * KIB).expect("room").0).collect();
    pages.persist(&mut refs).expect("written");
    let before = pool.stats().tiers[0].used_bytes;
    let given = pool.release_clean(MIB);
    let left = before - pool.stats().tiers[0].used_bytes;
    assert!((MIB..2 * MIB).contains(&given) && (MIB..2 * MIB).contains(&left), "{given} {left}");
    pool.resize(0, 14 * MIB).expect("no page is held");
    assert!(pool.stats().tiers[0].used_bytes >= 8 * MIB, "{:?}", pool.stats());
}

#[test]
fn a_long_page_keeps_dram_from_shrinking_below_it() {
    let pool = pool(8 * MIB, &[]);
    let pages = space(&pool);
    let mut page = pages.allocate(2 * 1024 * KIB).expect("room").0;
    let refused = pool.resize(0, MIB).expect_err("the page would find no frame").to_string();
    assert!(refused.contains("2MiB at least"), "{refused}");
    pool.resize(0, 2 * MIB).expect("it may leave");
    assert!(pages.read(&mut page).is_ok());
}

#[test]
fn sizes_that_cannot_be_say_why() {
    let mut config = config(4 * MIB, &[MIB], Some(store(64 * MIB)));
    (config.floor_bytes, config.growth) = (2 * MIB, 2);
    let pool = Pool::new(config).expect("opens");
    let why = |tier, bytes| pool.resize(tier, bytes).expect_err("refused").to_string();
    assert!(why(0, MIB).contains("2MiB at least"), "{}", why(0, MIB));
    assert!(why(0, 9 * MIB).contains("set up for 8MiB"), "{}", why(0, 9 * MIB));
    assert!(why(2, MIB).contains("dram, emu"), "{}", why(2, MIB));
    assert_eq!(pool.stats().tiers[0].capacity_bytes, 4 * MIB);
    pool.resize(1, 2 * MIB).expect("grown");
}
