//! Batches of transfers through io_uring.
//!
//! A ring runs one batch at a time and returns when its last transfer has completed, so the kernel
//! never accesses the borrowed buffers outside of [`Ring::run`], not even after a panic.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use io_uring::{IoUring, opcode, squeue, types};

use crate::file::RETRY_COUNT_MAX;
use crate::size::{to_u64, to_usize};
use crate::transfer::{Done, Io, run_len};

/// Maximum bytes of a buffer in a request; the kernel's limit is 2 GiB less a page.
const REQUEST_BYTES_MAX: usize = 1 << 30;

/// An io_uring for batches: its queues, and the requests in flight.
pub struct Ring {
    uring: IoUring,
    depth: u32,
    slots: Vec<Slot>,
    idle: Vec<u32>,
    /// True if the submission queue holds requests of a failed batch: it must not be submitted.
    broken: bool,
}

/// A request in flight: transfers that are adjacent in the batch and in the file.
#[derive(Default)]
struct Slot {
    /// Index of the first transfer in the batch, and the number of transfers.
    first: usize,
    count: usize,
    /// Bytes of all transfers of the request, and those of them that are transferred.
    len: usize,
    done: usize,
    retries: u32,
    /// I/O vectors of the request; read by the kernel while the request is queued.
    buffers: Vec<libc::iovec>,
}

// SAFETY: the addresses in `Slot::buffers` are used only during `run`, which borrows the ring and
// the buffers; outside of it no thread uses them.
unsafe impl Send for Ring {}

impl Ring {
    /// Creates a ring with up to `depth` requests in flight (rounded up to a power of two).
    ///
    /// # Errors
    /// Fails if the kernel has no io_uring, refuses it to this process, or has no memory for it.
    pub fn new(depth: u32) -> io::Result<Ring> {
        let depth = depth.clamp(1, 4096).next_power_of_two();
        Ok(Ring {
            uring: build(depth)?,
            depth,
            slots: (0..depth).map(|_| Slot::default()).collect(),
            idle: (0..depth).collect(),
            broken: false,
        })
    }

    /// Returns the maximum number of requests in flight.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Performs all transfers of the batch on `file` and sets every result. Small transfers that
    /// are adjacent in batch and file are merged into one request, and retried one by one if it
    /// fails. A transfer that moved fewer bytes than requested is continued; an interrupted one is
    /// retried a bounded number of times. `done` runs on this thread.
    pub fn run(&mut self, file: BorrowedFd<'_>, batch: &mut [Io<'_>], done: &Done<'_>) {
        for io in batch.iter_mut() {
            io.result = Err(UNFINISHED.into());
        }
        let mut flight = Flight {
            ring: self,
            file: file.as_raw_fd(),
            batch,
            done,
            started: 0,
            alone: Vec::new(),
            in_flight: 0,
        };
        if let Err(error) = flight.fly() {
            flight.fail(&error);
        }
    }

    /// Discards requests that the kernel never accepted, since they point to buffers of a batch
    /// that has ended.
    fn reset(&mut self) {
        self.idle = (0..self.depth).collect();
        if !self.uring.submission().is_empty() {
            self.broken = true;
        }
    }

    fn repair(&mut self) -> io::Result<()> {
        if self.broken {
            self.uring = build(self.depth)?;
            self.broken = false;
        }
        Ok(())
    }

    fn slot(&mut self, slot: u32) -> Option<&mut Slot> {
        self.slots.get_mut(to_usize(slot.into()))
    }
}

/// Kind of the error that stands for the missing result of a transfer in progress.
const UNFINISHED: io::ErrorKind = io::ErrorKind::Interrupted;

/// Builds a ring with `IORING_SETUP_COOP_TASKRUN` (fewer interrupts, kernel 5.19), or without it on
/// older kernels.
fn build(depth: u32) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.dontfork().setup_coop_taskrun();
    match builder.build(depth) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            let mut builder = IoUring::builder();
            builder.dontfork().build(depth)
        }
        result => result,
    }
}

/// A batch in progress. Dropping it waits for the requests that the kernel still holds.
struct Flight<'r, 'b, 'd> {
    ring: &'r mut Ring,
    file: RawFd,
    batch: &'b mut [Io<'d>],
    done: &'b Done<'b>,
    /// Number of transfers of the batch that were queued at least once.
    started: usize,
    /// Transfers of failed merged requests, to be retried one by one.
    alone: Vec<usize>,
    /// Number of requests queued and not completed.
    in_flight: usize,
}

/// Next step of a request after a completion.
enum Next {
    /// The transfers of the request have their results.
    Finished,
    /// The rest of the request is queued again.
    Again,
    /// The transfers of the request are queued one by one.
    Split,
}

impl Flight<'_, '_, '_> {
    fn fly(&mut self) -> io::Result<()> {
        self.ring.repair()?;
        self.start();
        while self.in_flight > 0 {
            self.submit_and_wait()?;
            self.reap();
            self.start();
        }
        Ok(())
    }

    /// Queues transfers while there are idle slots.
    fn start(&mut self) {
        while let Some((first, count)) = self.next_run() {
            let Some(slot) = self.ring.idle.pop() else { return };
            match self.alone.pop() {
                Some(_) => {}
                None => self.started += count,
            }
            let transfers = self.batch.iter().skip(first).take(count);
            let len = transfers.map(|io| io.buffer.len()).sum();
            if let Some(state) = self.ring.slot(slot) {
                let buffers = std::mem::take(&mut state.buffers);
                *state = Slot { first, count, len, buffers, ..Slot::default() };
            }
            self.queue(slot);
        }
    }

    /// Returns the index and the number of the transfers to be queued next.
    fn next_run(&self) -> Option<(usize, usize)> {
        if let Some(index) = self.alone.last() {
            return Some((*index, 1));
        }
        let rest = self.batch.get(self.started..).filter(|rest| !rest.is_empty())?;
        Some((self.started, run_len(rest)))
    }

    /// Queues the rest of a slot's request, or finishes the request if no bytes are left.
    fn queue(&mut self, slot: u32) {
        let Some(state) = self.ring.slots.get_mut(to_usize(slot.into())) else { return };
        let last = state.first + state.count;
        let Some(run) = self.batch.get_mut(state.first..last) else { return };
        if state.done == state.len {
            finish(run, self.done);
            self.ring.idle.push(slot);
            return;
        }
        let entry = request(self.file, run, state).user_data(slot.into());
        // SAFETY: the entry points into buffers that the batch borrows for longer than this flight,
        // and to the slot's list of them, which does not change while the request is queued. The
        // flight does not end before the kernel has completed the request; the descriptor is
        // borrowed by the caller of `run`. No other request has these buffers.
        if unsafe { self.ring.uring.submission().push(&entry) }.is_ok() {
            self.in_flight += 1;
        } else {
            // The queue is as long as the list of slots, so it always has room.
            run.iter_mut().for_each(|io| io.result = Err(io::ErrorKind::ResourceBusy.into()));
            self.ring.idle.push(slot);
        }
    }

    fn submit_and_wait(&mut self) -> io::Result<()> {
        let mut retries = 0;
        loop {
            match self.ring.uring.submit_and_wait(1) {
                Ok(_) => return Ok(()),
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                // The kernel lacks memory for requests, or completions must be reaped first.
                Err(error)
                    if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY))
                        && retries < RETRY_COUNT_MAX =>
                {
                    retries += 1;
                    if !self.ring.uring.completion().is_empty() {
                        return Ok(());
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Reaps the available completions and queues requests that must continue.
    fn reap(&mut self) {
        while let Some((slot, result)) = self.next_completion() {
            self.in_flight = self.in_flight.saturating_sub(1);
            match self.complete(slot, result) {
                Next::Finished => self.ring.idle.push(slot),
                Next::Again => self.queue(slot),
                Next::Split => {
                    if let Some(state) = self.ring.slot(slot) {
                        let transfers = state.first..state.first + state.count;
                        self.alone.extend(transfers);
                    }
                    self.ring.idle.push(slot);
                }
            }
        }
    }

    fn next_completion(&mut self) -> Option<(u32, i32)> {
        let entry = self.ring.uring.completion().next()?;
        Some((u32::try_from(entry.user_data()).ok()?, entry.result()))
    }

    /// Applies a completion to its request and returns the next step.
    fn complete(&mut self, slot: u32, result: i32) -> Next {
        let Some(state) = self.ring.slots.get_mut(to_usize(slot.into())) else {
            return Next::Finished;
        };
        let last = state.first + state.count;
        let Some(run) = self.batch.get_mut(state.first..last) else { return Next::Finished };
        match usize::try_from(result) {
            Ok(count) if count > 0 => {
                state.done = state.len.min(state.done + count);
                state.retries = 0;
                if state.done < state.len {
                    return Next::Again;
                }
                finish(run, self.done);
                Next::Finished
            }
            progress => {
                let error = match progress {
                    Ok(_) => ended(run),
                    Err(_) => io::Error::from_raw_os_error(-result),
                };
                state.retries += 1;
                let again = crate::file::is_transient(&error) && state.retries <= RETRY_COUNT_MAX;
                match run {
                    _ if again => Next::Again,
                    [io] => {
                        io.result = Err(error);
                        Next::Finished
                    }
                    _ => Next::Split,
                }
            }
        }
    }

    /// Ends the batch after the ring failed: waits for the requests that the kernel holds, and sets
    /// the error of unfinished transfers.
    fn fail(&mut self, error: &io::Error) {
        self.drain();
        for io in self.batch.iter_mut() {
            if io.result.as_ref().is_err_and(|result| result.kind() == UNFINISHED) {
                io.result = Err(io::Error::new(error.kind(), error.to_string()));
            }
        }
    }

    /// Waits for every request that the kernel accepted. Completions also arrive without `enter`,
    /// at the return from any system call, so a ring that cannot be entered is drained by sleeping.
    fn drain(&mut self) {
        loop {
            while let Some((slot, result)) = self.next_completion() {
                self.in_flight = self.in_flight.saturating_sub(1);
                self.complete(slot, result);
            }
            if self.in_flight <= self.ring.uring.submission().len() {
                self.in_flight = 0;
                self.ring.reset();
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Flight<'_, '_, '_> {
    fn drop(&mut self) {
        if self.in_flight > 0 {
            self.drain();
        }
    }
}

fn finish(run: &mut [Io<'_>], done: &Done<'_>) {
    for io in run {
        io.result = Ok(());
        done(io);
    }
}

/// Returns the error of a transfer that makes no progress.
fn ended(run: &[Io<'_>]) -> io::Error {
    let write = run.first().is_some_and(|io| io.buffer.is_write());
    if write { io::ErrorKind::WriteZero.into() } else { io::ErrorKind::UnexpectedEof.into() }
}

/// Builds the request for the bytes of a run after the first `done`.
fn request(file: RawFd, run: &mut [Io<'_>], state: &mut Slot) -> squeue::Entry {
    let offset = run.first().map_or(0, |io| io.offset) + to_u64(state.done);
    let write = run.first().is_some_and(|io| io.buffer.is_write());
    state.buffers.clear();
    let mut skip = state.done;
    for io in run {
        let (start, len) = io.buffer.as_raw();
        let skipped = skip.min(len);
        skip -= skipped;
        let iov_len = (len - skipped).min(REQUEST_BYTES_MAX);
        if iov_len > 0 {
            let iov_base = start.wrapping_add(skipped).cast();
            state.buffers.push(libc::iovec { iov_base, iov_len });
        }
    }
    let file = types::Fd(file);
    let count = u32::try_from(state.buffers.len()).unwrap_or(1);
    match (state.buffers.as_slice(), write) {
        ([only], false) => opcode::Read::new(file, only.iov_base.cast(), request_len(only.iov_len))
            .offset(offset)
            .build(),
        ([only], true) => opcode::Write::new(file, only.iov_base.cast(), request_len(only.iov_len))
            .offset(offset)
            .build(),
        (many, false) => opcode::Readv::new(file, many.as_ptr(), count).offset(offset).build(),
        (many, true) => opcode::Writev::new(file, many.as_ptr(), count).offset(offset).build(),
    }
}

fn request_len(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsFd;

    use super::*;
    use crate::buffer::AlignedBuffer;
    use crate::file::DirectFile;

    fn filled(value: u8, len: usize) -> AlignedBuffer {
        let mut buffer = AlignedBuffer::zeroed(len);
        buffer.fill(value);
        buffer
    }

    fn flight<'r, 'b, 'd>(
        ring: &'r mut Ring,
        file: RawFd,
        batch: &'b mut [Io<'d>],
    ) -> Flight<'r, 'b, 'd> {
        let (started, in_flight) = (0, 0);
        Flight { ring, file, batch, done: &|_| (), started, alone: Vec::new(), in_flight }
    }

    #[test]
    fn batches_longer_than_the_ring_are_read_back() {
        let file = DirectFile::temporary(&std::env::temp_dir()).expect("writable");
        let mut ring = Ring::new(4).expect("io_uring is there where tests run");
        let pages: Vec<AlignedBuffer> = (0..50).map(|value| filled(value, 8192)).collect();
        let mut writes: Vec<Io<'_>> =
            pages.iter().zip(0..).map(|(page, index)| Io::write(index * 8192, page)).collect();
        ring.run(file.as_fd(), &mut writes, &|_| ());
        assert!(writes.iter().all(|io| io.result.is_ok()));
        let mut back: Vec<AlignedBuffer> = (0..50).map(|_| filled(255, 8192)).collect();
        let mut reads: Vec<Io<'_>> =
            back.iter_mut().zip(0..).map(|(page, index)| Io::read(index * 8192, page)).collect();
        for _ in 0..3 {
            ring.run(file.as_fd(), &mut reads, &|_| ());
        }
        assert!(reads.iter().all(|io| io.result.is_ok()));
        assert!(pages.iter().zip(&back).all(|(page, back)| **page == **back));
    }

    #[test]
    fn each_transfer_has_its_own_result() {
        let file = DirectFile::temporary(&std::env::temp_dir()).expect("writable");
        file.write_at(0, &filled(1, 4096)).expect("room");
        let mut ring = Ring::new(8).expect("io_uring is there where tests run");
        let (mut good, mut beyond) = (filled(0, 4096), filled(0, 8192));
        let mut empty = [0u8; 0];
        let mut batch = [Io::read(0, &mut good), Io::read(0, &mut beyond), Io::read(0, &mut empty)];
        ring.run(file.as_fd(), &mut batch, &|io| io.found += 1);
        assert!(batch[0].result.is_ok() && batch[2].result.is_ok());
        assert_eq!(batch.each_ref().map(|io| io.found), [1, 0, 1], "done runs once a success");
        let error = batch[1].result.as_ref().expect_err("the file has one page");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn short_transfers_are_continued() {
        let (reader, mut writer) = io::pipe().expect("descriptors");
        let sender = std::thread::spawn(move || {
            for value in 0..16u8 {
                writer.write_all(&[value; 1000]).expect("the reader is alive");
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let mut ring = Ring::new(1).expect("io_uring is there where tests run");
        let mut data = vec![255; 16_000];
        let mut batch = [Io::read(0, &mut data)];
        ring.run(reader.as_fd(), &mut batch, &|io| io.found += 1);
        assert!(batch[0].result.is_ok(), "{:?}", batch[0].result);
        let whole =
            |value: u8| data[usize::from(value) * 1000..][..1000].iter().all(|b| *b == value);
        assert!((0..16).all(whole));
        sender.join().expect("wrote everything");
    }

    #[test]
    fn merged_transfers_are_continued_and_fail_one_by_one() {
        let file = DirectFile::temporary(&std::env::temp_dir()).expect("writable");
        let mut ring = Ring::new(4).expect("io_uring is there where tests run");
        let pages: Vec<AlignedBuffer> = (0..20).map(|value| filled(value, 4096)).collect();
        let mut writes: Vec<Io<'_>> =
            pages.iter().zip(0..).map(|(page, index)| Io::write(index * 4096, page)).collect();
        ring.run(file.as_fd(), &mut writes, &|io| io.found += 1);
        assert!(writes.iter().all(|io| io.result.is_ok() && io.found == 1));
        let mut back: Vec<AlignedBuffer> = (0..25).map(|_| filled(255, 4096)).collect();
        let mut reads: Vec<Io<'_>> =
            back.iter_mut().zip(0..).map(|(page, index)| Io::read(index * 4096, page)).collect();
        assert_eq!(run_len(&reads), 25, "one request, longer than the file");
        ring.run(file.as_fd(), &mut reads, &|io| io.found += 1);
        let whole: Vec<bool> = reads.iter().map(|io| io.result.is_ok()).collect();
        assert_eq!(whole, (0..25).map(|index| index < 20).collect::<Vec<bool>>());
        assert!(reads.iter().all(|io| io.found == u32::from(io.result.is_ok())));
        assert!(pages.iter().zip(&back).all(|(page, back)| **page == **back));
    }

    #[test]
    fn a_short_merged_transfer_goes_on_in_the_middle_of_a_buffer() {
        let (reader, mut writer) = io::pipe().expect("descriptors");
        let sender = std::thread::spawn(move || {
            for value in 0..24u8 {
                writer.write_all(&[value; 500]).expect("the reader is alive");
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let mut data = [[255u8; 3000]; 4];
        let mut batch: Vec<Io<'_>> =
            data.iter_mut().zip(0..).map(|(part, index)| Io::read(index * 3000, part)).collect();
        assert_eq!(run_len(&batch), 4);
        Ring::new(1).expect("io_uring is there").run(reader.as_fd(), &mut batch, &|_| ());
        assert!(batch.iter().all(|io| io.result.is_ok()), "{batch:?}");
        let expected = (0..24u8).flat_map(|value| [value; 500]);
        assert!(data.into_iter().flatten().eq(expected));
        sender.join().expect("wrote everything");
    }

    #[test]
    fn a_transfer_that_is_put_off_for_ever_is_an_error() {
        let mut ring = Ring::new(1).expect("io_uring is there where tests run");
        let mut data = [0u8; 8];
        let mut batch = [Io::read(0, &mut data)];
        let mut flight = flight(&mut ring, -1, &mut batch);
        flight.ring.slots[0] = Slot { count: 1, len: 8, ..Slot::default() };
        for _ in 0..RETRY_COUNT_MAX {
            assert!(matches!(flight.complete(0, -libc::EAGAIN), Next::Again));
        }
        assert!(matches!(flight.complete(0, -libc::EINTR), Next::Finished));
        drop(flight);
        let error = batch[0].result.as_ref().expect_err("never done");
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    }

    #[test]
    fn a_ring_that_cannot_be_entered_fails_its_batch_and_is_replaced() {
        let file = DirectFile::temporary(&std::env::temp_dir()).expect("writable");
        let mut ring = Ring::new(2).expect("io_uring is there where tests run");
        let page = filled(1, 4096);
        let mut batch = [Io::write(0, &page), Io::write(4096, &page), Io::write(8192, &page)];
        {
            let mut flight = flight(&mut ring, file.as_fd().as_raw_fd(), &mut batch);
            flight.batch.iter_mut().for_each(|io| io.result = Err(UNFINISHED.into()));
            flight.start();
            flight.fail(&io::Error::from_raw_os_error(libc::EPERM));
        }
        let denied = |io: &Io<'_>| {
            io.result.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::PermissionDenied)
        };
        assert!(batch.iter().all(denied), "{batch:?}");
        ring.run(file.as_fd(), &mut batch, &|io| io.found += 1);
        assert!(batch.iter().all(|io| io.result.is_ok()));
        assert_eq!(file.len().expect("a file"), 12288);
    }
}
