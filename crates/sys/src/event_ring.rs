//! An io_uring for an event loop: transfers and descriptor readiness, waited for by one thread.
//!
//! Unlike [`crate::uring`], which runs a batch and returns, an event ring keeps transfers in flight
//! between calls. It holds the [`Mapping`] of each transfer until the kernel completes it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::{IoUring, opcode, squeue, types};

use crate::file::DirectFile;
use crate::map::Mapping;
use crate::size::to_usize;

/// Completion of a request.
#[derive(Debug)]
pub enum Event {
    /// The polled descriptor of this token is readable or has failed.
    Readable(u64),
    /// The transfer of this token ended, with its number of bytes, which may be fewer than
    /// requested.
    Moved(u64, io::Result<usize>),
}

/// A range of a mapping and its offset in a file.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Mapping that contains the bytes.
    pub mapping: Arc<Mapping>,
    /// Offset in the mapping.
    pub at: usize,
    /// Number of bytes, at most 2 GiB less a page.
    pub len: usize,
    /// Offset in the file.
    pub offset: u64,
    /// True if pages may be missing: a kernel thread then takes the faults (`IOSQE_ASYNC`), since
    /// the submitting thread may be the one that handles them.
    pub may_fault: bool,
}

/// Resources that a request in flight keeps alive.
enum Flying {
    Poll,
    Transfer { _file: Arc<DirectFile>, _memory: Arc<Mapping> },
}

/// An io_uring with requests in flight. Dropping it waits for the transfers.
pub struct EventRing {
    uring: IoUring,
    /// Token and resources of each request in flight, indexed by its number.
    slots: Vec<Option<(u64, Flying)>>,
    idle: Vec<u32>,
    transfers: usize,
}

impl EventRing {
    /// Creates a ring for up to `depth` requests in flight, rounded up to a power of two.
    ///
    /// # Errors
    /// Fails if the kernel has no io_uring, refuses it to this process, or has no memory for it.
    pub fn new(depth: u32) -> io::Result<EventRing> {
        let depth = depth.clamp(2, 4096).next_power_of_two();
        let uring = IoUring::builder().dontfork().build(depth)?;
        let slots = (0..depth).map(|_| None).collect();
        Ok(EventRing { uring, slots, idle: (0..depth).collect(), transfers: 0 })
    }

    /// Returns the number of transfers in flight.
    #[must_use]
    pub fn transfers(&self) -> usize {
        self.transfers
    }

    /// Polls `fd` once: produces one event when it is readable. The descriptor must stay open until
    /// then.
    ///
    /// # Errors
    /// Fails if too many requests are in flight.
    pub fn poll(&mut self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let mask = u32::try_from(libc::POLLIN).unwrap_or(1);
        let entry = opcode::PollAdd::new(types::Fd(fd.as_raw_fd()), mask).build();
        self.push(entry, token, Flying::Poll)
    }

    /// Starts to read a piece. No thread may use its bytes until the event.
    ///
    /// # Errors
    /// Fails if the piece is not inside its mapping, or too many requests are in flight.
    pub fn read(&mut self, file: &Arc<DirectFile>, piece: &Piece, token: u64) -> io::Result<()> {
        let (address, len) = memory(piece)?;
        let entry = opcode::Read::new(descriptor(file), address, len).offset(piece.offset).build();
        self.start(entry, file, piece, token)
    }

    /// Starts to write a piece. No thread may change its bytes until the event.
    ///
    /// # Errors
    /// As [`EventRing::read`].
    pub fn write(&mut self, file: &Arc<DirectFile>, piece: &Piece, token: u64) -> io::Result<()> {
        let (address, len) = memory(piece)?;
        let entry = opcode::Write::new(descriptor(file), address, len).offset(piece.offset).build();
        self.start(entry, file, piece, token)
    }

    fn start(
        &mut self,
        entry: squeue::Entry,
        file: &Arc<DirectFile>,
        piece: &Piece,
        token: u64,
    ) -> io::Result<()> {
        let entry = if piece.may_fault { entry.flags(squeue::Flags::ASYNC) } else { entry };
        let (_file, _memory) = (Arc::clone(file), Arc::clone(&piece.mapping));
        self.push(entry, token, Flying::Transfer { _file, _memory })?;
        self.transfers += 1;
        Ok(())
    }

    fn push(&mut self, entry: squeue::Entry, token: u64, flying: Flying) -> io::Result<()> {
        let slot = self.idle.pop().ok_or(io::ErrorKind::ResourceBusy)?;
        // SAFETY: the slot keeps the memory and the descriptor of a transfer alive until its
        // completion; a poll uses no memory, and a closed descriptor is an error of the request.
        if unsafe { self.uring.submission().push(&entry.user_data(slot.into())) }.is_err() {
            self.idle.push(slot);
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        self.slots[to_usize(slot.into())] = Some((token, flying));
        Ok(())
    }

    /// Submits requests, waits for a completion until `time` has passed, without a limit if it is
    /// `None`, and appends the events to `events`. Does not wait if completions are available.
    ///
    /// # Errors
    /// Fails if the ring cannot be entered.
    pub fn wait(&mut self, time: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        if !self.reap(events) {
            let result = match time {
                None => self.uring.submit_and_wait(1),
                Some(time) if time.is_zero() => self.uring.submit(),
                Some(time) => {
                    let time = types::Timespec::from(time);
                    let arguments = types::SubmitArgs::new().timespec(&time);
                    self.uring.submitter().submit_with_args(1, &arguments)
                }
            };
            check(result)?;
            self.reap(events);
            return Ok(());
        }
        check(self.uring.submit())
    }

    /// Appends the available completions. Returns true if there were any.
    fn reap(&mut self, events: &mut Vec<Event>) -> bool {
        let before = events.len();
        for entry in self.uring.completion() {
            let Ok(slot) = u32::try_from(entry.user_data()) else { continue };
            let Some((token, flying)) =
                self.slots.get_mut(to_usize(slot.into())).and_then(Option::take)
            else {
                continue;
            };
            self.idle.push(slot);
            events.push(match flying {
                Flying::Poll => Event::Readable(token),
                Flying::Transfer { .. } => {
                    self.transfers -= 1;
                    let result = entry.result();
                    let moved = usize::try_from(result);
                    Event::Moved(token, moved.map_err(|_| io::Error::from_raw_os_error(-result)))
                }
            });
        }
        events.len() > before
    }
}

impl Drop for EventRing {
    /// Waits for the transfers, since the kernel writes to the memory of reads until they complete.
    fn drop(&mut self) {
        let mut events = Vec::new();
        while self.transfers > 0 {
            if self.wait(Some(Duration::from_millis(10)), &mut events).is_err() {
                std::thread::sleep(Duration::from_millis(1));
                self.reap(&mut events);
            }
        }
    }
}

fn check(result: io::Result<usize>) -> io::Result<()> {
    match result {
        Ok(_) => Ok(()),
        // Interrupted, timed out, or completions must be reaped first: the caller calls again.
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::EINTR | libc::ETIME | libc::EAGAIN | libc::EBUSY)
            ) =>
        {
            Ok(())
        }
        Err(error) => Err(error),
    }
}

fn descriptor(file: &DirectFile) -> types::Fd {
    types::Fd(file.as_fd().as_raw_fd())
}

fn memory(piece: &Piece) -> io::Result<(*mut u8, u32)> {
    let end = piece.at.checked_add(piece.len).filter(|end| *end <= piece.mapping.len());
    let len = end.and_then(|_| u32::try_from(piece.len).ok());
    let Some(len) = len else {
        let (len, at, all) = (piece.len, piece.at, piece.mapping.len());
        let text = format!("{len} bytes at {at} are not inside of a mapping of {all}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    };
    // SAFETY: the piece begins inside the mapping, or at its end if it has no bytes.
    Ok((unsafe { piece.mapping.as_ptr().add(piece.at) }, len))
}

/// An eventfd by which one thread wakes another that polls it.
#[derive(Debug)]
pub struct Doorbell {
    fd: OwnedFd,
}

impl Doorbell {
    /// Creates a doorbell that is not readable.
    ///
    /// # Errors
    /// Fails if the process has no descriptors left.
    pub fn new() -> io::Result<Doorbell> {
        // SAFETY: takes and returns integers, no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened and has no other owner.
        Ok(Doorbell { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Makes the descriptor readable.
    pub fn ring(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the bytes are a local of the given length. The write fails only if the counter
        // would exceed 2^64 - 2.
        unsafe { libc::write(self.fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Makes the descriptor not readable.
    pub fn clear(&self) {
        let mut count = [0_u8; 8];
        // SAFETY: as in `ring`. The read fails if the counter is zero already.
        unsafe { libc::read(self.fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::size::PAGE_BYTES;

    fn until(ring: &mut EventRing, count: usize) -> Vec<Event> {
        let mut events = Vec::new();
        while events.len() < count {
            ring.wait(Some(Duration::from_millis(100)), &mut events).expect("a ring");
        }
        events
    }

    #[test]
    fn transfers_and_doorbells_are_waited_for_together() {
        let file = DirectFile::temporary(&std::env::temp_dir()).expect("a file");
        let file = Arc::new(file);
        let mapping = Arc::new(Mapping::reserve(4 * PAGE_BYTES).expect("memory"));
        // SAFETY: two pages of a mapping that only this test uses, with no transfer in flight.
        unsafe { mapping.as_ptr().write_bytes(7, 2 * PAGE_BYTES) };
        let piece = |at, pages, offset| Piece {
            mapping: Arc::clone(&mapping),
            at: at * PAGE_BYTES,
            len: pages * PAGE_BYTES,
            offset,
            may_fault: false,
        };
        let mut ring = EventRing::new(8).expect("io_uring");
        ring.write(&file, &piece(0, 2, 0), 1).expect("started");
        assert_eq!(ring.transfers(), 1);
        let events = until(&mut ring, 1);
        assert!(matches!(events[..], [Event::Moved(1, Ok(len))] if len == 2 * PAGE_BYTES));

        let bell = Doorbell::new().expect("a bell");
        ring.poll(bell.as_fd(), 2).expect("started");
        let mut events = Vec::new();
        ring.wait(Some(Duration::ZERO), &mut events).expect("a ring");
        assert!(events.is_empty(), "an event without a cause: {events:?}");
        // A read across the end of the file is short.
        ring.read(&file, &piece(2, 2, PAGE_BYTES as u64), 3).expect("started");
        std::thread::scope(|scope| {
            scope.spawn(|| bell.ring());
            let events = until(&mut ring, 2);
            assert!(events.iter().any(|event| matches!(event, Event::Readable(2))));
            assert!(events.iter().any(|event| matches!(event, Event::Moved(3, Ok(PAGE_BYTES)))));
        });
        bell.clear();
        // SAFETY: as above; the read has completed.
        assert_eq!(unsafe { mapping.as_ptr().add(2 * PAGE_BYTES).read() }, 7);
        assert!(ring.read(&file, &piece(3, 2, 0), 4).is_err(), "outside of the mapping");
    }
}
