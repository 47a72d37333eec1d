//! Memory whose pages this process fills itself (userfaultfd).
//!
//! A page is filled by copying bytes in (`UFFDIO_COPY`) or by moving a page from another range
//! (`UFFDIO_MOVE`), which changes page tables and copies no byte. Faults on [`FilledPages`] are not
//! handled. [`Userfault`] reports faults; the faulting thread sleeps until the page is filled.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::map::Mapping;
use crate::pages::Pages;
use crate::size::{PAGE_BYTES, to_usize};

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

/// `struct uffdio_copy` and `struct uffdio_move`, which have the same layout.
#[repr(C)]
struct Transfer {
    to: u64,
    from: u64,
    len: u64,
    mode: u64,
    done: i64,
}

// `UFFDIO_API`, `UFFDIO_REGISTER`, `UFFDIO_WAKE`, `UFFDIO_COPY`, `UFFDIO_ZEROPAGE`, `UFFDIO_MOVE`,
// `UFFDIO_WRITEPROTECT` and `UFFDIO_POISON` of `linux/userfaultfd.h`.
const API: libc::Ioctl = 0xc018_aa3f;
const REGISTER: libc::Ioctl = 0xc020_aa00;
const WAKE: libc::Ioctl = 0x8010_aa02;
const COPY: libc::Ioctl = 0xc028_aa03;
const ZERO_PAGE: libc::Ioctl = 0xc020_aa04;
const MOVE: libc::Ioctl = 0xc028_aa05;
const WRITE_PROTECT: libc::Ioctl = 0xc018_aa06;
const POISON: libc::Ioctl = 0xc020_aa08;

/// `UFFD_API`.
const API_VERSION: u64 = 0xaa;
/// `UFFDIO_REGISTER_MODE_MISSING`.
const REGISTER_MISSING: u64 = 1;
/// `UFFDIO_REGISTER_MODE_WP`.
const REGISTER_PROTECTED: u64 = 2;
/// `UFFDIO_COPY_MODE_DONTWAKE` and `UFFDIO_MOVE_MODE_DONTWAKE`: faulting threads are not woken.
const DONT_WAKE: u64 = 1;
/// `UFFDIO_COPY_MODE_WP`.
const COPY_PROTECTED: u64 = 2;
/// `UFFDIO_WRITEPROTECT_MODE_WP`.
const PROTECT: u64 = 1;
/// Feature bits: `UFFD_FEATURE_PAGEFAULT_FLAG_WP`, `UFFD_FEATURE_POISON`, `UFFD_FEATURE_MOVE`.
const FEATURE_PROTECT: u64 = 1 << 0;
const FEATURE_POISON: u64 = 1 << 14;
const FEATURE_MOVE: u64 = 1 << 16;

/// `UFFD_USER_MODE_ONLY`: faults of user code alone.
const USER_MODE_ONLY: libc::c_int = 1;

/// Retries without progress on `EAGAIN` or `EBUSY`, while the kernel itself holds a page.
const ATTEMPTS: usize = 64;

/// Opens a userfaultfd, which must be initialised by [`enable`] before use.
fn open(flags: libc::c_int) -> io::Result<OwnedFd> {
    let flags = flags | libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: takes and returns integers, no pointers.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the descriptor was just opened and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Enables the given features (`UFFDIO_API`). Returns the bits of all features of the kernel.
pub(crate) fn enable(fd: &OwnedFd, features: u64) -> io::Result<u64> {
    let mut api = Api { api: API_VERSION, features, ioctls: 0 };
    // SAFETY: the struct is a local of the layout that this request reads and fills.
    match unsafe { libc::ioctl(fd.as_raw_fd(), API, &raw mut api) } {
        0 => Ok(api.features),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Registered memory whose faults no thread handles, to measure the cost of filling pages. Gives no
/// access to its bytes, since a thread that touches a page that is not filled would sleep forever.
#[derive(Debug)]
pub struct FilledPages {
    mapping: Mapping,
    fault: OwnedFd,
}

impl FilledPages {
    /// Reserves `len` bytes, rounded up to a page, none of them filled.
    ///
    /// # Errors
    /// Fails if the kernel has no userfaultfd with `UFFD_FEATURE_MOVE`, or does not permit it.
    pub fn reserve(len: usize) -> io::Result<FilledPages> {
        let (fault, _) = open_any()?;
        enable(&fault, FEATURE_MOVE)?;
        let mapping = Mapping::reserve(len)?;
        register(&fault, &mapping, 0, mapping.len(), REGISTER_MISSING)?;
        Ok(FilledPages { mapping, fault })
    }

    /// Fills pages at `offset` with a copy of `data`.
    ///
    /// # Errors
    /// Fails if a page there is filled already, or the range is not of whole pages inside the
    /// memory.
    pub fn copy_in(&mut self, offset: usize, data: &[u8]) -> io::Result<()> {
        let to = inside(&self.mapping, offset, data.len())?;
        // SAFETY: the range lies inside a mapping that `self` alone refers to; the kernel reads
        // `data`, which is borrowed for the duration of the call.
        let copied =
            unsafe { transfer(&self.fault, COPY, to, address(data), data.len(), DONT_WAKE) };
        copied.map_err(|partial| partial.error)
    }

    /// Moves pages of `from` to `offset`; they read as zero in `from` from then on. A page that is
    /// filled already counts as moved if that of `from` was never touched.
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
        // SAFETY: both ranges lie inside mappings that `self` and `from` alone refer to, and both
        // are borrowed exclusively, so no reference to their bytes is alive.
        let moved = unsafe { transfer(&self.fault, MOVE, to, from, len, DONT_WAKE) };
        moved.map_err(|partial| partial.error)
    }

    /// Moves pages of other [`FilledPages`] to `offset`; afterwards they are absent in `from`.
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
        let moved = unsafe { transfer(&self.fault, MOVE, to, from, len, DONT_WAKE) };
        moved.map_err(|partial| partial.error)
    }
}

/// Error of a transfer, with the bytes that were transferred before it.
#[derive(Debug)]
pub struct Partial {
    /// Bytes copied or moved before the error.
    pub done: usize,
    /// Error that ended the transfer.
    pub error: io::Error,
}

/// Copies or moves `len` bytes, in as many calls as the kernel needs.
///
/// # Safety
/// `to` is memory that is registered with `fault`; `from` is memory that the caller may read, or,
/// for `MOVE`, change. Both have `len` bytes.
unsafe fn transfer(
    fault: &OwnedFd,
    number: libc::Ioctl,
    to: u64,
    from: u64,
    len: usize,
    mode: u64,
) -> Result<(), Partial> {
    let (mut done, mut attempts, mut untold) = (0, 0, false);
    let result = loop {
        if done >= len as u64 {
            break Ok(());
        }
        let left = len as u64 - done;
        let mut step = Transfer { to: to + done, from: from + done, len: left, mode, done: 0 };
        // SAFETY: the struct is a local of the layout that both requests read and fill; the caller
        // guarantees the ranges.
        if unsafe { libc::ioctl(fault.as_raw_fd(), number, &raw mut step) } == 0 {
            break Ok(());
        }
        let error = io::Error::last_os_error();
        let more = u64::try_from(step.done).unwrap_or(0);
        done += more;
        attempts = if more > 0 { 0 } else { attempts + 1 };
        let there = if number == MOVE {
            untold_pages(to + done, from + done, len - to_usize(done), &error)
        } else {
            0
        };
        if there > 0 {
            (done, attempts, untold) = (done + (there * PAGE_BYTES) as u64, 0, true);
            continue;
        }
        let passes = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY));
        if !passes || attempts == ATTEMPTS {
            break Err(Partial { done: to_usize(done), error });
        }
        std::hint::spin_loop();
    };
    if untold && mode & DONT_WAKE == 0 {
        // The kernel wakes only the threads that faulted on pages it counted. The request cannot
        // fail: the kernel has just accepted the range.
        let _ = request(fault, WAKE, &mut [to, len as u64]);
    }
    result
}

/// Returns the number of pages that were moved but not counted, starting where a move ended with
/// `error`.
///
/// Linux 6.18 moves pages in batches and undercounts a batch that it moves at its second attempt:
/// it tries the pages once more and reports that their destination is already filled. Their source
/// is empty then. (The source also looks empty if its page is in swap and another thread filled the
/// destination; see [`Userfault::move_pages`].)
fn untold_pages(to: u64, from: u64, len: usize, error: &io::Error) -> usize {
    let is_taken = error.raw_os_error() == Some(libc::EEXIST);
    if !is_taken && error.raw_os_error() != Some(libc::ENOENT) {
        return 0;
    }
    let (Some(to), Some(from)) = (resident(to, len), resident(from, len)) else { return 0 };
    let moved = |(page, (to, from)): (usize, (&u8, &u8))| {
        let is_there = to & 1 == 1 || is_taken && page == 0;
        is_there && from & 1 == 0
    };
    to.iter().zip(&from).enumerate().take_while(|page| moved(*page)).count()
}

/// Returns a byte for each page of a range, with the lowest bit set if it is in memory (`mincore`).
fn resident(start: u64, len: usize) -> Option<Vec<u8>> {
    let mut pages = vec![0_u8; len / PAGE_BYTES];
    // SAFETY: reads the state of pages of the caller's mapping, and writes a byte for each.
    let told = unsafe { libc::mincore(start as *mut libc::c_void, len, pages.as_mut_ptr()) };
    (told == 0).then_some(pages)
}

fn address(data: &[u8]) -> u64 {
    data.as_ptr() as u64
}

fn register(
    fault: &OwnedFd,
    mapping: &Mapping,
    offset: usize,
    len: usize,
    mode: u64,
) -> io::Result<()> {
    let start = inside(mapping, offset, len)?;
    let mut register = Register { start, len: len as u64, mode, ioctls: 0 };
    request(fault, REGISTER, &mut register)
}

/// Makes a request whose struct refers to ranges of mappings and to no other memory.
fn request<T>(fault: &OwnedFd, number: libc::Ioctl, argument: &mut T) -> io::Result<()> {
    // SAFETY: the caller's struct has the layout that the request reads and fills. Changes to the
    // range of a mapping are visible through its address alone, see `Mapping`.
    match unsafe { libc::ioctl(fault.as_raw_fd(), number, std::ptr::from_mut(argument)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A fault on a missing page, or a write to a protected one; the faulting thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Address of the page.
    pub address: usize,
    /// True if the access was a write.
    pub write: bool,
    /// True if the page is present and write-protected.
    pub protected: bool,
}

/// `struct uffd_msg` as words: the event is the lowest byte; a fault also has flags and an address.
type Message = [u64; 4];

/// Maximum number of messages of one `read`.
const MESSAGES: usize = 64;
/// `UFFD_EVENT_PAGEFAULT`.
const EVENT_FAULT: u64 = 0x12;
/// `UFFD_PAGEFAULT_FLAG_WRITE`.
const FAULT_WRITE: u64 = 1;
/// `UFFD_PAGEFAULT_FLAG_WP`.
const FAULT_PROTECTED: u64 = 2;

/// Scope of the faults that a userfaultfd reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultsOf {
    /// Faults of user code and of system calls.
    All,
    /// Faults of user code alone (`UFFD_USER_MODE_ONLY`): a system call that accesses a missing
    /// page, or writes to a protected one, fails with `EFAULT`.
    UserCode,
}

/// Features of a userfaultfd of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserfaultFeatures {
    /// True if pages can be moved (`UFFD_FEATURE_MOVE`, Linux 6.8).
    pub moves: bool,
    /// True if pages can be write-protected (`UFFD_FEATURE_PAGEFAULT_FLAG_WP`, Linux 5.7).
    pub protects: bool,
    /// True if pages can be poisoned (`UFFD_FEATURE_POISON`, Linux 6.6).
    pub poisons: bool,
}

/// A userfaultfd: reports and resolves faults of the mappings that are registered with it.
///
/// Ranges are of whole pages; a mapping's bytes are reached by its address alone, so no operation
/// changes bytes under a reference. Dropping it wakes all faulting threads, and missing pages read
/// as zero from then on.
#[derive(Debug)]
pub struct Userfault {
    fd: OwnedFd,
    features: UserfaultFeatures,
    faults: FaultsOf,
}

impl Userfault {
    /// Opens a userfaultfd that reports faults of system calls too, by the system call or, if that
    /// is not permitted, by `/dev/userfaultfd`. If neither is permitted, opens one for faults of
    /// user code alone, which needs no privilege; see [`Userfault::faults`].
    ///
    /// # Errors
    /// Fails if the kernel has no userfaultfd, or does not permit it to this process.
    pub fn open() -> io::Result<Userfault> {
        let known = FEATURE_PROTECT | FEATURE_POISON | FEATURE_MOVE;
        // `UFFDIO_API` succeeds once per descriptor: one reports features, another enables them.
        let bits = enable(&open_any()?.0, 0)? & known;
        let (fd, faults) = open_any()?;
        enable(&fd, bits)?;
        let has = |bit| bits & bit != 0;
        let features = UserfaultFeatures {
            moves: has(FEATURE_MOVE),
            protects: has(FEATURE_PROTECT),
            poisons: has(FEATURE_POISON),
        };
        Ok(Userfault { fd, features, faults })
    }

    /// Returns the scope of the faults that are reported.
    #[must_use]
    pub fn faults(&self) -> FaultsOf {
        self.faults
    }

    /// Returns the available features.
    #[must_use]
    pub fn features(&self) -> UserfaultFeatures {
        self.features
    }

    /// Registers a range: reports faults on missing pages from now on, and with `protected` also
    /// writes to write-protected pages.
    ///
    /// # Errors
    /// Fails if the range is registered already, or the kernel has no write protection.
    pub fn register(
        &self,
        mapping: &Mapping,
        offset: usize,
        len: usize,
        protected: bool,
    ) -> io::Result<()> {
        let mode = if protected { REGISTER_MISSING | REGISTER_PROTECTED } else { REGISTER_MISSING };
        register(&self.fd, mapping, offset, len, mode)
    }

    /// Appends the pending faults to `faults`, without waiting for more.
    ///
    /// # Errors
    /// Fails if the descriptor cannot be read.
    pub fn read(&self, faults: &mut Vec<Fault>) -> io::Result<()> {
        let mut messages: [Message; MESSAGES] = [[0; 4]; MESSAGES];
        loop {
            // SAFETY: the buffer is a local of the given length; any bytes are valid messages.
            let len = unsafe {
                libc::read(
                    self.fd.as_raw_fd(),
                    messages.as_mut_ptr().cast(),
                    size_of_val(&messages),
                )
            };
            let Ok(len) = usize::try_from(len) else {
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(()),
                    Some(libc::EINTR) => continue,
                    _ => return Err(error),
                }
            };
            let read = &messages[..len / size_of::<Message>()];
            let told = read.iter().filter(|message| message[0] & 0xff == EVENT_FAULT);
            faults.extend(told.map(|[_, flags, address, _]| Fault {
                address: to_usize(*address) / PAGE_BYTES * PAGE_BYTES,
                write: flags & FAULT_WRITE != 0,
                protected: flags & FAULT_PROTECTED != 0,
            }));
            if read.len() < MESSAGES {
                return Ok(());
            }
        }
    }

    /// Fills pages with a copy of `data`, write-protected or not, and wakes the threads that
    /// faulted on them (`UFFDIO_COPY`).
    ///
    /// # Errors
    /// Fails if a page is present already (`EEXIST`); the caller must wake the faulting threads.
    pub fn copy_in(
        &self,
        mapping: &Mapping,
        offset: usize,
        data: &[u8],
        protected: bool,
    ) -> Result<(), Partial> {
        let to = range(mapping, offset, data.len())?;
        let mode = if protected { COPY_PROTECTED } else { 0 };
        // SAFETY: the range lies inside a mapping, and the kernel refuses it if not registered;
        // the kernel reads `data`, which is borrowed for the duration of the call.
        unsafe { transfer(&self.fd, COPY, to, address(data), data.len(), mode) }
    }

    /// Moves pages to another mapping or another range of the same one (`UFFDIO_MOVE`); with `wake`
    /// wakes the threads that faulted on them. A page is missing in `from` as soon as it is moved.
    /// No other thread may fill pages of `to` meanwhile: a page that is present in `to` and missing
    /// in `from` counts as moved.
    ///
    /// # Errors
    /// Fails, with the number of bytes moved, if a page of `from` is missing (`ENOENT`) or held by
    /// the kernel (`EBUSY`), or a page of `to` is present (`EEXIST`).
    pub fn move_pages(
        &self,
        to: (&Mapping, usize),
        from: (&Mapping, usize),
        len: usize,
        wake: bool,
    ) -> Result<(), Partial> {
        let (to, from) = (range(to.0, to.1, len)?, range(from.0, from.1, len)?);
        // SAFETY: both ranges lie inside mappings, whose bytes are reached by their address alone.
        unsafe { transfer(&self.fd, MOVE, to, from, len, if wake { 0 } else { DONT_WAKE }) }
    }

    /// Fills pages with zeros and wakes the threads that faulted on them (`UFFDIO_ZEROPAGE`).
    ///
    /// # Errors
    /// As [`Userfault::copy_in`].
    pub fn zero(&self, mapping: &Mapping, offset: usize, len: usize) -> io::Result<()> {
        let mut zero = [inside(mapping, offset, len)?, len as u64, 0, 0];
        request(&self.fd, ZERO_PAGE, &mut zero)
    }

    /// Wakes the threads that faulted on pages of a range (`UFFDIO_WAKE`).
    ///
    /// # Errors
    /// Fails if the range is not of whole pages of the mapping.
    pub fn wake(&self, mapping: &Mapping, offset: usize, len: usize) -> io::Result<()> {
        let mut range = [inside(mapping, offset, len)?, len as u64];
        request(&self.fd, WAKE, &mut range)
    }

    /// Write-protects pages, or permits writes and wakes the threads that wait for them
    /// (`UFFDIO_WRITEPROTECT`).
    ///
    /// # Errors
    /// Fails if the range was registered without `protected`.
    pub fn protect(
        &self,
        mapping: &Mapping,
        offset: usize,
        len: usize,
        protected: bool,
    ) -> io::Result<()> {
        let mode = if protected { PROTECT } else { 0 };
        let mut argument = [inside(mapping, offset, len)?, len as u64, mode];
        request(&self.fd, WRITE_PROTECT, &mut argument)
    }

    /// Poisons missing pages (`UFFDIO_POISON`): a thread that touches one receives `SIGBUS`.
    ///
    /// # Errors
    /// Fails if the kernel cannot poison (before 6.6), or a page is present.
    pub fn poison(&self, mapping: &Mapping, offset: usize, len: usize) -> io::Result<()> {
        let mut poison = [inside(mapping, offset, len)?, len as u64, 0, 0];
        request(&self.fd, POISON, &mut poison)
    }
}

impl AsFd for Userfault {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Opens a userfaultfd by the system call, or by `/dev/userfaultfd`, which may be permitted if the
/// system call is not, or else one for faults of user code alone.
pub(crate) fn open_any() -> io::Result<(OwnedFd, FaultsOf)> {
    let all = open(0).or_else(|refused| open_device().map_err(|_| refused));
    match all {
        Ok(fd) => Ok((fd, FaultsOf::All)),
        Err(refused) => {
            let fd = open(USER_MODE_ONLY).map_err(|_| refused)?;
            Ok((fd, FaultsOf::UserCode))
        }
    }
}

fn open_device() -> io::Result<OwnedFd> {
    // `USERFAULTFD_IOC_NEW`.
    const NEW: libc::Ioctl = 0xaa00;
    let device = std::fs::File::open("/dev/userfaultfd")?;
    // SAFETY: takes and returns integers, no pointers.
    let fd = unsafe { libc::ioctl(device.as_raw_fd(), NEW, libc::O_CLOEXEC | libc::O_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn range(mapping: &Mapping, offset: usize, len: usize) -> Result<u64, Partial> {
    inside(mapping, offset, len).map_err(|error| Partial { done: 0, error })
}

/// Returns the address of a range of whole pages of a mapping.
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
mod tests;
