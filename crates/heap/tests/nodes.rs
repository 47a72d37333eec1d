//! Heaps on every NUMA node of the machine; the lab has machines with several.

use std::alloc::Layout;
use std::ptr::NonNull;

use terrace_heap::{Backing, Heap, HeapConfig, Metadata};
use terrace_sys::migrate::node_of;
use terrace_sys::numa::nodes;
use terrace_testkit::needs;

const MIB: usize = 1 << 20;

fn node_under(address: *const u8) -> u32 {
    let node = node_of(address).expect("told");
    u32::try_from(node).unwrap_or_else(|_| panic!("no page at {address:p}: {node}"))
}

fn objects(heap: &Heap, count: usize, layout: Layout) -> Vec<NonNull<u8>> {
    let object = |_| {
        let object = heap.allocate(layout).expect("room");
        // SAFETY: the object was just allocated with this layout, and no other code has its
        // address.
        unsafe { object.write_bytes(7, layout.size()) };
        object
    };
    (0..count).map(object).collect()
}

/// Objects lie on the node of their heap, and so do metadata that share its range: the arena's
/// first block then begins at the heap's first address.
#[test]
fn objects_lie_on_the_node_of_their_heap() {
    if !needs::nodes() {
        return;
    }
    for node in nodes() {
        for metadata in [Metadata::Separate, Metadata::Together] {
            let memory = Backing::Node { node: node.id, bytes: 64 * MIB };
            let config = HeapConfig { metadata, ..HeapConfig::new("far", memory) };
            let heap = Heap::new(config).expect("a heap");
            for size in [100, 16 << 10, MIB] {
                let layout = Layout::from_size_align(size, 8).expect("a layout");
                for object in objects(&heap, 8, layout) {
                    assert_eq!(node_under(object.as_ptr()), node.id, "{size}, {metadata:?}");
                    // SAFETY: the object belongs to this heap, has this layout, and is not used
                    // afterwards.
                    unsafe { heap.deallocate(object, layout) };
                }
            }
            let (start, _) = heap.addresses();
            match metadata {
                Metadata::Together => assert_eq!(node_under(start), node.id),
                Metadata::Separate => assert!(heap.stats().expect("told").metadata_bytes > 0),
            }
        }
    }
}
