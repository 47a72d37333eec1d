//! Conformance suite: the contract of every implementation of [`Blocks`], tested through a
//! [`Store`].
//!
//! A new implementation is one line in a test crate:
//!
//! ```text
//! terrace_testkit::store_conformance!(memory, |bytes| Some(Arc::new(MemoryBlocks::new(bytes))));
//! ```
//!
//! The expression creates blocks with space for the given number of bytes; `None` skips the test,
//! after a report of the reason (see [`or_skip`](crate::device::or_skip)).

use std::collections::HashMap;
use std::sync::Arc;

use terrace_store::{Blocks, Extent, Io, Read, Store, StoreError, Stored, Write};
use terrace_sys::buffer::AlignedBuffer;
use terrace_sys::size::{MIB, to_u64, to_usize};

use crate::seed::Rng;

/// Capacity of the blocks of every case.
pub const CAPACITY_BYTES: u64 = 64 * MIB;

/// Instantiates the suite: a module of the given name with one test for each case.
#[macro_export]
macro_rules! store_conformance {
    ($name:ident, $make:expr) => {
        mod $name {
            use super::*;

            $crate::store_conformance!(@case $make, sizes_from_a_page_to_16_mib_come_back);
            $crate::store_conformance!(@case $make, long_batches_come_back);
            $crate::store_conformance!(@case $make, done_is_called_once_a_success);
            $crate::store_conformance!(@case $make, one_bad_transfer_fails_alone);
            $crate::store_conformance!(@case $make, damage_is_found);
            $crate::store_conformance!(@case $make, full_is_not_the_end);
            $crate::store_conformance!(@case $make, trim_keeps_what_is_used);
            $crate::store_conformance!(@case $make, agrees_with_a_map);
            $crate::store_conformance!(@case $make, threads_do_not_meet);
        }
    };
    (@case $make:expr, $case:ident) => {
        #[test]
        fn $case() {
            let make: fn(u64) -> Option<std::sync::Arc<dyn terrace_store::Blocks>> = $make;
            if let Some(blocks) = make($crate::conformance::CAPACITY_BYTES) {
                $crate::conformance::$case(blocks);
            }
        }
    };
}

fn open(blocks: Arc<dyn Blocks>) -> Store {
    Store::open(blocks, "conformance", CAPACITY_BYTES).expect("a capacity of whole pages")
}

fn random(len: u64, rng: &mut Rng) -> AlignedBuffer {
    let mut data = AlignedBuffer::zeroed(to_usize(len));
    rng.fill(&mut data);
    data
}

fn write(store: &Store, data: &[u8]) -> Result<Stored, StoreError> {
    let extent = store.allocate(to_u64(data.len()))?;
    let written = store.write_batch(&[Write { extent, data }]).remove(0);
    if written.is_err() {
        store.free(extent);
    }
    written
}

fn read(store: &Store, stored: Stored) -> Result<AlignedBuffer, StoreError> {
    let mut data = AlignedBuffer::zeroed(to_usize(stored.extent.len_bytes));
    store.read_batch(&mut [Read { stored, data: &mut data }]).remove(0)?;
    Ok(data)
}

/// Writes and reads back every page size.
pub fn sizes_from_a_page_to_16_mib_come_back(blocks: Arc<dyn Blocks>) {
    let store = open(blocks);
    let mut rng = Rng::new(1);
    for shift in 12..=24 {
        let data = random(1 << shift, &mut rng);
        let stored = write(&store, &data).expect("room");
        assert_eq!(&*read(&store, stored).expect("written"), &*data, "{} bytes", 1 << shift);
        store.free(stored.extent);
    }
    store.sync().expect("a sound device");
    assert_eq!(store.stats().used_bytes, 0);
}

/// Writes and reads back batches several times longer than the depth of any queue.
pub fn long_batches_come_back(blocks: Arc<dyn Blocks>) {
    let store = open(blocks);
    let mut rng = Rng::new(2);
    let pages: Vec<AlignedBuffer> =
        (0..300).map(|index| random(4096 * (1 + index % 3), &mut rng)).collect();
    let writes: Vec<Write<'_>> = pages
        .iter()
        .map(|data| Write { extent: store.allocate(to_u64(data.len())).expect("room"), data })
        .collect();
    let stored: Vec<Stored> =
        store.write_batch(&writes).into_iter().map(|result| result.expect("written")).collect();
    let mut back: Vec<AlignedBuffer> =
        pages.iter().map(|page| AlignedBuffer::zeroed(page.len())).collect();
    let mut reads: Vec<Read<'_>> =
        stored.iter().zip(&mut back).map(|(stored, data)| Read { stored: *stored, data }).collect();
    assert!(store.read_batch(&mut reads).iter().all(Result::is_ok));
    assert!(pages.iter().zip(&back).all(|(page, back)| **page == **back));
    assert!(store.write_batch(&[]).is_empty() && store.read_batch(&mut []).is_empty());
}

/// Checks that `run` calls `done` once for each transfer that succeeds.
pub fn done_is_called_once_a_success(blocks: Arc<dyn Blocks>) {
    blocks.ensure(CAPACITY_BYTES).expect("room");
    let page = AlignedBuffer::copy_of(&[5; 4096]);
    let mut batch: Vec<Io<'_>> = (0..100).map(|index| Io::write(index * 4096, &page)).collect();
    blocks.run(&mut batch, &|io| io.found += 1);
    assert!(batch.iter().all(|io| io.result.is_ok() && io.found == 1));
}

/// Checks that a transfer beyond the end fails and the others of its batch do not.
pub fn one_bad_transfer_fails_alone(blocks: Arc<dyn Blocks>) {
    blocks.ensure(8192).expect("room");
    let page = AlignedBuffer::copy_of(&[5; 4096]);
    let mut outside = AlignedBuffer::zeroed(4096);
    let mut inside = AlignedBuffer::zeroed(4096);
    blocks.run(&mut [Io::write(4096, &page)], &|_| ());
    let mut batch = [Io::read(1 << 50, &mut outside), Io::read(4096, &mut inside)];
    blocks.run(&mut batch, &|io| io.found += 1);
    assert!(batch[0].result.is_err() && batch[0].found == 0);
    assert!(batch[1].result.is_ok() && batch[1].found == 1);
    assert_eq!(*inside, *page);
}

/// Checks that a byte changed without the store's knowledge is reported as corruption.
pub fn damage_is_found(blocks: Arc<dyn Blocks>) {
    let store = open(Arc::clone(&blocks));
    let stored = write(&store, &random(16384, &mut Rng::new(3))).expect("room");
    let sound = read(&store, stored).expect("written");
    let mut damaged = AlignedBuffer::copy_of(&sound);
    damaged[10_000] ^= 0x10;
    blocks.run(&mut [Io::write(stored.extent.offset_bytes, &damaged)], &|_| ());
    match read(&store, stored) {
        Err(StoreError::Corrupt { store, len: 16384, expected, found, .. }) => {
            assert_eq!((store.as_str(), expected), ("conformance", stored.checksum));
            assert_ne!(found, expected);
        }
        other => panic!("the damage was not named: {:?}", other.map(|_| ())),
    }
    assert_eq!(store.latched(), None, "a bad read does not stop writes");
    write(&store, &sound).expect("still takes writes");
}

/// Checks that a full store works again once an extent is freed.
pub fn full_is_not_the_end(blocks: Arc<dyn Blocks>) {
    let store = open(blocks);
    let mut extents = Vec::new();
    let error = loop {
        match store.allocate(4 * MIB) {
            Ok(extent) => extents.push(extent),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full { free_bytes: 0, .. }), "{error}");
    assert_eq!(to_u64(extents.len()), CAPACITY_BYTES / (4 * MIB));
    assert_eq!(store.latched(), None);
    let freed = extents.swap_remove(3);
    store.free(freed);
    let data = random(4 * MIB, &mut Rng::new(4));
    let stored = write(&store, &data).expect("room again");
    assert_eq!(stored.extent, freed);
    assert_eq!(*read(&store, stored).expect("written"), *data);
}

/// Checks that a trim releases the space around extents in use, and that it is allocated again.
pub fn trim_keeps_what_is_used(blocks: Arc<dyn Blocks>) {
    let store = open(blocks);
    let mut rng = Rng::new(5);
    let pages: Vec<AlignedBuffer> = (0..12).map(|_| random(MIB, &mut rng)).collect();
    let stored: Vec<Stored> = pages.iter().map(|page| write(&store, page).expect("room")).collect();
    let freed = |index: usize| index % 3 == 1 || index > 8;
    stored.iter().enumerate().filter(|(i, _)| freed(*i)).for_each(|(_, s)| store.free(s.extent));
    store.trim();
    assert_eq!(store.stats().extent_bytes, 9 * MIB);
    let kept = || stored.iter().zip(&pages).enumerate().filter(|(i, _)| !freed(*i));
    for (_, (stored, page)) in kept() {
        assert_eq!(*read(&store, *stored).expect("in use"), **page);
    }
    let again = write(&store, &pages[1]).expect("the first hole");
    assert_eq!(again.extent, stored[1].extent);
    let beyond = write(&store, &random(8 * MIB, &mut rng)).expect("the end moves again");
    for stored in [again, beyond] {
        read(&store, stored).expect("written after the trim");
    }
}

/// Compares random operations with a model, a map of the expected contents.
pub fn agrees_with_a_map(blocks: Arc<dyn Blocks>) {
    crate::seed::with_seed(|seed| {
        let store = open(blocks);
        let mut rng = Rng::new(seed);
        let mut model = Model::new();
        for _ in 0..300 {
            step(&store, &mut model, &mut rng);
        }
        let used: u64 = model.keys().map(|extent| extent.len_bytes).sum();
        assert_eq!(store.stats().used_bytes, used);
    });
}

type Model = HashMap<Extent, (Stored, AlignedBuffer)>;

fn step(store: &Store, model: &mut Model, rng: &mut Rng) {
    let picked = pick(model, rng);
    match (rng.below(10), picked) {
        (0..=4, _) | (_, None) => {
            let data = random(4096 << rng.below(9), rng);
            match write(store, &data) {
                Ok(stored) => assert!(model.insert(stored.extent, (stored, data)).is_none()),
                Err(error) => assert!(matches!(error, StoreError::Full { .. }), "{error}"),
            }
        }
        (5..=6, Some(extent)) => {
            let (stored, data) = &model[&extent];
            assert_eq!(*read(store, *stored).expect("in use"), **data);
        }
        (7..=8, Some(extent)) => {
            model.remove(&extent);
            store.free(extent);
        }
        (_, Some(_)) => {
            store.trim();
            store.sync().expect("a sound device");
        }
    }
}

/// Picks a random extent, the same for the same seed.
fn pick(model: &Model, rng: &mut Rng) -> Option<Extent> {
    let mut extents: Vec<Extent> = model.keys().copied().collect();
    extents.sort_unstable();
    if extents.is_empty() { None } else { Some(extents[rng.index(extents.len())]) }
}

/// Runs threads that write, verify, free and trim at the same time.
pub fn threads_do_not_meet(blocks: Arc<dyn Blocks>) {
    let store = open(blocks);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let store = &store;
            scope.spawn(move || {
                let mut rng = Rng::new(seed);
                let mut model = Model::new();
                for _ in 0..60 {
                    step(store, &mut model, &mut rng);
                }
                for (stored, data) in model.into_values() {
                    assert_eq!(*read(store, stored).expect("in use"), *data);
                    store.free(stored.extent);
                }
            });
        }
    });
    let stats = store.stats();
    assert_eq!((stats.used_bytes, stats.double_frees, stats.corrupt_reads), (0, 0, 0));
}
