//! Exclusive use of a file, or of ranges of it, across processes.
//!
//! A range is locked for the open file description (`F_OFD_SETLK`), so that it excludes every other
//! open of the file, in this process or another; ranges of one open file exclude each other by a
//! list. `flock` would lock only whole files, and `F_SETLK` would not exclude a second user in the
//! same process. The locks are advisory: readers and writers without a lock are not stopped. A file
//! that only marks the owner of a directory is locked by `flock` and contains the owner's process
//! id ([`LockedFile`](crate::lock::LockedFile)).
//!
//! A child process (`fork`) shares the open file, and with it the locks, until it closes its copy
//! or executes another program; so a claim is released explicitly, and by its owner alone.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::file::DirectFile;
use crate::lock::patiently;
use crate::size::{PAGE_BYTES, to_u64};
use crate::sync;

/// Claimed ranges of one open file.
pub(crate) type Claims = Mutex<Vec<Range<u64>>>;

/// Maximum number of processes that an error names.
const HOLDERS_MAX: usize = 3;

/// Exclusive claim of a range of a file, in whole pages; released on drop.
#[derive(Debug)]
pub struct Claim {
    file: Arc<DirectFile>,
    range: Range<u64>,
    /// Id of the process that made the claim.
    owner: u32,
}

impl Claim {
    /// Claims the pages of a range.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if another claim overlaps the range or the file is locked;
    /// the message names the processes if known. The file system's error if it has no locks.
    pub fn take(file: &Arc<DirectFile>, range: Range<u64>) -> io::Result<Claim> {
        let end = range.end.checked_next_multiple_of(to_u64(PAGE_BYTES)).unwrap_or(range.end);
        let range = range.start / to_u64(PAGE_BYTES) * to_u64(PAGE_BYTES)..end;
        let mut claims = claims(file);
        if claims.iter().any(|other| other.start < range.end && range.start < other.end) {
            return Err(in_use("this process has it"));
        }
        lock_range(file, &range)?;
        claims.push(range.clone());
        drop(claims);
        Ok(Claim { file: Arc::clone(file), range, owner: process::id() })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.owner != process::id() {
            return;
        }
        let mut claims = claims(&self.file);
        claims.retain(|range| *range != self.range);
        // A lock that cannot be released ends with the descriptor.
        let _ = set_lock(&self.file, &self.range, libc::F_UNLCK);
    }
}

/// Locks all of a file, including future growth, until it is closed.
pub(crate) fn lock_all(file: &DirectFile) -> io::Result<()> {
    lock_range(file, &(0..u64::MAX))
}

/// Locks a range. Waits up to two seconds for another holder, also in this process: the kernel may
/// release a file late.
fn lock_range(file: &DirectFile, range: &Range<u64>) -> io::Result<()> {
    let locked = patiently(io::ErrorKind::WouldBlock, || set_lock(file, range, libc::F_WRLCK));
    locked.map_err(|error| named(error, file))
}

fn claims(file: &DirectFile) -> MutexGuard<'_, Vec<Range<u64>>> {
    sync::lock(file.claims())
}

fn set_lock(file: &DirectFile, range: &Range<u64>, kind: libc::c_int) -> io::Result<()> {
    let number = |value: u64| libc::off_t::try_from(value).unwrap_or(libc::off_t::MAX);
    let (start, end) = (number(range.start), number(range.end));
    // SAFETY: the struct consists of integers, for which zero bytes are valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::c_short::try_from(kind).unwrap_or_default();
    lock.l_whence = libc::c_short::try_from(libc::SEEK_SET).unwrap_or_default();
    (lock.l_start, lock.l_len) = (start, end - start);
    let fd = file.as_fd().as_raw_fd();
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

fn in_use(who: &str) -> io::Error {
    io::Error::new(io::ErrorKind::WouldBlock, format!("it is in use: {who}"))
}

/// Adds the processes that hold a lock to the error of a refused lock.
fn named(error: io::Error, file: &DirectFile) -> io::Error {
    if error.kind() != io::ErrorKind::WouldBlock {
        return io::Error::new(error.kind(), format!("it cannot be locked: {error}"));
    }
    let holders = holders(file.as_file());
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

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    struct Scratch(std::path::PathBuf);

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_file(&self.0).expect("created by the test");
        }
    }

    fn open(scratch: &Scratch) -> Arc<DirectFile> {
        Arc::new(DirectFile::create(&scratch.0).expect("writable"))
    }

    fn scratch(name: &str) -> Scratch {
        Scratch(std::env::temp_dir().join(format!("terrace-{name}-{}", process::id())))
    }

    fn refused(claimed: io::Result<Claim>) -> String {
        let error = claimed.expect_err("claimed");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        error.to_string()
    }

    #[test]
    fn a_range_has_one_owner_and_others_have_theirs() {
        let scratch = scratch("claim");
        let (one, other) = (open(&scratch), open(&scratch));
        let held = Claim::take(&one, 0..8192).expect("free");
        assert!(refused(Claim::take(&one, 4096..12288)).contains("this process"));
        assert!(refused(Claim::take(&other, 8191..12288)).contains("this process has locked it"));
        let beside = Claim::take(&other, 8192..12288).expect("free");
        let third = Claim::take(&one, 12288..12289).expect("free");
        refused(Claim::take(&other, 12300..12400));
        drop(held);
        Claim::take(&other, 0..8192).expect("free again");
        drop((beside, third));
    }

    #[test]
    fn all_of_a_file_excludes_its_ranges_and_they_it() {
        let scratch = scratch("claim-whole");
        let (one, other) = (open(&scratch), open(&scratch));
        one.lock().expect("free");
        assert!(refused(Claim::take(&other, 0..1)).contains("this process has locked it"));
        drop(one);
        let claim = Claim::take(&other, 1 << 40..1 << 41).expect("free");
        let third = open(&scratch);
        assert_eq!(third.lock().expect_err("held").kind(), io::ErrorKind::WouldBlock);
        drop(claim);
        third.lock().expect("free, though the file is still open");
    }
}
