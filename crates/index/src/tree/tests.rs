//! Tests of the paths that are taken only under contention.

use std::sync::atomic::{AtomicBool, Ordering};

use terrace_ledger::Ledger;
use terrace_pool::{PageRef, Pool, PoolConfig, Space};

use crate::tree::btree::{BTree, TreeConfig};
use crate::tree::edit::{Edit, Fit};
use crate::tree::lookup::CopyValue;
use crate::tree::node::{Seek, View};
use crate::tree::records::{Frame, Records};
use crate::tree::walk::Pair;

fn tree(count: u64) -> BTree {
    let pool = Pool::new(PoolConfig::new("test", Ledger::new(16 << 20))).expect("a pool");
    let space = pool.create_space("tree", None).expect("a space");
    let records = (0..count).map(|n| ((n * 2).to_be_bytes(), [n.to_le_bytes()[0]; 90]));
    BTree::bulk_load(space, &TreeConfig { page_bytes: 4096 }, records).expect("loaded")
}

/// Returns the pages of a node and its parent, with the index of the node there.
fn pages_of(pair: Pair<'_, Space>) -> (PageRef, Option<(PageRef, usize)>) {
    (pair.node.page, pair.parent.map(|(parent, index)| (parent.page, index)))
}

#[test]
fn what_is_looked_at_is_what_is_held() {
    let tree = tree(20_000);
    assert_eq!(tree.verify().expect("sound").height, 3);
    let mut value = Vec::new();
    for number in (0..40_000_u64).step_by(77) {
        let key = number.to_be_bytes();
        let mut visit = CopyValue { key: &key, value: &mut value };
        let held = tree.visit_held(Seek::At(&key), &mut visit).expect("done");
        let held = held.map(|len| value[..len].to_vec());
        assert_eq!(held, tree.get(&key).expect("done"));
        assert_eq!(held.is_some(), number % 2 == 0);
        for level in 0..3 {
            let fixed = pages_of(tree.fix_pair(&key, level).expect("held"));
            assert_eq!(pages_of(tree.hold_pair(&key, level).expect("held")), fixed);
        }
    }
}

#[test]
fn no_reader_starves_beside_a_writer_that_never_rests() {
    let tree = tree(20);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2_u64 {
            let (tree, stop) = (&tree, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    tree.update(&writer.wrapping_mul(2).to_be_bytes(), |value| value.fill(7))
                        .expect("done");
                }
            });
        }
        for _ in 0..20_000 {
            assert!(tree.get(&10_u64.to_be_bytes()).expect("done").is_some());
            let mut first = None;
            tree.scan(std::ops::Bound::Unbounded, |key, _| {
                first = Some(key.to_vec());
                std::ops::ControlFlow::Break(())
            })
            .expect("done");
            assert_eq!(first.as_deref(), Some([0; 8].as_slice()));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Creates a page and inserts the records one by one.
fn page(keys: &[&[u8]], value_len: usize) -> Vec<u8> {
    let mut page = vec![0; 4096];
    let frame = Frame { tree: 1, level: 0, lower: &[], upper: None };
    assert!(Records::default().write(0..0, &mut page, &frame, 0).expect("fits"));
    for key in keys {
        let (index, found) = View::open(&page).and_then(|view| view.search(key)).expect("sound");
        assert!(!found);
        let inserted =
            Edit::open(&mut page).and_then(|mut edit| edit.insert(index, key, &vec![1; value_len]));
        assert!(inserted.expect("sound"), "there is room");
    }
    page
}

#[test]
fn heads_leave_out_what_all_keys_have_alike() {
    let alike: Vec<_> = (0..150_u64).map(|n| (n * 1_000).to_be_bytes()).collect();
    let keys: Vec<_> = alike.iter().map(<[u8; 8]>::as_slice).collect();
    let mut page = page(&keys, 3);
    let view = View::open(&page).expect("sound");
    assert!(view.skip() >= 3, "{} bytes are skipped", view.skip());
    let mut heads: Vec<_> = (0..view.count).map(|index| view.head(index)).collect();
    heads.dedup();
    assert!(heads.len() > 140, "{} heads of 150 keys differ", heads.len());
    assert_eq!(view.search(&[]).expect("sound"), (0, false));
    assert_eq!(view.search(&[0, 0, 1]).expect("sound"), (150, false));
    // Keys with other first bytes are inserted at both ends.
    for key in [[255_u8; 8].as_slice(), &[], &[0, 0]] {
        let (index, _) = View::open(&page).and_then(|view| view.search(key)).expect("sound");
        let mut edit = Edit::open(&mut page).expect("sound");
        assert!(edit.insert(index, key, &[1; 3]).expect("sound"));
    }
    let view = View::open(&page).expect("sound");
    assert_eq!((view.skip(), view.count), (0, 153));
    for key in keys.iter().chain(&[[255_u8; 8].as_slice(), &[], &[0, 0]]) {
        assert!(view.search(key).expect("sound").1, "{key:?}");
    }
}

#[test]
fn a_full_page_says_so_and_room_comes_back() {
    let keys: Vec<_> = (0..19_u8).map(|n| [n; 8]).collect();
    let keys: Vec<_> = keys.iter().map(<[u8; 8]>::as_slice).collect();
    let mut page = page(&keys, 180);
    let mut edit = Edit::open(&mut page).expect("sound");
    assert_eq!(edit.fit(8, 180), Fit::Not);
    assert!(!edit.insert(19, &[99; 8], &[0; 180]).expect("sound"));
    assert!(!edit.replace(3, &[0; 500]).expect("sound"));
    edit.remove(7).expect("sound");
    assert_eq!(edit.fit(8, 180), Fit::Rewritten);
    assert!(edit.insert(18, &[99; 8], &[9; 180]).expect("sound"));
    assert!(edit.replace(3, &[5; 20]).expect("sound"));
    let view = View::open(&page).expect("sound");
    assert_eq!((view.count, view.value(3).expect("sound")), (19, [5; 20].as_slice()));
    assert_eq!(view.value(18).expect("sound"), [9; 180]);
    assert!(!view.search(&[7; 8]).expect("sound").1);
}
