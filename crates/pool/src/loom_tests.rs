//! Loom model of a page's state word: explores every interleaving.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p terrace-pool --release --lib loom_tests`

use loom::sync::Arc;
use loom::thread;
use terrace_latch::ParkingLot;

use crate::page::FrameId;
use crate::state::{PageState, StateWord};

#[test]
fn one_of_two_loads_and_the_other_wakes() {
    loom::model(|| {
        let page = Arc::new((StateWord::new(), ParkingLot::new()));
        assert!(page.0.step(&page.1, PageState::Free, PageState::Stored).is_some());
        let there = PageState::Resident(FrameId(7));
        let fix = move |page: &(StateWord, ParkingLot)| {
            let loads = page.0.step(&page.1, PageState::Stored, PageState::Loading).is_some();
            if loads {
                assert!(page.0.step(&page.1, PageState::Loading, there).is_some());
            }
            assert_eq!(page.0.loaded(&page.1, None), Some(there));
            loads
        };
        let other = Arc::clone(&page);
        let thread = thread::spawn(move || fix(&other));
        let mine = fix(&page);
        assert!(mine ^ thread.join().expect("other"), "exactly one loads");
    });
}

#[test]
fn a_failed_load_lets_the_waiter_try() {
    loom::model(|| {
        let page = Arc::new((StateWord::new(), ParkingLot::new()));
        assert!(page.0.step(&page.1, PageState::Free, PageState::Stored).is_some());
        assert!(page.0.step(&page.1, PageState::Stored, PageState::Loading).is_some());
        let other = Arc::clone(&page);
        let waiter = thread::spawn(move || {
            assert_eq!(other.0.loaded(&other.1, None), Some(PageState::Stored));
            assert!(other.0.step(&other.1, PageState::Stored, PageState::Loading).is_some());
        });
        assert!(page.0.step(&page.1, PageState::Loading, PageState::Stored).is_some());
        waiter.join().expect("waiter");
        assert_eq!(page.0.get(), PageState::Loading);
    });
}

/// An evictor finds that its page is doomed, while another thread dooms the page, frees it and
/// creates the next page with the same id (ABA).
#[test]
fn who_frees_a_page_leaves_the_next_of_its_id_alone() {
    loom::model(|| {
        let page = Arc::new((StateWord::new(), ParkingLot::new()));
        let there = PageState::Resident(FrameId(7));
        assert!(page.0.step(&page.1, PageState::Free, there).is_some());
        let other = Arc::clone(&page);
        let evictor = thread::spawn(move || {
            let seen = other.0.step(&other.1, there, PageState::Stored).expect("held");
            seen.is_doomed() && other.0.end(&other.1, seen)
        });
        let mut seen = page.0.doom().expect("a page");
        if seen.state() != PageState::Stored {
            seen = page.0.look();
        }
        let mine = seen.state() == PageState::Stored && page.0.end(&page.1, seen);
        let adopted = mine && page.0.step(&page.1, PageState::Free, PageState::Stored).is_some();
        let theirs = evictor.join().expect("evictor");
        assert!(mine ^ theirs, "freed by doomer: {mine}, by evictor: {theirs}");
        let left = if adopted { PageState::Stored } else { PageState::Free };
        assert_eq!(page.0.get(), left);
    });
}
