//! Thread-local buffers, for the rebuild of a run and for copies within one.

#[cfg(not(loom))]
use std::cell::RefCell;

use crate::bytes;

#[cfg(not(loom))]
thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Runs `work` with a thread-local buffer of `len` bytes.
#[cfg(not(loom))]
pub(super) fn with_scratch<T>(len: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
    // A thread that exits may use objects after its buffer was destroyed.
    let mut scratch = SCRATCH.try_with(RefCell::take).unwrap_or_default();
    if scratch.len() < len {
        scratch.resize(len.next_power_of_two(), 0);
    }
    let result = work(&mut scratch[..len]);
    let _ = SCRATCH.try_with(|place| place.replace(scratch));
    result
}

/// As above, with a new buffer: loom runs all its threads on one, which has one thread-local.
#[cfg(loom)]
pub(super) fn with_scratch<T>(len: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
    work(&mut vec![0; len])
}

/// Moves `len` bytes of a latched group to a place that may overlap them.
///
/// # Safety
/// Both places lie in a run that the caller may write.
pub(super) unsafe fn shift(from: *mut u8, to: *mut u8, len: usize) {
    if len > 0 {
        // SAFETY: the caller's promise; through a buffer, as the places overlap.
        with_scratch(len, |scratch| unsafe {
            bytes::read(from, scratch);
            bytes::write(to, scratch);
        });
    }
}
