//! Contracts of heaps, over every kind of memory.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use allocator_api2::vec::Vec as HeapVec;
use hashbrown::{DefaultHashBuilder, HashMap};
use terrace_heap::{Backing, Heap, HeapConfig, HeapError, Metadata, Retain, allocator_api2};
use terrace_ledger::Ledger;
use terrace_region::{Advice, Contents, Method, Region, RegionConfig, Source};
use terrace_store::MemoryBlocks;
use terrace_sys::size::to_u64;
use terrace_testkit::needs;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn region(bytes: usize, cap: usize) -> Arc<Region> {
    let blocks = Arc::new(MemoryBlocks::new(to_u64(bytes)));
    let source = Source { blocks, offset: 0, len: to_u64(bytes), contents: Contents::Blank };
    let config = RegionConfig {
        block_bytes: 64 * KIB,
        patience: Duration::from_secs(5),
        ..RegionConfig::new("below", Ledger::new(to_u64(cap)))
    };
    Arc::new(Region::new(config, source).expect("a region"))
}

/// Creates a heap over each kind of memory of this machine, with each placement of metadata. If the
/// machine has regions, the last heap is over a region that also holds its metadata.
fn heaps(bytes: usize) -> Vec<Heap> {
    let (nodes, regions) = (needs::nodes(), needs::regions());
    let memories = || {
        let node = nodes.then_some(Backing::Node { node: 0, bytes });
        let region = regions.then(|| Backing::region(region(bytes, 16 * MIB)));
        [Backing::Dram { bytes }].into_iter().chain(node).chain(region)
    };
    let both = [Metadata::Separate, Metadata::Together];
    let all =
        both.into_iter().flat_map(|metadata| memories().map(move |memory| (memory, metadata)));
    all.map(|(memory, metadata)| {
        let name = format!("{} {}", memory.kind(), metadata.as_str());
        Heap::new(HeapConfig { metadata, ..HeapConfig::new(name, memory) }).expect("a heap")
    })
    .collect()
}

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).expect("a layout")
}

fn fill(object: NonNull<u8>, len: usize, stamp: u8) {
    // SAFETY: the object has `len` bytes and is used by this thread alone.
    unsafe { object.write_bytes(stamp, len) };
}

fn has(object: NonNull<u8>, len: usize, stamp: u8) -> bool {
    // SAFETY: as above, and its bytes were written.
    unsafe { std::slice::from_raw_parts(object.as_ptr(), len) }.iter().all(|byte| *byte == stamp)
}

#[test]
fn objects_are_aligned_apart_and_in_the_range() {
    for heap in heaps(64 * MIB) {
        let mut objects = Vec::new();
        for (stamp, size) in (0_u8..).zip([1, 8, 24, 100, 4096, 16 * KIB, 100_000, 3 * MIB]) {
            for align in [1, 8, 64, 4096, 2 * MIB] {
                let layout = layout(size, align);
                let object = heap.allocate(layout).expect("room");
                assert!(object.addr().get().is_multiple_of(align), "{}", heap.name());
                assert!(heap.contains(object.as_ptr()), "{}", heap.name());
                fill(object, size, stamp);
                objects.push((object, layout, stamp));
            }
        }
        assert!(objects.iter().all(|(object, layout, stamp)| has(*object, layout.size(), *stamp)));
        let mut places: Vec<(usize, usize)> =
            objects.iter().map(|(object, it, _)| (object.addr().get(), it.size())).collect();
        places.sort_unstable();
        assert!(places.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        // SAFETY: the objects are not used afterwards.
        objects.into_iter().for_each(|(object, it, _)| unsafe { heap.deallocate(object, it) });
        heap.trim();
        let stats = heap.stats().expect("statistics");
        assert_eq!((stats.small_bytes, stats.large_bytes), (0, 0), "{}", heap.name());
    }
}

#[test]
fn lengths_change_and_bytes_stay() {
    for heap in heaps(64 * MIB) {
        for (old, new) in [(10, 1000), (1000, 10), (100, 5 * MIB), (5 * MIB, 100), (0, 9), (9, 0)] {
            let (old, new) = (layout(old, 8), layout(new, 8));
            let object = heap.allocate(old).expect("room");
            fill(object, old.size(), 7);
            // SAFETY: the object has this layout and is used here alone.
            let object = unsafe { heap.reallocate(object, old, new) }.expect("room");
            assert!(has(object, old.size().min(new.size()), 7));
            // SAFETY: as above.
            unsafe { heap.deallocate(object, new) };
        }
        let zeros = heap.allocate_zeroed(layout(3 * MIB, 64)).expect("room");
        assert!(has(zeros, 3 * MIB, 0), "{}", heap.name());
        fill(zeros, 3 * MIB, 1);
        // SAFETY: the object is not used afterwards.
        unsafe { heap.deallocate(zeros, layout(3 * MIB, 64)) };
        let again = heap.allocate_zeroed(layout(3 * MIB, 64)).expect("room");
        assert!(has(again, 3 * MIB, 0), "{}: memory that was used before", heap.name());
        // SAFETY: as above.
        let done = unsafe { heap.resize_in_place(again, layout(3 * MIB, 64), MIB) };
        let left = layout(if done { MIB } else { 3 * MIB }, 64);
        assert!(done, "{}: large objects shrink where they are", heap.name());
        // SAFETY: as above.
        unsafe { heap.deallocate(again, left) };
    }
}

/// Resizing and freeing without a layout, as C programs and SQLite do.
#[test]
fn objects_know_their_length() {
    for heap in heaps(64 * MIB) {
        let object = heap.allocate(layout(100, 8)).expect("room");
        // SAFETY: the object belongs to this heap and is used here alone.
        unsafe {
            assert_eq!(heap.usable_bytes(object), 112, "{}", heap.name());
            fill(object, 112, 5);
            let object = heap.resize(object, layout(MIB + 1, 8)).expect("room");
            assert!(has(object, 112, 5) && heap.usable_bytes(object) > MIB);
            heap.free(object);
        }
        heap.trim();
        let stats = heap.stats().expect("statistics");
        assert_eq!((stats.small_bytes, stats.large_bytes), (0, 0), "{}", heap.name());
    }
}

#[test]
fn collections_live_in_a_region_larger_than_its_cap() {
    if !needs::regions() {
        return;
    }
    let heap = heaps(64 * MIB).pop().expect("over a region, its metadata there, too");
    let mut numbers = HeapVec::new_in(heap.clone());
    numbers.extend(0..4_u64 << 20);
    let mut map = HashMap::with_hasher_in(DefaultHashBuilder::default(), heap.clone());
    for key in 0..100_000_u64 {
        let mut values = HeapVec::new_in(heap.clone());
        values.extend([key; 3]);
        map.insert(key, values);
    }
    let below = heap.region().map(|region| region.stats()).expect("a region");
    assert!(below.written_bytes > to_u64(8 * MIB), "{below:?}");
    drop(heap);
    assert!(numbers.iter().copied().eq(0..4 << 20));
    assert!((0..100_000).all(|key| map[&key].iter().all(|value| *value == key)));
}

/// The objects are never touched, so the blocks in memory afterwards are those that the allocator
/// wrote.
#[test]
fn separate_metadata_touch_nothing_of_the_range() {
    if !needs::regions() {
        return;
    }
    let touched = |metadata| {
        let region = region(512 * MIB, 64 * MIB);
        let memory = Backing::region(Arc::clone(&region));
        let heap = Heap::new(HeapConfig { metadata, ..HeapConfig::new("fig", memory) });
        let heap = heap.expect("a heap");
        let before = heap.stats().expect("statistics").taken_bytes;
        let all: Vec<NonNull<u8>> =
            (0..20_000).map(|_| heap.allocate(layout(16 * KIB, 8)).expect("room")).collect();
        assert!(all.iter().all(|object| heap.contains(object.as_ptr())));
        let metadata_bytes = heap.stats().expect("statistics").metadata_bytes;
        assert!(metadata_bytes > to_u64(2 * MIB), "{metadata_bytes}");
        (before, region.stats().zeroed)
    };
    assert_eq!(touched(Metadata::Separate), (0, 0), "no block was ever in memory");
    let (before, blocks) = touched(Metadata::Together);
    assert!(before >= to_u64(2 * MIB), "the first block of metadata is taken at once: {before}");
    assert!(blocks > 64, "and more than what was kept for it came to memory: {blocks}");
}

/// Objects of 16 KiB, and smaller and larger ones, leave little of a full range unused.
#[test]
fn a_range_is_filled() {
    for retain in [Retain::default(), Retain::Off] {
        for (size, at_most) in [(KIB, 1.05), (16 * KIB, 1.05), (100 * KIB, 1.16)] {
            let memory = Backing::Dram { bytes: 64 * MIB };
            let config =
                HeapConfig { retain, thread_caches: false, ..HeapConfig::new("x", memory) };
            let heap = Heap::new(config).expect("a heap");
            let mut count = 0;
            let error = loop {
                match heap.allocate(layout(size, 8)) {
                    Ok(_) => count += 1,
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, HeapError::NoRoom { .. }), "{error}");
            let ratio = (64 * MIB) as f64 / (count * size) as f64;
            assert!(ratio <= at_most, "{retain:?}, {size} bytes: {ratio:.3}");
            let stats = heap.stats().expect("statistics");
            assert!(stats.refusals > 0, "{stats:?}");
            if size == 16 * KIB {
                let few = retain != Retain::Off;
                assert_eq!(stats.extents < 1000, few, "{retain:?}: {stats:?}");
                assert_eq!(stats.extents > 3000, !few, "{retain:?}: {stats:?}");
            }
        }
    }
}

#[test]
fn memory_in_use_counts_and_comes_back() {
    for retain in [Retain::default(), Retain::Off] {
        let ledger = Ledger::new(to_u64(32 * MIB));
        let memory = Backing::Dram { bytes: 256 * MIB };
        let config =
            HeapConfig { retain, ledger: Some(ledger.clone()), ..HeapConfig::new("h", memory) };
        let heap = Heap::new(config).expect("a heap");
        let mut objects = Vec::new();
        while let Ok(object) = heap.allocate(layout(MIB, 8)) {
            fill(object, MIB, 1);
            objects.push(object);
        }
        assert!((30..=32).contains(&objects.len()), "{retain:?}: {}", objects.len());
        assert!(ledger.granted() >= to_u64(objects.len() * MIB));
        // SAFETY: the objects are not used afterwards.
        objects.drain(..).for_each(|object| unsafe { heap.deallocate(object, layout(MIB, 8)) });
        heap.trim();
        assert_eq!(ledger.granted(), 0, "{retain:?}");
        if retain == Retain::Off {
            // The arena keeps extents that the budget refused, to use them for later requests.
            let taken = heap.stats().expect("statistics").taken_bytes;
            assert!(taken <= to_u64(2 * MIB), "{taken}");
        }
        objects.extend(heap.allocate(layout(5 * MIB, 8)));
        assert!(ledger.granted() >= to_u64(5 * MIB) && objects.len() == 1);
        drop(heap);
        assert_eq!(ledger.granted(), 0, "{retain:?}: dropped with its objects");
    }
}

#[test]
fn a_reset_frees_all_at_once() {
    for heap in heaps(32 * MIB) {
        for round in 0..5_u8 {
            let sizes = (0..3000).map(|at| layout(8 + at % 5000, 8));
            for layout in sizes {
                fill(heap.allocate(layout).expect("room"), layout.size(), round);
            }
            // Another thread has a cache that is not empty, too.
            let other = heap.clone();
            let thread = std::thread::spawn(move || {
                let object = other.allocate(layout(64, 8)).expect("room");
                // SAFETY: the object was allocated by this thread and is not used afterwards.
                unsafe { other.deallocate(object, layout(64, 8)) };
            });
            thread.join().expect("ended");
            // SAFETY: the objects are not used afterwards, and no other thread uses the heap.
            unsafe { heap.reset() }.expect("reset");
            let stats = heap.stats().expect("statistics");
            assert_eq!((stats.small_bytes, stats.large_bytes), (0, 0), "{}", heap.name());
        }
    }
}

#[test]
fn copies_stay_while_they_are_held() {
    for heap in heaps(32 * MIB) {
        let bytes: Vec<u8> = (0..MIB + 5).map(|at| at.to_le_bytes()[0]).collect();
        let copy = heap.copy(&bytes, 64).expect("room");
        assert!(copy.as_ref().as_ptr().addr().is_multiple_of(64));
        assert!(copy.heap().contains(copy.as_ref().as_ptr()));
        let empty = heap.copy(&[], 64).expect("nothing needs no room");
        drop(heap);
        assert!(copy.as_ref() == bytes && empty.as_ref().is_empty());
        let heap = copy.heap().clone();
        drop(copy);
        heap.trim();
        assert_eq!(heap.stats().expect("statistics").large_bytes, 0, "{}", heap.name());
        assert!(heap.copy(&bytes, 3).expect_err("no alignment").to_string().contains("of 3"));
    }
}

#[test]
fn one_region_serves_many_heaps() {
    if !needs::regions() {
        return;
    }
    let region = region(64 * MIB, 16 * MIB);
    let heaps: Vec<Heap> = (0..4)
        .map(|part| {
            let (offset, bytes) = (part * 16 * MIB, 16 * MIB);
            let memory = Backing::Region { region: Arc::clone(&region), offset, bytes };
            Heap::new(HeapConfig::new(format!("part {part}"), memory)).expect("a heap")
        })
        .collect();
    for round in 0..1000 {
        let heap = &heaps[round % 4];
        let object = heap.allocate(layout(round, 8)).expect("room");
        assert!(round == 0 || heap.contains(object.as_ptr()));
        assert_eq!(
            heaps.iter().filter(|it| it.contains(object.as_ptr())).count(),
            (round > 0).into()
        );
    }
}

#[test]
fn what_cannot_be_is_named() {
    let small = Backing::Dram { bytes: MIB };
    let error = Heap::new(HeapConfig::new("small", small)).expect_err("too small").to_string();
    assert!(error.contains("small") && error.contains("8MiB"), "{error}");
    let node = Backing::Node { node: 777, bytes: 16 * MIB };
    let error = Heap::new(HeapConfig::new("far", node)).expect_err("no such node").to_string();
    assert!(error.contains("heap far") && error.contains("node"), "{error}");
    let memory = Backing::Dram { bytes: 16 * MIB };
    let heap = Heap::new(HeapConfig::new("full", memory)).expect("a heap");
    let error = heap.allocate(layout(17 * MIB, 8)).expect_err("no room").to_string();
    assert_eq!(error, "heap full: no room for 17825792 bytes");
}

#[test]
fn what_cannot_be_in_a_region_is_named() {
    if !needs::regions() {
        return;
    }
    let region = region(16 * MIB, 16 * MIB);
    let beyond = Backing::Region { region: region.clone(), offset: 8 * MIB, bytes: 16 * MIB };
    let error = Heap::new(HeapConfig::new("beyond", beyond)).expect_err("outside").to_string();
    assert!(error.contains("region below"), "{error}");
    let memory = Backing::region(region);
    let config = HeapConfig { ledger: Some(Ledger::new(1)), ..HeapConfig::new("twice", memory) };
    assert!(Heap::new(config).expect_err("counted twice").to_string().contains("ledger"));
}

/// No byte belongs to two heaps, and no safe call of the region changes or loses a byte of a heap.
#[test]
fn a_part_of_a_region_is_one_heap_s() {
    if !needs::regions() {
        return;
    }
    let region = region(64 * MIB, 16 * MIB);
    let part = |offset| Backing::Region { region: region.clone(), offset, bytes: 32 * MIB };
    let first = Heap::new(HeapConfig::new("first", part(0))).expect("a heap");
    let beside = Heap::new(HeapConfig::new("beside", part(32 * MIB))).expect("a heap");
    for offset in [0, 16 * MIB, 32 * MIB - 4096] {
        let error = Heap::new(HeapConfig::new("second", part(offset))).expect_err("taken");
        assert!(matches!(error, HeapError::Region { .. }), "{error}");
        assert!(error.to_string().contains("a part of heap"), "{error}");
    }
    let kept = first.copy(&[1; 100_000], 8).expect("room");
    let at = kept.as_ref().as_ptr().addr() - region.as_ptr().addr();
    for advice in [Advice::Unused, Advice::Immutable] {
        region.advise(0, to_u64(region.len()), advice).expect_err("in use");
    }
    let changes = std::panic::AssertUnwindSafe(|| region.store(at, 9));
    assert!(std::panic::catch_unwind(changes).is_err());
    region.evict(0, to_u64(region.len())).expect("gone");
    assert!(kept.as_ref().iter().all(|byte| *byte == 1));
    drop((first, beside));
    Heap::new(HeapConfig::new("second", part(16 * MIB))).expect_err("a buffer keeps its heap");
    drop(kept);
    Heap::new(HeapConfig::new("second", part(16 * MIB))).expect("it is free");
}

/// A cap too small for the first block of metadata is an error at once.
#[test]
fn metadata_that_do_not_fit_the_cap_are_refused() {
    if !needs::regions() {
        return;
    }
    let memory = Backing::region(region(64 * MIB, 2 * MIB));
    let config = HeapConfig { metadata: Metadata::Together, ..HeapConfig::new("tight", memory) };
    let began = Instant::now();
    let error = Heap::new(config).expect_err("it takes 4 MiB").to_string();
    assert!(error.contains("heap tight") && error.contains("its cap is 2MiB"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(10), "no thread waits for that");
}

/// Minimum cap that the C interface documents for metadata in a region.
#[test]
fn four_mib_and_a_block_for_each_pager_hold_the_first_metadata() {
    if !needs::regions() {
        return;
    }
    let moving = needs::moves().then_some(Method::Move);
    for method in [Method::Copy].into_iter().chain(moving) {
        for (block_bytes, pagers) in [(64 * KIB, 1), (256 * KIB, 2), (2 * MIB, 1)] {
            let cap = to_u64((4 * MIB + block_bytes) * pagers);
            let (len, contents) = (to_u64(64 * MIB), Contents::Blank);
            let blocks = Arc::new(MemoryBlocks::new(len));
            let source = Source { blocks, offset: 0, len, contents };
            let below = RegionConfig::new("below", Ledger::new(cap));
            let below = RegionConfig { block_bytes, pagers, method: Some(method), ..below };
            let memory = Backing::region(Arc::new(Region::new(below, source).expect("made")));
            let metadata = Metadata::Together;
            let heap = Heap::new(HeapConfig { metadata, ..HeapConfig::new("tight", memory) });
            heap.unwrap_or_else(|error| panic!("{method}, {block_bytes}, {pagers}: {error}"));
        }
    }
}

#[test]
fn heaps_are_listed_while_they_live() {
    let memory = Backing::Dram { bytes: 16 * MIB };
    let heap = Heap::new(HeapConfig::new("listed", memory)).expect("a heap");
    let object = heap.allocate(layout(1 << 20, 8)).expect("room");
    let find = || terrace_heap::heaps().into_iter().find(|heap| heap.name == "listed");
    let found = find().expect("it is there");
    assert_eq!((found.memory, found.large_bytes), ("dram", 1 << 20));
    // SAFETY: the object was allocated by this thread and is not used afterwards.
    unsafe { heap.deallocate(object, layout(1 << 20, 8)) };
    drop(heap);
    assert!(find().is_none());
}
