//! Fairness: writers against streams of readers, and readers that acquire a second hold of a latch
//! for which a writer waits.

#![cfg(not(loom))]
#![allow(clippy::print_stdout, reason = "the figures of the design page")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use terrace_latch::{Latch, ParkingLot};

/// Maximum wait of a writer, on a machine that runs other work too.
const WAIT_MAX: Duration = Duration::from_secs(2);

fn soak() -> Duration {
    let seconds = std::env::var("TERRACE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(1))
}

fn spin(length: Duration) {
    let start = Instant::now();
    while start.elapsed() < length {
        std::hint::spin_loop();
    }
}

/// Returns the number of writes, and the longest wait for one, while readers acquire their next
/// hold at once.
fn write_beside(readers: usize, hold: impl Fn() + Sync) -> (u64, Duration) {
    let (latch, lot, stop) = (Latch::new(), ParkingLot::new(), AtomicBool::new(false));
    let read = || {
        while !stop.load(Ordering::Relaxed) {
            assert_eq!(latch.shared_while(&lot, None, || true), Some(true));
            hold();
            latch.release_shared(&lot);
        }
    };
    std::thread::scope(|scope| {
        (0..readers).for_each(|_| drop(scope.spawn(read)));
        let (mut writes, mut longest) = (0, Duration::ZERO);
        let end = Instant::now() + soak();
        while Instant::now() < end && longest < WAIT_MAX {
            let start = Instant::now();
            let deadline = Some(start + WAIT_MAX);
            let taken = latch.exclusive_while(&lot, deadline, || true);
            longest = longest.max(start.elapsed());
            if taken == Some(true) {
                latch.release_exclusive(&lot);
                writes += 1;
            }
        }
        stop.store(true, Ordering::Relaxed);
        (writes, longest)
    })
}

#[test]
fn a_stream_of_short_holds_lets_a_writer_in() {
    for readers in [4, 16] {
        let (writes, longest) = write_beside(readers, || spin(Duration::from_micros(1)));
        println!("{readers} readers: {writes} writes, the longest wait {longest:?}");
        assert!(longest < WAIT_MAX, "{readers} readers: a writer waited for {longest:?}");
    }
}

#[test]
fn holds_longer_than_readers_yield_at_first_let_a_writer_in() {
    let (writes, longest) = write_beside(8, || std::thread::sleep(Duration::from_millis(10)));
    println!("{writes} writes, the longest wait {longest:?}");
    assert!(longest < WAIT_MAX, "a writer waited for {longest:?}");
}

#[test]
fn a_thread_takes_a_latch_again_and_again_that_a_writer_waits_for() {
    let (latch, lot) = (Latch::new(), ParkingLot::new());
    let shared = || assert_eq!(latch.shared_while(&lot, None, || true), Some(true));
    shared();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| latch.exclusive(&lot));
        std::thread::sleep(Duration::from_millis(5));
        let start = Instant::now();
        for _ in 0..100_000 {
            shared();
            assert!(!latch.release_shared(&lot), "the first hold is there");
        }
        let took = start.elapsed();
        assert!(!writer.is_finished(), "a writer beside a hold");
        latch.release_shared(&lot);
        writer.join().expect("writer");
        latch.release_exclusive(&lot);
        println!("100,000 holds beside a writer: {took:?}");
        assert!(took < Duration::from_secs(4), "100,000 holds took {took:?}");
    });
}
