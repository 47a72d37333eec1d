//! Heaps that are created and dropped leak no addresses, memory or mappings.

use std::alloc::Layout;
use std::fs;
use std::time::Instant;

use terrace_heap::{Backing, Heap, HeapConfig, Metadata, Retain};
use terrace_sys::process::resident_bytes;
use terrace_testkit::{Rng, soak_time};

const MIB: usize = 1 << 20;
/// Number of heaps after which all caches of the process have their final size.
const WARM: usize = 2000;
/// Number of heaps that live at a time; each new heap replaces one of them.
const BESIDE: usize = 8;

/// Mappings, addresses and memory of the process.
#[derive(Clone, Copy, Debug)]
struct Held {
    mappings: usize,
    address_bytes: u64,
    resident_bytes: u64,
}

impl Held {
    fn now() -> Self {
        let maps = fs::read_to_string("/proc/self/maps").expect("told");
        let sizes = fs::read_to_string("/proc/self/statm").expect("told");
        let pages = sizes.split(' ').next().and_then(|pages| pages.parse::<u64>().ok());
        Self {
            mappings: maps.lines().count(),
            address_bytes: pages.expect("a number") * 4096,
            resident_bytes: resident_bytes().expect("told"),
        }
    }
}

fn heap(rng: &mut Rng) -> Heap {
    let bytes = (8 + rng.index(56)) * MIB;
    let metadata = if rng.below(4) == 0 { Metadata::Together } else { Metadata::Separate };
    let retain = if rng.below(2) == 0 { Retain::Off } else { Retain::default() };
    let config = HeapConfig::new("one of many", Backing::Dram { bytes });
    let heap = Heap::new(HeapConfig { metadata, retain, ..config }).expect("a heap");
    for _ in 0..8 {
        let size = 1 << rng.below(19);
        let object = heap.allocate(Layout::from_size_align(size, 8).expect("a layout"));
        // SAFETY: the object was just allocated with at least one byte.
        unsafe { object.expect("room").write(1) };
    }
    heap
}

#[test]
fn heaps_that_end_leave_nothing_behind() {
    let mut rng = Rng::new(1);
    let mut beside: Vec<Heap> = (0..BESIDE).map(|_| heap(&mut rng)).collect();
    let mut turn = |count: usize| {
        for _ in 0..count {
            let at = rng.index(BESIDE);
            beside[at] = heap(&mut rng);
        }
    };
    turn(WARM);
    let before = Held::now();
    let (end, mut count) = (Instant::now() + soak_time(), 0);
    while Instant::now() < end {
        turn(1000);
        count += 1000;
    }
    let after = Held::now();
    let told = format!("{count} heaps later: {before:?}, then {after:?}");
    assert!(after.mappings < before.mappings + 64, "{told}");
    assert!(after.address_bytes < before.address_bytes + (1 << 30), "{told}");
    assert!(after.resident_bytes < before.resident_bytes + (4 << 20), "{told}");
}
