//! Fairness of latches: writers beside streams of readers, and readers that hold a page twice.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::common::{KIB, MIB, config, store};
use terrace_pool::{PageRef, Pool, Space};

/// Maximum wait of a writer, on a machine that runs other work as well.
const WAIT_MAX: Duration = Duration::from_secs(2);

fn small_space() -> Space {
    let mut config = config(4 * MIB, &[], Some(store(16 * MIB)));
    config.patience = WAIT_MAX;
    let pool = Pool::new(config).expect("the pool opens");
    pool.create_space("hot", None).expect("a space")
}

fn read_again_and_again(space: &Space, mut page: PageRef, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let held = space.read(&mut page).expect("readers are served");
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(1) {
            std::hint::black_box(held[0]);
        }
    }
}

#[test]
fn readers_of_one_page_do_not_keep_a_writer_out() {
    let space = small_space();
    let (mut page, held) = space.allocate(4 * KIB).expect("room");
    drop(held);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (space, stop) = (&space, &stop);
            scope.spawn(move || read_again_and_again(space, page, stop));
        }
        let end = Instant::now() + terrace_testkit::soak_time();
        let mut failed = None;
        while failed.is_none() && Instant::now() < end {
            failed = space.write(&mut page).err();
            std::thread::sleep(Duration::from_micros(100));
        }
        stop.store(true, Ordering::Relaxed);
        assert!(failed.is_none(), "{failed:?}");
    });
}

#[test]
fn a_thread_fixes_a_page_again_that_a_writer_waits_for() {
    let space = small_space();
    let (mut page, held) = space.allocate(4 * KIB).expect("room");
    let first = held.downgrade();
    std::thread::scope(|scope| {
        let (mut wanted, space) = (page, &space);
        let writer = scope.spawn(move || space.write(&mut wanted).map(drop));
        std::thread::sleep(Duration::from_millis(5));
        let start = Instant::now();
        for _ in 0..1000 {
            let again = space.read(&mut page).expect("past the writer");
            assert_eq!(again[0], first[0]);
            let seen = space.optimistic(&mut page).expect("no hold is needed");
            assert!(seen.hold().is_some(), "no writer came between");
        }
        assert!(start.elapsed() < WAIT_MAX / 2, "took {:?}", start.elapsed());
        drop(first);
        writer.join().expect("no panic").expect("the page is free");
    });
}
