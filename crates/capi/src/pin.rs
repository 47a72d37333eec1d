//! Requests for a region's blocks: pin, advise, evict and flush.

use std::ffi::c_void;
use std::sync::Arc;

use terrace_region::Advice;

use crate::arguments::{place, shared, take_handle};
use crate::region::Region;
use crate::status::{Failure, Status, attempt, status};

/// A part of a region that stays in memory, and at its addresses, until terrace_region_unpin.
///
/// Pin memory before a system call, a device or another process uses it: these may be unable to
/// bring absent blocks into memory.
pub struct Pin {
    /// Dropped before the reference to the region, since fields are dropped in order.
    pin: terrace_region::Pin,
    _region: Arc<terrace_region::Region>,
}

/// Access pattern of bytes of a region, for terrace_region_advise.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub enum AdviceChoice {
    /// Access is sequential: the blocks that follow are read ahead, as without advice. Applies to
    /// the whole region.
    Sequential = 0,
    /// Access is random: nothing is read ahead. Applies to the whole region.
    Random = 1,
    /// The bytes never change again: blocks are evicted without a check for changes. Writes to them
    /// may be lost.
    Immutable = 2,
    /// The bytes may change, as without advice.
    Mutable = 3,
    /// The bytes are not needed any more. Blocks that lie completely in the part are evicted
    /// without write-back, and read as zeros or as their former bytes until they are used again.
    Unused = 4,
    /// The bytes are used again, as without advice, and may change. This advice comes before the
    /// first write to them.
    Used = 5,
}

/// Brings a part of a region into memory, keeps it there, and stores the pin in *out.
///
/// TERRACE_STATUS_INVALID for a part that is not within the region, or is larger than the cap;
/// TERRACE_STATUS_IO for a block that cannot be read; TERRACE_STATUS_TIMEOUT if the part needs more
/// of the cap than others leave.
///
/// # Safety
/// The handle is NULL, or came from terrace_region_open or terrace_region_scratch and was not
/// closed; out is NULL or points to space for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_region_pin(
    region: *const Region,
    offset: u64,
    len: u64,
    out: *mut *mut Pin,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for both.
        let (out, region) = unsafe { (place(out, "out")?, shared(region, "region")?) };
        let pin = region.region.pin(offset, len)?;
        out.put_handle(Pin { pin, _region: Arc::clone(&region.region) });
        Ok(())
    })
}

/// Returns the address of the first pinned byte; NULL for NULL.
///
/// # Safety
/// The pin is NULL, or came from terrace_region_pin and was not released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_pin_data(pin: *const Pin) -> *mut c_void {
    // SAFETY: the caller's promise.
    let data = attempt(|| Ok(unsafe { shared(pin, "pin") }?.pin.as_ptr().cast()));
    data.unwrap_or(std::ptr::null_mut())
}

/// Returns the number of pinned bytes, as many as were requested; 0 for NULL.
///
/// # Safety
/// As for terrace_pin_data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_pin_len(pin: *const Pin) -> usize {
    // SAFETY: the caller's promise.
    attempt(|| Ok(unsafe { shared(pin, "pin") }?.pin.len())).unwrap_or(0)
}

/// Releases a pin, so that its part may leave memory again; NULL is allowed.
///
/// # Safety
/// The pin is NULL, or came from terrace_region_pin and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_region_unpin(pin: *mut Pin) {
    let _ = attempt(|| {
        // SAFETY: the caller's promise.
        drop(unsafe { take_handle(pin) });
        Ok(())
    });
}

/// Starts to read a part ahead of its use, and does not wait. If the part is larger than the cap,
/// only its first blocks are read.
///
/// TERRACE_STATUS_INVALID for a part that is not within the region.
///
/// # Safety
/// The handle is NULL, or came from terrace_region_open or terrace_region_scratch and was not
/// closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_region_prefetch(
    region: *const Region,
    offset: u64,
    len: u64,
) -> Status {
    // SAFETY: the caller's promise.
    status(|| Ok(unsafe { shared(region, "region") }?.region.prefetch(offset, len)?))
}

/// Evicts a part from memory after write-back of its changed blocks; the next access reads it
/// again.
///
/// TERRACE_STATUS_INVALID for a part that is not within the region; TERRACE_STATUS_IO for a block
/// that cannot be written, which stays while the others are evicted; TERRACE_STATUS_TIMEOUT while
/// blocks are pinned.
///
/// # Safety
/// As for terrace_region_prefetch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_region_evict(
    region: *const Region,
    offset: u64,
    len: u64,
) -> Status {
    // SAFETY: the caller's promise.
    status(|| Ok(unsafe { shared(region, "region") }?.region.evict(offset, len)?))
}

/// Makes the writes to a part before this call durable. The part stays in memory.
///
/// Fails as terrace_region_evict does, and with TERRACE_STATUS_IO if the device does not sync: from
/// then on always, since it is unknown what the device has lost.
///
/// # Safety
/// As for terrace_region_prefetch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_region_flush(
    region: *const Region,
    offset: u64,
    len: u64,
) -> Status {
    // SAFETY: the caller's promise.
    status(|| Ok(unsafe { shared(region, "region") }?.region.flush(offset, len)?))
}

/// Sets the access pattern of a part; advice is a terrace_advice.
///
/// TERRACE_STATUS_INVALID for a part that is not within the region, for invalid advice, and for
/// bytes of a heap or a store of objects that would be unused or immutable. Immutable bytes are
/// written back first, which fails as terrace_region_evict does.
///
/// # Safety
/// As for terrace_region_prefetch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_region_advise(
    region: *const Region,
    offset: u64,
    len: u64,
    advice: u32,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise.
        let region = &unsafe { shared(region, "region") }?.region;
        let advice = match advice {
            0 => Advice::Sequential,
            1 => Advice::Random,
            2 => Advice::Immutable,
            3 => Advice::Mutable,
            4 => Advice::Unused,
            5 => Advice::Used,
            other => {
                let text = format!("region {}: {other} is no terrace_advice", region.name());
                return Err(Failure::invalid(text));
            }
        };
        Ok(region.advise(offset, len, advice)?)
    })
}
