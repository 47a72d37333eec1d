//! Heaps whose budget others have.

use std::alloc::Layout;

use terrace_heap::{Heap, HeapConfig, HeapError, HeapMemory, Retain};
use terrace_market::{Class, Ledger};

const MIB: usize = 1 << 20;

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 8).expect("a layout")
}

/// However often a heap is refused, it has its addresses when the budget has room again.
#[test]
fn refusals_cost_no_addresses() {
    for retain in [Retain::default(), Retain::Off] {
        let ledger = Ledger::new(64 << 20);
        let others = ledger.register("others", Class::Region);
        let memory = HeapMemory::Dram { bytes: 128 * MIB };
        let ledger_of = Some(ledger.clone());
        let heap =
            Heap::new(HeapConfig { ledger: ledger_of, retain, ..HeapConfig::new("poor", memory) });
        let heap = heap.expect("a heap");
        let small = heap.allocate(layout(MIB)).expect("room");
        let rest = ledger.available();
        others.try_grow(rest).expect("all of it");
        for round in 0..300 {
            let error = heap.allocate(layout(MIB)).expect_err("no budget");
            assert!(matches!(error, HeapError::NoRoom { .. }), "{error}");
            let taken = heap.stats().expect("told").taken_bytes;
            assert!(taken <= 16 << 20, "{retain:?}, round {round}: {taken}");
        }
        others.shrink(rest);
        let large = heap.allocate(layout(48 * MIB)).expect("room");
        // SAFETY: objects of this heap and these layouts, used no more.
        unsafe {
            heap.deallocate(large, layout(48 * MIB));
            heap.deallocate(small, layout(MIB));
        }
    }
}
