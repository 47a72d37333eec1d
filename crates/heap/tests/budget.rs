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
        // More than the whole budget as well: that there was once room for it helps nobody.
        for (round, bytes) in (0..300).zip([MIB, 100 * MIB, 30 * MIB].into_iter().cycle()) {
            let error = heap.allocate(layout(bytes)).expect_err("no budget");
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

/// What a large object leaves behind serves a larger one, with the addresses that nobody took.
#[test]
fn what_is_free_is_one_with_what_lies_behind_it() {
    for retain in [Retain::default(), Retain::Off] {
        let memory = HeapMemory::Dram { bytes: 64 * MIB };
        let heap = Heap::new(HeapConfig { retain, ..HeapConfig::new("small", memory) });
        let heap = heap.expect("a heap");
        for bytes in [20 * MIB, 40 * MIB, 50 * MIB] {
            let object = heap.allocate(layout(bytes)).expect("room");
            // SAFETY: an object of this heap and layout, used no more.
            unsafe { heap.deallocate(object, layout(bytes)) };
            heap.trim();
        }
    }
}
