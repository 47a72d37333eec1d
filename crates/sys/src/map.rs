//! Anonymous reservations of address space: committed on first touch, decommitted by range.

use std::io;

#[cfg(miri)]
use heap as backing;
#[cfg(not(miri))]
use pages as backing;

use crate::size::PAGE_BYTES;

/// Size and alignment of a transparent huge page; reservations start on such a boundary.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A private, anonymous reservation. It uses only address space until a page is touched, reads as
/// zero on first touch, and is unmapped on drop.
///
/// In a process that locks its memory (`mlockall` with `MCL_FUTURE`) pages are locked as they are
/// touched (`MLOCK_ONFAULT`): otherwise the kernel would fill all of them at once.
///
/// The mapping exposes only its address. Code that makes references from the address is responsible
/// for them: while one is alive, its range may not be decommitted nor the mapping dropped.
#[derive(Debug)]
pub struct Mapping {
    backing: backing::Backing,
}

impl Mapping {
    /// Reserves `len` bytes (rounded up to a page), starting on a huge page boundary.
    ///
    /// # Errors
    /// Fails if `len` is zero, or the address space or its limit is exhausted; in a process that
    /// locks its memory also if `len` exceeds its limit of locked memory (`ulimit -l`).
    pub fn reserve(len: usize) -> io::Result<Mapping> {
        let rounded = len.checked_next_multiple_of(PAGE_BYTES).filter(|rounded| *rounded > 0);
        let Some(rounded) = rounded else {
            return Err(invalid(format!("cannot reserve {len} bytes of address space")));
        };
        Ok(Mapping { backing: backing::Backing::reserve(rounded)? })
    }

    /// Returns the address of the first byte.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.backing.start()
    }

    /// Returns the number of bytes reserved, a multiple of [`PAGE_BYTES`].
    #[must_use]
    pub fn len(&self) -> usize {
        self.backing.len()
    }

    /// Always false: a mapping has at least one page.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Decommits whole pages, including locked ones (`MADV_DONTNEED`); they read as zero
    /// afterwards. Takes about 0.25 us a page in bulk.
    ///
    /// # Errors
    /// Fails if the range is not page-aligned inside the mapping, or its pages are locked and the
    /// kernel is older than 5.18.
    pub fn decommit(&self, offset: usize, len: usize) -> io::Result<()> {
        self.check(offset, len)?;
        self.backing.decommit(offset, len)
    }

    /// Decommits many ranges `(offset, len)` with one TLB flush if the kernel allows it
    /// (`process_madvise`), else one range after the other.
    ///
    /// # Errors
    /// As [`Mapping::decommit`]; ranges before the failing one are decommitted.
    pub fn decommit_batch(&self, ranges: &[(usize, usize)]) -> io::Result<()> {
        for (offset, len) in ranges {
            self.check(*offset, *len)?;
        }
        self.backing.decommit_batch(ranges)
    }

    /// Requests (`true`) or declines (`false`) transparent huge pages for the whole mapping.
    ///
    /// # Errors
    /// Fails if the kernel was built without transparent huge pages.
    pub fn advise_huge(&self, huge: bool) -> io::Result<()> {
        self.backing.advise_huge(huge)
    }

    /// Excludes the mapping from child processes (`MADV_DONTFORK`): its pages are never shared.
    ///
    /// # Errors
    /// Fails if the kernel refuses it.
    pub fn leave_out_of_forks(&self) -> io::Result<()> {
        self.backing.leave_out_of_forks()
    }

    /// Unlocks the pages (`munlock`); pages touched from now on are not locked either.
    ///
    /// # Errors
    /// Fails if the kernel refuses it.
    pub fn unlock(&self) -> io::Result<()> {
        self.backing.unlock()
    }

    /// Binds pages touched from now on to NUMA node `node` (`mbind`). The policy covers the whole
    /// mapping: per-page policies would split it until the kernel's limit of mappings.
    ///
    /// # Errors
    /// Fails if the node does not exist or has no memory.
    pub fn bind(&self, node: u32) -> io::Result<()> {
        self.backing.bind(node)
    }

    /// Commits the pages of a range in bulk (`MADV_POPULATE_WRITE`): 1.1 us a page, where a fault
    /// takes 1.8 us.
    ///
    /// # Errors
    /// Fails if the range is not page-aligned inside the mapping or memory is exhausted.
    pub fn populate(&self, offset: usize, len: usize) -> io::Result<()> {
        self.check(offset, len)?;
        self.backing.populate(offset, len)
    }

    fn check(&self, offset: usize, len: usize) -> io::Result<()> {
        let aligned = offset.is_multiple_of(PAGE_BYTES) && len.is_multiple_of(PAGE_BYTES);
        match offset.checked_add(len) {
            Some(end) if aligned && end <= self.len() => Ok(()),
            _ => Err(invalid(format!(
                "the range of {len} bytes at {offset} is not made of pages of a mapping of {}",
                self.len()
            ))),
        }
    }
}

/// Maps a block of `len` bytes, a multiple of the page size, that read as zero. The address is a
/// multiple of `align`, a power of two of at least a page. The block stays mapped until
/// [`unmap_block`]; the call allocates nothing on the heap.
///
/// # Errors
/// Fails if the address space is exhausted.
#[cfg(not(miri))]
pub fn map_block(len: usize, align: usize) -> io::Result<std::ptr::NonNull<u8>> {
    pages::map_block(len, align)
}

/// Unmaps a block that [`map_block`] has mapped.
///
/// # Errors
/// Fails if the split would exceed the kernel's limit of mappings; the block stays mapped then.
///
/// # Safety
/// The block was mapped by [`map_block`] with this length, and no thread uses it any more.
#[cfg(not(miri))]
pub unsafe fn unmap_block(start: std::ptr::NonNull<u8>, len: usize) -> io::Result<()> {
    // SAFETY: guaranteed by the caller.
    unsafe { pages::unmap_block(start, len) }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

/// Backing by pages of the kernel (`mmap`).
#[cfg(not(miri))]
mod pages {
    use std::io;
    use std::mem::ManuallyDrop;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::ptr::NonNull;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::{HUGE_PAGE_BYTES, PAGE_BYTES};
    use crate::numa::{NODE_MASK_WORDS, node_mask};

    #[derive(Debug)]
    pub(super) struct Backing {
        mapped: NonNull<u8>,
        mapped_len: usize,
        start: NonNull<u8>,
        len: usize,
    }

    // SAFETY: the value is an address range of the process; every operation on it is a system call
    // that any thread may make, and no reference to the memory is given out.
    unsafe impl Send for Backing {}
    // SAFETY: as above.
    unsafe impl Sync for Backing {}

    impl Backing {
        pub(super) fn reserve(len: usize) -> io::Result<Backing> {
            let backing = Self::map(len, HUGE_PAGE_BYTES)?;
            backing.give_access()?;
            Ok(backing)
        }

        /// Maps addresses without access, with a range of `len` bytes at a multiple of `align`.
        fn map(len: usize, align: usize) -> io::Result<Backing> {
            let mapped_len = len.checked_add(align).ok_or(io::ErrorKind::OutOfMemory)?;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // Without access the kernel fills no page, even if it locks new mappings.
            let none = libc::PROT_NONE;
            // SAFETY: a new mapping at an address of the kernel's choice touches no existing one.
            let mapped =
                unsafe { libc::mmap(std::ptr::null_mut(), mapped_len, none, flags, -1, 0) };
            if mapped == libc::MAP_FAILED {
                return Err(refused(io::Error::last_os_error(), len));
            }
            let mapped = NonNull::new(mapped.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
            let skip = mapped.align_offset(align);
            // SAFETY: `skip` is below `align`, and the mapping has `len + align` bytes.
            let start = unsafe { mapped.add(skip) };
            Ok(Backing { mapped, mapped_len, start, len })
        }

        /// Unmaps the parts before and behind the range.
        fn trim(&mut self) -> io::Result<()> {
            let before = self.start.addr().get() - self.mapped.addr().get();
            let behind = self.mapped_len - before - self.len;
            if before > 0 {
                // SAFETY: a part of this new mapping, whose address no other code has.
                check(unsafe { libc::munmap(self.mapped.as_ptr().cast(), before) })?;
                (self.mapped, self.mapped_len) = (self.start, self.mapped_len - before);
            }
            if behind > 0 {
                // SAFETY: as above; the range ends where this begins.
                check(unsafe { libc::munmap(self.start.add(self.len).as_ptr().cast(), behind) })?;
                self.mapped_len -= behind;
            }
            Ok(())
        }

        /// Makes a new mapping readable and writable. A mapping that the kernel has locked
        /// (`MCL_FUTURE`) is unlocked meanwhile: otherwise the kernel would fill all of it.
        fn give_access(&self) -> io::Result<()> {
            let (start, len) = (self.mapped.as_ptr().cast::<libc::c_void>(), self.mapped_len);
            // SAFETY: the whole of a mapping that `self` has just made and no other code refers to;
            // it has no contents to drop. The call fails only for locked memory.
            let is_locked = unsafe { libc::madvise(start, len, libc::MADV_DONTNEED) } != 0;
            if is_locked {
                // SAFETY: as above; changes no byte.
                check(unsafe { libc::munlock(start, len) })?;
            }
            // SAFETY: as above.
            check(unsafe { libc::mprotect(start, len, libc::PROT_READ | libc::PROT_WRITE) })?;
            if is_locked {
                // SAFETY: as above; changes no byte.
                check(unsafe { libc::mlock2(start, len, libc::MLOCK_ONFAULT) })?;
            }
            Ok(())
        }

        pub(super) fn unlock(&self) -> io::Result<()> {
            // SAFETY: the whole of this mapping; changes no byte.
            check(unsafe { libc::munlock(self.mapped.as_ptr().cast(), self.mapped_len) })
        }

        pub(super) fn start(&self) -> *mut u8 {
            self.start.as_ptr()
        }

        pub(super) fn len(&self) -> usize {
            self.len
        }

        pub(super) fn decommit(&self, offset: usize, len: usize) -> io::Result<()> {
            match self.advise(offset, len, libc::MADV_DONTNEED) {
                // Locked pages need `MADV_DONTNEED_LOCKED`.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    self.advise(offset, len, MADV_DONTNEED_LOCKED)
                }
                result => result,
            }
        }

        pub(super) fn decommit_batch(&self, ranges: &[(usize, usize)]) -> io::Result<()> {
            match own_pidfd() {
                Some(pidfd) if ranges.len() > 1 => self.decommit_vectored(pidfd, ranges),
                _ => ranges.iter().try_for_each(|(offset, len)| self.decommit(*offset, *len)),
            }
        }

        fn decommit_vectored(&self, pidfd: &OwnedFd, ranges: &[(usize, usize)]) -> io::Result<()> {
            for chunk in ranges.chunks(IOVEC_COUNT_MAX) {
                let iovecs: Vec<libc::iovec> =
                    chunk.iter().map(|(offset, len)| self.iovec(*offset, *len)).collect();
                let wanted: usize = chunk.iter().map(|(_, len)| len).sum();
                if process_madvise(pidfd, &iovecs, libc::MADV_DONTNEED) != Some(wanted) {
                    // Refused or partly done (it stops at the first error): decommitting twice is
                    // harmless, so the plain call finishes and returns the error if there is one.
                    chunk.iter().try_for_each(|(offset, len)| self.decommit(*offset, *len))?;
                }
            }
            Ok(())
        }

        fn iovec(&self, offset: usize, len: usize) -> libc::iovec {
            // SAFETY: the caller checked that `offset + len` is inside the mapping.
            let start = unsafe { self.start.add(offset) };
            libc::iovec { iov_base: start.as_ptr().cast(), iov_len: len }
        }

        pub(super) fn advise_huge(&self, huge: bool) -> io::Result<()> {
            let advice = if huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
            self.advise(0, self.len, advice)
        }

        pub(super) fn leave_out_of_forks(&self) -> io::Result<()> {
            self.advise(0, self.len, libc::MADV_DONTFORK)
        }

        pub(super) fn populate(&self, offset: usize, len: usize) -> io::Result<()> {
            match self.advise(offset, len, libc::MADV_POPULATE_WRITE) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    self.touch(offset, len);
                    Ok(())
                }
                result => result,
            }
        }

        /// Commits pages by writes that change nothing, for kernels before 5.14, which lack
        /// `MADV_POPULATE_WRITE`.
        fn touch(&self, offset: usize, len: usize) {
            for page in (offset..offset + len).step_by(PAGE_BYTES) {
                // SAFETY: the byte lies inside the mapping, as the caller checked; the access is
                // atomic and keeps the value, so it does not disturb other users of the byte.
                unsafe { AtomicU8::from_ptr(self.start.add(page).as_ptr()) }
                    .fetch_or(0, Ordering::Relaxed);
            }
        }

        pub(super) fn bind(&self, node: u32) -> io::Result<()> {
            let mask = node_mask(node)?;
            // SAFETY: the range is this mapping; the mask is a local of the given length (the call
            // counts one bit more than it reads).
            let result = unsafe {
                libc::syscall(
                    libc::SYS_mbind,
                    self.start.as_ptr(),
                    self.len,
                    libc::MPOL_BIND,
                    mask.as_ptr(),
                    64 * NODE_MASK_WORDS + 1,
                    0,
                )
            };
            if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        }

        fn advise(&self, offset: usize, len: usize, advice: libc::c_int) -> io::Result<()> {
            // SAFETY: the caller checked that the range is inside this mapping. The advice may
            // drop its contents, which no reference from this type can observe.
            let result =
                unsafe { libc::madvise(self.start.add(offset).as_ptr().cast(), len, advice) };
            if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        }
    }

    impl Drop for Backing {
        fn drop(&mut self) {
            // SAFETY: the range is the whole mapping made by `reserve` and unmapped only here.
            unsafe { libc::munmap(self.mapped.as_ptr().cast(), self.mapped_len) };
        }
    }

    pub(super) fn map_block(len: usize, align: usize) -> io::Result<NonNull<u8>> {
        let mut backing = Backing::map(len, align)?;
        backing.trim()?;
        backing.give_access()?;
        Ok(ManuallyDrop::new(backing).start)
    }

    /// # Safety
    /// As `super::unmap_block`.
    pub(super) unsafe fn unmap_block(start: NonNull<u8>, len: usize) -> io::Result<()> {
        // SAFETY: guaranteed by the caller.
        check(unsafe { libc::munmap(start.as_ptr().cast(), len) })
    }

    /// Advice that decommits locked pages too (Linux 5.18).
    const MADV_DONTNEED_LOCKED: libc::c_int = 24;

    fn check(result: libc::c_int) -> io::Result<()> {
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Returns the error of `mmap`, with an explanation if its own text would mislead (`EAGAIN`).
    fn refused(error: io::Error, len: usize) -> io::Error {
        if error.raw_os_error() != Some(libc::EAGAIN) {
            return error;
        }
        let text = format!(
            "{len} bytes are more than this process may lock, and it locks what it maps (mlockall \
             with MCL_FUTURE): raise its limit of locked memory (ulimit -l)"
        );
        io::Error::new(io::ErrorKind::OutOfMemory, text)
    }

    /// The kernel's `UIO_MAXIOV`.
    const IOVEC_COUNT_MAX: usize = 1024;

    /// Returns a pidfd of this process, or `None` if the kernel's `process_madvise` cannot decommit
    /// pages (6.13 and later can, for the calling process).
    fn own_pidfd() -> Option<&'static OwnedFd> {
        static PIDFD: OnceLock<Option<OwnedFd>> = OnceLock::new();
        PIDFD.get_or_init(open_own_pidfd).as_ref()
    }

    fn open_own_pidfd() -> Option<OwnedFd> {
        // SAFETY: takes and returns integers, no pointers.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
        // SAFETY: the descriptor was just opened and has no other owner.
        let pidfd = unsafe { OwnedFd::from_raw_fd(fd) };
        let probe = Backing::reserve(PAGE_BYTES).ok()?;
        let iovec = probe.iovec(0, PAGE_BYTES);
        let works = process_madvise(&pidfd, &[iovec], libc::MADV_DONTNEED) == Some(PAGE_BYTES);
        works.then_some(pidfd)
    }

    /// True if a batch of ranges is decommitted by one call.
    pub(crate) fn decommits_in_batches() -> bool {
        own_pidfd().is_some()
    }

    fn process_madvise(pidfd: &OwnedFd, iovecs: &[libc::iovec], advice: i32) -> Option<usize> {
        // SAFETY: the vectors are ranges of mappings of this module, checked by the callers; the
        // kernel reads the array during the call.
        let done = unsafe {
            libc::syscall(
                libc::SYS_process_madvise,
                pidfd.as_raw_fd(),
                iovecs.as_ptr(),
                iovecs.len(),
                advice,
                0,
            )
        };
        usize::try_from(done).ok()
    }
}

pub(crate) use backing::decommits_in_batches;

/// Backing for Miri, which has no `madvise`: zeroed heap memory with the same contract.
#[cfg(miri)]
mod heap {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::io;
    use std::ptr::NonNull;

    use super::PAGE_BYTES;

    #[derive(Debug)]
    pub(super) struct Backing {
        start: NonNull<u8>,
        layout: Layout,
    }

    /// Always false: there is no kernel.
    pub(crate) fn decommits_in_batches() -> bool {
        false
    }

    // SAFETY: an owned allocation; no reference to it is given out.
    unsafe impl Send for Backing {}
    // SAFETY: as above.
    unsafe impl Sync for Backing {}

    impl Backing {
        pub(super) fn reserve(len: usize) -> io::Result<Backing> {
            let layout =
                Layout::from_size_align(len, PAGE_BYTES).map_err(|_| io::ErrorKind::OutOfMemory)?;
            // SAFETY: the caller rounded `len` up to at least a page.
            let start = unsafe { alloc_zeroed(layout) };
            let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
            Ok(Backing { start, layout })
        }

        pub(super) fn start(&self) -> *mut u8 {
            self.start.as_ptr()
        }

        pub(super) fn len(&self) -> usize {
            self.layout.size()
        }

        pub(super) fn decommit(&self, offset: usize, len: usize) -> io::Result<()> {
            // SAFETY: the caller checked the range; the contract of `Mapping` is that no
            // reference into it is alive.
            unsafe { self.start.add(offset).write_bytes(0, len) };
            Ok(())
        }

        pub(super) fn decommit_batch(&self, ranges: &[(usize, usize)]) -> io::Result<()> {
            ranges.iter().try_for_each(|(offset, len)| self.decommit(*offset, *len))
        }

        pub(super) fn advise_huge(&self, _huge: bool) -> io::Result<()> {
            Ok(())
        }

        pub(super) fn leave_out_of_forks(&self) -> io::Result<()> {
            Ok(())
        }

        pub(super) fn unlock(&self) -> io::Result<()> {
            Ok(())
        }

        pub(super) fn populate(&self, _offset: usize, _len: usize) -> io::Result<()> {
            Ok(())
        }

        pub(super) fn bind(&self, node: u32) -> io::Result<()> {
            if node == 0 { Ok(()) } else { Err(super::invalid(format!("no NUMA node {node}"))) }
        }
    }

    impl Drop for Backing {
        fn drop(&mut self) {
            // SAFETY: allocated in `reserve` with this layout, freed only here.
            unsafe { dealloc(self.start.as_ptr(), self.layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn byte(mapping: &Mapping, offset: usize) -> u8 {
        assert!(offset < mapping.len());
        // SAFETY: inside the mapping of this test, which no other thread uses.
        unsafe { mapping.as_ptr().add(offset).read() }
    }

    fn set(mapping: &Mapping, offset: usize, value: u8) {
        assert!(offset < mapping.len());
        // SAFETY: as in `byte`.
        unsafe { mapping.as_ptr().add(offset).write(value) }
    }

    #[test]
    fn pages_read_zero_before_the_first_touch_and_after_decommit() {
        let mapping = Mapping::reserve(64 * PAGE_BYTES + 1).expect("address space");
        assert_eq!(mapping.len(), 65 * PAGE_BYTES);
        for page in 0..65 {
            assert_eq!(byte(&mapping, page * PAGE_BYTES), 0);
            set(&mapping, page * PAGE_BYTES, 9);
        }
        mapping.decommit(PAGE_BYTES, PAGE_BYTES).expect("in range");
        mapping
            .decommit_batch(&[(4 * PAGE_BYTES, 2 * PAGE_BYTES), (8 * PAGE_BYTES, PAGE_BYTES)])
            .expect("in range");
        for page in 0..65 {
            let expected = if [1, 4, 5, 8].contains(&page) { 0 } else { 9 };
            assert_eq!(byte(&mapping, page * PAGE_BYTES), expected, "page {page}");
        }
    }

    #[test]
    fn ranges_outside_or_askew_are_refused() {
        let mapping = Mapping::reserve(2 * PAGE_BYTES).expect("address space");
        assert!(mapping.decommit(PAGE_BYTES, 2 * PAGE_BYTES).is_err());
        assert!(mapping.decommit(1, PAGE_BYTES).is_err());
        assert!(mapping.populate(usize::MAX - 4095, 2 * PAGE_BYTES).is_err());
        assert!(mapping.decommit_batch(&[(0, 4096), (0, 1)]).is_err());
        assert!(Mapping::reserve(0).is_err());
        assert!(Mapping::reserve(usize::MAX).is_err());
    }

    #[test]
    fn populate_and_node_zero_work_and_unknown_nodes_are_refused() {
        let mapping = Mapping::reserve(16 * PAGE_BYTES).expect("address space");
        assert!(mapping.bind(1 << 20).is_err());
        mapping.bind(0).expect("node 0 exists");
        mapping.populate(0, 16 * PAGE_BYTES).expect("memory");
        assert_eq!(byte(&mapping, 5 * PAGE_BYTES), 0);
    }

    #[test]
    fn a_reservation_far_above_memory_costs_nothing() {
        if cfg!(miri) {
            return;
        }
        let mapping = Mapping::reserve(1 << 40).expect("address space");
        set(&mapping, 1 << 39, 1);
        assert_eq!(byte(&mapping, 1 << 39), 1);
        assert_eq!(mapping.as_ptr().addr() % HUGE_PAGE_BYTES, 0);
    }
}
