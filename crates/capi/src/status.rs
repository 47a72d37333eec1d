//! Status codes of calls, and the last failure of each thread.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use terrace_heap::HeapError;
use terrace_objects::ObjectError;
use terrace_region::RegionError;

/// Result of a call.
///
/// Functions that return a pointer return NULL if this would not be TERRACE_STATUS_OK;
/// terrace_last_status and terrace_last_error tell the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Status {
    /// Success.
    Ok = 0,
    /// An argument is NULL, out of range, or inconsistent with the others. Nothing was done.
    Invalid = 1,
    /// Memory, addresses, budget, ids or space on a device are exhausted.
    NoRoom = 2,
    /// The file, the device or the kernel failed.
    Io = 3,
    /// The kernel does not support a required feature, or not for this process.
    Unsupported = 4,
    /// Blocks stayed pinned, or their transfers did not end, within the region's patience; or an
    /// object stayed locked for as long as the caller waits.
    Timeout = 5,
    /// A defect of the library. It remains usable, but the operation may be half done.
    Panic = 6,
    /// No object has the id: it never existed, or was removed.
    NotFound = 7,
    /// The object does not have as many bytes as were given or requested.
    Length = 8,
    /// The object has more bytes than the buffer.
    Buffer = 9,
    /// The object is read-only.
    ReadOnly = 10,
    /// The object is pinned, and can be neither removed nor resized.
    Pinned = 11,
    /// The object is not pinned.
    NotPinned = 12,
    /// The lock is not held, or not in the required mode.
    NotLocked = 13,
    /// Another holder of a read lock on the object is already waiting to upgrade: one of the two
    /// has to release its lock.
    Conflict = 14,
    /// The id is not reserved, or has its object already.
    NotReserved = 15,
    /// A store of objects, its log or its dump is damaged.
    Damaged = 16,
    /// A child process (fork) cannot change a store with a log that its parent opened.
    Forked = 17,
}

/// Failure of a call: its status and its text.
#[derive(Debug)]
pub(crate) struct Failure {
    status: Status,
    text: String,
}

impl Failure {
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self { status: Status::Invalid, text: text.into() }
    }

    pub(crate) fn buffer(text: impl Into<String>) -> Self {
        Self { status: Status::Buffer, text: text.into() }
    }

    /// Creates the failure of an operation on an object.
    pub(crate) fn of_object(error: &ObjectError) -> Self {
        Self { status: object(error), text: error.to_string() }
    }

    pub(crate) fn no_room(text: impl Into<String>) -> Self {
        Self { status: Status::NoRoom, text: text.into() }
    }

    /// Creates the failure of a file operation, from its description and the kernel's error.
    pub(crate) fn io(what: impl std::fmt::Display, error: &io::Error) -> Self {
        Self { status: kernel(error), text: format!("{what}: {error}") }
    }

    fn panic(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        let text = text.unwrap_or_else(|| "without a word".to_owned());
        Self { status: Status::Panic, text: format!("panic: {text}") }
    }
}

/// Returns the status for an error of the kernel.
fn kernel(error: &io::Error) -> Status {
    match error.kind() {
        io::ErrorKind::OutOfMemory
        | io::ErrorKind::StorageFull
        | io::ErrorKind::QuotaExceeded
        | io::ErrorKind::FileTooLarge => Status::NoRoom,
        io::ErrorKind::InvalidInput => Status::Invalid,
        io::ErrorKind::Unsupported => Status::Unsupported,
        _ => Status::Io,
    }
}

/// Returns the status for an error of the kernel in an acquisition of resources: `NoRoom` unless
/// the error has a more specific status.
fn exhausted(error: &io::Error) -> Status {
    match kernel(error) {
        Status::Io => Status::NoRoom,
        other => other,
    }
}

impl From<RegionError> for Failure {
    fn from(error: RegionError) -> Self {
        Self { status: region(&error), text: error.to_string() }
    }
}

fn region(error: &RegionError) -> Status {
    match error {
        RegionError::Config { .. }
        | RegionError::Range { .. }
        | RegionError::Taken { .. }
        | RegionError::Cap { .. } => Status::Invalid,
        RegionError::Platform { .. } => Status::Unsupported,
        RegionError::System { source, .. } => exhausted(source),
        RegionError::InUse { .. }
        | RegionError::Read { .. }
        | RegionError::Write { .. }
        | RegionError::Sync { .. }
        | RegionError::Broken { .. } => Status::Io,
        RegionError::Timeout { .. } => Status::Timeout,
    }
}

impl From<HeapError> for Failure {
    fn from(error: HeapError) -> Self {
        let status = match &error {
            HeapError::Config { .. } => Status::Invalid,
            HeapError::System { source, .. } => exhausted(source),
            HeapError::Region { source, .. } => region(source),
            HeapError::Arena { .. } | HeapError::NoRoom { .. } => Status::NoRoom,
        };
        Self { status, text: error.to_string() }
    }
}

impl From<ObjectError> for Failure {
    fn from(error: ObjectError) -> Self {
        Self::of_object(&error)
    }
}

/// Returns the status for an error of an object operation.
pub(crate) fn object(error: &ObjectError) -> Status {
    match error {
        ObjectError::NotFound(_) => Status::NotFound,
        ObjectError::Length { .. } => Status::Length,
        ObjectError::Buffer { .. } => Status::Buffer,
        ObjectError::TooLong(_) | ObjectError::Config(_) => Status::Invalid,
        ObjectError::LockTimeout { .. } => Status::Timeout,
        ObjectError::UpgradeConflict(_) => Status::Conflict,
        ObjectError::NotLocked(_) => Status::NotLocked,
        ObjectError::Pinned(_) => Status::Pinned,
        ObjectError::NotPinned(_) => Status::NotPinned,
        ObjectError::ReadOnly(_) => Status::ReadOnly,
        ObjectError::NotReserved(_) => Status::NotReserved,
        ObjectError::OutOfMemory { .. } | ObjectError::OutOfIds(_) => Status::NoRoom,
        ObjectError::Memory { source, .. } => exhausted(source),
        ObjectError::Damaged(_) | ObjectError::Corrupt { .. } => Status::Damaged,
        ObjectError::File { source, .. } | ObjectError::Stream(source) => kernel(source),
        ObjectError::Log(_) => Status::Io,
        ObjectError::Version { .. } => Status::Unsupported,
        ObjectError::Forked { .. } => Status::Forked,
        // No present variant gets here; each new one needs an arm above.
        _ => Status::Io,
    }
}

struct Last {
    status: Status,
    text: CString,
}

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

/// Runs the work of a call; an error or a panic becomes this thread's last failure.
pub(crate) fn attempt<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Status> {
    // Unwind safety is the duty of the types below: each poisons its locks, or makes no multi-step
    // change under them.
    let done = catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|payload| Err(Failure::panic(&*payload))).map_err(remember)
}

/// As [`attempt`], for calls that return only a status.
pub(crate) fn status(work: impl FnOnce() -> Result<(), Failure>) -> Status {
    attempt(work).err().unwrap_or(Status::Ok)
}

#[cold]
fn remember(Failure { status, text }: Failure) -> Status {
    let text: Vec<u8> = text.into_bytes().into_iter().filter(|byte| *byte != 0).collect();
    let text = CString::new(text).unwrap_or_default();
    // An exiting thread can no longer be asked for its last failure.
    let _ = LAST.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            *last = Some(Last { status, text });
        }
    });
    status
}

/// Returns the status of this thread's last failure; TERRACE_STATUS_OK before the first one. Calls
/// that succeed do not change it.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_last_status() -> Status {
    let status = LAST.try_with(|last| last.borrow().as_ref().map(|last| last.status));
    status.ok().flatten().unwrap_or(Status::Ok)
}

/// Returns a sentence about this thread's last failure: what was requested, what went wrong, and
/// what would be right; empty before the first one. Never NULL. The text is valid until the next
/// failure on this thread, or the thread's end.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_last_error() -> *const c_char {
    let text = LAST.try_with(|last| last.borrow().as_ref().map(|last| last.text.as_ptr()));
    text.ok().flatten().unwrap_or(c"".as_ptr())
}

/// Returns the name of a status as text, such as "no room". Never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_status_name(status: u32) -> *const c_char {
    let names = [
        c"ok",
        c"invalid argument",
        c"no room",
        c"input or output failed",
        c"unsupported",
        c"timeout",
        c"panic",
        c"no such object",
        c"wrong length",
        c"buffer too small",
        c"read-only",
        c"pinned",
        c"not pinned",
        c"not locked",
        c"conflict",
        c"not reserved",
        c"damaged",
        c"of the parent process",
    ];
    let index = usize::try_from(status).unwrap_or(usize::MAX);
    names.get(index).unwrap_or(&c"unknown status").as_ptr()
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use terrace_objects::ObjectId;

    use super::*;

    fn last() -> (Status, String) {
        // SAFETY: the text lives until the next failure, and is copied here.
        let text = unsafe { CStr::from_ptr(terrace_last_error()) };
        (terrace_last_status(), text.to_string_lossy().into_owned())
    }

    #[test]
    fn a_panic_is_an_answer() {
        assert_eq!(last(), (Status::Ok, String::new()));
        assert_eq!(status(|| panic!("at {}", 7)), Status::Panic);
        assert_eq!(last(), (Status::Panic, "panic: at 7".to_owned()));
        assert_eq!(status(|| panic!("plain")), Status::Panic);
        assert_eq!(last().1, "panic: plain");
        assert_eq!(status(|| std::panic::panic_any(7)), Status::Panic);
        assert_eq!(last().1, "panic: without a word");
    }

    #[test]
    fn the_last_failure_is_this_threads_and_stays() {
        assert_eq!(status(|| Err(Failure::invalid("a\0b"))), Status::Invalid);
        assert_eq!(status(|| Ok(())), Status::Ok);
        assert_eq!(last(), (Status::Invalid, "ab".to_owned()));
        let other = std::thread::spawn(last).join().expect("no panic");
        assert_eq!(other, (Status::Ok, String::new()));
    }

    #[test]
    fn every_error_has_its_status() {
        let (region, heap) = (|| "r".to_owned(), || "h".to_owned());
        let config = RegionError::Config { region: region(), reason: "no".into() };
        assert_eq!(Failure::from(config).status, Status::Invalid);
        let source = io::Error::other("no userfaultfd");
        let platform = RegionError::Platform { region: region(), what: "x", source };
        assert_eq!(Failure::from(platform).status, Status::Unsupported);
        let source = io::Error::other("no budget");
        let system = RegionError::System { region: region(), what: "x", source };
        assert_eq!(Failure::from(system).status, Status::NoRoom);
        let (offset, len, holder) = (0, 1, "heap h".to_owned());
        let taken = RegionError::Taken { region: region(), offset, len, holder };
        assert_eq!(Failure::from(taken).status, Status::Invalid);
        let cap = RegionError::Cap { region: region(), bytes: 2, cap: 1, pagers: 2 };
        assert!(cap.to_string().contains("each of 2 pagers"), "{cap}");
        assert_eq!(Failure::from(cap).status, Status::Invalid);
        let broken = RegionError::Broken { region: region(), message: "EBADF".into() };
        assert_eq!(Failure::from(broken).status, Status::Io);
        let sync = RegionError::Sync { region: region(), message: "EIO".into() };
        let nested = HeapError::Region { heap: heap(), source: sync };
        assert_eq!(Failure::from(nested).status, Status::Io);
        let source = io::Error::from(io::ErrorKind::InvalidInput);
        let node = HeapError::System { heap: heap(), what: "x", source };
        assert_eq!(Failure::from(node).status, Status::Invalid);
        let full = HeapError::NoRoom { heap: heap(), bytes: 9 };
        assert_eq!(Failure::from(full).text, "heap h: no room for 9 bytes");
    }

    #[test]
    fn every_error_of_objects_has_its_status() {
        let id = ObjectId::new(1, 2);
        let source = io::Error::from(io::ErrorKind::OutOfMemory);
        for (error, status) in [
            (ObjectError::NotFound(id), Status::NotFound),
            (ObjectError::Length { id, has: 3, given: 4 }, Status::Length),
            (ObjectError::Buffer { id, has: 3, room: 2 }, Status::Buffer),
            (ObjectError::TooLong(usize::MAX), Status::Invalid),
            (ObjectError::LockTimeout { id, waited_ms: 5 }, Status::Timeout),
            (ObjectError::UpgradeConflict(id), Status::Conflict),
            (ObjectError::NotLocked(id), Status::NotLocked),
            (ObjectError::Pinned(id), Status::Pinned),
            (ObjectError::NotPinned(id), Status::NotPinned),
            (ObjectError::ReadOnly(id), Status::ReadOnly),
            (ObjectError::NotReserved(id), Status::NotReserved),
            (ObjectError::OutOfMemory { asked: 1, held: 2, limit: 2 }, Status::NoRoom),
            (ObjectError::OutOfIds(64), Status::NoRoom),
            (ObjectError::Config("no".into()), Status::Invalid),
            (ObjectError::Memory { what: "x".into(), source }, Status::NoRoom),
            (ObjectError::Damaged("no".into()), Status::Damaged),
            (
                ObjectError::Corrupt { file: "f".into(), offset: 7, reason: "no".into() },
                Status::Damaged,
            ),
            (
                ObjectError::File {
                    doing: "write",
                    path: "f".into(),
                    source: io::ErrorKind::StorageFull.into(),
                },
                Status::NoRoom,
            ),
            (ObjectError::Stream(io::ErrorKind::BrokenPipe.into()), Status::Io),
            (ObjectError::Log("full".into()), Status::Io),
            (ObjectError::Version { path: "f".into(), has: 2, reads: 3 }, Status::Unsupported),
            (ObjectError::Forked { opened_by: 7 }, Status::Forked),
        ] {
            let text = error.to_string();
            let failure = Failure::from(error);
            assert_eq!((failure.status, failure.text), (status, text));
        }
    }

    #[test]
    fn every_status_has_a_name() {
        let name = |status: u32| {
            // SAFETY: names are constants.
            unsafe { CStr::from_ptr(terrace_status_name(status)) }.to_str().expect("ASCII")
        };
        assert_eq!(name(Status::Panic as u32), "panic");
        assert_eq!(name(Status::NotFound as u32), "no such object");
        assert_eq!(name(Status::Damaged as u32), "damaged");
        assert_eq!(name(Status::Forked as u32), "of the parent process");
        assert_eq!(name(Status::Forked as u32 + 1), "unknown status");
    }
}
