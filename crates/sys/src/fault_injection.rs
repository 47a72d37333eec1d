//! Faults that tests inject into their own process: unmapped memory, broken descriptors, refused
//! system calls, and sudden exits.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

/// Signal of an access to mapped memory whose page cannot be provided.
pub const SIGBUS: i32 = libc::SIGBUS;
/// Signal of an access to memory that is not mapped.
pub const SIGSEGV: i32 = libc::SIGSEGV;

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Unmaps whole pages, whichever component owns them.
///
/// # Errors
/// Fails if the range is not of whole pages.
///
/// # Safety
/// No reference to a byte of the pages is alive.
pub unsafe fn unmap(start: *mut u8, len: usize) -> io::Result<()> {
    // SAFETY: guaranteed by the caller.
    check(unsafe { libc::munmap(start.cast(), len) })
}

/// Drops the contents of whole pages (`MADV_DONTNEED`), whichever component owns them.
///
/// # Errors
/// Fails if the range is not of whole pages that are mapped.
///
/// # Safety
/// As [`unmap`].
pub unsafe fn drop_pages(start: *mut u8, len: usize) -> io::Result<()> {
    // SAFETY: guaranteed by the caller.
    check(unsafe { libc::madvise(start.cast(), len, libc::MADV_DONTNEED) })
}

/// Breaks every io_uring of this process by replacing its descriptor with `/dev/null`. Returns the
/// number of rings.
///
/// # Errors
/// Fails if the process's descriptors cannot be listed.
pub fn break_rings() -> io::Result<usize> {
    let nothing = File::open("/dev/null")?;
    let mut broken = 0;
    for entry in std::fs::read_dir("/proc/self/fd")?.flatten() {
        let is_ring = std::fs::read_link(entry.path())
            .is_ok_and(|target| target.to_string_lossy().contains("io_uring"));
        let number = entry.file_name().to_string_lossy().parse();
        if let (true, Ok(number)) = (is_ring, number) {
            // SAFETY: takes and returns integers, no pointers; users of the ring get errors.
            check(unsafe { libc::dup2(nothing.as_raw_fd(), number) }.min(0))?;
            broken += 1;
        }
    }
    Ok(broken)
}

/// Runs a function in a forked child process and waits for its exit. The function's result is the
/// exit code.
///
/// # Errors
/// Fails if the process cannot be forked.
///
/// # Safety
/// The function takes no lock and allocates nothing: the other threads do not exist in the child,
/// and never release the locks they hold.
pub unsafe fn in_child(function: impl FnOnce() -> u8) -> io::Result<ExitStatus> {
    // SAFETY: the child runs only `function`, which keeps the rules of this function's contract.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let code = function();
        // SAFETY: takes an integer; ends the child at once, without destructors.
        unsafe { libc::_exit(code.into()) };
    }
    let mut status = 0;
    // SAFETY: waits for the child forked above; the status is a local that the call fills.
    match unsafe { libc::waitpid(pid, &raw mut status, 0) } {
        waited if waited == pid && pid > 0 => Ok(ExitStatus::from_raw(status)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Locks all present and future memory of this process (`mlockall`).
///
/// # Errors
/// Fails if the process's limit of locked memory is too low.
pub fn lock_memory() -> io::Result<()> {
    // SAFETY: takes and returns integers, no pointers.
    check(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) })
}

/// Sets this process's limit of locked memory to zero (`RLIMIT_MEMLOCK`), which root ignores.
///
/// # Errors
/// Fails if the kernel refuses the limit.
pub fn forbid_locked_memory() -> io::Result<()> {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct is a local that the call reads.
    check(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const none) })
}

/// A system call that a container's seccomp profile may refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `userfaultfd`.
    Userfaultfd,
    /// `io_uring_setup`.
    IoUring,
}

/// Installs a seccomp filter, as containers do, that fails system calls of this thread and of the
/// threads it starts with `EPERM`. It cannot be removed.
///
/// # Errors
/// Fails if the kernel has no seccomp filters.
pub fn refuse(calls: &[Call]) -> io::Result<()> {
    let step = |code: u32, if_so: u8, value: u32| libc::sock_filter {
        code: u16::try_from(code).unwrap_or(u16::MAX),
        jt: if_so,
        jf: 0,
        k: value,
    };
    // The number of the call is the first field of `struct seccomp_data`.
    let mut steps = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0)];
    for (left, call) in (1..=u8::try_from(calls.len()).unwrap_or(u8::MAX)).rev().zip(calls) {
        let number = match call {
            Call::Userfaultfd => libc::SYS_userfaultfd,
            Call::IoUring => libc::SYS_io_uring_setup,
        };
        let number = u32::try_from(number).map_err(io::Error::other)?;
        steps.push(step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, left, number));
    }
    steps.push(step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW));
    let eperm = u32::try_from(libc::EPERM).map_err(io::Error::other)?;
    steps.push(step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | eperm));
    let len = libc::c_ushort::try_from(steps.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len, filter: steps.as_mut_ptr() };
    // SAFETY: takes and returns integers, no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    // SAFETY: the program and its steps are locals that the call reads.
    check(unsafe {
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
    })
}

/// Changes the user and group of this process to 65534, irrevocably.
///
/// # Errors
/// Fails if the process lacks the privilege.
pub fn drop_privileges() -> io::Result<()> {
    const UNPRIVILEGED_ID: u32 = 65534;
    // SAFETY: takes and returns integers, no pointers.
    check(unsafe { libc::setgid(UNPRIVILEGED_ID) })?;
    // SAFETY: as above.
    check(unsafe { libc::setuid(UNPRIVILEGED_ID) })
}

/// Ends this process at once, without destructors or exit handlers (`_exit`).
pub fn leave(code: u8) -> ! {
    // SAFETY: takes an integer and does not return.
    unsafe { libc::_exit(code.into()) }
}
