//! Statistics, as structures of numbers.

use std::ffi::c_char;

use crate::arguments::{place, place_or_none, shared};
use crate::heap::Heap;
use crate::region::Region;
use crate::status::{Status, status};
use crate::store::{Objects, store};

/// Bytes of a text in statistics, the zero at its end included.
pub const STATS_TEXT_BYTES: usize = 256;

/// Counters of a region, all since it began.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RegionStats {
    /// Threads that found a block absent.
    pub faults: u64,
    /// Blocks read from the file.
    pub fills: u64,
    /// Blocks that began as zeros.
    pub zeroed: u64,
    /// Blocks asked for ahead of a fault.
    pub ahead: u64,
    /// Blocks that came back without a transfer.
    pub returned: u64,
    /// Blocks that left memory.
    pub evicted: u64,
    /// Those whose bytes nobody needed.
    pub discarded: u64,
    /// Blocks written to the file.
    pub write_backs: u64,
    /// Bytes read from the file.
    pub read_bytes: u64,
    /// Bytes written to the file.
    pub written_bytes: u64,
    /// Transfers that failed and were tried again or given up.
    pub failures: u64,
    /// Blocks that cannot be read.
    pub poisoned: u64,
    /// Bytes in memory now.
    pub resident_bytes: u64,
    /// Half of the faults were answered faster, in nanoseconds.
    pub fault_p50_ns: u64,
    /// 99 of 100 faults were answered faster, in nanoseconds.
    pub fault_p99_ns: u64,
    /// The slowest fault, in nanoseconds.
    pub fault_max_ns: u64,
    /// What the device said when it refused to take a block, until it took one again; empty
    /// otherwise.
    pub latched: [c_char; STATS_TEXT_BYTES],
}

/// What a heap holds, at one moment.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct HeapStats {
    /// Bytes of addresses.
    pub bytes: u64,
    /// Bytes of pages that the heap uses or keeps for later.
    pub taken_bytes: u64,
    /// Bytes from the first address to the last page that was ever used.
    pub taken_bytes_max: u64,
    /// Bytes of objects below 16 KiB, those that threads keep for their next requests included.
    pub small_bytes: u64,
    /// Bytes of larger objects.
    pub large_bytes: u64,
    /// Bytes of metadata, wherever they are.
    pub metadata_bytes: u64,
    /// Bytes that the heap has and that no object uses: free pages that still have memory, and
    /// addresses alone.
    pub free_bytes: u64,
    /// Pieces of memory that the heap has taken since it was made.
    pub extents: u64,
    /// Those that there was no room or no budget for.
    pub refusals: u64,
    /// Threads that keep freed objects for their next requests.
    pub caches: u64,
}

/// What a store of objects holds, at one moment.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ObjectsStats {
    /// Objects.
    pub objects: u64,
    /// Bytes of them.
    pub object_bytes: u64,
    /// Ids that are reserved and have no object.
    pub reserved: u64,
    /// Places that 255 objects wore out, where ids have generations: no object has them again, and
    /// each keeps 1.5 bytes of the table. See TERRACE_OBJECTS_GENERATIONS.
    pub retired: u64,
    /// Ids of its own that were given out at some time; they are used again.
    pub ids: u64,
    /// Objects that are locked or pinned.
    pub held: u64,
    /// Bytes of the table that finds the objects, the generations of ids included.
    pub table_bytes: u64,
    /// Bytes of memory that objects are in.
    pub used_bytes: u64,
    /// The same with what is kept for later.
    pub held_bytes: u64,
}

/// What terrace_objects_check found. 64 consecutive ids are a group.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ObjectsChecked {
    /// Objects.
    pub objects: u64,
    /// Bytes of them.
    pub object_bytes: u64,
    /// Groups of objects of one length.
    pub uniform: u64,
    /// Groups of objects of several lengths.
    pub mixed: u64,
    /// Groups of objects that are long, or were pinned.
    pub remote: u64,
}

/// What terrace_objects_defragment did.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ObjectsDefragmented {
    /// Pieces of memory that were moved.
    pub moved: u64,
    /// terrace_objects_stats.held_bytes before.
    pub held_bytes_before: u64,
    /// And now.
    pub held_bytes_after: u64,
    /// terrace_objects_stats.used_bytes before.
    pub used_bytes_before: u64,
    /// And now.
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

/// Gives the counters of a region to *out.
///
/// # Safety
/// The handle is NULL, or came from terrace_region_open or terrace_region_scratch and was not
/// closed; out is NULL or leads to room for the counters.
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

/// Gives what a heap holds to *out. Takes statistics of all heaps anew, which takes microseconds.
///
/// # Safety
/// The handle is NULL, or came from terrace_heap_dram, terrace_heap_node or terrace_heap_region and
/// was not closed; out is NULL or leads to room for the numbers.
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

/// Gives what a store of objects holds to *out.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and was not closed; out is NULL or leads to room for the numbers.
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

/// Walks all of a store, and gives what it found to *out, which may be NULL: that every object lies
/// in memory of its own, and that the counts are right. All other calls wait until it has ended,
/// some 10 ms for a million objects.
///
/// TERRACE_STATUS_DAMAGED with the first thing that is not as it must be.
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

/// Gives back memory of which objects use little, while everybody goes on, and what it did to *out,
/// which may be NULL. Pinned objects stay where they are. One call at a time: a second one waits.
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
