use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::*;
use crate::numa::nodes;
use crate::probe::{Probe, Support};

/// Returns a mapping of this many pages, each with its tag in its first byte.
fn filled(count: usize) -> Mapping {
    let mapping = Mapping::reserve(count * PAGE_BYTES).expect("address space");
    let _ = mapping.advise_huge(false);
    mapping.populate(0, count * PAGE_BYTES).expect("memory");
    for page in 0..count {
        // SAFETY: a byte of the mapping above, to which no other reference exists.
        unsafe { mapping.as_ptr().add(page * PAGE_BYTES).write(tag(page)) };
    }
    mapping
}

fn tag(page: usize) -> u8 {
    u8::try_from(page % 251).expect("below 251")
}

fn assert_tagged(mapping: &Mapping) {
    for page in 0..mapping.len() / PAGE_BYTES {
        // SAFETY: a byte of the mapping, which no thread writes.
        let byte = unsafe { mapping.as_ptr().add(page * PAGE_BYTES).read() };
        assert_eq!(byte, tag(page), "page {page}");
    }
}

fn offsets(pages: impl IntoIterator<Item = usize>) -> Vec<usize> {
    pages.into_iter().map(|page| page * PAGE_BYTES).collect()
}

fn last_node() -> u32 {
    nodes().last().expect("a node").id
}

/// Returns the kernel that the test lab booted (`stock`, `patched` or `checked`); `None` elsewhere.
fn lab() -> Option<String> {
    std::env::var("TERRACE_LAB").ok()
}

/// Returns the first and the last node with memory. They are the same on a machine with one node,
/// where pages move to their own node; the lab has several nodes.
fn two_nodes() -> (u32, u32) {
    let (first, last) = (nodes()[0].id, last_node());
    assert!(lab().is_none() || first != last, "the lab has several nodes");
    (first, last)
}

/// Returns a pipe that pins a page of the mapping: the kernel cannot move it until the pipe is
/// closed.
fn hold(mapping: &Mapping, offset: usize) -> [OwnedFd; 2] {
    let mut ends = [0; 2];
    // SAFETY: the call fills the array with two new descriptors, which have no other owner.
    let ends = unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        ends.map(|end| OwnedFd::from_raw_fd(end))
    };
    assert!(offset < mapping.len());
    // SAFETY: the page lies inside the mapping; the pipe refers to it and changes no byte.
    let spliced = unsafe {
        let iovec =
            libc::iovec { iov_base: mapping.as_ptr().add(offset).cast(), iov_len: PAGE_BYTES };
        libc::vmsplice(ends[1].as_raw_fd(), &raw const iovec, 1, 0)
    };
    assert_eq!(spliced, 4096, "{}", io::Error::last_os_error());
    ends
}

#[test]
fn pages_tell_their_node_and_move_to_the_one_wanted() {
    let mapping = filled(8);
    mapping.decommit(7 * PAGE_BYTES, PAGE_BYTES).expect("a page");
    let found = nodes_of(&mapping, &offsets([0, 1, 7])).expect("told");
    assert!(found[0] >= 0 && found[1] >= 0, "{found:?}");
    assert_eq!(found[2], -errno::ENOENT, "a page that has no memory");
    for node in [last_node(), nodes()[0].id] {
        let wanted = i32::try_from(node).expect("small");
        let status = move_pages(&mapping, &offsets([3, 0, 5]), node).expect("moved");
        assert_eq!(status, vec![wanted; 3]);
        assert_eq!(nodes_of(&mapping, &offsets([0, 3, 5])).expect("told"), vec![wanted; 3]);
    }
    assert_eq!(move_pages(&mapping, &offsets([7]), 0).expect("told"), [-errno::ENOENT]);
    mapping.populate(7 * PAGE_BYTES, PAGE_BYTES).expect("memory");
    // SAFETY: a byte of the mapping.
    unsafe { mapping.as_ptr().add(7 * PAGE_BYTES).write(tag(7)) };
    assert_tagged(&mapping);
}

#[test]
fn what_is_no_page_of_the_mapping_is_refused() {
    let mapping = filled(2);
    for offset in [1, PAGE_BYTES - 1, mapping.len(), usize::MAX] {
        for result in [nodes_of(&mapping, &[offset]), move_pages(&mapping, &[0, offset], 0)] {
            assert_eq!(result.expect_err("no page").kind(), io::ErrorKind::InvalidInput);
        }
    }
    assert!(move_pages(&mapping, &[0], 4711).is_err());
    assert!(move_pages(&mapping, &[0], u32::MAX).is_err());
}

#[test]
fn a_held_page_stays_and_says_where_it_is() {
    let mapping = filled(64);
    let all = offsets(0..64);
    let (from, to) = two_nodes();
    let (from_status, to_status) = (from.cast_signed(), to.cast_signed());
    assert_eq!(move_pages(&mapping, &all, from).expect("moved"), vec![from_status; 64]);
    let pipe = hold(&mapping, 40 * PAGE_BYTES);
    let status = move_pages(&mapping, &all, to).expect("moved");
    let transient = [from_status, -errno::EBUSY, -errno::EAGAIN];
    assert!(transient.contains(&status[40]), "{status:?}");
    assert_eq!(nodes_of(&mapping, &all).expect("told")[40], from_status);
    drop(pipe);
    // The kernel may have left other pages behind too; a second call moves all.
    assert_eq!(move_pages(&mapping, &all, to).expect("moved"), vec![to_status; 64]);
    assert_tagged(&mapping);
}

#[test]
fn move_pages2_moves_the_same_pages_or_says_why_it_is_missing() {
    let call = match (MovePages2::find(), Probe::detect().move_pages2) {
        (Err(why), Support::Missing(reason)) => {
            assert!(!why.is_empty() && why == reason);
            assert!(lab().is_none_or(|kernel| kernel == "stock"), "the kernel has the patch");
            return;
        }
        (Ok(call), Support::Works) => call,
        found => panic!("finding and probing differ: {found:?}"),
    };
    let (first, second) = two_nodes();
    let mapping = filled(300);
    let all = offsets((0..300).rev());
    for (mode, batch) in [
        (MigrateMode::Sync, 300),
        (MigrateMode::SyncLight, 1),
        (MigrateMode::SyncLight, 77),
        (MigrateMode::Sync, MovePages2::BATCH_MAX),
    ] {
        for node in [second, first] {
            let status = call.move_pages(&mapping, &all, node, mode, batch).expect("moved");
            assert_eq!(status, vec![node.cast_signed(); 300], "{mode:?} {batch}");
            assert_eq!(nodes_of(&mapping, &all).expect("told"), status);
        }
    }
    assert_tagged(&mapping);
}

#[test]
fn move_pages2_has_a_status_for_every_page() {
    let Ok(call) = MovePages2::find() else {
        assert!(!Probe::detect().move_pages2.works());
        return;
    };
    let (from, to) = two_nodes();
    let mapping = filled(64);
    let all = offsets(0..64);
    let light = |offsets: &[usize], node| {
        call.move_pages(&mapping, offsets, node, MigrateMode::SyncLight, 64)
    };
    assert_eq!(light(&all, from).expect("moved"), vec![from.cast_signed(); 64]);
    mapping.decommit(63 * PAGE_BYTES, PAGE_BYTES).expect("a page");
    let pipe = hold(&mapping, 40 * PAGE_BYTES);
    let status = light(&all, to).expect("moved");
    let mut wanted = vec![to.cast_signed(); 64];
    wanted[40] = from.cast_signed();
    wanted[63] = -errno::ENOENT;
    assert_eq!(status, wanted, "the held page stays and keeps no other from moving");
    drop(pipe);
    assert_eq!(light(&offsets([40]), to).expect("moved"), [to.cast_signed()]);
    assert_eq!(light(&offsets([1, 2]), 4711).expect("told"), vec![-libc::ENODEV; 2]);
    assert_eq!(light(&[], to).expect("nothing"), [0; 0]);
    assert!(light(&[1], to).is_err());
    for batch in [0, MovePages2::BATCH_MAX + 1, usize::MAX] {
        assert!(call.move_pages(&mapping, &[0], to, MigrateMode::Async, batch).is_err());
    }
}

/// Increments the first word of every page until stopped. Returns the number of rounds.
fn count_up(mapping: &Mapping, stop: &AtomicBool) -> u64 {
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) {
        for page in 0..mapping.len() / PAGE_BYTES {
            word(mapping, page).fetch_add(1, Ordering::Relaxed);
        }
        rounds += 1;
    }
    rounds
}

fn word(mapping: &Mapping, page: usize) -> &AtomicU64 {
    assert!(page < mapping.len() / PAGE_BYTES);
    // SAFETY: the first word of a page of the mapping, aligned, and borrowed as the mapping is.
    unsafe { AtomicU64::from_ptr(mapping.as_ptr().add(page * PAGE_BYTES).cast()) }
}

#[test]
fn no_write_is_lost_while_pages_move() {
    const PAGES: usize = 256;
    let mapping = Mapping::reserve(PAGES * PAGE_BYTES).expect("address space");
    let _ = mapping.advise_huge(false);
    mapping.populate(0, PAGES * PAGE_BYTES).expect("memory");
    let all = offsets(0..PAGES);
    let (first, second) = two_nodes();
    let (patched, light) = (MovePages2::find(), MigrateMode::SyncLight);
    let stop = AtomicBool::new(false);
    let (rounds, moved) = std::thread::scope(|scope| {
        let writers = [0; 2].map(|_| scope.spawn(|| count_up(&mapping, &stop)));
        let start = Instant::now();
        let mut moved = 0;
        while start.elapsed() < Duration::from_millis(300) {
            for (at, node) in [second, first, second, first].into_iter().enumerate() {
                let status = match &patched {
                    Ok(call) if at < 2 => call.move_pages(&mapping, &all, node, light, 64),
                    _ => move_pages(&mapping, &all, node),
                };
                let status = status.expect("a node");
                moved += status.iter().filter(|status| **status == node.cast_signed()).count();
            }
        }
        stop.store(true, Ordering::Relaxed);
        (writers.map(|writer| writer.join().expect("counts")).iter().sum::<u64>(), moved)
    });
    assert!(rounds > 0 && moved > 0, "{rounds} rounds, {moved} moves");
    for page in 0..PAGES {
        assert_eq!(word(&mapping, page).load(Ordering::Relaxed), rounds, "page {page}");
    }
}

#[test]
fn the_number_is_read_and_never_assumed() {
    assert_eq!(parse_entry("548\t1\n"), Ok(548));
    assert_eq!(parse_entry("600 1 7"), Ok(600));
    for (text, part) in [
        ("462 1", "no number"),
        ("-1 1", "no number"),
        ("548 2", "version 2"),
        ("548", "no number and version"),
        ("", "no number and version"),
        ("a b", "no number and version"),
    ] {
        let error = parse_entry(text).expect_err(text);
        assert!(error.contains(part), "{text}: {error}");
    }
}
