//! Process-wide limit of arenas. The test exhausts it, so it has a process of its own.

use terrace_heap::{Backing, Heap, HeapConfig, HeapError};

const MIB: usize = 1 << 20;

/// Exhausting the allocator's arenas is an error that says so; destroyed arenas are used again.
#[test]
fn arenas_run_out_and_come_back() {
    let make = || Heap::new(HeapConfig::new("one of many", Backing::Dram { bytes: 8 * MIB }));
    for _ in 0..2 {
        let mut heaps = Vec::new();
        let error = loop {
            match make() {
                Ok(heap) => heaps.push(heap),
                Err(error) => break error,
            }
            assert!(heaps.len() < 5000);
        };
        assert!(matches!(error, HeapError::Arena { .. }), "{error}");
        assert!(heaps.len() > 1000, "{}", heaps.len());
    }
}
