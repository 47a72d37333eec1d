//! Heaps whose budget is used up by other consumers.

use std::alloc::Layout;

use terrace_heap::{Backing, Heap, HeapConfig, HeapError, Retain};
use terrace_ledger::{Class, Ledger};

const MIB: usize = 1 << 20;

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 8).expect("a layout")
}

/// Refusals by the budget take no addresses: a heap allocates again once the budget has room.
#[test]
fn refusals_cost_no_addresses() {
    for retain in [Retain::default(), Retain::Off] {
        let ledger = Ledger::new(64 << 20);
        let others = ledger.register("others", Class::Region);
        let memory = Backing::Dram { bytes: 128 * MIB };
        let ledger_of = Some(ledger.clone());
        let heap =
            Heap::new(HeapConfig { ledger: ledger_of, retain, ..HeapConfig::new("poor", memory) });
        let heap = heap.expect("a heap");
        let small = heap.allocate(layout(MIB)).expect("room");
        let rest = ledger.available();
        others.try_grow(rest).expect("all of it");
        // Some requests exceed the whole budget, too: earlier room in the budget does not serve
        // them.
        for (round, bytes) in (0..300).zip([MIB, 100 * MIB, 30 * MIB].into_iter().cycle()) {
            let error = heap.allocate(layout(bytes)).expect_err("no budget");
            assert!(matches!(error, HeapError::NoRoom { .. }), "{error}");
            let taken = heap.stats().expect("told").taken_bytes;
            assert!(taken <= 16 << 20, "{retain:?}, round {round}: {taken}");
        }
        others.shrink(rest);
        let large = heap.allocate(layout(48 * MIB)).expect("room");
        // SAFETY: the objects belong to this heap, have these layouts, and are not used afterwards.
        unsafe {
            heap.deallocate(large, layout(48 * MIB));
            heap.deallocate(small, layout(MIB));
        }
    }
}

/// The addresses of a freed object, merged with free addresses behind them, serve a larger object.
#[test]
fn what_is_free_is_one_with_what_lies_behind_it() {
    for retain in [Retain::default(), Retain::Off] {
        let memory = Backing::Dram { bytes: 64 * MIB };
        let heap = Heap::new(HeapConfig { retain, ..HeapConfig::new("small", memory) });
        let heap = heap.expect("a heap");
        for bytes in [20 * MIB, 40 * MIB, 50 * MIB] {
            let object = heap.allocate(layout(bytes)).expect("room");
            // SAFETY: the object belongs to this heap, has this layout, and is not used afterwards.
            unsafe { heap.deallocate(object, layout(bytes)) };
            heap.trim();
        }
    }
}
