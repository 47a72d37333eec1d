//! File locks of one process (`flock`), and detection of the process that holds one.
//!
//! The kernel releases a lock when the last reference to the open file is dropped. That may be
//! after the process was reaped: io_uring releases files in a kernel worker, and a child that was
//! just forked shares the lock until it executes its own program. So a lock that is held by another
//! process is retried for two seconds before it is an error.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::identity::ProcessMark;

/// Maximum wait for a lock or a device that another process holds.
pub(crate) const LOCK_PATIENCE: Duration = Duration::from_secs(2);
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// A file that this process has locked. It is unlocked on drop, or by the exit of the process and
/// of all its children that have a copy of the descriptor. Dropping a child's copy has no effect.
#[derive(Debug)]
pub struct LockedFile {
    file: File,
    owner: ProcessMark,
}

impl LockedFile {
    /// Locks `path` for this process alone, creates it if it is missing, and writes the process id
    /// into it. Waits up to two seconds, for a process that holds the lock and is about to exit.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if another process holds the lock (the message has its id if
    /// known), or an error of the file system.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        lock(&file)?;
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Self { file, owner: ProcessMark::new() })
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        if self.owner.is_here() {
            // A process id in an unlocked file would mislead, and children with a copy of the
            // descriptor would keep the lock. Errors do not matter: the lock ends with the last
            // descriptor.
            drop(self.file.set_len(0));
            drop(self.file.unlock());
        }
    }
}

/// Locks an open file. Waits up to [`LOCK_PATIENCE`] for another holder.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    let locked = patiently(io::ErrorKind::WouldBlock, || file.try_lock().map_err(io::Error::from));
    locked.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => {
            let holder = holder(file).map_or_else(
                || "another process".to_owned(),
                |process| format!("process {process}"),
            );
            let message = format!("{holder} has had it locked for {LOCK_PATIENCE:?}");
            io::Error::new(io::ErrorKind::WouldBlock, message)
        }
        _ => error,
    })
}

/// Retries an attempt that fails with `busy`, for up to [`LOCK_PATIENCE`].
pub(crate) fn patiently<T>(
    busy: io::ErrorKind,
    mut attempt: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(error) if error.kind() == busy && start.elapsed() < LOCK_PATIENCE => {
                std::thread::sleep(LOCK_PAUSE);
            }
            done => return done,
        }
    }
}

/// Returns the process that holds the lock of an open file, unless it is in another container.
fn holder(file: &File) -> Option<u32> {
    let inode = file.metadata().ok()?.ino();
    holder_in(&std::fs::read_to_string("/proc/locks").ok()?, inode)
}

/// Finds the holder of the lock on an inode in the text of `/proc/locks`.
///
/// Compares the inode alone: the device there is that of the file system's superblock, which on
/// btrfs and overlays differs from the one that `stat` returns.
fn holder_in(locks: &str, inode: u64) -> Option<u32> {
    locks.lines().find_map(|line| {
        // 1: FLOCK  ADVISORY  WRITE 4711 fe:00:131 0 EOF; an arrow (`->`) marks a waiting process.
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", process, place, ..] = fields[..] else { return None };
        let found: u64 = place.rsplit(':').next()?.parse().ok()?;
        process.parse().ok().filter(|process| found == inode && *process > 0)
    })
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_for_one_and_names_its_holder() {
        let path = std::env::temp_dir().join(format!("terrace-lock-{}", std::process::id()));
        let held = LockedFile::open(&path).expect("free");
        let start = Instant::now();
        let error = LockedFile::open(&path).expect_err("held");
        assert!(start.elapsed() >= LOCK_PATIENCE, "{:?}", start.elapsed());
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        let own = format!("process {} ", std::process::id());
        assert!(error.to_string().contains(&own), "{error}");
        drop(held);
        LockedFile::open(&path).expect("free again");
        std::fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn a_lock_that_ends_in_time_is_waited_for() {
        let path = std::env::temp_dir().join(format!("terrace-late-{}", std::process::id()));
        let held = LockedFile::open(&path).expect("free");
        let late = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(500));
            drop(held);
        });
        LockedFile::open(&path).expect("free after half a second");
        late.join().expect("no panic");
        std::fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn the_holder_stands_in_the_kernel_s_list() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 fe:00:131 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 4711 fe:00:131 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 12 fe:00:131 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 0 fe:00:132 0 EOF\n";
        assert_eq!(holder_in(locks, 131), Some(4711));
        assert_eq!(holder_in(locks, 132), None, "a process of another container");
        assert_eq!(holder_in(locks, 1), None);
        assert_eq!(holder_in("nonsense\n\n4: FLOCK", 131), None);
    }
}
