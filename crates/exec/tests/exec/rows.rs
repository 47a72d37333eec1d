//! Rows in pages: appended values are read back unchanged.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{Array, ArrayRef, Int64Array, StringArray, UInt32Array};
use datafusion::arrow::compute::{concat, take};
use datafusion::arrow::datatypes::DataType;
use proptest::prelude::*;
use terrace_exec::block::{Block, BlockPlan};
use terrace_exec::rows::{Access, Equality, RowAddress, RowLayout, RowPages};
use terrace_exec::{ExecError, QueryMemory};
use terrace_pool::Space;
use terrace_testkit::{Rng, soak_rounds};

use crate::common::{array, assert_same, comes_to_be_empty, memory, types};

const MIB: u64 = 1 << 20;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn row_pages(layout: &RowLayout, memory: &terrace_exec::FixedMemory) -> RowPages {
    RowPages::new(memory.space().clone(), memory.register("rows"), layout.clone())
}

/// Appends random batches, whole or in part; returns the addresses and the expected rows.
fn append_batches(
    rng: &mut Rng,
    pages: &mut RowPages,
    types: &[DataType],
    batches: usize,
) -> (Vec<RowAddress>, Vec<Vec<ArrayRef>>) {
    let mut addresses = Vec::new();
    let mut expected: Vec<Vec<ArrayRef>> = vec![Vec::new(); types.len()];
    for _ in 0..batches {
        let len = 1 + rng.index(700);
        let from = rng.index(3);
        let nulls = rng.below(4);
        let columns: Vec<ArrayRef> = types
            .iter()
            .map(|it| array(rng, it, len + from, nulls, 200).slice(from, len))
            .collect();
        let prepared = pages.layout().prepare(&columns).unwrap();
        let hashes: Vec<u64> = (0..len as u64).collect();
        let selection: Option<Vec<u32>> =
            rng.one_in(2).then(|| (0..len / 2).map(|_| rng.index(len) as u32).collect());
        pages.try_reserve(&prepared, len);
        let (picks, hashes) = (selection.as_deref(), Some(hashes.as_slice()));
        pages.append(&prepared, picks, hashes, Some(&mut addresses)).unwrap();
        for (to, column) in expected.iter_mut().zip(columns) {
            to.push(match &selection {
                Some(rows) => take(&column, &UInt32Array::from(rows.clone()), None).unwrap(),
                None => column,
            });
        }
    }
    (addresses, expected)
}

fn round_trip(seed: u64, types: &[DataType], batches: usize) {
    let mut rng = Rng::new(seed);
    let (space, memory) = memory(MIB, MIB / 2);
    let layout = RowLayout::new(types, 16).unwrap();
    let mut pages = row_pages(&layout, &memory);
    let mut parts = Vec::new();
    let mut addresses = Vec::new();
    for _ in 0..batches {
        let (more, columns) = append_batches(&mut rng, &mut pages, types, 1);
        addresses.extend(more);
        parts.push(columns);
        if rng.one_in(3) {
            assert!(pages.unpin() > 0 || pages.pinned_bytes() == 0);
            assert_eq!(memory.held_bytes(), 0);
        }
    }
    assert_eq!(pages.rows(), addresses.len() as u64);
    pages.unpin();
    let evicted: Vec<_> = (0..8).map(|_| space.allocate(128 << 10).unwrap().0).collect();
    evicted.into_iter().for_each(|page| space.free(page).unwrap());
    let columns: Vec<ArrayRef> = (0..types.len())
        .map(|column| {
            let arrays: Vec<&dyn Array> =
                parts.iter().flat_map(|part| &part[column]).map(|it| it.as_ref()).collect();
            concat(&arrays).unwrap()
        })
        .collect();
    // Page by page, because not all of them fit at once.
    let mut order: Vec<u32> = (0..addresses.len() as u32).collect();
    for n in 0..addresses.len() {
        let other = rng.index(addresses.len());
        order.swap(n, other);
    }
    for page in 0..pages.pages() {
        block_on(pages.pin_pages(page..page + 1, Access::Read)).unwrap();
        let here = |n: &&u32| addresses[**n as usize].page() == page;
        let mut picks: Vec<Option<u32>> = order.iter().filter(here).map(|n| Some(*n)).collect();
        picks.push(None);
        let wanted = picks.iter().map(|n| n.map_or(RowAddress::NONE, |n| addresses[n as usize]));
        let rows = pages.resolve(wanted).unwrap();
        for (column, values) in columns.iter().enumerate() {
            let expected = take(values, &UInt32Array::from(picks.clone()), None).unwrap();
            assert_same(&rows.gather(column).unwrap(), &expected);
        }
        compare_with_itself(&rows, &layout, &columns, &picks);
        drop(rows);
        pages.unpin_pages(page..page + 1);
    }
    assert_eq!(memory.held_bytes(), 0);
    drop(pages);
    comes_to_be_empty(space.pool_handle());
}

/// Asserts that every row equals its source, and that other rows are equal if their values are.
fn compare_with_itself(
    rows: &terrace_exec::rows::Rows<'_>,
    layout: &RowLayout,
    columns: &[ArrayRef],
    picks: &[Option<u32>],
) {
    let prepared = layout.prepare(columns).unwrap();
    let own: Vec<u32> = picks.iter().flatten().copied().collect();
    let mut next = own.clone();
    next.rotate_left(1);
    for (column, values) in columns.iter().enumerate() {
        for nulls in [false, true] {
            let equality = Equality { nulls, floats: false };
            let mut same: Vec<u32> = (0..own.len() as u32).collect();
            rows.equal(column, &prepared, &own, equality, &mut same).unwrap();
            let valid = |n: &u32| nulls || !is_null(values, own[*n as usize]);
            assert!((0..own.len() as u32).filter(valid).eq(same.iter().copied()));
            let mut same: Vec<u32> = (0..own.len() as u32).collect();
            rows.equal(column, &prepared, &next, equality, &mut same).unwrap();
            let expected = (0..own.len() as u32).filter(|n| {
                let (a, b) = (own[*n as usize], next[*n as usize]);
                match (is_null(values, a), is_null(values, b)) {
                    (true, true) => nulls,
                    (false, false) => text(values, a) == text(values, b),
                    _ => false,
                }
            });
            assert_eq!(expected.collect::<Vec<_>>(), same, "{}", values.data_type());
        }
    }
}

fn is_null(values: &ArrayRef, row: u32) -> bool {
    values.logical_nulls().is_some_and(|nulls| nulls.is_null(row as usize))
}

fn text(values: &ArrayRef, row: u32) -> String {
    let value = values.slice(row as usize, 1);
    format!("{:?}", datafusion::common::ScalarValue::try_from_array(&value, 0).unwrap())
}

/// Holds all but `rest` bytes of a pool of 16 MiB for 1.5 s, which is longer than a fetch waits for
/// frames.
fn hold_for_a_while(space: &Space, rest: u64) -> std::thread::JoinHandle<()> {
    let other = space.pool_handle().create_space("other", None).unwrap();
    let page = |_| other.allocate(MIB as usize).unwrap().1.downgrade().pin();
    let pins: Vec<_> = (0..16 - rest.div_ceil(MIB)).map(page).collect();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(1500));
        drop(pins);
    })
}

#[test]
fn rows_wait_for_frames_that_others_hold() {
    let (space, memory) = memory(16 * MIB, 8 * MIB);
    let layout = RowLayout::new(&[DataType::Int64], 0).unwrap();
    let mut pages = row_pages(&layout, &memory);
    for batch in 0..64 {
        let values: ArrayRef =
            Arc::new(Int64Array::from_iter_values(batch << 13..(batch + 1) << 13));
        let prepared = layout.prepare(&[values]).unwrap();
        pages.try_reserve(&prepared, 1 << 13);
        pages.append(&prepared, None, None, None).unwrap();
    }
    pages.unpin();
    let all = pages.bytes_to_pin(0..pages.pages());
    assert!(all > 4 * MIB, "{all} bytes");
    let holder = hold_for_a_while(&space, 2 * MIB);
    block_on(pages.pin_all(Access::Read)).expect("they come free");
    assert_eq!(pages.bytes_to_pin(0..pages.pages()), 0);
    holder.join().unwrap();
}

#[test]
fn a_block_waits_for_frames_that_others_hold() {
    let (space, _memory) = memory(16 * MIB, 8 * MIB);
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1 << 19));
    let plan = BlockPlan::new(1 << 19, std::slice::from_ref(&values)).unwrap();
    let (block, pins) = Block::write(&space, plan).unwrap();
    drop(pins);
    let holder = hold_for_a_while(&space, 2 * MIB);
    let pins = block_on(block.pin(block.fetch())).expect("frames come free");
    assert_eq!(*block.arrays(pins)[0], *values);
    holder.join().unwrap();
}

#[test]
fn every_type_comes_back() {
    round_trip(1, &types(), 6);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: u32::try_from(soak_rounds(60)).unwrap(),
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn rows_come_back(
        seed: u64,
        types in prop::collection::vec(prop::sample::select(types()), 1..6),
        batches in 1..8_usize,
    ) {
        round_trip(seed, &types, batches);
    }
}

fn integers(range: std::ops::Range<i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(range))
}

#[test]
fn small_collections_hold_little_and_unpinned_ones_nothing() {
    let (space, memory) = memory(8 * MIB, 8 * MIB);
    let layout = RowLayout::new(&[DataType::Int64], 0).unwrap();
    let mut pages = row_pages(&layout, &memory);
    let columns = layout.prepare(&[integers(0..100)]).unwrap();
    assert!(pages.try_reserve(&columns, 100));
    pages.append(&columns, None, None, None).unwrap();
    assert_eq!((pages.pinned_bytes(), memory.held_bytes()), (16 << 10, 16 << 10));
    pages.unpin();
    assert_eq!((pages.pinned_bytes(), memory.held_bytes()), (0, 0));
    assert!(matches!(pages.resolve(pages.addresses(0)), Err(ExecError::NotPinned { .. })));
    pages.append(&columns, None, None, None).unwrap();
    assert_eq!(pages.rows(), 200);
    pages.free_pages(0..1);
    assert_eq!((pages.rows(), pages.bytes()), (100, 16 << 10));
    drop(pages);
    assert_eq!(memory.held_bytes(), 0);
    comes_to_be_empty(space.pool_handle());
}

#[test]
fn own_bytes_of_rows_outlive_eviction() {
    let (space, memory) = memory(MIB, MIB);
    let layout = RowLayout::new(&[DataType::Int64], 24).unwrap();
    let mut pages = row_pages(&layout, &memory);
    let columns = layout.prepare(&[integers(0..1000)]).unwrap();
    let hashes: Vec<u64> = (0..1000).rev().collect();
    let mut addresses = Vec::new();
    pages.append(&columns, None, Some(&hashes), Some(&mut addresses)).unwrap();
    pages.unpin();
    drop((0..8).map(|_| space.allocate(128 << 10).unwrap().0).collect::<Vec<_>>());
    block_on(pages.pin_all(Access::Read)).unwrap();
    assert!(pages.set_flag(addresses[3], 16).is_err());
    assert!(pages.extra_mut(addresses[3]).is_err());
    block_on(pages.pin_all(Access::Write)).unwrap();
    pages.set_flag(addresses[3], 16).unwrap();
    pages.extra_mut(addresses[5]).unwrap()[8..16].copy_from_slice(&77_u64.to_ne_bytes());
    let rows = pages.resolve(addresses.iter().copied()).unwrap();
    assert_eq!(rows.extras(0), hashes);
    assert_eq!((rows.extra(5, 8), rows.extra(6, 8)), (77, 0));
    assert!(rows.flag(3, 16) && !rows.flag(4, 16));
}

/// A page of rows is pinned with its values: these are no more than memory holds.
#[test]
fn a_page_pins_few_long_values() {
    let (_space, memory) = memory(64 * MIB, 64 * MIB);
    let layout = RowLayout::new(&[DataType::Utf8], 0).unwrap();
    let mut pages = row_pages(&layout, &memory);
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(256 << 10)]));
    let columns = layout.prepare(&[text]).unwrap();
    for _ in 0..100 {
        pages.append(&columns, None, None, None).unwrap();
        pages.unpin_full();
    }
    pages.unpin();
    for page in 0..pages.pages() {
        block_on(pages.pin_pages(page..page + 1, Access::Read)).unwrap();
        assert!(pages.pinned_bytes() <= 5 * MIB, "{} bytes", pages.pinned_bytes());
        pages.unpin();
    }
}

#[test]
fn impossible_rows_are_errors() {
    let (_space, memory) = memory(64 * MIB, 64 * MIB);
    let layout = RowLayout::new(&[DataType::Utf8], 0).unwrap();
    let long: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(17 << 20)]));
    let mut pages = row_pages(&layout, &memory);
    let columns = layout.prepare(&[long]).unwrap();
    let refused = pages.append(&columns, None, None, None).unwrap_err();
    assert!(refused.to_string().contains("17MiB"), "{refused}");
    assert!(layout.prepare(&[integers(0..1)]).is_err());
    assert!(layout.prepare(&[]).is_err());
    assert!(RowLayout::new(&vec![DataType::Utf8; 2 << 20], 0).is_err());
}

#[test]
fn zeros_are_equal_when_asked() {
    let (_space, memory) = memory(MIB, MIB);
    let layout = RowLayout::new(&[DataType::Float64], 0).unwrap();
    let floats = |values: Vec<f64>| -> ArrayRef {
        Arc::new(datafusion::arrow::array::Float64Array::from(values))
    };
    let mut pages = row_pages(&layout, &memory);
    let columns = layout.prepare(&[floats(vec![0.0, -0.0, f64::NAN, 1.0])]).unwrap();
    pages.append(&columns, None, None, None).unwrap();
    let others = layout.prepare(&[floats(vec![-0.0, -0.0, f64::NAN, -1.0])]).unwrap();
    let rows = pages.resolve(pages.addresses(0)).unwrap();
    let compare = |zeros| {
        let mut selection = vec![0, 1, 2, 3];
        let equality = Equality { nulls: false, floats: zeros };
        rows.equal(0, &others, &[0, 1, 2, 3], equality, &mut selection).unwrap();
        selection
    };
    assert_eq!((compare(true), compare(false)), (vec![0, 1, 2], vec![1, 2]));
}
