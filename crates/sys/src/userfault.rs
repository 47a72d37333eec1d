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
    request: libc::Ioctl,
    to: u64,
    from: u64,
    len: usize,
    mode: u64,
) -> Result<(), Partial> {
    let (mut done, mut attempts) = (0, 0);
    while done < len as u64 {
        let left = len as u64 - done;
        let mut step = Transfer { to: to + done, from: from + done, len: left, mode, done: 0 };
        // SAFETY: the struct is a local of the form that both requests read and fill; the ranges
        // are the caller's promise.
        if unsafe { libc::ioctl(fault.as_raw_fd(), request, &raw mut step) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        let more = u64::try_from(step.done).unwrap_or(0);
        done += more;
        attempts = if more > 0 { 0 } else { attempts + 1 };
        let passes = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY));
        if !passes || attempts == ATTEMPTS {
            return Err(Partial { done: to_usize(done), error });
        }
        std::hint::spin_loop();
    }
    Ok(())
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
}

impl Userfault {
    /// Opens one that sees faults of system calls too; by the device file where the system call is
    /// not permitted.
    ///
    /// # Errors
    /// When the kernel has none, or does not grant it to this process.
    pub fn open() -> io::Result<Userfault> {
        let known = FEATURE_PROTECT | FEATURE_POISON | FEATURE_MOVE;
        // Features are told by one descriptor and asked for with another.
        let bits = enable(&open_any()?, 0)? & known;
        let fd = open_any()?;
        enable(&fd, bits)?;
        let has = |bit| bits & bit != 0;
        let features = UserfaultFeatures {
            moves: has(FEATURE_MOVE),
            protects: has(FEATURE_PROTECT),
            poisons: has(FEATURE_POISON),
        };
        Ok(Userfault { fd, features })
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

/// One by the system call, or by the device file, which may be permitted where that is not.
fn open_any() -> io::Result<OwnedFd> {
    const NEW: libc::Ioctl = 0xaa00;
    open(0).or_else(|refused| {
        let device = std::fs::File::open("/dev/userfaultfd").map_err(|_| refused)?;
        // SAFETY: takes and returns plain numbers.
        let fd =
            unsafe { libc::ioctl(device.as_raw_fd(), NEW, libc::O_CLOEXEC | libc::O_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was opened just now and belongs to nobody else.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    })
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
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::*;

    /// The bytes come out by moving the pages into memory that may be touched.
    #[test]
    fn pages_are_copied_and_moved() {
        const LEN: usize = 4 * PAGE_BYTES;
        if !has_moves("userfault::pages_are_copied_and_moved") {
            return;
        }
        let mut filled = FilledPages::reserve(LEN).expect("memory");
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

    /// Whether there is a userfaultfd that moves; a skip is loud.
    #[expect(clippy::print_stderr, reason = "a skip is loud")]
    fn has_moves(test: &str) -> bool {
        let found = Userfault::open().map(|fault| fault.features());
        let has = found.as_ref().is_ok_and(|features| features.moves);
        if !has {
            eprintln!("SKIPPED {test}: no userfaultfd with move: {found:?}");
        }
        has
    }

    /// A byte of a mapping, read as any thread would.
    fn byte(mapping: &Mapping, offset: usize) -> u8 {
        assert!(offset < mapping.len());
        // SAFETY: inside of the mapping; other threads of these tests look at it the same way.
        unsafe { AtomicU8::from_ptr(mapping.as_ptr().add(offset)) }.load(Ordering::Relaxed)
    }

    /// Answers the next fault by `answer`.
    fn serve(fault: &Userfault, answer: impl Fn(&Fault)) -> Fault {
        let mut faults = Vec::new();
        while faults.is_empty() {
            fault.read(&mut faults).expect("readable");
            std::thread::yield_now();
        }
        answer(&faults[0]);
        faults[0]
    }

    #[test]
    fn who_faults_waits_for_the_answer() {
        if !has_moves("userfault::who_faults_waits_for_the_answer") {
            return;
        }
        const PAGES: usize = 4;
        let fault = Userfault::open().expect("as before");
        let mapping = Mapping::reserve(PAGES * PAGE_BYTES).expect("memory");
        fault.register(&mapping, 0, mapping.len(), true).expect("registered");
        let mut staged = Pages::reserve(PAGE_BYTES, None, false).expect("memory");
        staged.bytes_mut().fill(5);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| [0, 1, 2].map(|page| byte(&mapping, page * PAGE_BYTES)));
            let at = |fault: &Fault| fault.address - mapping.as_ptr().addr();
            let first = serve(&fault, |told| {
                fault.copy_in(&mapping, at(told), &[3; PAGE_BYTES], true).expect("copied");
            });
            assert!(at(&first) == 0 && !first.write && !first.protected);
            serve(&fault, |told| {
                let from = (staged.mapping(), 0);
                fault.move_pages((&mapping, at(told)), from, PAGE_BYTES, true).expect("moved");
            });
            serve(&fault, |told| fault.zero(&mapping, at(told), PAGE_BYTES).expect("zeroed"));
            assert_eq!(reader.join().expect("read"), [3, 5, 0]);
            let writer = scope.spawn(|| {
                // SAFETY: as in `byte`.
                unsafe { AtomicU8::from_ptr(mapping.as_ptr()) }.store(9, Ordering::Relaxed);
            });
            let second = serve(&fault, |told| {
                fault.protect(&mapping, at(told), PAGE_BYTES, false).expect("allowed");
            });
            assert!(second.write && second.protected);
            writer.join().expect("written");
            assert_eq!(byte(&mapping, 0), 9);
        });
        let twice = fault.copy_in(&mapping, 0, &[0; PAGE_BYTES], false).expect_err("it is there");
        assert_eq!(twice.error.raw_os_error(), Some(libc::EEXIST));
        fault.wake(&mapping, 0, PAGE_BYTES).expect("nobody waits");
        assert!(fault.poison(&mapping, PAGE_BYTES, PAGE_BYTES).is_err(), "a page is there");
        fault.poison(&mapping, 3 * PAGE_BYTES, PAGE_BYTES).expect("poisoned");
        assert!(fault.wake(&mapping, 1, PAGE_BYTES).is_err());
    }
}
