use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::*;

#[test]
fn holds_exclude_each_other() {
    let (latch, lot) = (Latch::new(), ParkingLot::new());
    assert!(latch.try_shared() && latch.try_shared());
    assert!(!latch.try_exclusive() && !latch.try_upgrade());
    assert!(!latch.release_shared(&lot));
    assert!(latch.try_upgrade() && !latch.try_shared());
    latch.downgrade(&lot);
    assert!(latch.try_shared());
    assert!(!latch.release_shared(&lot) && latch.release_shared(&lot));
    assert!(latch.try_exclusive() && latch.is_held());
    latch.release_exclusive(&lot);
    assert!(!latch.is_held());
}

#[test]
fn versions_tell_writers_only() {
    let (latch, lot) = (Latch::new(), ParkingLot::new());
    let seen = latch.version().expect("no writer");
    assert!(latch.try_shared());
    latch.release_shared(&lot);
    assert!(latch.is_still(seen));
    assert!(latch.try_exclusive());
    assert!(latch.version().is_none() && !latch.is_still(seen));
    latch.release_exclusive(&lot);
    assert!(!latch.is_still(seen));
}

#[test]
fn a_deadline_ends_the_wait() {
    let (latch, lot) = (Latch::new(), ParkingLot::new());
    assert!(latch.try_exclusive());
    let soon = Instant::now() + Duration::from_millis(5);
    assert_eq!(latch.shared_while(&lot, Some(soon), || true), None);
    latch.release_exclusive(&lot);
    let taken = latch.shared_while(&lot, Some(soon), || true);
    assert_eq!(taken, Some(true), "an open latch is taken whatever the clock says");
}

#[test]
fn no_thread_waits_for_the_next_holder_of_a_frame_whose_page_left() {
    for _ in 0..200 {
        let (latch, lot) = (Latch::new(), ParkingLot::new());
        let here = AtomicBool::new(true);
        assert!(latch.try_exclusive());
        let late = Instant::now() + Duration::from_secs(10);
        let wait = || latch.exclusive_while(&lot, Some(late), || here.load(Ordering::SeqCst));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(wait);
            std::thread::sleep(Duration::from_micros(200));
            here.store(false, Ordering::SeqCst);
            latch.release_exclusive(&lot);
            // Usually acquired before the waiter wakes, which must not wait for this hold.
            let next = latch.try_exclusive();
            let taken = waiter.join().expect("no panic");
            assert_eq!(taken, Some(!next));
        });
    }
}

#[test]
fn the_shared_count_has_a_limit() {
    let (latch, lot) = (Latch::new(), ParkingLot::new());
    for _ in 0..SHARED_MASK {
        assert!(latch.try_shared());
    }
    assert!(!latch.try_shared(), "a full count must not run into the exclusive bit");
    let late = Instant::now() + Duration::from_secs(5);
    let wait = || latch.shared_while(&lot, Some(late), || true);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(wait);
        std::thread::sleep(Duration::from_millis(5));
        latch.release_shared(&lot);
        assert_eq!(waiter.join().expect("no panic"), Some(true), "one hold gone is enough");
    });
    assert!(Instant::now() < late);
    for _ in 0..SHARED_MASK {
        latch.release_shared(&lot);
    }
    assert!(latch.try_exclusive());
}
