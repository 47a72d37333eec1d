//! Tests of the tree: bulk loads, limits, freed pages, damage, failing stores, a secondary index.

mod common;

use std::ops::{Bound, ControlFlow};

use common::{KIB, MIB, faulty_pool, pool, space, tree};
use terrace_index::{BTree, IndexError, RecordHint, SecondaryIndex, TreeConfig};
use terrace_pool::{PageRef, PoolError, Space};
use terrace_testkit::{Fault, Rng, Target, When, with_seed};

const CONFIG: TreeConfig = TreeConfig { page_bytes: 4096 };

fn all(tree: &BTree) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut records = Vec::new();
    let see = |key: &[u8], value: &[u8]| {
        records.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    tree.scan(Bound::Unbounded, see).expect("done");
    records
}

/// Records of every length, in order.
fn records(count: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rng = Rng::new(7);
    let key = |n: u32| [n.to_be_bytes().as_slice(), &vec![1; n as usize % 300]].concat();
    let value = |n: u32, rng: &mut Rng| vec![n.to_le_bytes()[0]; rng.index(400)];
    (0..count).map(|n| (key(n), value(n, &mut rng))).collect()
}

#[test]
fn a_bulk_load_is_as_many_inserts() {
    let pool = pool(MIB);
    for count in [0, 1, 2, 30, 5_000] {
        let records = records(count);
        let loaded = BTree::bulk_load(space(&pool), &CONFIG, records.clone()).expect("loaded");
        let shape = loaded.verify().expect("sound");
        assert_eq!((shape.records, loaded.len()), (u64::from(count), u64::from(count)));
        assert_eq!(all(&loaded), records);
        let inserted = tree(space(&pool));
        for (key, value) in &records {
            assert!(inserted.insert(key, value).expect("inserted"));
        }
        assert_eq!(all(&inserted), records);
        let as_inserted = inserted.verify().expect("sound");
        assert!(shape.leaves <= as_inserted.leaves, "{shape:?}, inserted: {as_inserted:?}");
        for (key, _) in &records {
            assert!(loaded.remove(key).expect("removed"));
        }
        assert_eq!(loaded.verify().expect("sound").leaves, 1);
    }
}

#[test]
fn a_bulk_load_out_of_order_is_refused_and_leaves_nothing() {
    let pool = pool(MIB);
    let space = space(&pool);
    let mut records = records(2_000);
    records.swap(1_500, 1_501);
    let error = BTree::bulk_load(space.clone(), &CONFIG, records.clone()).expect_err("refused");
    assert!(matches!(error, IndexError::Order { record: 1_501 }), "{error}");
    let error = BTree::bulk_load(space.clone(), &CONFIG, [("a", "b"), ("a", "c")]);
    assert!(matches!(error, Err(IndexError::Order { record: 1 })));
    assert_eq!(existing(&space), 0, "pages of refused loads are freed");
}

/// Reference to the page of this number, in the first space of a pool.
fn page(number: u64) -> PageRef {
    PageRef::from_bits(number << 28).without_hint()
}

/// Number of pages of a space.
fn existing(space: &Space) -> usize {
    (0..4096).filter(|number| space.read(&mut page(*number)).is_ok()).count()
}

#[test]
fn ascending_inserts_fill_pages() {
    let pool = pool(16 * MIB);
    let tree = tree(space(&pool));
    for number in 0..20_000_u64 {
        tree.insert(&number.to_be_bytes(), &[1; 100]).expect("inserted");
    }
    let shape = tree.verify().expect("sound");
    assert!(shape.used_bytes > (shape.leaves + shape.inner_pages) * 4096 * 9 / 10, "{shape:?}");
    // Ascending runs between other keys fill their leaves too: a leaf is split only at the start of
    // a run.
    let tree = common::tree(space(&pool));
    for run in (0..20_u64).map(|run| run * 7 % 20) {
        for number in 0..1_000_u64 {
            let key = (run << 32 | number).to_be_bytes();
            tree.insert(&key, &[1; 100]).expect("inserted");
        }
    }
    let shape = tree.verify().expect("sound");
    assert!(shape.used_bytes > (shape.leaves + shape.inner_pages) * 4096 * 8 / 10, "{shape:?}");
}

#[test]
fn pages_of_removed_records_are_freed() {
    let pool = pool(16 * MIB);
    let space = space(&pool);
    let tree = tree(space.clone());
    for order in [1_u64, 7_919] {
        for number in 0..20_000_u64 {
            tree.insert(&(number * order % 20_000).to_be_bytes(), &[1; 60]).expect("inserted");
        }
        assert!(existing(&space) > 300);
        for number in 0..20_000_u64 {
            assert!(tree.remove(&(number * 7 % 20_000).to_be_bytes()).expect("removed"));
        }
        assert_eq!((tree.verify().expect("sound").leaves, existing(&space)), (1, 1));
    }
}

#[test]
fn what_is_too_large_is_refused_and_the_largest_is_not() {
    let pool = pool(MIB);
    let tree = tree(space(&pool));
    let (key, pair) = (tree.key_limit(), tree.pair_limit());
    for byte in 0..100 {
        assert!(tree.insert(&vec![byte; key], &vec![byte; pair - key]).expect("inserted"));
    }
    assert_eq!(tree.verify().expect("sound").records, 100);
    let error = tree.insert(&vec![1; key + 1], &[]).expect_err("too long");
    assert!(matches!(error, IndexError::TooLarge { .. }), "{error}");
    let error = tree.put(b"key", &vec![1; pair]).expect_err("too long");
    assert!(matches!(error, IndexError::TooLarge { .. }), "{error}");
    for page_bytes in [0, (32 << 10) + 1] {
        let error = BTree::new(space(&pool), &TreeConfig { page_bytes }).expect_err("refused");
        assert!(matches!(error, IndexError::Config(_)), "{error}");
    }
    let large = BTree::new(space(&pool), &TreeConfig { page_bytes: 32 << 10 }).expect("32 KiB");
    for byte in 0..50 {
        let key = vec![byte; large.key_limit()];
        large.insert(&key, &vec![byte; large.pair_limit() - key.len()]).expect("inserted");
    }
    assert_eq!(large.verify().expect("sound").records, 50);
}

#[test]
fn whoever_sees_a_record_may_use_the_tree() {
    let pool = pool(MIB);
    let tree = tree(space(&pool));
    for number in 0..200_u64 {
        tree.insert(&number.to_be_bytes(), &[1; 50]).expect("inserted");
    }
    let mut seen = 0_u64;
    tree.scan(Bound::Unbounded, |key, value| {
        assert_eq!(tree.get_with(key, |same| same == value).expect("done"), Some(true));
        tree.scan_back(Bound::Included(key), |same, _| {
            assert_eq!(same, key);
            ControlFlow::Break(())
        })
        .expect("done");
        assert!(tree.remove(key).expect("removed"));
        seen += 1;
        ControlFlow::Continue(())
    })
    .expect("done");
    assert_eq!((seen, tree.len()), (200, 0));
}

/// Random damage to a page causes no panic, no hang, and no error but `Corrupt`.
#[test]
fn damage_is_an_error_or_out_of_sight() {
    with_seed(|seed| {
        let mut rng = Rng::new(seed);
        let mut found = 0;
        for round in 0..60 {
            let pool = pool(4 * MIB);
            let space = space(&pool);
            let records = records(500);
            let tree = BTree::bulk_load(space.clone(), &CONFIG, records.clone()).expect("loaded");
            let pages = existing(&space) as u64;
            {
                let mut bytes = space.write(&mut page(rng.below(pages))).expect("there");
                match round % 3 {
                    0 => rng.fill(&mut bytes[..64]),
                    1 => rng.fill(&mut bytes),
                    _ => bytes[rng.index(64)] ^= 1 << rng.below(8),
                }
            }
            found += u64::from(use_damaged(&tree, &records));
        }
        assert!(found > 20, "{found} rounds found what was damaged");
    });
}

/// Reads, changes, scans and verifies a damaged tree. Returns true if damage was reported.
fn use_damaged(tree: &BTree, records: &[(Vec<u8>, Vec<u8>)]) -> bool {
    let mut found = false;
    let mut check = |result: Result<(), IndexError>| match result {
        Ok(()) => {}
        Err(IndexError::Corrupt { .. }) => found = true,
        Err(error) => panic!("{error}"),
    };
    for (key, value) in records {
        check(tree.get(key).map(drop));
        check(tree.put(key, &value[value.len() / 2..]).map(drop));
        check(tree.insert(&[key.as_slice(), b"1"].concat(), value).map(drop));
    }
    check(tree.scan(Bound::Unbounded, |_, _| ControlFlow::Continue(())));
    check(tree.scan_back(Bound::Unbounded, |_, _| ControlFlow::Continue(())));
    let keys: Vec<_> = records.iter().map(|(key, _)| key).collect();
    check(tree.get_batch(&keys, |_, _| ()));
    records.iter().for_each(|(key, _)| check(tree.remove(key).map(drop)));
    check(tree.verify().map(drop));
    found
}

/// While the store fails, an operation that needs a page may fail and then changes nothing;
/// afterwards all operations succeed.
#[test]
fn a_refused_page_leaves_the_tree_as_it_was() {
    let (pool, blocks) = faulty_pool(128 * KIB, 5);
    let tree = tree(space(&pool));
    let mut there = Vec::new();
    for turn in 0..40_u64 {
        if turn % 2 == 1 {
            for target in [Target::Write, Target::Read] {
                blocks.inject(target, When::OneIn(3), Fault::Full);
            }
        }
        let mut failures = 0;
        for number in turn * 100..turn * 100 + 100 {
            let key = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
            match tree.insert(&key, &[7; 100]) {
                Ok(added) => {
                    assert!(added);
                    there.push(key);
                }
                Err(IndexError::Pool(PoolError::Store(_) | PoolError::Exhausted { .. })) => {
                    failures += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
        blocks.heal();
        assert!(turn % 2 == 1 || failures == 0, "a sound store refuses nothing");
    }
    assert!(there.len() < 4_000, "some were refused");
    assert_eq!(tree.verify().expect("sound").records, there.len() as u64);
    for key in &there {
        assert_eq!(tree.get(key).expect("done").as_deref(), Some([7; 100].as_slice()));
    }
}

/// Records many of which share a colour, and an index by colour.
fn coloured(space: &Space, count: u64) -> (BTree, SecondaryIndex) {
    let primary = tree(space.clone());
    let index = SecondaryIndex::new(space.clone(), &CONFIG).expect("a page");
    for number in 0..count {
        let key = number.to_be_bytes();
        primary.insert(&key, &[colour(number), [7; 4].as_slice()].concat()).expect("inserted");
        assert!(index.insert(colour(number), &key, RecordHint::none()).expect("inserted"));
        assert!(!index.insert(colour(number), &key, RecordHint::none()).expect("there"));
    }
    (primary, index)
}

fn colour(number: u64) -> &'static [u8] {
    [b"red".as_slice(), b"red\0", b"redder", b"", b"blue"][usize::try_from(number % 5).expect("<5")]
}

fn numbers_of(primary: &BTree, index: &SecondaryIndex, colour: &[u8]) -> Vec<u64> {
    let mut numbers = Vec::new();
    index
        .get_with(primary, colour, |key, record| {
            assert!(record.starts_with(colour));
            numbers.push(u64::from_be_bytes(key.try_into().expect("8 bytes")));
            ControlFlow::Continue(())
        })
        .expect("done");
    numbers
}

#[test]
fn hints_lead_to_records_and_are_mended() {
    let pool = pool(16 * MIB);
    let (primary, index) = coloured(&space(&pool), 5_000);
    let expected: Vec<_> = (0..5_000).filter(|number| number % 5 == 0).collect();
    assert_eq!(numbers_of(&primary, &index, b"red"), expected);
    assert_eq!(primary.hint_stats().hits, 0);
    assert_eq!(numbers_of(&primary, &index, b"red"), expected);
    assert_eq!(primary.hint_stats().hits, 1_000, "all entries were mended");
    // Records move as leaves are split and merged.
    for number in 5_000..50_000_u64 {
        let key = (number * 7_919 % 45_000 + 5_000).to_be_bytes();
        primary.insert(&key, &[9; 20]).expect("inserted");
    }
    for number in (0..5_000_u64).filter(|number| number % 5 != 0) {
        primary.remove(&number.to_be_bytes()).expect("removed");
        assert!(index.remove(colour(number), &number.to_be_bytes()).expect("removed"));
    }
    for _ in 0..2 {
        assert_eq!(numbers_of(&primary, &index, b"red"), expected);
    }
    let hits = primary.hint_stats().hits;
    assert_eq!(numbers_of(&primary, &index, b"red"), expected);
    assert_eq!(primary.hint_stats().hits - hits, 1_000);
    // Pages that were evicted and came back are in other frames.
    pool.release(u64::MAX);
    assert_eq!(numbers_of(&primary, &index, b"red"), expected);
    index.verify().expect("sound");
}

#[test]
fn a_hint_to_anything_else_is_only_slow() {
    let pool = pool(16 * MIB);
    let space = space(&pool);
    let other = tree(space.clone());
    let tree = tree(space.clone());
    for number in 0..5_000_u64 {
        tree.insert(&number.to_be_bytes(), &[1; 50]).expect("inserted");
        other.insert(&number.to_be_bytes(), &[2; 50]).expect("inserted");
    }
    for number in 0..5_000_u64 {
        let key = number.to_be_bytes();
        // A leaf of the other tree, an inner page, any page, none.
        let mut hint = RecordHint::none();
        assert_eq!(other.get_hinted(&key, &mut hint, |value| value[0]).expect("done"), Some(2));
        assert_eq!(tree.get_hinted(&key, &mut hint, |value| value[0]).expect("done"), Some(1));
        let hits = tree.hint_stats().hits;
        assert_eq!(tree.get_hinted(&key, &mut hint, |value| value[0]).expect("done"), Some(1));
        assert_eq!(tree.hint_stats().hits, hits + 1);
        let mut hint = RecordHint::from_bits(page(number % 700).to_bits());
        assert_eq!(tree.get_hinted(&key, &mut hint, |value| value[0]).expect("done"), Some(1));
    }
    let mut hint = RecordHint::none();
    tree.get_hinted(&7_u64.to_be_bytes(), &mut hint, |_| ()).expect("done");
    assert_eq!(tree.get_hinted(&[255; 8], &mut hint, |_| ()).expect("done"), None);
}

#[test]
fn prefixes_of_keys_are_scanned_in_order() {
    let pool = pool(16 * MIB);
    let (primary, index) = coloured(&space(&pool), 1_000);
    let mut seen: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    index
        .scan_prefix(&primary, b"red", |key, primary_key, record| {
            assert!(record.starts_with(key));
            seen.push((key.to_vec(), primary_key.to_vec()));
            ControlFlow::Continue(())
        })
        .expect("done");
    assert_eq!(seen.len(), 600);
    assert!(seen.is_sorted_by(|a, b| a < b));
    assert_eq!((index.len(), numbers_of(&primary, &index, b"green").len()), (1_000, 0));
}
