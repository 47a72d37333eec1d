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

use std::io;
use std::ops::Range;
use std::process;
use std::sync::{Arc, MutexGuard};

use crate::file::DirectFile;
use crate::range_lock::{in_use, lock_range, set_lock};
use crate::size::{PAGE_BYTES, to_u64};
use crate::sync;

/// Exclusive claim of a range of a file, in whole pages; released on drop.
#[derive(Debug)]
pub struct Claim {
    file: Arc<DirectFile>,
    range: Range<u64>,
    /// Id of the process that made the claim.
    owner: u32,
}

impl Claim {
    /// Claims the pages of a range. Waits up to two seconds for a holder of its lock.
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
        lock_range(file.as_file(), &range)?;
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
        let _ = set_lock(self.file.as_file(), &self.range, libc::F_UNLCK);
    }
}

fn claims(file: &DirectFile) -> MutexGuard<'_, Vec<Range<u64>>> {
    sync::lock(file.claims())
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::fs;

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
