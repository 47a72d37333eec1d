//! In a process that locks its memory (`mlockall`), a heap takes memory only for bytes in use, and
//! gives it back.

use std::alloc::Layout;

use terrace_heap::{Backing, Heap, HeapConfig};
use terrace_sys::fault_injection;
use terrace_sys::process::resident_bytes;
use terrace_testkit::{child, needs};

const MIB: usize = 1 << 20;
const TEST: &str = "addresses_take_no_memory_where_the_process_locks_it";

fn grown_mib(before: u64) -> u64 {
    resident_bytes().expect("told").saturating_sub(before) >> 20
}

#[test]
fn addresses_take_no_memory_where_the_process_locks_it() {
    if child::part().is_none() {
        let status = child::run(TEST, "lock");
        assert!(status.success(), "{status}");
        return;
    }
    if let Err(error) = fault_injection::lock_memory() {
        return needs::skip(&format!("memory cannot be locked: {error}"));
    }
    let before = resident_bytes().expect("told");
    let memory = Backing::Dram { bytes: 512 * MIB };
    let heap = Heap::new(HeapConfig::new("locked", memory)).expect("a heap");
    assert!(grown_mib(before) < 16, "{} MiB for addresses", grown_mib(before));
    let layout = Layout::new::<[u8; MIB]>();
    let objects: Vec<_> = (0..64).map(|_| heap.allocate(layout).expect("room")).collect();
    for object in objects {
        // SAFETY: the object belongs to this heap, has this layout, and is used by this thread
        // alone.
        unsafe {
            object.write_bytes(1, MIB);
            heap.deallocate(object, layout);
        }
    }
    heap.trim();
    assert!(grown_mib(before) < 16, "{} MiB stay after all was freed", grown_mib(before));
}
