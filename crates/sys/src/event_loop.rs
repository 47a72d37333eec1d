//! Waiting of an event loop: by an io_uring that also runs transfers, or by `ppoll` if the kernel
//! refuses io_uring to this process.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr;
use std::time::Duration;

use crate::event_ring::{Event, EventRing};

/// Waits for descriptors, and for transfers if there is a ring.
pub enum EventLoop {
    /// io_uring: transfers may be started in it.
    Ring(Box<EventRing>),
    /// `ppoll`: the owner of the loop runs transfers on threads.
    Poll(Polled),
}

impl fmt::Debug for EventLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EventLoop::Ring(_) => "EventLoop::Ring",
            EventLoop::Poll(_) => "EventLoop::Poll",
        })
    }
}

impl EventLoop {
    /// Creates a loop with a ring of up to `depth` requests, or without a ring and with the
    /// kernel's error: it has no io_uring, does not permit it, or lacks memory for it that this
    /// process may lock (`ulimit -l`).
    #[must_use]
    pub fn new(depth: u32) -> (EventLoop, Option<io::Error>) {
        match EventRing::new(depth) {
            Ok(ring) => (EventLoop::Ring(Box::new(ring)), None),
            Err(error) => (EventLoop::Poll(Polled::default()), Some(error)),
        }
    }

    /// Returns the ring, if there is one.
    pub fn ring(&mut self) -> Option<&mut EventRing> {
        match self {
            EventLoop::Ring(ring) => Some(ring),
            EventLoop::Poll(_) => None,
        }
    }

    /// Polls `fd` once: produces one event when it is readable. The descriptor must stay open until
    /// then.
    ///
    /// # Errors
    /// Fails if too many requests are in flight.
    pub fn poll(&mut self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        match self {
            EventLoop::Ring(ring) => ring.poll(fd, token),
            EventLoop::Poll(polled) => {
                polled.waits.push((fd.as_raw_fd(), token));
                Ok(())
            }
        }
    }

    /// Waits for an event until `time` has passed, without a limit if it is `None`, and appends the
    /// events to `events`.
    ///
    /// # Errors
    /// Fails if the kernel cannot wait.
    pub fn wait(&mut self, time: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        match self {
            EventLoop::Ring(ring) => ring.wait(time, events),
            EventLoop::Poll(polled) => polled.wait(time, events),
        }
    }
}

/// Polled descriptors, with their tokens.
#[derive(Debug, Default)]
pub struct Polled {
    waits: Vec<(RawFd, u64)>,
}

impl Polled {
    fn wait(&mut self, time: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        let entry =
            |(fd, _): &(RawFd, u64)| libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 };
        let mut entries: Vec<libc::pollfd> = self.waits.iter().map(entry).collect();
        let time = time.map(|time| libc::timespec {
            tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: time.subsec_nanos().into(),
        });
        let time = time.as_ref().map_or(ptr::null(), ptr::from_ref);
        let count = libc::nfds_t::try_from(entries.len()).unwrap_or(libc::nfds_t::MAX);
        // SAFETY: the list is a local of `count` entries; the time is a local or null; the signal
        // mask is null and stays unchanged.
        if unsafe { libc::ppoll(entries.as_mut_ptr(), count, time, ptr::null()) } < 0 {
            let error = io::Error::last_os_error();
            // The caller calls again.
            let passes = error.kind() == io::ErrorKind::Interrupted;
            return if passes { Ok(()) } else { Err(error) };
        }
        // A failed descriptor is reported as readable: the read returns the error.
        let mut happened = entries.iter().map(|entry| entry.revents != 0);
        self.waits.retain(|(_, token)| {
            let happened = happened.next().unwrap_or(false);
            events.extend(happened.then_some(Event::Readable(*token)));
            !happened
        });
        Ok(())
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::event_ring::Doorbell;

    #[test]
    fn doorbells_are_waited_for_without_a_ring() {
        let mut events = Vec::new();
        let mut waiting = EventLoop::Poll(Polled::default());
        assert!(waiting.ring().is_none());
        let (one, other) = (Doorbell::new().expect("a bell"), Doorbell::new().expect("a bell"));
        waiting.poll(one.as_fd(), 1).expect("started");
        waiting.poll(other.as_fd(), 2).expect("started");
        waiting.wait(Some(Duration::from_micros(100)), &mut events).expect("over");
        assert!(events.is_empty(), "an event without a cause: {events:?}");
        std::thread::scope(|scope| {
            scope.spawn(|| other.ring());
            waiting.wait(None, &mut events).expect("rung");
        });
        assert!(matches!(events[..], [Event::Readable(2)]), "{events:?}");
        // A poll produces one event, until the descriptor is polled again.
        waiting.wait(Some(Duration::ZERO), &mut events).expect("over");
        assert_eq!(events.len(), 1, "{events:?}");
        waiting.poll(other.as_fd(), 3).expect("started");
        waiting.wait(None, &mut events).expect("it is still readable");
        assert!(matches!(events[..], [_, Event::Readable(3)]), "{events:?}");
    }
}
