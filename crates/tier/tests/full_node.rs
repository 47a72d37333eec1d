//! Migration to a full memory node. In a test program of its own, because it takes all memory of a
//! node, and run only by the lab, whose nodes are small enough for that.

use terrace_sys::map::{HUGE_PAGE_BYTES, Mapping};
use terrace_sys::migrate::{MigrateMode, MovePages2, errno, nodes_of};
use terrace_sys::numa::Node;
use terrace_sys::policy::PreferredNode;
use terrace_sys::probe::Probe;
use terrace_sys::size::{PAGE_BYTES, to_usize};
use terrace_tier::{Mover, Outcome};

fn movers() -> Vec<Mover> {
    let mut movers = vec![Mover::PLAIN];
    if let Ok(call) = MovePages2::find() {
        let mode = MigrateMode::SyncLight;
        movers.push(Mover::MovePages2 { call, mode, batch: 512 });
    }
    movers
}

/// Allocates memory until a node is full except for the reserve that the kernel keeps for itself.
fn fill(node: &Node) -> Mapping {
    let len = to_usize(node.total_bytes) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    let filler = Mapping::reserve(len).expect("address space");
    let _ = filler.advise_huge(false);
    let guard = PreferredNode::enter(node.id).expect("a node");
    // A preference instead of a binding: memory that no longer fits comes from other nodes, and the
    // kernel kills no process.
    for offset in (0..len).step_by(HUGE_PAGE_BYTES) {
        filler.populate(offset, HUGE_PAGE_BYTES).expect("memory");
        let last = offset + HUGE_PAGE_BYTES - PAGE_BYTES;
        if nodes_of(&filler, &[last]).expect("told") != [node.id.cast_signed()] {
            break;
        }
    }
    drop(guard);
    filler
}

/// True if all kernel pages of a page are on one node.
fn is_whole(mapping: &Mapping, (offset, len): (usize, usize)) -> bool {
    let parts: Vec<usize> = (offset..offset + len).step_by(PAGE_BYTES).collect();
    let found = nodes_of(mapping, &parts).expect("told");
    found.iter().all(|node| *node == found[0])
}

#[test]
fn a_full_node_takes_what_it_can_and_pages_stay_whole() {
    const PAGES: usize = 1024;
    const LEN: usize = 16 * PAGE_BYTES;
    let nodes = Probe::detect().nodes;
    let small = |node: &Node| node.total_bytes < 2 << 30;
    let [first, .., last] = nodes.as_slice() else { panic!("a machine of the lab, not {nodes:?}") };
    assert!(small(first) && small(last), "nodes that can be filled, not {nodes:?}");
    let mapping = Mapping::reserve(PAGES * LEN).expect("address space");
    let _ = mapping.advise_huge(false);
    mapping.populate(0, mapping.len()).expect("memory");
    let pages: Vec<(usize, usize)> = (0..PAGES).map(|page| (page * LEN, LEN)).collect();
    assert_eq!(Mover::PLAIN.migrate(&mapping, &pages, first.id), vec![Outcome::Moved; PAGES]);
    let filler = fill(last);
    for mover in movers() {
        let outcomes = mover.migrate(&mapping, &pages, last.id);
        let moved = outcomes.iter().filter(|outcome| **outcome == Outcome::Moved).count();
        assert!(moved < PAGES, "{mover}: the node was not full");
        assert!(outcomes.contains(&Outcome::Failed(errno::ENOMEM)), "{mover}: {moved} moved");
        for (page, outcome) in pages.iter().zip(&outcomes) {
            let whole = is_whole(&mapping, *page);
            assert!(whole || *outcome == Outcome::Split, "{mover}: {page:?} is {outcome:?}");
        }
        let back = mover.migrate(&mapping, &pages, first.id);
        assert_eq!(back, vec![Outcome::Moved; PAGES], "{mover}");
    }
    drop(filler);
    assert_eq!(Mover::PLAIN.migrate(&mapping, &pages, last.id), vec![Outcome::Moved; PAGES]);
}
