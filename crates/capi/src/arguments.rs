//! What C passes, looked at before it is used.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use std::time::Duration;

use terrace_market::Ledger;
use terrace_sys::size::to_usize;

use crate::ledger;
use crate::status::Failure;

fn null(what: &str) -> Failure {
    Failure::invalid(format!("{what} is NULL"))
}

/// What a pointer leads to.
///
/// # Safety
/// It is NULL, or leads to a `T` that lives and does not change for as long as the answer is used.
pub(crate) unsafe fn shared<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(what))
}

/// What a pointer leads to, for a call that changes it.
///
/// # Safety
/// It is NULL, or leads to a `T` that lives for as long as the answer is used, and that nobody else
/// uses meanwhile.
pub(crate) unsafe fn unique<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(what))
}

/// Values that stand one after the other; the pointer of no values may be NULL.
///
/// # Safety
/// It is NULL, or leads to so many values that live and do not change for as long as the answer is
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
    // SAFETY: the caller's promise; the values are no more than an address space holds.
    Ok(unsafe { std::slice::from_raw_parts(pointer.as_ptr(), count) })
}

/// Room for bytes; the pointer of no room may be NULL.
///
/// # Safety
/// It is NULL, or leads to room for so many bytes that nobody else uses for as long as the answer
/// is used. They may have any value: what C has not set is some value here.
pub(crate) unsafe fn buffer<'a>(
    pointer: *mut c_void,
    bytes: usize,
    what: &str,
) -> Result<&'a mut [u8], Failure> {
    if bytes == 0 {
        return Ok(&mut []);
    }
    let pointer = array(pointer.cast::<u8>(), bytes, what)?;
    // SAFETY: the caller's promise; the bytes are no more than an address space holds.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer.as_ptr(), bytes) })
}

/// The first of some values, which are no more than there can be.
fn array<T>(pointer: *mut T, count: usize, what: &str) -> Result<NonNull<T>, Failure> {
    let bytes = count.checked_mul(size_of::<T>()).and_then(|bytes| isize::try_from(bytes).ok());
    if bytes.is_none() {
        let text = format!("{what}: {count} of {} bytes each cannot be", size_of::<T>());
        return Err(Failure::invalid(text));
    }
    NonNull::new(pointer).ok_or_else(|| null(what))
}

/// Where an answer goes.
///
/// # Safety
/// It is NULL, or leads to room for a `T` that nobody else uses while the place lives.
pub(crate) unsafe fn place<T>(pointer: *mut T, what: &str) -> Result<Place<T>, Failure> {
    NonNull::new(pointer).map(Place).ok_or_else(|| null(what))
}

/// Room for an answer; whether anything stands there does not matter.
pub(crate) struct Place<T>(NonNull<T>);

impl<T> Place<T> {
    pub(crate) fn put(self, value: T) {
        // SAFETY: who made the place promised room that nobody else uses.
        unsafe { self.0.write(value) }
    }
}

/// Where an answer goes that the caller may do without.
///
/// # Safety
/// As for [`place`].
pub(crate) unsafe fn place_or_none<T>(pointer: *mut T) -> Option<Place<T>> {
    NonNull::new(pointer).map(Place)
}

/// Where so many answers go, one after the other; the pointer of none may be NULL.
///
/// # Safety
/// It is NULL, or leads to room for so many values of `T` that nobody else uses while the places
/// live.
pub(crate) unsafe fn places<T>(
    pointer: *mut T,
    count: usize,
    what: &str,
) -> Result<Places<T>, Failure> {
    let first = if count == 0 { NonNull::dangling() } else { array(pointer, count, what)? };
    Ok(Places { first, count })
}

/// Room for some answers; whether anything stands there does not matter.
pub(crate) struct Places<T> {
    first: NonNull<T>,
    count: usize,
}

impl<T> Places<T> {
    /// Puts the answer that has number `n`.
    pub(crate) fn put(&mut self, n: usize, value: T) {
        assert!(n < self.count, "place {n} of {}", self.count);
        // SAFETY: who made the places promised room for so many that nobody else uses.
        unsafe { self.first.add(n).write(value) }
    }
}

impl<T> Place<*mut T> {
    /// Makes a handle of a value.
    pub(crate) fn put_handle(self, value: T) {
        self.put(Box::into_raw(Box::new(value)));
    }
}

/// The value of a handle, which is none any more; nothing for NULL.
///
/// # Safety
/// It is NULL, or was made by [`Place::put_handle`] and not taken since; nobody uses it.
pub(crate) unsafe fn take_handle<T>(handle: *mut T) -> Option<T> {
    // SAFETY: the caller's promise: it is a box that was turned into a pointer.
    (!handle.is_null()).then(|| *unsafe { Box::from_raw(handle) })
}

/// A name, or the usual one for NULL.
///
/// # Safety
/// It is NULL or a string ended by zero that does not change during the call.
pub(crate) unsafe fn name(pointer: *const c_char, usual: &str) -> String {
    if pointer.is_null() {
        return usual.to_owned();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// A path, in whatever bytes the system has.
///
/// # Safety
/// As for [`name`], for as long as the answer is used.
pub(crate) unsafe fn path<'a>(pointer: *const c_char, what: &str) -> Result<&'a Path, Failure> {
    if pointer.is_null() {
        return Err(null(what));
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { CStr::from_ptr(pointer) }.to_bytes();
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// A ledger, or none for NULL.
///
/// # Safety
/// As for [`shared`].
pub(crate) unsafe fn ledger(pointer: *const ledger::Ledger) -> Option<Ledger> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.map(|ledger| ledger.ledger.clone())
}

/// A number of bytes or pieces, or what zero stands for.
pub(crate) fn or(value: u64, usual: usize) -> usize {
    if value == 0 { usual } else { to_usize(value) }
}

/// How long somebody waits: for ever where the milliseconds are all ones.
pub(crate) fn patience(ms: u64) -> Duration {
    if ms == u64::MAX { Duration::MAX } else { Duration::from_millis(ms) }
}
