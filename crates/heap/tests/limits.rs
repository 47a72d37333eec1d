//! What all heaps of a process share: this test takes it all, so it has a process of its own.

use terrace_heap::{Heap, HeapConfig, HeapError, HeapMemory};

const MIB: usize = 1 << 20;

/// As many arenas as the allocator has: the error says so, and those that ended serve again.
#[test]
fn arenas_run_out_and_come_back() {
    let make = || Heap::new(HeapConfig::new("one of many", HeapMemory::Dram { bytes: 8 * MIB }));
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
