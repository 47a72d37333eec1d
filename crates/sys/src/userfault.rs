//! Memory that this process fills page by page itself (userfaultfd).
//!
//! The kernel takes no fault for it: a page appears by copying bytes in, or by moving a page from
//! elsewhere, which changes page tables and no byte.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::map::Mapping;
use crate::pages::Pages;
use crate::size::PAGE_BYTES;

/// `struct uffdio_api` of the kernel's interface.
#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_register`.
#[repr(C)]
struct Register {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

/// `struct uffdio_copy` and `struct uffdio_move`, which have one form.
#[repr(C)]
struct Transfer {
    to: u64,
    from: u64,
    len: u64,
    mode: u64,
    done: i64,
}

const API: libc::Ioctl = 0xc018_aa3f;
const REGISTER: libc::Ioctl = 0xc020_aa00;
const COPY: libc::Ioctl = 0xc028_aa03;
const MOVE: libc::Ioctl = 0xc028_aa05;

const API_VERSION: u64 = 0xaa;
const REGISTER_MISSING: u64 = 1;
/// Nobody waits for a fault, so nobody is to be woken.
const DONT_WAKE: u64 = 1;
/// The bit of the feature `move`.
const FEATURE_MOVE: u64 = 1 << 16;

/// Times that a page under the kernel's own hands is asked for again.
const ATTEMPTS: usize = 64;

/// A new descriptor of userfaultfd, not yet told which version of the interface is meant.
pub(crate) fn open(flags: libc::c_int) -> io::Result<OwnedFd> {
    let flags = flags | libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: takes and returns plain numbers.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the descriptor was opened just now and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Asks for features, for none to be told of all, and returns the bits that the kernel has.
pub(crate) fn enable(fd: &OwnedFd, features: u64) -> io::Result<u64> {
    let mut api = Api { api: API_VERSION, features, ioctls: 0 };
    // SAFETY: the struct is a local of the form that this request reads and fills.
    match unsafe { libc::ioctl(fd.as_raw_fd(), API, &raw mut api) } {
        0 => Ok(api.features),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Memory without faults. Its bytes are not to be had here: who touches a page that nobody has
/// filled would wait for ever.
#[derive(Debug)]
pub struct FilledPages {
    mapping: Mapping,
    fault: OwnedFd,
}

impl FilledPages {
    /// Reserves `len` bytes, rounded up to a page, none of them filled.
    ///
    /// # Errors
    /// When the kernel has no userfaultfd with the feature `move`, or does not grant it.
    pub fn reserve(len: usize) -> io::Result<FilledPages> {
        let fault = open(0)?;
        enable(&fault, FEATURE_MOVE)?;
        let mapping = Mapping::reserve(len)?;
        let mut register = Register {
            start: mapping.as_ptr() as u64,
            len: mapping.len() as u64,
            mode: REGISTER_MISSING,
            ioctls: 0,
        };
        // SAFETY: the struct is a local of the form that this request reads and fills; the range is
        // that of a mapping of our own, which nobody refers to.
        match unsafe { libc::ioctl(fault.as_raw_fd(), REGISTER, &raw mut register) } {
            0 => Ok(FilledPages { mapping, fault }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Fills pages at `offset` with a copy of `data`.
    ///
    /// # Errors
    /// When a page there is filled already, and for ranges that are not whole pages inside.
    pub fn copy_in(&mut self, offset: usize, data: &[u8]) -> io::Result<()> {
        let to = inside(&self.mapping, offset, data.len())?;
        // SAFETY: the range lies inside of a mapping that `self` alone refers to; the kernel reads
        // `data`, which is borrowed for the length of the call.
        unsafe { self.transfer(COPY, to, data.as_ptr() as u64, data.len()) }
    }

    /// Fills pages at `offset` with those of `from`, which read as zero from then on.
    ///
    /// # Errors
    /// As [`FilledPages::copy_in`], and when a page of `from` was never touched.
    pub fn move_in(
        &mut self,
        offset: usize,
        from: &mut Pages,
        from_offset: usize,
        len: usize,
    ) -> io::Result<()> {
        let to = inside(&self.mapping, offset, len)?;
        let from = inside(from.mapping(), from_offset, len)?;
        // SAFETY: both ranges lie inside of mappings that `self` and `from` alone refer to, and
        // both are borrowed exclusively: nobody sees the pages change.
        unsafe { self.transfer(MOVE, to, from, len) }
    }

    /// Fills pages at `offset` with those of other such memory, which has none there then.
    ///
    /// # Errors
    /// As [`FilledPages::move_in`].
    pub fn move_from(
        &mut self,
        offset: usize,
        from: &mut FilledPages,
        from_offset: usize,
        len: usize,
    ) -> io::Result<()> {
        let to = inside(&self.mapping, offset, len)?;
        let from = inside(&from.mapping, from_offset, len)?;
        // SAFETY: as in `move_in`.
        unsafe { self.transfer(MOVE, to, from, len) }
    }

    /// Copies or moves `len` bytes, in as many steps as the kernel makes of it.
    ///
    /// # Safety
    /// `to` is memory of `self.mapping`, `from` memory that the caller may read, or for `MOVE`
    /// change; each for `len` bytes.
    unsafe fn transfer(
        &self,
        request: libc::Ioctl,
        to: u64,
        from: u64,
        len: usize,
    ) -> io::Result<()> {
        let (mut done, mut attempts) = (0, 0);
        while done < len as u64 {
            let left = len as u64 - done;
            let mut step =
                Transfer { to: to + done, from: from + done, len: left, mode: DONT_WAKE, done: 0 };
            // SAFETY: the struct is a local of the form that both requests read and fill; the
            // ranges are the caller's promise.
            if unsafe { libc::ioctl(self.fault.as_raw_fd(), request, &raw mut step) } == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            done += u64::try_from(step.done).unwrap_or(0);
            attempts += 1;
            let passes = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY));
            if !passes || attempts == ATTEMPTS {
                return Err(error);
            }
        }
        Ok(())
    }
}

/// The address of a range of whole pages of a mapping.
fn inside(mapping: &Mapping, offset: usize, len: usize) -> io::Result<u64> {
    let whole = offset.is_multiple_of(PAGE_BYTES) && len.is_multiple_of(PAGE_BYTES) && len > 0;
    let end = offset.checked_add(len).filter(|end| whole && *end <= mapping.len());
    let error = || {
        let all = mapping.len();
        let text = format!("{len} bytes at {offset} are not whole pages of a mapping of {all}");
        io::Error::new(io::ErrorKind::InvalidInput, text)
    };
    end.map(|_| mapping.as_ptr() as u64 + offset as u64).ok_or_else(error)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// The bytes come out by moving the pages into memory that may be touched.
    #[test]
    #[expect(clippy::print_stderr, reason = "a skip is loud")]
    fn pages_are_copied_and_moved() {
        const LEN: usize = 4 * PAGE_BYTES;
        let mut filled = match FilledPages::reserve(LEN) {
            Ok(filled) => filled,
            Err(error) => return eprintln!("SKIPPED: userfaultfd with move: {error}"),
        };
        filled.copy_in(0, &[7; PAGE_BYTES]).expect("copied");
        assert!(filled.copy_in(0, &[8; PAGE_BYTES]).is_err(), "it is filled already");
        let mut pages = Pages::reserve(LEN, None, false).expect("memory");
        pages.bytes_mut()[..2 * PAGE_BYTES].fill(9);
        filled.move_in(2 * PAGE_BYTES, &mut pages, 0, 2 * PAGE_BYTES).expect("moved");
        assert!(pages.bytes().iter().all(|byte| *byte == 0), "the pages are gone");
        let mut untouched = Pages::reserve(PAGE_BYTES, None, false).expect("memory");
        assert!(filled.move_in(PAGE_BYTES, &mut untouched, 0, PAGE_BYTES).is_err());
        let mut other = FilledPages::reserve(LEN).expect("as before");
        other.move_from(PAGE_BYTES, &mut filled, 0, PAGE_BYTES).expect("moved");
        other.move_from(2 * PAGE_BYTES, &mut filled, 2 * PAGE_BYTES, PAGE_BYTES).expect("moved");
        assert!(filled.copy_in(0, &[1; PAGE_BYTES]).is_ok(), "its page has gone");
        // SAFETY: the pages at 1 and 2 were moved there just now, and nobody else refers to them.
        let moved = unsafe {
            let start = other.mapping.as_ptr().add(PAGE_BYTES);
            std::slice::from_raw_parts(start, 2 * PAGE_BYTES)
        };
        assert!(moved[..PAGE_BYTES].iter().all(|byte| *byte == 7));
        assert!(moved[PAGE_BYTES..].iter().all(|byte| *byte == 9));
        for (offset, len) in [(1, PAGE_BYTES), (0, 1), (LEN, PAGE_BYTES), (0, usize::MAX)] {
            assert!(other.move_from(offset, &mut filled, 0, len).is_err(), "{offset} {len}");
        }
    }
}
