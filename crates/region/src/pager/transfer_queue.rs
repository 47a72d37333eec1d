//! Transfers in flight of a pager, and the events that it waits for.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use terrace_sys::event_loop::EventLoop;
use terrace_sys::event_ring::{Event, Piece};

use crate::error::RegionError;
use crate::state::{Shared, system};
use crate::transfers::{Ended, Transfers};

/// Capacity of a pager's ring: transfers in both directions, and two polled descriptors.
const REQUESTS_MAX: u32 = 256;

/// Transfers in flight, their numbers by direction, and the pager's event loop.
pub(super) struct TransferQueue {
    waiting: EventLoop,
    transfers: Transfers,
    /// Transfers that could not be started.
    unstarted: Vec<Ended>,
    fills: usize,
    writes: usize,
}

impl TransferQueue {
    /// Opens the ring of a pager, or starts its threads.
    pub(super) fn open(shared: &Arc<Shared>, number: usize) -> Result<Self, RegionError> {
        let name = &shared.name;
        let (mut waiting, refused) = EventLoop::new(REQUESTS_MAX);
        if let Some(error) = refused {
            tracing::warn!(region = name, %error, "io_uring is refused: threads move blocks");
        }
        let has_ring = waiting.ring().is_some();
        shared.has_rings.fetch_and(has_ring, Ordering::Relaxed);
        let bell = &shared.inboxes[number].bell;
        let transfers = Transfers::open(&shared.source.blocks, has_ring, shared.depth, bell)
            .map_err(system(name, "starting threads for transfers"))?;
        Ok(Self { waiting, transfers, unstarted: Vec::new(), fills: 0, writes: 0 })
    }

    /// Polls a descriptor once; its event has the token.
    pub(super) fn poll(&mut self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.waiting.poll(fd, token)
    }

    /// Waits for an event for at most `time`, without a limit if it is `None`, and appends the
    /// events to `events`. Returns at once if a transfer could not be started.
    pub(super) fn wait(
        &mut self,
        time: Option<Duration>,
        events: &mut Vec<Event>,
    ) -> io::Result<()> {
        let time = if self.unstarted.is_empty() { time } else { Some(Duration::ZERO) };
        self.waiting.wait(time, events)
    }

    /// Starts a transfer. Until it has ended, no other code may use the bytes of the piece, or for
    /// a write change them. An error of the start ends the transfer, as any other error does.
    pub(super) fn start(&mut self, piece: Piece, is_write: bool, token: u64) {
        if let Err(error) = self.transfers.start(&mut self.waiting, piece, is_write, token) {
            self.unstarted.push((token, Err(error)));
        }
    }

    /// Takes the transfers that have ended, except those of the ring, whose ends are events.
    pub(super) fn take_ended(&mut self) -> Vec<Ended> {
        let mut ended = std::mem::take(&mut self.unstarted);
        ended.append(&mut self.transfers.ended());
        ended
    }

    /// Number of blocks that are being filled.
    pub(super) fn fills(&self) -> usize {
        self.fills
    }

    /// Number of blocks that are being written back.
    pub(super) fn writes(&self) -> usize {
        self.writes
    }

    /// Number of blocks in transfer.
    pub(super) fn in_flight(&self) -> usize {
        self.fills + self.writes
    }

    pub(super) fn begin_fill(&mut self) {
        self.fills += 1;
    }

    pub(super) fn end_fill(&mut self) {
        self.fills -= 1;
    }

    pub(super) fn begin_write(&mut self) {
        self.writes += 1;
    }

    pub(super) fn end_write(&mut self) {
        self.writes -= 1;
    }

    /// Drops the queue, except for memory that the kernel or a thread may still use.
    pub(super) fn leave(self) {
        let Self { mut waiting, transfers, .. } = self;
        transfers.leave();
        if waiting.ring().is_some_and(|ring| ring.transfers() > 0) {
            // The ring owns the memory of its transfers in flight.
            let _used = std::mem::ManuallyDrop::new(waiting);
        }
    }
}
