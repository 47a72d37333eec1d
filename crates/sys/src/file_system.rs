//! Free space of file systems, and detection of file systems in memory.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `TMPFS_MAGIC` and `RAMFS_MAGIC` of `linux/magic.h`.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// Returns the bytes of the file system of `path` that this user may still allocate.
///
/// # Errors
/// Fails if the path is missing.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path is a C string that outlives the call; `status` points to a struct that the
    // call fills.
    free_by(|status| unsafe { libc::statvfs(path.as_ptr(), status) })
}

/// True if the file system of `path` keeps its files in memory (tmpfs, ramfs), where a written file
/// takes DRAM outside of all budgets.
///
/// # Errors
/// Fails if the path is missing.
pub fn is_in_memory(path: &Path) -> io::Result<bool> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the struct consists of integers, for which zero bytes are valid.
    let mut status: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path is a C string, and both pointers are to locals that outlive the call.
    if unsafe { libc::statfs(path.as_ptr(), &raw mut status) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(IN_MEMORY.contains(&status.f_type))
}

pub(crate) fn free_by(query: impl FnOnce(*mut libc::statvfs) -> i32) -> io::Result<u64> {
    // SAFETY: the struct consists of integers, for which zero bytes are valid.
    let mut status: libc::statvfs = unsafe { std::mem::zeroed() };
    if query(&raw mut status) != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(status.f_bavail.saturating_mul(status.f_frsize))
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_has_room() {
        assert!(free_bytes(&std::env::temp_dir()).expect("there") > 0);
        assert!(free_bytes(Path::new("/no/such")).is_err());
    }

    #[test]
    fn file_systems_in_memory_are_told_from_others() {
        assert!(!is_in_memory(Path::new("/proc")).expect("there"));
        // This directory is a tmpfs on every machine that has it.
        if Path::new("/dev/shm").exists() {
            assert!(is_in_memory(Path::new("/dev/shm")).expect("there"));
        }
        assert!(is_in_memory(Path::new("/no/such")).is_err());
    }
}
