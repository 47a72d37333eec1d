//! Time slice of a thread: the processor time for which it runs before others of its processor do.

use std::io;
use std::mem::size_of;
use std::time::Duration;

/// Sets the time slice of the calling thread, which the kernel bounds by 0.1 and 100 ms. A thread
/// with a shorter slice runs sooner after it wakes, and gets the same share of the processor.
/// Kernels before 6.12 report success and keep their own slice.
///
/// # Errors
/// Fails if the kernel refuses the call, as a sandbox may.
pub fn set(slice: Duration) -> io::Result<()> {
    let size = size_of::<libc::sched_attr>();
    let attributes = libc::sched_attr {
        size: u32::try_from(size).unwrap_or(0),
        sched_policy: libc::SCHED_OTHER.unsigned_abs(),
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX),
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel reads `size` bytes of a local that lives as long as the call; 0 is the
    // calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_takes_a_time_slice() {
        set(Duration::from_micros(300)).expect("set");
        set(Duration::from_millis(3)).expect("set");
    }
}
