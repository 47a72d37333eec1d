use std::collections::HashMap;

use terrace_sys::map::HUGE_PAGE_BYTES;
use terrace_sys::probe::Probe;

use super::*;

const HERE: u32 = 0;
const THERE: u32 = 1;
const BUSY: i32 = -errno::EBUSY;

/// Fake kernel: pages on nodes, some of which refuse to move for some calls.
#[derive(Default)]
struct Script {
    nodes: HashMap<usize, u32>,
    /// Number of refusals of a page, with the status reported; `None` reports the page's node.
    refusals: HashMap<usize, (u32, Option<i32>)>,
    calls: Vec<(Vec<usize>, u32)>,
    waited: Duration,
}

const PAGE: usize = PAGE_BYTES;

impl Script {
    fn with(pages: usize) -> Script {
        Script { nodes: (0..pages).map(|page| (page * PAGE, HERE)).collect(), ..Script::default() }
    }

    fn refuse(mut self, page: usize, times: u32, status: Option<i32>) -> Script {
        self.refusals.insert(page * PAGE, (times, status));
        self
    }

    fn node(&self, offset: usize) -> i32 {
        self.nodes.get(&offset).map_or(-errno::ENOENT, |node| node.cast_signed())
    }

    fn on(&self, node: u32) -> usize {
        self.nodes.values().filter(|on| **on == node).count()
    }
}

impl Kernel for Script {
    fn len(&self) -> usize {
        64 * PAGE
    }

    fn move_to(&mut self, offsets: &[usize], node: u32) -> Vec<i32> {
        self.calls.push((offsets.to_vec(), node));
        let mut status = Vec::new();
        for offset in offsets {
            match self.refusals.get_mut(offset) {
                Some((times, refusal)) if *times > 0 => {
                    *times -= 1;
                    let refusal = *refusal;
                    status.push(refusal.unwrap_or_else(|| self.node(*offset)));
                }
                _ => {
                    self.nodes.entry(*offset).and_modify(|on| *on = node);
                    status.push(self.node(*offset));
                }
            }
        }
        status
    }

    fn nodes_of(&mut self, offsets: &[usize]) -> Vec<i32> {
        offsets.iter().map(|offset| self.node(*offset)).collect()
    }

    fn wait(&mut self, time: Duration) {
        self.waited += time;
    }
}

/// Eight pages of four kernel pages each.
fn eight() -> Vec<(usize, usize)> {
    (0..8).map(|page| (page * 4 * PAGE, 4 * PAGE)).collect()
}

#[test]
fn what_refuses_for_a_moment_is_tried_again_alone() {
    for refusal in [None, Some(BUSY), Some(-errno::EAGAIN)] {
        let mut kernel = Script::with(32).refuse(5, 2, refusal).refuse(31, 1, refusal);
        assert_eq!(migrate(&mut kernel, &eight(), THERE), [Outcome::Moved; 8]);
        assert_eq!(kernel.on(THERE), 32);
        assert_eq!(kernel.calls[1], (vec![5 * PAGE, 31 * PAGE], THERE));
        assert_eq!(kernel.calls[2], (vec![5 * PAGE], THERE));
        assert_eq!(kernel.calls.len(), 3);
    }
}

#[test]
fn what_refuses_for_good_is_given_up_after_a_bounded_time() {
    let mut kernel = Script::with(2).refuse(1, u32::MAX, Some(BUSY));
    let outcomes = migrate(&mut kernel, &[(0, PAGE), (PAGE, PAGE)], THERE);
    assert_eq!(outcomes, [Outcome::Moved, Outcome::Stayed(HERE)]);
    assert_eq!(kernel.calls.len(), 1 + FRUITLESS_MAX as usize);
    assert_eq!(kernel.waited, WAIT_FIRST * 7);
    // One page that moves at each retry keeps the others pending, but not forever.
    let mut kernel = Script::with(64);
    for page in 0..64u32 {
        kernel = kernel.refuse(page as usize, page, None);
    }
    let pages: Vec<(usize, usize)> = (0..64).map(|page| (page * PAGE, PAGE)).collect();
    let outcomes = migrate(&mut kernel, &pages, THERE);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Moved).count(), 17);
    assert_eq!(kernel.on(THERE), 17);
}

#[test]
fn a_page_that_moves_by_halves_is_moved_back() {
    let mut kernel = Script::with(32).refuse(6, u32::MAX, Some(BUSY));
    let outcomes = migrate(&mut kernel, &eight(), THERE);
    assert_eq!(outcomes[1], Outcome::Stayed(HERE));
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Moved).count(), 7);
    assert_eq!(kernel.on(HERE), 4, "the page is whole where it was");
}

#[test]
fn a_page_without_room_is_whole_where_it_was_and_says_why() {
    let mut kernel = Script::with(32).refuse(6, u32::MAX, Some(-errno::ENOMEM));
    let outcomes = migrate(&mut kernel, &eight(), THERE);
    assert_eq!(outcomes[1], Outcome::Failed(errno::ENOMEM));
    assert_eq!(kernel.on(HERE), 4);
    assert_eq!(kernel.waited, Duration::ZERO, "waiting makes no room");
}

#[test]
fn a_page_that_can_go_neither_way_is_split() {
    /// Fake kernel that moves pages to `THERE`, but never back.
    struct OneWay(Script);
    impl Kernel for OneWay {
        fn len(&self) -> usize {
            self.0.len()
        }
        fn move_to(&mut self, offsets: &[usize], node: u32) -> Vec<i32> {
            if node == HERE { vec![BUSY; offsets.len()] } else { self.0.move_to(offsets, node) }
        }
        fn nodes_of(&mut self, offsets: &[usize]) -> Vec<i32> {
            self.0.nodes_of(offsets)
        }
        fn wait(&mut self, time: Duration) {
            self.0.wait(time);
        }
    }
    let mut kernel = OneWay(Script::with(32).refuse(6, u32::MAX, None));
    let outcomes = migrate(&mut kernel, &eight(), THERE);
    assert_eq!(outcomes[1], Outcome::Split);
    assert_eq!(kernel.0.on(HERE), 1);
}

#[test]
fn what_has_no_memory_does_not_count_against_the_rest() {
    let mut kernel = Script::with(6);
    let outcomes = migrate(&mut kernel, &eight()[..3], THERE);
    assert_eq!(outcomes, [Outcome::Moved, Outcome::Moved, Outcome::Failed(errno::ENOENT)]);
}

#[test]
fn what_is_no_page_fails_and_disturbs_no_other() {
    let mut kernel = Script::with(64);
    let len = kernel.len();
    let wrong = [(1, PAGE), (0, 0), (len, PAGE), (len - PAGE, 2 * PAGE), (PAGE, usize::MAX)];
    for bad in wrong {
        let outcomes = migrate(&mut kernel, &[bad, (0, 5000), bad], THERE);
        let failed = Outcome::Failed(errno::EINVAL);
        assert_eq!(outcomes, [failed, Outcome::Moved, failed]);
    }
    assert_eq!(kernel.on(THERE), 2, "5,000 bytes are two pages of the kernel");
}

/// Returns every mover of this kernel; the tests of `sys` require `move_pages2` where the lab has
/// it.
fn movers() -> Vec<Mover> {
    let mut movers =
        vec![Mover::MovePages { batch: 1 }, Mover::MovePages { batch: 7 }, Mover::PLAIN];
    if let Ok(call) = MovePages2::find() {
        let mode = MigrateMode::SyncLight;
        movers.extend([1, 7, 4096].map(|batch| Mover::MovePages2 { call, mode, batch }));
    }
    movers
}

/// Returns pages of three lengths, as the size classes of a pool have them, all with memory.
fn pool_pages() -> (Mapping, Vec<(usize, usize)>) {
    let mapping = Mapping::reserve(128 * PAGE).expect("address space");
    let _ = mapping.advise_huge(false);
    mapping.populate(0, 128 * PAGE).expect("memory");
    let small = (0..16).map(|page| (page * PAGE, PAGE));
    let large = (0..3).map(|page| ((16 + page * 16) * PAGE, 16 * PAGE));
    (mapping, small.chain(large).chain([(64 * PAGE, 50 * PAGE + 100)]).collect())
}

#[test]
fn pages_of_the_pool_are_where_the_outcome_says() {
    // With one node, pages are on their target already; the lab has several.
    let nodes = Probe::detect().nodes;
    let (mapping, pages) = pool_pages();
    let all: Vec<usize> = (0..115).map(|page| page * PAGE).collect();
    for mover in movers() {
        for node in nodes.iter().rev().map(|node| node.id) {
            let outcomes = mover.migrate(&mapping, &pages, node);
            assert_eq!(outcomes, vec![Outcome::Moved; pages.len()], "{mover} to {node}");
            let found = nodes_of(&mapping, &all).expect("told");
            assert_eq!(found, vec![node.cast_signed(); all.len()], "{mover} to {node}");
        }
    }
}

#[test]
fn a_huge_page_moves_with_all_its_pages() {
    let mapping = Mapping::reserve(2 * HUGE_PAGE_BYTES).expect("address space");
    // Without huge pages these are small ones, with the same outcome.
    let _ = mapping.advise_huge(true);
    mapping.populate(0, mapping.len()).expect("memory");
    let pages = [(0, HUGE_PAGE_BYTES), (HUGE_PAGE_BYTES, HUGE_PAGE_BYTES)];
    let ends = [0, PAGE, HUGE_PAGE_BYTES - PAGE, HUGE_PAGE_BYTES, 2 * HUGE_PAGE_BYTES - PAGE];
    // One call per kernel page takes seconds on emulated machines.
    for mover in movers().into_iter().filter(|mover| mover.batch() > 1) {
        for node in Probe::detect().nodes.iter().rev().map(|node| node.id) {
            let outcomes = mover.migrate(&mapping, &pages, node);
            assert_eq!(outcomes, [Outcome::Moved; 2], "{mover} to {node}");
            let found = nodes_of(&mapping, &ends).expect("told");
            assert_eq!(found, [node.cast_signed(); 5], "{mover} to {node}");
        }
    }
}

#[test]
fn a_node_that_is_not_there_moves_nothing() {
    let (mapping, pages) = pool_pages();
    let before = nodes_of(&mapping, &[0, 20 * PAGE]).expect("told");
    for mover in movers() {
        let outcomes = mover.migrate(&mapping, &pages, 4711);
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Failed(_))), "{mover}");
        assert_eq!(nodes_of(&mapping, &[0, 20 * PAGE]).expect("told"), before);
    }
    mapping.decommit(0, PAGE).expect("a page");
    let untouched = Mover::PLAIN.migrate(&mapping, &[(0, PAGE)], 0);
    assert_eq!(untouched, [Outcome::Failed(errno::ENOENT)]);
}

#[test]
fn movers_are_named_by_what_they_do() {
    assert_eq!(Mover::PLAIN.to_string(), "move_pages, 512 pages a call");
    assert_eq!(Mover::MovePages { batch: 0 }.batch(), 1);
}
