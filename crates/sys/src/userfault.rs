//! Memory that this process fills page by page itself (userfaultfd).
//!
//! A page appears by copying bytes in, or by moving a page from elsewhere, which changes page
//! tables and no byte. Of [`FilledPages`] nobody takes a fault; [`Userfault`] tells who does, and
//! they wait until the page is there.

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
const WAKE: libc::Ioctl = 0x8010_aa02;
const COPY: libc::Ioctl = 0xc028_aa03;
const ZERO_PAGE: libc::Ioctl = 0xc020_aa04;
const MOVE: libc::Ioctl = 0xc028_aa05;
const WRITE_PROTECT: libc::Ioctl = 0xc018_aa06;
const POISON: libc::Ioctl = 0xc020_aa08;

const API_VERSION: u64 = 0xaa;
const REGISTER_MISSING: u64 = 1;
const REGISTER_PROTECTED: u64 = 2;
/// Nobody is to be woken who waits for a fault.
const DONT_WAKE: u64 = 1;
const COPY_PROTECTED: u64 = 2;
const PROTECT: u64 = 1;
/// Bits of features.
const FEATURE_PROTECT: u64 = 1 << 0;
const FEATURE_POISON: u64 = 1 << 14;
const FEATURE_MOVE: u64 = 1 << 16;

/// For `userfaultfd`: faults of user code alone.
const USER_MODE_ONLY: libc::c_int = 1;

/// Times that a page under the kernel's own hands is asked for again.
const ATTEMPTS: usize = 64;

/// A new descriptor of userfaultfd, not yet told which version of the interface is meant.
fn open(flags: libc::c_int) -> io::Result<OwnedFd> {
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
        let (fault, _) = open_any()?;
        enable(&fault, FEATURE_MOVE)?;
        let mapping = Mapping::reserve(len)?;
        register(&fault, &mapping, 0, mapping.len(), REGISTER_MISSING)?;
        Ok(FilledPages { mapping, fault })
    }

    /// Fills pages at `offset` with a copy of `data`.
    ///
    /// # Errors
    /// When a page there is filled already, and for ranges that are not whole pages inside.
    pub fn copy_in(&mut self, offset: usize, data: &[u8]) -> io::Result<()> {
        let to = inside(&self.mapping, offset, data.len())?;
        // SAFETY: the range lies inside of a mapping that `self` alone refers to; the kernel reads
        // `data`, which is borrowed for the length of the call.
        let copied =
            unsafe { transfer(&self.fault, COPY, to, address(data), data.len(), DONT_WAKE) };
        copied.map_err(|partial| partial.error)
    }

    /// Fills pages at `offset` with those of `from`, which read as zero from then on. A page that
    /// is filled already, where that of `from` was never touched, counts as moved.
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
        let moved = unsafe { transfer(&self.fault, MOVE, to, from, len, DONT_WAKE) };
        moved.map_err(|partial| partial.error)
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
        let moved = unsafe { transfer(&self.fault, MOVE, to, from, len, DONT_WAKE) };
        moved.map_err(|partial| partial.error)
    }
}

/// A transfer that ended early.
#[derive(Debug)]
pub struct Partial {
    /// Bytes that were copied or moved before.
    pub done: usize,
    /// Why it ended.
    pub error: io::Error,
}

/// Copies or moves `len` bytes, in as many steps as the kernel makes of it.
///
/// # Safety
/// `to` is memory that is registered with `fault`, `from` memory that the caller may read, or for
/// `MOVE` change; each for `len` bytes.
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
        // SAFETY: the struct is a local of the form that both requests read and fill; the ranges
        // are the caller's promise.
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
        // The kernel wakes who waits for what it counts. It has just accepted the range.
        let _ = request(fault, WAKE, &mut [to, len as u64]);
    }
    result
}

/// How many pages were moved without being counted, the first of them where a move ended with
/// `error`.
///
/// Linux 6.18 moves pages in batches, and loses count of a batch that it moves at its second
/// attempt: it comes to its pages once more, and says that somebody else had filled their place.
/// What they were to move from is empty then. (So is a page in swap, where somebody else did fill
/// the place; see [`Userfault::move_pages`].)
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

/// Of each page of a range, in the lowest bit: whether it is in memory.
fn resident(start: u64, len: usize) -> Option<Vec<u8>> {
    let mut pages = vec![0_u8; len / PAGE_BYTES];
    // SAFETY: it looks at the state of pages of the caller's mapping, and writes a byte for each.
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

/// A request whose struct names ranges of mappings, and no other memory.
fn request<T>(fault: &OwnedFd, number: libc::Ioctl, argument: &mut T) -> io::Result<()> {
    // SAFETY: the struct is the caller's, of the form that the request reads and fills. What it
    // does to a range of a mapping is seen through addresses alone, see `Mapping`.
    match unsafe { libc::ioctl(fault.as_raw_fd(), number, std::ptr::from_mut(argument)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Somebody touched a page that is not there, or wrote to one that is protected, and waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The page's address.
    pub address: usize,
    /// Whether it was a write.
    pub write: bool,
    /// Whether the page is there and protected.
    pub protected: bool,
}

/// `struct uffd_msg`, as words: the event in the lowest byte, and of a fault its flags and address.
type Message = [u64; 4];

const MESSAGES: usize = 64;
const EVENT_FAULT: u64 = 0x12;
const FAULT_WRITE: u64 = 1;
const FAULT_PROTECTED: u64 = 2;

/// Whose faults a userfaultfd sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultsOf {
    /// Those of user code and of system calls.
    All,
    /// Those of user code (`UFFD_USER_MODE_ONLY`): a system call that is given a page which is not
    /// there, or writes to a protected one, ends with `EFAULT`.
    UserCode,
}

/// What a userfaultfd of this process can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserfaultFeatures {
    /// Pages can be moved (Linux 6.8).
    pub moves: bool,
    /// Pages can be protected from writes (5.7).
    pub protects: bool,
    /// Pages can be poisoned (6.6).
    pub poisons: bool,
}

/// Faults of mappings that are registered with it, and the answers to them.
///
/// Ranges are of whole pages; a mapping's bytes are reached by its address alone, so nothing here
/// changes what a reference sees. Dropping it lets everybody who waits go on, and pages that are
/// not there then read as zero.
#[derive(Debug)]
pub struct Userfault {
    fd: OwnedFd,
    features: UserfaultFeatures,
    faults: FaultsOf,
}

impl Userfault {
    /// Opens one that sees faults of system calls too: by the system call, or by the device file
    /// where that is not permitted. Where neither is, one that sees those of user code alone, which
    /// the kernel grants to everybody; [`Userfault::faults`] tells.
    ///
    /// # Errors
    /// When the kernel has none, or does not grant it to this process.
    pub fn open() -> io::Result<Userfault> {
        let known = FEATURE_PROTECT | FEATURE_POISON | FEATURE_MOVE;
        // Features are told by one descriptor and asked for with another.
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

    /// Whose faults it sees.
    #[must_use]
    pub fn faults(&self) -> FaultsOf {
        self.faults
    }

    /// What it can do.
    #[must_use]
    pub fn features(&self) -> UserfaultFeatures {
        self.features
    }

    /// From now on tells faults of a range: of pages that are not there, and where `protected` also
    /// of writes to protected ones.
    ///
    /// # Errors
    /// When the range is registered already, or the kernel has no protection.
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

    /// Adds the faults that wait to be told; does not wait for more.
    ///
    /// # Errors
    /// When the descriptor cannot be read.
    pub fn read(&self, faults: &mut Vec<Fault>) -> io::Result<()> {
        let mut messages: [Message; MESSAGES] = [[0; 4]; MESSAGES];
        loop {
            // SAFETY: the buffer is a local of the length given; any bytes are messages.
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

    /// Fills pages with a copy of `data`, protected from writes or not, and wakes who waits for
    /// them.
    ///
    /// # Errors
    /// When a page is there already (`EEXIST`): then who waits for it must be woken.
    pub fn copy_in(
        &self,
        mapping: &Mapping,
        offset: usize,
        data: &[u8],
        protected: bool,
    ) -> Result<(), Partial> {
        let to = range(mapping, offset, data.len())?;
        let mode = if protected { COPY_PROTECTED } else { 0 };
        // SAFETY: the range lies inside of a mapping, which is registered or the kernel refuses;
        // the kernel reads `data`, which is borrowed for the length of the call.
        unsafe { transfer(&self.fd, COPY, to, address(data), data.len(), mode) }
    }

    /// Moves pages from one mapping to another, or another place of the same, and wakes who waits
    /// for them where `wake` is set. They are gone where they were from the moment they move.
    /// Nobody else fills pages of `to` meanwhile: one that is there, where that of `from` is not,
    /// counts as moved.
    ///
    /// # Errors
    /// With the bytes that were moved: when a page of `from` is not there (`ENOENT`) or held by the
    /// kernel (`EBUSY`), or one of `to` is there (`EEXIST`).
    pub fn move_pages(
        &self,
        to: (&Mapping, usize),
        from: (&Mapping, usize),
        len: usize,
        wake: bool,
    ) -> Result<(), Partial> {
        let (to, from) = (range(to.0, to.1, len)?, range(from.0, from.1, len)?);
        // SAFETY: both ranges lie inside of mappings, whose bytes are reached by addresses alone.
        unsafe { transfer(&self.fd, MOVE, to, from, len, if wake { 0 } else { DONT_WAKE }) }
    }

    /// Fills pages with zeros and wakes who waits for them.
    ///
    /// # Errors
    /// As [`Userfault::copy_in`].
    pub fn zero(&self, mapping: &Mapping, offset: usize, len: usize) -> io::Result<()> {
        let mut zero = [inside(mapping, offset, len)?, len as u64, 0, 0];
        request(&self.fd, ZERO_PAGE, &mut zero)
    }

    /// Wakes who waits for pages of a range.
    ///
    /// # Errors
    /// When the range is not of whole pages of the mapping.
    pub fn wake(&self, mapping: &Mapping, offset: usize, len: usize) -> io::Result<()> {
        let mut range = [inside(mapping, offset, len)?, len as u64];
        request(&self.fd, WAKE, &mut range)
    }

    /// Protects pages from writes, or allows them and wakes who waits for that.
    ///
    /// # Errors
    /// When the range was registered without protection.
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

    /// Poisons pages that are not there: who touches one gets the signal `SIGBUS`.
    ///
    /// # Errors
    /// When the kernel has no poison (before 6.6), or a page is there.
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

/// One by the system call, or by the device file, which may be permitted where that is not, or else
/// for user code alone.
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
    const NEW: libc::Ioctl = 0xaa00;
    let device = std::fs::File::open("/dev/userfaultfd")?;
    // SAFETY: takes and returns plain numbers.
    let fd = unsafe { libc::ioctl(device.as_raw_fd(), NEW, libc::O_CLOEXEC | libc::O_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was opened just now and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn range(mapping: &Mapping, offset: usize, len: usize) -> Result<u64, Partial> {
    inside(mapping, offset, len).map_err(|error| Partial { done: 0, error })
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
mod tests;
