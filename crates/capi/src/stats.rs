//! Statistics as structures of numbers.

use std::ffi::c_char;

use crate::arguments::{place, shared};
use crate::heap::Heap;
use crate::region::Region;
use crate::status::{Status, status};

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
    /// Bytes of addresses that the heap uses or keeps for later.
    pub taken_bytes: u64,
    /// Bytes from the first address to the last that was ever taken.
    pub taken_bytes_max: u64,
    /// Bytes of objects below 16 KiB, those that threads keep for their next requests included.
    pub small_bytes: u64,
    /// Bytes of larger objects.
    pub large_bytes: u64,
    /// Bytes of metadata, wherever they are.
    pub metadata_bytes: u64,
    /// Bytes that are taken and that no object uses.
    pub free_bytes: u64,
    /// Pieces of memory that the heap has taken since it was made.
    pub extents: u64,
    /// Those that there was no room or no budget for.
    pub refusals: u64,
    /// Threads that keep freed objects for their next requests.
    pub caches: u64,
}

/// A text that fits, cut where it is longer.
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
