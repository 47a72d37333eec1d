//! Locks of ranges of files, for the open file description (`F_OFD_SETLK`), and their holders.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process;
use std::sync::Mutex;

use crate::lock::patiently;

/// Claimed ranges of one open file.
pub(crate) type Claims = Mutex<Vec<Range<u64>>>;

/// Maximum number of processes that an error names.
const HOLDERS_MAX: usize = 3;

/// Locks all of a file, including future growth, until it is closed.
pub(crate) fn lock_all(file: &File) -> io::Result<()> {
    lock_range(file, &(0..u64::MAX))
}

/// Locks a range. Waits up to two seconds for another holder, also in this process: the kernel may
/// release a file late.
pub(crate) fn lock_range(file: &File, range: &Range<u64>) -> io::Result<()> {
    let locked = patiently(io::ErrorKind::WouldBlock, || set_lock(file, range, libc::F_WRLCK));
    locked.map_err(|error| named(error, file))
}

/// Sets or releases the lock of a range, without a wait.
pub(crate) fn set_lock(file: &File, range: &Range<u64>, kind: libc::c_int) -> io::Result<()> {
    let number = |value: u64| libc::off_t::try_from(value).unwrap_or(libc::off_t::MAX);
    let (start, end) = (number(range.start), number(range.end));
    // SAFETY: the struct consists of integers, for which zero bytes are valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::c_short::try_from(kind).unwrap_or_default();
    lock.l_whence = libc::c_short::try_from(libc::SEEK_SET).unwrap_or_default();
    (lock.l_start, lock.l_len) = (start, end - start);
    let fd = file.as_raw_fd();
    // SAFETY: the descriptor is open, and the struct is a local that the call reads.
    match unsafe { libc::fcntl(fd, libc::F_OFD_SETLK, &raw const lock) } {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EACCES) => {
                Err(io::ErrorKind::WouldBlock.into())
            }
            error => Err(error),
        },
    }
}

/// Returns the error of a lock that is held, with its holder.
pub(crate) fn in_use(who: &str) -> io::Error {
    io::Error::new(io::ErrorKind::WouldBlock, format!("it is in use: {who}"))
}

/// Adds the processes that hold a lock to the error of a refused lock.
fn named(error: io::Error, file: &File) -> io::Error {
    if error.kind() != io::ErrorKind::WouldBlock {
        return io::Error::new(error.kind(), format!("it cannot be locked: {error}"));
    }
    let holders = holders(file);
    if holders.contains(&process::id()) {
        // Other processes that share the open file are its children.
        return in_use("this process has locked it");
    }
    let names: Vec<String> = holders.iter().take(HOLDERS_MAX).map(ToString::to_string).collect();
    match &names[..] {
        [] => in_use("another process has locked it"),
        [one] => in_use(&format!("process {one} has locked it")),
        several => in_use(&format!("processes {} have locked it", several.join(" and "))),
    }
}

/// Returns the processes that lock the file, as far as this process may see their descriptors.
fn holders(file: &File) -> Vec<u32> {
    let Ok(status) = file.metadata() else { return Vec::new() };
    let numbers = |path: &Path| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
    };
    let has_lock = |pid: &u32| {
        let of_process = Path::new("/proc").join(pid.to_string());
        numbers(&of_process.join("fd")).any(|fd| {
            let opened = fs::metadata(of_process.join("fd").join(fd.to_string()));
            let same = opened.is_ok_and(|it| (it.dev(), it.ino()) == (status.dev(), status.ino()));
            same && holds_lock(&of_process.join("fdinfo").join(fd.to_string()))
        })
    };
    numbers(Path::new("/proc")).filter(has_lock).collect()
}

/// True if a descriptor's notes (`/proc/PID/fdinfo/FD`) list an exclusive lock.
fn holds_lock(notes: &Path) -> bool {
    let text = fs::read_to_string(notes).unwrap_or_default();
    text.lines().any(|line| line.starts_with("lock:") && line.contains("WRITE"))
}
