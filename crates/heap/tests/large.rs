//! Memory of freed small objects serves large ones.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_heap::{Backing, Heap, HeapConfig, Metadata, Retain};
use terrace_ledger::Ledger;
use terrace_region::{Contents, Region, RegionConfig, Source};
use terrace_store::MemoryBlocks;
use terrace_sys::size::to_u64;
use terrace_testkit::needs;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const BYTES: usize = 100 * MIB;
const RETAINS: [Retain; 2] = [Retain::On { growth_bytes_max: 8 * MIB }, Retain::Off];

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("a layout")
}

fn free(heap: &Heap, objects: Vec<(NonNull<u8>, usize)>) {
    for (object, size) in objects {
        // SAFETY: the object belongs to this heap, has this layout, and is not used afterwards.
        unsafe { heap.deallocate(object, layout(size)) };
    }
}

/// Allocates objects of these sizes in turn until one is refused.
fn fill(heap: &Heap, sizes: &[usize]) -> Vec<(NonNull<u8>, usize)> {
    let sizes = sizes.iter().copied().cycle();
    sizes.map_while(|size| Some((heap.allocate(layout(size)).ok()?, size))).collect()
}

/// Returns the size in MiB of the largest object that the heap has room for.
fn largest(heap: &Heap) -> usize {
    let fits = |mib: &usize| {
        let object = heap.allocate(layout(mib * MIB));
        object.map(|object| free(heap, vec![(object, mib * MIB)])).is_ok()
    };
    (1..=BYTES / MIB).rev().find(fits).unwrap_or(0)
}

#[test]
fn large_objects_follow_small_ones() {
    // Without retention, blocks of metadata can lie anywhere in the range, so that case is left
    // out.
    let [on, off] = RETAINS;
    let all = [(Metadata::Separate, on), (Metadata::Separate, off), (Metadata::Together, on)];
    for (metadata, retain) in all {
        let memory = Backing::Dram { bytes: BYTES };
        let config = HeapConfig { retain, metadata, ..HeapConfig::new("small", memory) };
        let heap = Heap::new(config).expect("a heap");
        let first = largest(&heap);
        heap.trim();
        let least = if metadata == Metadata::Separate { 96 } else { 80 };
        assert!(first >= least, "{metadata:?}, {retain:?}: {first} MiB");
        for sizes in [&[1000][..], &[100 * KIB], &[48, 5000, 40 * KIB, 3 * MIB]] {
            free(&heap, fill(&heap, sizes));
            assert_eq!(largest(&heap), first, "{metadata:?}, {retain:?}, {sizes:?}");
        }
    }
}

/// Allocation waits for pages that another thread is giving back: the arena cannot use them
/// meanwhile.
#[test]
fn what_another_thread_gives_back_is_waited_for() {
    for metadata in [Metadata::Separate, Metadata::Together] {
        let memory = Backing::Dram { bytes: BYTES };
        let heap = Heap::new(HeapConfig { metadata, ..HeapConfig::new("shared", memory) });
        let heap = heap.expect("a heap");
        let size = layout(largest(&heap) * MIB);
        for round in 0..50 {
            free(&heap, fill(&heap, &[100 * KIB]));
            let object = std::thread::scope(|threads| {
                threads.spawn(|| heap.trim());
                heap.allocate(size)
            });
            let object = object.unwrap_or_else(|error| panic!("round {round}: {error}"));
            free(&heap, vec![(object, size.size())]);
        }
        let objects = fill(&heap, &[100 * KIB]);
        // The shortest of some, as other processes may delay one.
        let refusal = || {
            let start = Instant::now();
            heap.allocate(size).expect_err("full");
            start.elapsed()
        };
        let shortest = (0..5).map(|_| refusal()).min().expect("five");
        assert!(shortest < Duration::from_millis(100), "{shortest:?}");
        free(&heap, objects);
    }
}

/// Free pages count against the budget until they are given back, but cause no refusal.
#[test]
fn a_budget_serves_large_objects_after_small_ones() {
    for retain in RETAINS {
        let ledger = Ledger::new(to_u64(16 * MIB));
        let memory = Backing::Dram { bytes: BYTES };
        let decay_ms = None;
        let config = HeapConfig::new("poor", memory);
        let heap =
            Heap::new(HeapConfig { ledger: Some(ledger.clone()), decay_ms, retain, ..config });
        let heap = heap.expect("a heap");
        assert_eq!(ledger.granted(), 0, "addresses cost nothing");
        free(&heap, fill(&heap, &[1000]));
        assert!(largest(&heap) >= 14, "{retain:?}: {} MiB of 16", largest(&heap));
        drop(heap);
        assert_eq!(ledger.granted(), 0, "{retain:?}");
    }
}

/// Freed pages are kept for their decay time, even in long runs: returning pages and taking them
/// again costs more than the rest of an allocation.
#[test]
fn what_is_freed_stays_for_its_time() {
    let memory = Backing::Dram { bytes: BYTES };
    let config = HeapConfig { decay_ms: None, ..HeapConfig::new("kept", memory) };
    let heap = Heap::new(config).expect("a heap");
    let taken = || heap.stats().expect("told").taken_bytes;
    let objects = fill(&heap, &[100 * KIB]);
    let bytes = to_u64(objects.len() * 100 * KIB);
    free(&heap, objects);
    assert!(taken() >= bytes, "{} of {bytes}", taken());
    heap.trim();
    assert_eq!(taken(), 0);
}

#[test]
fn a_region_serves_large_objects_after_small_ones() {
    if !needs::regions() {
        return;
    }
    let blocks = Arc::new(MemoryBlocks::new(to_u64(BYTES)));
    let source = Source { blocks, offset: 0, len: to_u64(BYTES), contents: Contents::Blank };
    let config = RegionConfig::new("below", Ledger::new(to_u64(16 * MIB)));
    let memory = Backing::region(Arc::new(Region::new(config, source).expect("a region")));
    let heap = Heap::new(HeapConfig::new("far", memory)).expect("a heap");
    let before = heap.region().map(|region| region.stats().zeroed);
    assert_eq!(before, Some(0), "no block came to memory for addresses");
    free(&heap, fill(&heap, &[100 * KIB]));
    assert!(largest(&heap) >= 96, "{} MiB", largest(&heap));
}
