//! What C passes, looked at before it is used.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

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
