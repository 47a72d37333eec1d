//! Many threads over many heaps; each thread frees objects that others allocated.
//!
//! The test runs for a second by default; `TERRACE_SOAK_SECONDS` makes it longer.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

use terrace_heap::{Backing, Heap, HeapConfig, Metadata, Retain};
use terrace_ledger::Ledger;
use terrace_region::{Contents, Region, RegionConfig, Source};
use terrace_store::MemoryBlocks;
use terrace_sys::size::to_u64;
use terrace_testkit::{Rng, needs, soak_time};

const THREADS: usize = 64;
const HEAPS: usize = 8;
const HEAP_BYTES: usize = 64 << 20;

/// An object that threads pass on: its heap, and the stamp that fills it.
struct Object {
    place: NonNull<u8>,
    layout: Layout,
    heap: usize,
    stamp: u8,
}

// SAFETY: only the thread that owns the value uses the object.
unsafe impl Send for Object {}

impl Object {
    fn new(heaps: &[Heap], rng: &mut Rng) -> Option<Self> {
        let heap = rng.index(HEAPS);
        let size: usize = 1 << rng.below(16);
        let layout = Layout::from_size_align(size + rng.index(size), 8).ok()?;
        let place = heaps[heap].allocate(layout).ok()?;
        let is_in = |heap: &Heap| heap.contains(place.as_ptr());
        assert!(is_in(&heaps[heap]), "an object of another heap");
        assert_eq!(heaps.iter().filter(|heap| is_in(heap)).count(), 1);
        let stamp = rng.next_u64().to_le_bytes()[0];
        // SAFETY: the object was just allocated with this layout.
        unsafe { place.write_bytes(stamp, layout.size()) };
        Some(Self { place, layout, heap, stamp })
    }

    fn check(&self) {
        let len = self.layout.size();
        // SAFETY: the object's bytes were written, and this thread owns the object.
        let bytes = unsafe { std::slice::from_raw_parts(self.place.as_ptr(), len) };
        let wrong = |byte: &u8| *byte != self.stamp;
        let Some(first) = bytes.iter().position(wrong) else { return };
        let last = bytes.iter().rposition(wrong).unwrap_or(first);
        panic!(
            "another thread wrote to bytes {first} to {last} of {len} at {:?} of heap {}, full of \
             {}: {:?}",
            self.place,
            self.heap,
            self.stamp,
            &bytes[first..(first + 32).min(len)],
        );
    }

    fn resize(&mut self, heaps: &[Heap], rng: &mut Rng) {
        let size = 1 + rng.index(64 << 10);
        let Ok(layout) = Layout::from_size_align(size, 8) else { return };
        // SAFETY: this thread owns the object, which belongs to this heap and has this layout.
        let place = unsafe { heaps[self.heap].reallocate(self.place, self.layout, layout) };
        let Ok(place) = place else { return };
        let kept = self.layout.size().min(size);
        (self.place, self.layout) = (place, Layout::from_size_align(kept, 8).expect("smaller"));
        self.check();
        self.layout = layout;
        // SAFETY: as above.
        unsafe { place.write_bytes(self.stamp, size) };
    }

    fn free(self, heaps: &[Heap]) {
        self.check();
        // SAFETY: as above; the object is not used afterwards.
        unsafe { heaps[self.heap].deallocate(self.place, self.layout) };
    }
}

fn churn(
    heaps: &[Heap],
    seed: u64,
    others: &[Sender<Object>],
    own: &Receiver<Object>,
    end: Instant,
) {
    let mut rng = Rng::new(seed);
    let mut held = Vec::new();
    while Instant::now() < end {
        for _ in 0..64 {
            match rng.below(4) {
                0 | 1 if held.len() < 40 => held.extend(Object::new(heaps, &mut rng)),
                2 if !held.is_empty() => {
                    let at = rng.index(held.len());
                    held[at].resize(heaps, &mut rng);
                }
                _ if !held.is_empty() => {
                    let object = held.swap_remove(rng.index(held.len()));
                    let to = rng.index(THREADS);
                    // An exited thread receives no objects, so this thread frees the object itself.
                    if let Err(back) = others[to].send(object) {
                        back.0.free(heaps);
                    }
                }
                _ => {}
            }
        }
        own.try_iter().for_each(|object| object.free(heaps));
    }
    held.into_iter().for_each(|object| object.free(heaps));
}

/// Creates the region that half of the heaps share, if the machine has regions.
fn region() -> Option<Arc<Region>> {
    if !needs::regions() {
        return None;
    }
    let len = to_u64(4 * HEAP_BYTES);
    let blocks = Arc::new(MemoryBlocks::new(len));
    let source = Source { blocks, offset: 0, len, contents: Contents::Blank };
    let region = Region::new(RegionConfig::new("below", Ledger::new(128 << 20)), source);
    Some(Arc::new(region.expect("a region")))
}

fn heaps() -> Vec<Heap> {
    let region = region();
    let memory = |at: usize| match &region {
        Some(region) if at >= 4 => {
            let (region, offset) = (Arc::clone(region), (at - 4) * HEAP_BYTES);
            Backing::Region { region, offset, bytes: HEAP_BYTES }
        }
        _ => Backing::Dram { bytes: HEAP_BYTES },
    };
    let make = |at: usize| {
        let metadata = if at.is_multiple_of(2) { Metadata::Separate } else { Metadata::Together };
        let retain = if at % 4 < 2 { Retain::default() } else { Retain::Off };
        let decay_ms = Some(10);
        let named = HeapConfig::new(format!("heap {at}"), memory(at));
        Heap::new(HeapConfig { metadata, retain, decay_ms, ..named }).expect("a heap")
    };
    (0..HEAPS).map(make).collect()
}

/// Dropping the last clone ends the heap, even while threads that used it exit.
#[test]
fn a_thread_that_ends_keeps_no_heap() {
    const BYTES: u64 = 1 << 20;
    for round in 0..200 {
        let ledger = Ledger::new(64 * BYTES);
        let memory = Backing::Dram { bytes: 16 << 20 };
        let named = HeapConfig::new("short", memory);
        let heap = Heap::new(HeapConfig { ledger: Some(ledger.clone()), ..named }).expect("a heap");
        let ready = Arc::new(std::sync::Barrier::new(9));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let (own, ready) = (heap.clone(), Arc::clone(&ready));
                thread::spawn(move || {
                    let bytes = own.copy(&[7; 100], 8).expect("room");
                    drop((bytes, own));
                    ready.wait();
                })
            })
            .collect();
        ready.wait();
        drop(heap);
        assert_eq!(ledger.available(), 64 * BYTES, "round {round}");
        threads.into_iter().for_each(|thread| thread.join().expect("no thread fails"));
    }
}

#[test]
fn objects_of_many_threads_and_heaps_stay_apart() {
    let end = Instant::now() + soak_time();
    let heaps = heaps();
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| channel()).unzip();
    let left: Vec<Receiver<Object>> = thread::scope(|scope| {
        let threads: Vec<_> = (0_u64..)
            .zip(receivers)
            .map(|(seed, own)| {
                let (heaps, senders) = (&heaps, senders.clone());
                scope.spawn(move || {
                    churn(heaps, seed, &senders, &own, end);
                    own
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread fails")).collect()
    });
    left.iter().for_each(|own| own.try_iter().for_each(|object| object.free(&heaps)));
    for heap in &heaps {
        heap.trim();
        let stats = heap.stats().expect("statistics");
        assert_eq!((stats.small_bytes, stats.large_bytes), (0, 0), "a leak: {stats:?}");
        assert!(stats.caches <= 1, "caches of threads that ended: {stats:?}");
    }
}
