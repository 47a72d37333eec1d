use std::io::Write as _;
use std::sync::atomic::{AtomicU8, Ordering};

use super::*;

/// Reads back the bytes by moving their pages into memory that may be touched.
#[test]
fn pages_are_copied_and_moved() {
    const LEN: usize = 4 * PAGE_BYTES;
    if !has_moves("userfault::pages_are_copied_and_moved") {
        return;
    }
    let mut filled = FilledPages::reserve(LEN).expect("memory");
    filled.copy_in(0, &[7; PAGE_BYTES]).expect("copied");
    assert!(filled.copy_in(0, &[8; PAGE_BYTES]).is_err(), "it is filled already");
    let mut pages = Pages::reserve(LEN, None, false).expect("memory");
    pages.bytes_mut()[..2 * PAGE_BYTES].fill(9);
    filled.move_in(2 * PAGE_BYTES, &mut pages, 0, 2 * PAGE_BYTES).expect("moved");
    assert!(pages.bytes().iter().all(|byte| *byte == 0), "the pages are gone");
    let mut untouched = Pages::reserve(PAGE_BYTES, None, false).expect("memory");
    assert!(filled.move_in(PAGE_BYTES, &mut untouched, 0, PAGE_BYTES).is_err());
    let mut other = FilledPages::reserve(LEN).expect("as before");
    other.move_from(PAGE_BYTES, &mut filled, 0, PAGE_BYTES).expect("moved");
    other.move_from(2 * PAGE_BYTES, &mut filled, 2 * PAGE_BYTES, PAGE_BYTES).expect("moved");
    assert!(filled.copy_in(0, &[1; PAGE_BYTES]).is_ok(), "its page has gone");
    // SAFETY: the pages at 1 and 2 were just moved there, and no other reference to them exists.
    let moved = unsafe {
        let start = other.mapping.as_ptr().add(PAGE_BYTES);
        std::slice::from_raw_parts(start, 2 * PAGE_BYTES)
    };
    assert!(moved[..PAGE_BYTES].iter().all(|byte| *byte == 7));
    assert!(moved[PAGE_BYTES..].iter().all(|byte| *byte == 9));
    for (offset, len) in [(1, PAGE_BYTES), (0, 1), (LEN, PAGE_BYTES), (0, usize::MAX)] {
        assert!(other.move_from(offset, &mut filled, 0, len).is_err(), "{offset} {len}");
    }
}

/// True if userfaultfd can move pages. Else reports the skip past the harness's capture of output.
fn has_moves(test: &str) -> bool {
    let found = Userfault::open().map(|fault| fault.features());
    let has = found.as_ref().is_ok_and(|features| features.moves);
    if !has {
        let told = writeln!(io::stderr(), "SKIPPED {test}: no userfaultfd with move: {found:?}");
        drop(told);
    }
    has
}

/// Reads a byte of a mapping as any thread would.
fn byte(mapping: &Mapping, offset: usize) -> u8 {
    assert!(offset < mapping.len());
    // SAFETY: inside the mapping; other threads of these tests access it atomically too.
    unsafe { AtomicU8::from_ptr(mapping.as_ptr().add(offset)) }.load(Ordering::Relaxed)
}

/// Waits for the next fault, resolves it by `answer`, and returns it.
fn serve(fault: &Userfault, answer: impl Fn(&Fault)) -> Fault {
    let mut faults = Vec::new();
    while faults.is_empty() {
        fault.read(&mut faults).expect("readable");
        std::thread::yield_now();
    }
    answer(&faults[0]);
    faults[0]
}

/// Pages that have moved already count as moved. Linux 6.18 occasionally moves pages in the middle
/// of a range and then reports that their destination is filled.
#[test]
fn pages_that_moved_before_are_moved() {
    if !has_moves("userfault::pages_that_moved_before_are_moved") {
        return;
    }
    const PAGES: usize = 8;
    const LEN: usize = PAGES * PAGE_BYTES;
    let fault = Userfault::open().expect("as before");
    let mapping = Mapping::reserve(LEN).expect("memory");
    fault.register(&mapping, 0, LEN, false).expect("registered");
    let mut staged = Pages::reserve(LEN, None, false).expect("memory");
    (0..LEN).for_each(|at| staged.bytes_mut()[at] = at.to_le_bytes()[1]);
    let move_alone = |first: usize, count: usize| {
        let (at, len) = (first * PAGE_BYTES, count * PAGE_BYTES);
        fault.move_pages((&mapping, at), (staged.mapping(), at), len, false).expect("moved");
    };
    move_alone(3, 2);
    move_alone(PAGES - 1, 1);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| byte(&mapping, PAGE_BYTES + 1));
        serve(&fault, |_| {
            // The kernel does not count this page when all are moved, and wakes no thread for it.
            move_alone(1, 1);
            let from = (staged.mapping(), 0);
            fault.move_pages((&mapping, 0), from, LEN, true).expect("all of them");
        });
        assert_eq!(waiting.join().expect("woken"), 16);
    });
    assert!((0..LEN).all(|at| byte(&mapping, at) == at.to_le_bytes()[1]));

    // A destination that was filled otherwise is still an error.
    let other = Mapping::reserve(LEN).expect("memory");
    fault.register(&other, 0, LEN, false).expect("registered");
    fault.zero(&other, 5 * PAGE_BYTES, PAGE_BYTES).expect("filled");
    let mut staged = staged;
    staged.bytes_mut().fill(1);
    let from = (staged.mapping(), 0);
    let error = fault.move_pages((&other, 0), from, LEN, false).expect_err("one is there");
    assert_eq!((error.done, error.error.raw_os_error()), (5 * PAGE_BYTES, Some(libc::EEXIST)));
    assert!(staged.bytes()[5 * PAGE_BYTES..].iter().all(|byte| *byte == 1), "the rest stays");
}

#[test]
fn who_faults_waits_for_the_answer() {
    if !has_moves("userfault::who_faults_waits_for_the_answer") {
        return;
    }
    const PAGES: usize = 4;
    let fault = Userfault::open().expect("as before");
    let mapping = Mapping::reserve(PAGES * PAGE_BYTES).expect("memory");
    fault.register(&mapping, 0, mapping.len(), true).expect("registered");
    let mut staged = Pages::reserve(PAGE_BYTES, None, false).expect("memory");
    staged.bytes_mut().fill(5);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| [0, 1, 2].map(|page| byte(&mapping, page * PAGE_BYTES)));
        let at = |fault: &Fault| fault.address - mapping.as_ptr().addr();
        let first = serve(&fault, |told| {
            fault.copy_in(&mapping, at(told), &[3; PAGE_BYTES], true).expect("copied");
        });
        assert!(at(&first) == 0 && !first.write && !first.protected);
        serve(&fault, |told| {
            let from = (staged.mapping(), 0);
            fault.move_pages((&mapping, at(told)), from, PAGE_BYTES, true).expect("moved");
        });
        serve(&fault, |told| fault.zero(&mapping, at(told), PAGE_BYTES).expect("zeroed"));
        assert_eq!(reader.join().expect("read"), [3, 5, 0]);
        let writer = scope.spawn(|| {
            // SAFETY: as in `byte`.
            unsafe { AtomicU8::from_ptr(mapping.as_ptr()) }.store(9, Ordering::Relaxed);
        });
        let second = serve(&fault, |told| {
            fault.protect(&mapping, at(told), PAGE_BYTES, false).expect("allowed");
        });
        assert!(second.write && second.protected);
        writer.join().expect("written");
        assert_eq!(byte(&mapping, 0), 9);
    });
    let twice = fault.copy_in(&mapping, 0, &[0; PAGE_BYTES], false).expect_err("it is there");
    assert_eq!(twice.error.raw_os_error(), Some(libc::EEXIST));
    fault.wake(&mapping, 0, PAGE_BYTES).expect("no thread waits");
    assert!(fault.poison(&mapping, PAGE_BYTES, PAGE_BYTES).is_err(), "a page is there");
    fault.poison(&mapping, 3 * PAGE_BYTES, PAGE_BYTES).expect("poisoned");
    assert!(fault.wake(&mapping, 1, PAGE_BYTES).is_err());
}
