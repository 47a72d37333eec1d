//! Freed memory of a heap over a region is evicted and not written back.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_heap::{Backing, Heap, HeapConfig, Retain};
use terrace_ledger::Ledger;
use terrace_region::{Contents, Method, Region, RegionConfig, Source};
use terrace_store::MemoryBlocks;
use terrace_sys::size::{to_u64, to_usize};
use terrace_testkit::{Rng, needs, with_seed};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const BLOCK: usize = 64 * KIB;

/// Creates a region that moves blocks or copies them; `None` selects the cheaper method.
fn region_by(method: Option<Method>, bytes: usize, cap: usize) -> Arc<Region> {
    let blocks = Arc::new(MemoryBlocks::new(to_u64(bytes)));
    let source = Source { blocks, offset: 0, len: to_u64(bytes), contents: Contents::Blank };
    let named = RegionConfig::new("below", Ledger::new(to_u64(cap)));
    let config = RegionConfig { block_bytes: BLOCK, method, ..named };
    Arc::new(Region::new(config, source).expect("a region"))
}

fn region(bytes: usize, cap: usize) -> Arc<Region> {
    region_by(None, bytes, cap)
}

fn heap(region: &Arc<Region>, retain: Retain, decay_ms: u32) -> Heap {
    let memory = Backing::region(Arc::clone(region));
    let decay_ms = Some(decay_ms);
    Heap::new(HeapConfig { retain, decay_ms, ..HeapConfig::new("freed", memory) }).expect("a heap")
}

fn bytes(object: NonNull<u8>, len: usize) -> &'static mut [u8] {
    // SAFETY: the object has `len` bytes and is used by this test alone until it is freed.
    unsafe { std::slice::from_raw_parts_mut(object.as_ptr(), len) }
}

fn wait_for(what: &str, region: &Region, is_done: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(10);
    while !is_done() {
        assert!(Instant::now() < until, "{what}: {:?}", region.stats());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_is_freed_leaves_memory_and_is_not_written() {
    const OBJECT: usize = 100 * KIB;
    if !needs::regions() {
        return;
    }
    for retain in [Retain::default(), Retain::Off] {
        let region = region(64 * MIB, 32 * MIB);
        let heap = heap(&region, retain, 60_000);
        let layout = Layout::from_size_align(OBJECT, 64).expect("a layout");
        for round in 0..3 {
            let objects: Vec<NonNull<u8>> =
                (0..100).map(|_| heap.allocate_zeroed(layout).expect("room")).collect();
            for object in &objects {
                let bytes = bytes(*object, OBJECT);
                assert!(bytes.iter().all(|byte| *byte == 0), "round {round}");
                bytes.fill(9);
            }
            let resident = region.stats().resident_bytes;
            assert!(resident >= to_u64(100 * OBJECT), "{retain:?}: {resident}");
            for object in objects {
                // SAFETY: the object belongs to this heap, has this layout, and is not used
                // afterwards.
                unsafe { heap.deallocate(object, layout) };
            }
            heap.trim();
            wait_for("memory comes back", &region, || {
                region.stats().resident_bytes <= to_u64(4 * BLOCK)
            });
        }
        let stats = region.stats();
        // Blocks that were used again during their eviction are written back if dirty, like any
        // others.
        assert!(stats.written_bytes <= to_u64(8 * BLOCK), "{retain:?}: {stats:?}");
        assert!(stats.discarded >= 3 * 100 * to_u64(OBJECT / BLOCK), "{stats:?}");
        drop(heap);
        wait_for("all comes back", &region, || region.stats().resident_bytes <= 2 * to_u64(BLOCK));
    }
}

/// A dropped heap's advice on its blocks is void for their next owner: both for a heap whose part
/// is not aligned to blocks, and for direct users of the region.
#[test]
fn regions_outlive_their_heaps() {
    if !needs::regions() {
        return;
    }
    let regions = [None, Some(Method::Copy)].map(|method| region_by(method, 64 * MIB, 32 * MIB));
    let layout = Layout::from_size_align(16 * KIB, 8).expect("a layout");
    for (round, region) in (0..6_u8).flat_map(|round| regions.iter().map(move |of| (round, of))) {
        let offset = usize::from(round % 3) * 4096;
        let memory = Backing::Region { region: Arc::clone(region), offset, bytes: 16 * MIB + 4096 };
        let heap = Heap::new(HeapConfig::new("in turn", memory)).expect("a heap");
        let objects: Vec<_> = (0..500).map(|_| heap.allocate(layout).expect("room")).collect();
        objects.iter().for_each(|object| bytes(*object, 16 * KIB).fill(round + 1));
        region.evict(0, 17 << 20).expect("gone");
        for object in objects {
            assert!(bytes(object, 16 * KIB).iter().all(|byte| *byte == round + 1), "{round}");
            // SAFETY: the object belongs to this heap, has this layout, and is not used afterwards.
            unsafe { heap.deallocate(object, layout) };
        }
        heap.trim();
        drop(heap);
        wait_for("memory comes back", region, || {
            region.stats().resident_bytes <= to_u64(4 * BLOCK)
        });
        (0..16 * MIB).step_by(KIB).for_each(|at| region.store(at, 99));
        region.evict(0, 16 << 20).expect("gone");
        (0..16 * MIB).step_by(KIB).for_each(|at| assert_eq!(region.load(at), 99, "{round} {at}"));
    }
}

/// Live objects keep their contents while objects of many sizes are replaced and blocks are
/// evicted, with freed pages given back at once or later.
#[test]
fn what_lives_beside_it_is_kept() {
    const HELD: usize = 400;
    if !needs::regions() {
        return;
    }
    for (retain, decay_ms) in [(Retain::default(), 0), (Retain::Off, 0), (Retain::default(), 20)] {
        with_seed(|seed| {
            let region = region(64 * MIB, 2 * MIB);
            let heap = heap(&region, retain, decay_ms);
            let mut rng = Rng::new(seed);
            let mut held: Vec<(NonNull<u8>, Layout, u8)> = Vec::new();
            let mut frees = false;
            for step in 0..8_000_u64 {
                frees = held.len() == HELD || frees && held.len() > HELD / 4;
                if frees {
                    let number = to_usize(rng.below(to_u64(held.len())));
                    let (object, layout, stamp) = held.swap_remove(number);
                    let is_kept = bytes(object, layout.size()).iter().all(|byte| *byte == stamp);
                    assert!(is_kept, "{retain:?}, step {step}");
                    // SAFETY: the object belongs to this heap, has this layout, and is not used
                    // afterwards.
                    unsafe { heap.deallocate(object, layout) };
                    continue;
                }
                let large = rng.below(4) == 0;
                let size = 1 + rng.below(if large { 200 << 10 } else { 8 << 10 });
                let layout = Layout::from_size_align(to_usize(size), 8);
                let layout = layout.expect("a layout");
                let stamp = u8::try_from(1 + rng.below(250)).unwrap_or(1);
                let object = heap.allocate(layout).expect("room");
                bytes(object, layout.size()).fill(stamp);
                held.push((object, layout, stamp));
            }
            heap.trim();
            let stats = region.stats();
            assert!(stats.write_backs > 100, "{retain:?}: {stats:?}");
            // With a decay time, blocks are evicted before their pages are given back.
            assert!(stats.discarded > 100 || decay_ms > 0, "{retain:?}: {stats:?}");
        });
    }
}
