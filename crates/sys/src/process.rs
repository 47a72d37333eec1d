//! Resident memory and CPU time of this process, as the kernel counts them.

use std::fs;
use std::io;
use std::time::Duration;

use crate::size::{PAGE_BYTES, to_u64};

/// Returns the bytes of this process that are resident now, from `/proc/self/statm`.
///
/// # Errors
/// Fails if `/proc` is not readable.
pub fn resident_bytes() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/self/statm")?;
    let pages = text.split_whitespace().nth(1).and_then(|field| field.parse::<u64>().ok());
    pages.map(|pages| pages * to_u64(PAGE_BYTES)).ok_or_else(|| unreadable("/proc/self/statm"))
}

/// Returns the bytes of [`resident_bytes`] that belong neither to a file nor to shared memory:
/// heaps, stacks, and private mappings that were written to.
///
/// # Errors
/// Fails if `/proc` is not readable.
pub fn anonymous_bytes() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/self/statm")?;
    let mut pages = text.split_whitespace().skip(1).map(|field| field.parse::<u64>().ok());
    match (pages.next().flatten(), pages.next().flatten()) {
        (Some(resident), Some(shared)) => Ok(resident.saturating_sub(shared) * to_u64(PAGE_BYTES)),
        _ => Err(unreadable("/proc/self/statm")),
    }
}

/// Returns the peak of the resident bytes since the start or [`reset_peak_resident`].
///
/// # Errors
/// Fails if `/proc` is not readable.
pub fn peak_resident_bytes() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| unreadable("/proc/self/status"))
}

/// Resets the peak of [`peak_resident_bytes`] to the bytes resident now.
///
/// # Errors
/// Fails if `/proc/self/clear_refs` is not writable.
pub fn reset_peak_resident() -> io::Result<()> {
    fs::write("/proc/self/clear_refs", "5")
}

/// Returns the CPU time, user and system, used by all threads of this process.
#[must_use]
pub fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a local that the call fills; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn unreadable(path: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{path} has an unknown form"))
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// Touches far more memory than other tests of this process allocate meanwhile, and than the
    /// kernel's counters lag, which is some pages per processor.
    #[test]
    fn resident_memory_follows_what_is_touched() {
        const TOUCHED: usize = 512 << 20;
        const SLACK: u64 = 192 << 20;
        let before = resident_bytes().expect("/proc is there");
        let data = std::hint::black_box(vec![1u8; TOUCHED]);
        let after = resident_bytes().expect("/proc is there");
        assert!(after + SLACK >= before + to_u64(TOUCHED), "{before} -> {after}");
        let anonymous = anonymous_bytes().expect("/proc is there");
        assert!(anonymous + SLACK >= to_u64(TOUCHED) && anonymous <= after + SLACK, "{anonymous}");
        let peak = peak_resident_bytes().expect("/proc is there");
        assert!(peak + SLACK >= after, "{after}, at most {peak}");
        drop(data);
        reset_peak_resident().expect("clear_refs is writable");
        let peak = peak_resident_bytes().expect("/proc is there");
        assert!(peak + SLACK < after, "{after}, after the reset at most {peak}");
    }

    #[test]
    fn processor_time_advances_with_work() {
        let before = cpu_time();
        let mut sum = 0u64;
        while cpu_time() == before {
            sum = std::hint::black_box(sum.wrapping_mul(31) + 1);
        }
        assert!(cpu_time() > before);
    }
}
