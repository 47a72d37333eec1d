//! Heaps across `fork`: access of a child process to its parent's heaps, which stay intact.
//!
//! A heap whose metadata lie in a region ends every child of the process, so one test at a time
//! creates children.

use std::alloc::Layout;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use terrace_heap::{Backing, Heap, HeapConfig, Metadata};
use terrace_ledger::Ledger;
use terrace_region::{Contents, Region, RegionConfig, Source};
use terrace_store::MemoryBlocks;
use terrace_sys::fault_injection;
use terrace_sys::size::to_u64;
use terrace_sys::sync::lock;
use terrace_testkit::needs;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const LAYOUT: Layout = Layout::new::<[u8; 1000]>();
/// Number of objects, 20 MB in total; a region holds 8 MiB of them in memory.
const OBJECTS: usize = 20_000;
const CHILDREN: usize = 20;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    lock(&ONE_AT_A_TIME)
}

fn heap(memory: Backing, metadata: Metadata) -> Heap {
    Heap::new(HeapConfig { metadata, ..HeapConfig::new("forked", memory) }).expect("a heap")
}

fn in_dram() -> Heap {
    heap(Backing::Dram { bytes: 64 * MIB }, Metadata::Separate)
}

fn in_a_region(metadata: Metadata) -> Heap {
    let blocks = Arc::new(MemoryBlocks::new(to_u64(64 * MIB)));
    let (len, contents) = (to_u64(64 * MIB), Contents::Blank);
    let source = Source { blocks, offset: 0, len, contents };
    let ledger = Ledger::new(to_u64(8 * MIB));
    let config = RegionConfig { block_bytes: 64 * KIB, ..RegionConfig::new("below", ledger) };
    let region = Region::new(config, source).expect("a region");
    heap(Backing::region(Arc::new(region)), metadata)
}

/// Objects of a heap, filled with a stamp that tests check.
struct Objects<'a> {
    heap: &'a Heap,
    all: Vec<NonNull<u8>>,
}

impl<'a> Objects<'a> {
    fn new(heap: &'a Heap, count: usize, stamp: u8) -> Self {
        let mut objects = Self { heap, all: Vec::with_capacity(count) };
        objects.all.extend((0..count).filter_map(|_| heap.allocate(LAYOUT).ok()));
        objects.fill(stamp);
        objects
    }

    fn fill(&mut self, stamp: u8) {
        // SAFETY: each object has `LAYOUT.size()` bytes and is used by this thread alone.
        self.all.iter().for_each(|object| unsafe { object.write_bytes(stamp, LAYOUT.size()) });
    }

    fn are(&self, stamp: u8) -> bool {
        let is = |object: &NonNull<u8>| {
            // SAFETY: as above, and its bytes were written.
            unsafe { std::slice::from_raw_parts(object.as_ptr(), LAYOUT.size()) }
                .iter()
                .all(|byte| *byte == stamp)
        };
        self.all.iter().all(is)
    }
}

impl Drop for Objects<'_> {
    fn drop(&mut self) {
        // SAFETY: the objects belong to this heap, have this layout, and are not used afterwards.
        self.all.drain(..).for_each(|object| unsafe { self.heap.deallocate(object, LAYOUT) });
    }
}

/// Forks a child that runs `work`, and exits with success if `work` returned true.
fn child(work: impl FnOnce() -> bool) -> ExitStatus {
    // SAFETY: the allocators that a child calls here reset their locks in the child, and no other
    // thread is in a call of those heaps at the time of the fork.
    unsafe { fault_injection::in_child(|| u8::from(!work())) }.expect("a child")
}

/// Uses the program's allocator and a heap in DRAM, which every child may do; true if both work.
fn works(dram: &Heap) -> bool {
    let numbers: Vec<usize> = (0..100_000).collect();
    let objects = Objects::new(dram, 3000, 5);
    objects.all.len() == 3000 && objects.are(5) && numbers.iter().sum::<usize>() == 4_999_950_000
}

/// Forks children while another thread of the parent uses the heap, and then checks all objects.
fn make_children(heap: &Heap, make: impl Fn()) {
    let (kept, stop) = (Objects::new(heap, OBJECTS, 7), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                assert!(Objects::new(heap, 100, 3).are(3), "a parent's objects");
            }
        });
        (0..CHILDREN).for_each(|_| make());
        stop.store(true, Ordering::Relaxed);
    });
    assert!(kept.all.len() == OBJECTS && kept.are(7), "a parent's objects");
    drop(kept);
    heap.trim();
    let stats = heap.stats().expect("statistics");
    assert_eq!((stats.small_bytes, stats.large_bytes), (0, 0));
}

#[test]
fn a_child_has_a_copy_of_a_heap_in_dram() {
    let _alone = alone();
    let node = needs::nodes().then_some(Backing::Node { node: 0, bytes: 64 * MIB });
    for memory in [Backing::Dram { bytes: 64 * MIB }].into_iter().chain(node) {
        for metadata in [Metadata::Separate, Metadata::Together] {
            let heap = heap(memory.clone(), metadata);
            let mut objects = Objects::new(&heap, OBJECTS, 1);
            let status = child(|| {
                let had = objects.are(1);
                objects.fill(2);
                had && objects.are(2) && works(&heap)
            });
            assert!(status.success(), "{memory:?}, {metadata:?}: {status}");
            assert!(objects.are(1) && works(&heap), "{memory:?}, {metadata:?}");
        }
    }
}

#[test]
fn a_child_has_all_but_the_objects_in_a_region() {
    let _alone = alone();
    if !needs::regions() {
        return;
    }
    let (heap, dram) = (in_a_region(Metadata::Separate), in_dram());
    make_children(&heap, || {
        let object = Objects::new(&heap, 1, 9);
        let status = child(|| works(&dram));
        assert!(status.success(), "{status}");
        let status = child(|| object.are(9));
        assert_eq!(status.signal(), Some(fault_injection::SIGSEGV), "not mapped there: {status}");
        assert!(object.are(9));
    });
}

#[test]
fn metadata_in_a_region_end_a_child_at_once() {
    let _alone = alone();
    if !needs::regions() {
        return;
    }
    let (heap, dram) = (in_a_region(Metadata::Together), in_dram());
    make_children(&heap, || {
        let status = child(|| true);
        assert_eq!(
            status.signal(),
            Some(fault_injection::SIGSEGV),
            "before it does anything: {status}"
        );
    });
    // A program is started without `fork`, so it is not affected.
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program).arg("--list").output().expect("started");
    assert!(output.status.success() && !output.stdout.is_empty(), "{output:?}");
    drop(heap);
    let status = child(|| works(&dram));
    assert!(status.success(), "the heap has ended: {status}");
}
