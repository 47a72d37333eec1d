//! Validation and conversion of arguments from C.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use std::time::Duration;

use terrace_ledger::Ledger;
use terrace_sys::size::to_usize;

use crate::ledger;
use crate::status::Failure;

fn null(what: &str) -> Failure {
    Failure::invalid(format!("{what} is NULL"))
}

/// Returns the value behind a pointer. `what` is the argument's name in the error for NULL, here
/// and below.
///
/// # Safety
/// The pointer is NULL, or leads to a live `T` that does not change while the result is used.
pub(crate) unsafe fn shared<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(what))
}

/// Returns the value behind a pointer for a call that changes it.
///
/// # Safety
/// The pointer is NULL, or leads to a `T` that lives while the result is used and that no other
/// code uses meanwhile.
pub(crate) unsafe fn unique<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(what))
}

/// Returns an array of values; the pointer may be NULL if the array is empty.
///
/// # Safety
/// The pointer is NULL, or leads to `count` values that live and do not change while the result is
/// used.
pub(crate) unsafe fn values<'a, T>(
    pointer: *const T,
    count: usize,
    what: &str,
) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    let pointer = array(pointer.cast_mut(), count, what)?;
    // SAFETY: the caller's promise; `array` has checked that the size fits in an `isize`.
    Ok(unsafe { std::slice::from_raw_parts(pointer.as_ptr(), count) })
}

/// Returns a buffer for bytes; the pointer may be NULL if the buffer is empty.
///
/// # Safety
/// The pointer is NULL, or leads to room for `bytes` bytes that no other code uses while the result
/// is used. The bytes may have any value: bytes that C has not initialized have some value here.
pub(crate) unsafe fn buffer<'a>(
    pointer: *mut c_void,
    bytes: usize,
    what: &str,
) -> Result<&'a mut [u8], Failure> {
    if bytes == 0 {
        return Ok(&mut []);
    }
    let pointer = array(pointer.cast::<u8>(), bytes, what)?;
    // SAFETY: the caller's promise; `array` has checked that the size fits in an `isize`.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer.as_ptr(), bytes) })
}

/// Returns a pointer to the first of `count` values, whose size must fit in an `isize`.
fn array<T>(pointer: *mut T, count: usize, what: &str) -> Result<NonNull<T>, Failure> {
    let bytes = count.checked_mul(size_of::<T>()).and_then(|bytes| isize::try_from(bytes).ok());
    if bytes.is_none() {
        let text = format!("{what}: {count} of {} bytes each cannot be", size_of::<T>());
        return Err(Failure::invalid(text));
    }
    NonNull::new(pointer).ok_or_else(|| null(what))
}

/// Returns the place for a result.
///
/// # Safety
/// The pointer is NULL, or leads to room for a `T` that no other code uses while the place lives.
pub(crate) unsafe fn place<T>(pointer: *mut T, what: &str) -> Result<ResultSlot<T>, Failure> {
    NonNull::new(pointer).map(ResultSlot).ok_or_else(|| null(what))
}

/// Room for a result, initialized or not.
pub(crate) struct ResultSlot<T>(NonNull<T>);

impl<T> ResultSlot<T> {
    pub(crate) fn put(self, value: T) {
        // SAFETY: the caller of `place` promised room that no other code uses.
        unsafe { self.0.write(value) }
    }
}

/// Returns the place for an optional result; `None` for NULL.
///
/// # Safety
/// As for [`place`].
pub(crate) unsafe fn place_or_none<T>(pointer: *mut T) -> Option<ResultSlot<T>> {
    NonNull::new(pointer).map(ResultSlot)
}

/// Returns the places of an array of results; the pointer may be NULL if `count` is 0.
///
/// # Safety
/// The pointer is NULL, or leads to room for `count` values of `T` that no other code uses while
/// the places live.
pub(crate) unsafe fn places<T>(
    pointer: *mut T,
    count: usize,
    what: &str,
) -> Result<Places<T>, Failure> {
    let first = if count == 0 { NonNull::dangling() } else { array(pointer, count, what)? };
    Ok(Places { first, count })
}

/// Room for an array of results, initialized or not.
pub(crate) struct Places<T> {
    first: NonNull<T>,
    count: usize,
}

impl<T> Places<T> {
    /// Writes result number `n`.
    pub(crate) fn put(&mut self, n: usize, value: T) {
        assert!(n < self.count, "place {n} of {}", self.count);
        // SAFETY: the caller of `places` promised room for `count` values that no other code uses.
        unsafe { self.first.add(n).write(value) }
    }
}

impl<T> ResultSlot<*mut T> {
    /// Writes a new handle of a value.
    pub(crate) fn put_handle(self, value: T) {
        self.put(Box::into_raw(Box::new(value)));
    }
}

/// Takes the value out of a handle, which is invalid afterwards; `None` for NULL.
///
/// # Safety
/// The handle is NULL, or was made by [`ResultSlot::put_handle`] and not taken since, and no other
/// code uses it.
pub(crate) unsafe fn take_handle<T>(handle: *mut T) -> Option<T> {
    // SAFETY: the caller's promise: the handle came from `Box::into_raw`.
    (!handle.is_null()).then(|| *unsafe { Box::from_raw(handle) })
}

/// Returns the string behind a pointer, with replacements for invalid UTF-8; `usual` for NULL.
///
/// # Safety
/// The pointer is NULL, or leads to a zero-terminated string that does not change during the call.
pub(crate) unsafe fn name(pointer: *const c_char, usual: &str) -> String {
    if pointer.is_null() {
        return usual.to_owned();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// Returns a path, as the bytes of the system without a check of the encoding.
///
/// # Safety
/// As for [`name`], but the string does not change while the result is used.
pub(crate) unsafe fn path<'a>(pointer: *const c_char, what: &str) -> Result<&'a Path, Failure> {
    if pointer.is_null() {
        return Err(null(what));
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { CStr::from_ptr(pointer) }.to_bytes();
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// Returns a ledger; `None` for NULL.
///
/// # Safety
/// As for [`shared`].
pub(crate) unsafe fn ledger(pointer: *const ledger::Ledger) -> Option<Ledger> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.map(|ledger| ledger.ledger.clone())
}

/// Returns a number of bytes or items; the default `usual` for zero.
pub(crate) fn or(value: u64, usual: usize) -> usize {
    if value == 0 { usual } else { to_usize(value) }
}

/// Returns a timeout; `u64::MAX` milliseconds mean no limit.
pub(crate) fn patience(ms: u64) -> Duration {
    if ms == u64::MAX { Duration::MAX } else { Duration::from_millis(ms) }
}
