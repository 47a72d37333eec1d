//! Identity of the current process, across `fork`, and of the machine's current boot.

use std::fs;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::size::PAGE_BYTES;

/// Distinguishes the process that created the mark from its forked children.
///
/// The mark is a page that is zeroed in a child (`MADV_WIPEONFORK`), so a check is one load from
/// memory. If the kernel has no such pages, and under Miri, the mark is the process id, and each
/// check is a system call.
#[derive(Debug)]
pub struct ProcessMark {
    process: u32,
    page: Option<NonNull<AtomicU8>>,
}

// SAFETY: the page belongs to the mark alone, stays mapped as long as the mark, and is one atomic.
unsafe impl Send for ProcessMark {}
// SAFETY: as above.
unsafe impl Sync for ProcessMark {}

impl ProcessMark {
    /// Creates a mark of this process.
    #[must_use]
    pub fn new() -> Self {
        let page = wiped_on_fork();
        if let Some(page) = page {
            // SAFETY: the page was just mapped and belongs to this mark alone.
            unsafe { page.as_ref() }.store(1, Ordering::Release);
        }
        Self { process: std::process::id(), page }
    }

    /// True in the process that created the mark, false in its children.
    #[inline]
    #[must_use]
    pub fn is_here(&self) -> bool {
        match self.page {
            // SAFETY: the page is mapped until the mark is dropped, in a child as well.
            Some(page) => unsafe { page.as_ref() }.load(Ordering::Acquire) == 1,
            None => self.process == std::process::id(),
        }
    }

    /// Returns the id of the process that created the mark.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.process
    }
}

impl Default for ProcessMark {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for ProcessMark {
    fn drop(&mut self) {
        if let Some(page) = self.page {
            // SAFETY: the page was mapped in `new`, with this length, and has no other owner.
            unsafe { libc::munmap(page.as_ptr().cast(), PAGE_BYTES) };
        }
    }
}

fn wiped_on_fork() -> Option<NonNull<AtomicU8>> {
    if cfg!(miri) {
        return None;
    }
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the kernel's choice affects no existing one.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), PAGE_BYTES, protection, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the range is the page that was mapped above.
    if unsafe { libc::madvise(page, PAGE_BYTES, libc::MADV_WIPEONFORK) } != 0 {
        // SAFETY: as above; no reference to the page exists yet.
        unsafe { libc::munmap(page, PAGE_BYTES) };
        return None;
    }
    NonNull::new(page.cast())
}

/// Returns the id of the machine's current boot (`boot_id`), or `None` if it cannot be read.
/// Containers have the id of their host.
#[must_use]
pub fn boot_id() -> Option<u128> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    u128::from_str_radix(&text.trim().replace('-', ""), 16).ok()
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::io::{self, Read as _, Write as _};
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;
    use crate::fault_injection;
    use crate::lock::LockedFile;
    use crate::sync::lock;

    #[test]
    fn a_child_is_told_from_its_parent() {
        let paged = ProcessMark::new();
        assert!(paged.page.is_some(), "Linux has such pages since 4.14");
        let numbered = ProcessMark { process: std::process::id(), page: None };
        let here = || [&paged, &numbered].iter().filter(|mark| mark.is_here()).count();
        assert_eq!(here(), 2);
        // SAFETY: the child reads two words, and creates and drops a mark by system calls alone.
        let child = unsafe {
            fault_injection::in_child(|| {
                let own = ProcessMark::new();
                u8::from(here() != 0 || !own.is_here() || own.process() == paged.process())
            })
        };
        assert!(child.expect("a child").success());
        assert_eq!(here(), 2);
        assert_eq!(paged.process(), std::process::id());
    }

    #[test]
    fn a_boot_has_one_number() {
        let boot = boot_id().expect("Linux tells");
        assert!(boot != 0 && boot_id() == Some(boot));
    }

    fn end(file: &Mutex<Option<LockedFile>>) {
        drop(lock(file).take());
    }

    #[test]
    fn a_child_neither_empties_a_lock_nor_keeps_it() {
        let path = std::env::temp_dir().join(format!("terrace-child-{}", std::process::id()));
        let held = Mutex::new(Some(LockedFile::open(&path).expect("free")));
        // SAFETY: the child drops its copy of the lock, by system calls alone.
        let child = unsafe {
            fault_injection::in_child(|| {
                end(&held);
                0
            })
        };
        assert!(child.expect("a child").success());
        let holder = fs::read_to_string(&path).expect("there");
        assert_eq!(holder.trim(), std::process::id().to_string());
        assert!(LockedFile::open(&path).is_err(), "the child's end unlocks nothing");

        let (reader, mut writer) = io::pipe().expect("a pipe");
        std::thread::scope(|scope| {
            let child = scope.spawn(|| {
                // SAFETY: the child waits for the pipe by a system call alone.
                unsafe { fault_injection::in_child(|| u8::from((&reader).read(&mut [0]).is_err())) }
            });
            std::thread::sleep(Duration::from_millis(100));
            end(&held);
            drop(LockedFile::open(&path).expect("free, though a child has the descriptor"));
            writer.write_all(&[0]).expect("a reader");
            assert!(child.join().expect("no panic").expect("a child").success());
        });
        fs::remove_file(&path).expect("there");
    }
}
