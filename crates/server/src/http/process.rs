//! Memory of the process, as the kernel reports it.

use std::fs;

/// Returns the resident bytes of the process; `None` if `/proc` does not report them.
pub(super) fn resident_bytes() -> Option<u64> {
    status_bytes(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

fn status_bytes(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_in_kib() {
        let status = "VmPeak:\t  900 kB\nVmRSS:\t   12 kB\nThreads:\t3\n";
        assert_eq!(status_bytes(status, "VmRSS:"), Some(12 << 10));
        assert_eq!(status_bytes(status, "Threads:"), None);
        assert_eq!(status_bytes(status, "VmSwap:"), None);
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
