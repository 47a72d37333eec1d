//! What programs do to their own memory and processes, for tests of what must survive it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

/// The signal of who touches memory that is mapped and cannot be had.
pub const SIGBUS: i32 = libc::SIGBUS;
/// The signal of who touches memory that is not mapped.
pub const SIGSEGV: i32 = libc::SIGSEGV;

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Unmaps whole pages, whoever's they are.
///
/// # Errors
/// When the range is not of whole pages.
///
/// # Safety
/// Nobody has a reference to a byte of them.
pub unsafe fn unmap(start: *mut u8, len: usize) -> io::Result<()> {
    // SAFETY: the caller's promise.
    check(unsafe { libc::munmap(start.cast(), len) })
}

/// Drops the contents of whole pages, whoever's they are.
///
/// # Errors
/// When the range is not of whole pages that are mapped.
///
/// # Safety
/// As [`unmap`].
pub unsafe fn drop_pages(start: *mut u8, len: usize) -> io::Result<()> {
    // SAFETY: the caller's promise.
    check(unsafe { libc::madvise(start.cast(), len, libc::MADV_DONTNEED) })
}

/// Takes every io_uring of this process away: its descriptor is another file from here on. How many
/// there were.
///
/// # Errors
/// When the process's descriptors cannot be listed.
pub fn break_rings() -> io::Result<usize> {
    let nothing = File::open("/dev/null")?;
    let mut broken = 0;
    for entry in std::fs::read_dir("/proc/self/fd")?.flatten() {
        let is_ring = std::fs::read_link(entry.path())
            .is_ok_and(|target| target.to_string_lossy().contains("io_uring"));
        let number = entry.file_name().to_string_lossy().parse();
        if let (true, Ok(number)) = (is_ring, number) {
            // SAFETY: takes and returns plain numbers; whoever uses the ring gets errors.
            check(unsafe { libc::dup2(nothing.as_raw_fd(), number) }.min(0))?;
            broken += 1;
        }
    }
    Ok(broken)
}

/// Runs a function in a child process that is a copy of this one, and waits for its end; its exit
/// code is what the function returns.
///
/// # Errors
/// When there can be no more processes.
///
/// # Safety
/// The function takes no lock and allocates nothing: other threads do not go on in the child.
pub unsafe fn in_child(function: impl FnOnce() -> u8) -> io::Result<ExitStatus> {
    // SAFETY: the child does nothing but what the caller promises.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let code = function();
        // SAFETY: ends the child at once, without destructors.
        unsafe { libc::_exit(code.into()) };
    }
    let mut status = 0;
    // SAFETY: waits for the child that was made above; the status is a local.
    match unsafe { libc::waitpid(pid, &raw mut status, 0) } {
        waited if waited == pid && pid > 0 => Ok(ExitStatus::from_raw(status)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Locks all memory of this process, also what it will map (`mlockall`).
///
/// # Errors
/// When its limit of locked memory is too low.
pub fn lock_memory() -> io::Result<()> {
    // SAFETY: takes and returns plain numbers.
    check(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) })
}

/// Makes this process one of the user `nobody`, for good.
///
/// # Errors
/// When it may not.
pub fn become_nobody() -> io::Result<()> {
    const NOBODY: u32 = 65534;
    // SAFETY: takes and returns plain numbers.
    check(unsafe { libc::setgid(NOBODY) })?;
    // SAFETY: as above.
    check(unsafe { libc::setuid(NOBODY) })
}

/// Ends this process at once: no destructors, no handlers, whatever other threads do.
pub fn leave(code: u8) -> ! {
    // SAFETY: takes a number and does not return.
    unsafe { libc::_exit(code.into()) }
}
