//! Statistics, as structures of numbers.

use std::ffi::c_char;

use crate::arguments::{place, place_or_none, shared};
use crate::heap::Heap;
use crate::region::Region;
use crate::status::{Status, status};
use crate::store::{Objects, store};

/// Size in bytes of a text in statistics, including the zero at its end.
pub const STATS_TEXT_BYTES: usize = 256;

/// Counters of a region since its creation.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RegionStats {
    /// Page faults that the pagers handled.
    pub faults: u64,
    /// Blocks read from the file.
    pub fills: u64,
    /// Blocks filled with zeros instead of being read.
    pub zeroed: u64,
    /// Blocks read ahead of a fault.
    pub ahead: u64,
    /// Blocks about to be evicted that a fault brought back without a transfer (second chance).
    pub returned: u64,
    /// Blocks evicted from memory.
    pub evicted: u64,
    /// Evicted blocks that were discarded because their bytes were unused.
    pub discarded: u64,
    /// Blocks written to the file.
    pub write_backs: u64,
    /// Bytes read from the file.
    pub read_bytes: u64,
    /// Bytes written to the file.
    pub written_bytes: u64,
    /// Transfers that failed, and were retried or given up.
    pub failures: u64,
    /// Blocks that cannot be read.
    pub poisoned: u64,
    /// Bytes in memory now.
    pub resident_bytes: u64,
    /// Median latency of faults, in nanoseconds.
    pub fault_p50_ns: u64,
    /// 99th percentile of the latency of faults, in nanoseconds.
    pub fault_p99_ns: u64,
    /// Maximum latency of faults, in nanoseconds.
    pub fault_max_ns: u64,
    /// Error of the last write that the device refused, until the last refused block is written or
    /// discarded; or, for good, the reason why writes may be lost; empty otherwise.
    pub latched: [c_char; STATS_TEXT_BYTES],
}

/// State of a heap at one moment.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct HeapStats {
    /// Bytes of address space.
    pub bytes: u64,
    /// Bytes of pages that the heap uses or keeps for later.
    pub taken_bytes: u64,
    /// Bytes from the first address to the last page that was ever used.
    pub taken_bytes_max: u64,
    /// Bytes of objects below 16 KiB, including those in thread caches.
    pub small_bytes: u64,
    /// Bytes of larger objects.
    pub large_bytes: u64,
    /// Bytes of metadata, in either location.
    pub metadata_bytes: u64,
    /// Bytes that the heap holds without an object in them: free pages that still have memory, and
    /// retained addresses without memory.
    pub free_bytes: u64,
    /// Pieces of memory that the heap has requested since it was created.
    pub extents: u64,
    /// Requests that were refused for lack of room or budget.
    pub refusals: u64,
    /// Threads that cache freed objects for their next requests.
    pub caches: u64,
}

/// State of a store of objects at one moment.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ObjectsStats {
    /// Number of objects.
    pub objects: u64,
    /// Bytes of all objects.
    pub object_bytes: u64,
    /// Reserved ids without an object.
    pub reserved: u64,
    /// Retired slots of ids, if ids have generations: each had 255 objects, gets no other, and
    /// keeps 1.5 bytes of the table. See TERRACE_OBJECTS_GENERATIONS.
    pub retired: u64,
    /// Number of its own ids in the table of objects, in use or free: a multiple of 64.
    pub ids: u64,
    /// Objects that are locked or pinned.
    pub held: u64,
    /// Bytes of the table of objects, including the generations of ids.
    pub table_bytes: u64,
    /// Bytes of memory that objects occupy.
    pub used_bytes: u64,
    /// The same, including memory that is kept for later.
    pub held_bytes: u64,
}

/// Results of terrace_objects_check. A group is 64 consecutive ids.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ObjectsChecked {
    /// Number of objects.
    pub objects: u64,
    /// Bytes of all objects.
    pub object_bytes: u64,
    /// Groups whose objects have one length.
    pub uniform: u64,
    /// Groups whose objects have several lengths.
    pub mixed: u64,
    /// Groups whose objects are long, or were pinned.
    pub remote: u64,
}

/// Results of terrace_objects_defragment.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ObjectsDefragmented {
    /// Pieces of memory that were moved.
    pub moved: u64,
    /// terrace_objects_stats.held_bytes before the call.
    pub held_bytes_before: u64,
    /// terrace_objects_stats.held_bytes after it.
    pub held_bytes_after: u64,
    /// terrace_objects_stats.used_bytes before the call.
    pub used_bytes_before: u64,
    /// terrace_objects_stats.used_bytes after it.
    pub used_bytes_after: u64,
}

/// Returns a text as a zero-terminated array, truncated if it is too long.
fn text(long: &str) -> [c_char; STATS_TEXT_BYTES] {
    let mut text = [0; STATS_TEXT_BYTES];
    for (place, byte) in text[..STATS_TEXT_BYTES - 1].iter_mut().zip(long.bytes()) {
        *place = byte.cast_signed();
    }
    text
}

/// Stores the counters of a region in *out.
///
/// # Safety
/// The handle is NULL, or came from terrace_region_open or terrace_region_scratch and was not
/// closed; out is NULL or points to space for the counters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_region_get_stats(
    region: *const Region,
    out: *mut RegionStats,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for both.
        let (out, region) = unsafe { (place(out, "out")?, shared(region, "region")?) };
        let stats = region.region.stats();
        out.put(RegionStats {
            faults: stats.faults,
            fills: stats.fills,
            zeroed: stats.zeroed,
            ahead: stats.ahead,
            returned: stats.returned,
            evicted: stats.evicted,
            discarded: stats.discarded,
            write_backs: stats.write_backs,
            read_bytes: stats.read_bytes,
            written_bytes: stats.written_bytes,
            failures: stats.failures,
            poisoned: stats.poisoned,
            resident_bytes: stats.resident_bytes,
            fault_p50_ns: stats.fault.p50_ns,
            fault_p99_ns: stats.fault.p99_ns,
            fault_max_ns: stats.fault.max_ns,
            latched: text(stats.latched.as_deref().unwrap_or_default()),
        });
        Ok(())
    })
}

/// Stores the state of a heap in *out. Refreshes the statistics of all heaps, which takes
/// microseconds.
///
/// # Safety
/// The handle is NULL, or came from terrace_heap_dram, terrace_heap_node or terrace_heap_region and
/// was not closed; out is NULL or points to space for the numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_heap_get_stats(heap: *const Heap, out: *mut HeapStats) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for both.
        let (out, heap) = unsafe { (place(out, "out")?, shared(heap, "heap")?) };
        let stats = heap.heap.stats()?;
        out.put(HeapStats {
            bytes: stats.bytes,
            taken_bytes: stats.taken_bytes,
            taken_bytes_max: stats.taken_bytes_max,
            small_bytes: stats.small_bytes,
            large_bytes: stats.large_bytes,
            metadata_bytes: stats.metadata_bytes,
            free_bytes: stats.free_bytes,
            extents: stats.extents,
            refusals: stats.refusals,
            caches: stats.caches,
        });
        Ok(())
    })
}

/// Stores the state of a store of objects in *out.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and was not closed; out is NULL or points to space for the numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_get_stats(
    objects: *const Objects,
    out: *mut ObjectsStats,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for both.
        let (out, store) = unsafe { (place(out, "out")?, store(objects)?) };
        let stats = store.stats();
        out.put(ObjectsStats {
            objects: stats.objects,
            object_bytes: stats.object_bytes,
            reserved: stats.reserved,
            retired: stats.retired,
            ids: stats.ids,
            held: stats.held,
            table_bytes: stats.table_bytes,
            used_bytes: stats.used_bytes,
            held_bytes: stats.held_bytes,
        });
        Ok(())
    })
}

/// Checks a whole store, and stores the counts in *out, which may be NULL: every object must lie in
/// memory of its own, and the counters of objects and of their bytes must be right. All other calls
/// wait until it has ended, about 10 ms for a million objects.
///
/// TERRACE_STATUS_DAMAGED with a description of the first inconsistency.
///
/// # Safety
/// As for terrace_objects_get_stats.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_check(
    objects: *const Objects,
    out: *mut ObjectsChecked,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for both.
        let (out, store) = unsafe { (place_or_none(out), store(objects)?) };
        let checked = store.check()?;
        if let Some(out) = out {
            out.put(ObjectsChecked {
                objects: checked.objects,
                object_bytes: checked.object_bytes,
                uniform: checked.uniform,
                mixed: checked.mixed,
                remote: checked.remote,
            });
        }
        Ok(())
    })
}

/// Moves objects out of memory that they use only in small part, and frees that memory, while other
/// operations continue. Stores the results in *out, which may be NULL. Pinned objects stay. One
/// call runs at a time: a second one waits.
///
/// # Safety
/// As for terrace_objects_get_stats.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_defragment(
    objects: *const Objects,
    out: *mut ObjectsDefragmented,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for both.
        let (out, store) = unsafe { (place_or_none(out), store(objects)?) };
        let done = store.defragment();
        if let Some(out) = out {
            out.put(ObjectsDefragmented {
                moved: done.moved,
                held_bytes_before: done.held_bytes_before,
                held_bytes_after: done.held_bytes_after,
                used_bytes_before: done.used_bytes_before,
                used_bytes_after: done.used_bytes_after,
            });
        }
        Ok(())
    })
}
