//! Public interface of a region: creation, pinning, readahead hints, eviction and flush.

mod hints;

use std::mem::ManuallyDrop;
use std::ops::Range;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use terrace_sys::claim::Claim;
use terrace_sys::size::{to_u64, to_usize};
use terrace_sys::sync::lock;
use terrace_sys::userfault::FaultsOf;

use crate::command_queue::{Command, Want};
use crate::config::{Contents, Method, RegionConfig, Source};
use crate::error::RegionError;
use crate::pager::Pager;
use crate::parts::{Parts, first_within};
use crate::pin::Pin;
use crate::state::{self, Shared, cap_frames, system};
use crate::stats::RegionStats;
use crate::waiter::Waiter;

/// Memory paged from a source in user space. See the crate's documentation.
///
/// The addresses are valid until the region is dropped. As with any memory, callers that use them
/// must prevent data races; the region itself never changes a byte that is in place.
///
/// A single system call over more blocks than the cap has frames never returns, because it holds
/// the frames that it waits for. All pins must be dropped before the region is.
///
/// A region is not inherited by a child process (`fork`): its addresses are not mapped there, and
/// dropping a child's copy does nothing.
///
/// A region has exclusive access to its bytes of a file: other regions and stores that open them
/// are refused.
#[derive(Debug)]
pub struct Region {
    shared: Arc<Shared>,
    patience: Duration,
    threads: Vec<JoinHandle<()>>,
    /// Claim on the source; released after the pagers have ended.
    _claim: Option<Claim>,
    /// Process that runs the pagers.
    process: u32,
}

impl Region {
    /// Maps a source and starts the region's pagers.
    ///
    /// # Errors
    /// [`RegionError::Config`] for invalid sizes; [`RegionError::InUse`] when another region or a
    /// store has claimed bytes of the source; [`RegionError::Platform`] when userfaultfd is not
    /// available to this process; [`RegionError::System`] when memory, a thread or the budget for
    /// two blocks of each pager cannot be obtained.
    pub fn new(config: RegionConfig, source: Source) -> Result<Self, RegionError> {
        let patience = config.patience;
        state::check(&config, &source)?;
        let _claim = claim(&config.name, &source)?;
        let shared = Arc::new(Shared::new(config, source)?);
        let (threads, process) = (Vec::new(), process::id());
        let mut region = Self { shared: Arc::clone(&shared), patience, threads, _claim, process };
        for number in 0..shared.pagers {
            let pager = Pager::new(Arc::clone(&shared), number)?;
            let thread = thread::Builder::new()
                .name(format!("terrace-pager-{number}"))
                .spawn(move || pager.run());
            region.threads.push(thread.map_err(system(&shared.name, "starting a pager"))?);
        }
        Ok(region)
    }

    /// Returns the address of the first byte.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.shared.mapping.as_ptr()
    }

    /// Length of the region in bytes: that of the source rounded up to a page of 4 KiB.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.len
    }

    /// True if the region is empty, which never happens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads a byte by an atomic load; threads that write to the byte concurrently must use
    /// atomics, too.
    ///
    /// # Panics
    /// If the offset is outside of the region, or the byte is held as a [`Part`](crate::Part).
    #[must_use]
    pub fn load(&self, offset: usize) -> u8 {
        self.atomic(offset, |byte| byte.load(Ordering::Relaxed))
    }

    /// Writes a byte by an atomic store; the counterpart of [`Region::load`].
    ///
    /// # Panics
    /// As [`Region::load`].
    pub fn store(&self, offset: usize, value: u8) {
        self.atomic(offset, |byte| byte.store(value, Ordering::Relaxed));
    }

    fn atomic<T>(&self, offset: usize, use_it: impl FnOnce(&AtomicU8) -> T) -> T {
        assert!(offset < self.len(), "byte {offset} of a region of {}", self.len());
        let parts = self.shared.parts.read();
        if let Some(taken) = first_within(&parts, offset..offset + 1) {
            panic!("byte {offset} of region {} is a part of {}", self.name(), taken.holder());
        }
        // SAFETY: the byte is inside of the mapping, which lives as long as the region, and belongs
        // to no part while the read lock on the list of parts is held; callers that use its address
        // directly must prevent data races.
        use_it(unsafe { AtomicU8::from_ptr(self.as_ptr().add(offset)) })
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.shared.parts
    }

    pub(crate) fn taken(&self, holder: String, offset: u64, len: u64) -> RegionError {
        let region = self.shared.name.clone();
        RegionError::Taken { region, offset, len, holder }
    }

    /// Name of the region.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Size of a block in bytes.
    #[must_use]
    pub fn block_bytes(&self) -> usize {
        self.shared.block_bytes
    }

    /// Mechanism by which pages get into their place.
    #[must_use]
    pub fn method(&self) -> Method {
        self.shared.method
    }

    /// True if any address of the region may be passed to system calls. If this process may only
    /// handle faults of its own code (`UFFD_USER_MODE_ONLY`, see PLATFORM.md), a system call on a
    /// block that is not resident fails with `EFAULT`: callers must pin its memory first.
    #[must_use]
    pub fn serves_system_calls(&self) -> bool {
        self.shared.faults == FaultsOf::All
    }

    /// I/O engine of the region: `io_uring`, or `threads` if the source is not a file or the kernel
    /// refuses io_uring to this process.
    #[must_use]
    pub fn engine(&self) -> &'static str {
        let is_file = self.shared.source.blocks.file().is_some();
        if is_file && self.shared.has_rings.load(Ordering::Relaxed) {
            "io_uring"
        } else {
            "threads"
        }
    }

    /// Returns the counters of the region.
    #[must_use]
    pub fn stats(&self) -> RegionStats {
        let frames = self.shared.frames.load(Ordering::Relaxed);
        let resident_bytes = to_u64(frames * self.shared.block_bytes);
        self.shared.counters.stats(resident_bytes, &self.shared.recorders)
    }

    /// Returns [`RegionStats::denied`] alone, at the cost of one load.
    #[must_use]
    pub fn denied(&self) -> u64 {
        self.shared.counters.denied.get()
    }

    /// Maximum number of resident bytes.
    #[must_use]
    pub fn cap_bytes(&self) -> u64 {
        let shared = &self.shared;
        let frames = shared.cap_frames.load(Ordering::Relaxed) * shared.pagers;
        to_u64(frames * shared.block_bytes)
    }

    /// Changes the maximum number of resident bytes; blocks beyond a lower cap are evicted soon
    /// after.
    ///
    /// # Errors
    /// [`RegionError::Config`] below two blocks for each pager.
    pub fn set_cap(&self, bytes: u64) -> Result<(), RegionError> {
        let shared = &self.shared;
        let frames = cap_frames(&shared.name, shared.block_bytes, shared.pagers, bytes)?;
        shared.cap_frames.store(frames, Ordering::Relaxed);
        (0..shared.pagers).for_each(|pager| shared.send(pager, Command::Look));
        Ok(())
    }

    /// Brings a range into memory and keeps it resident. Memory that is passed to a system call
    /// must be pinned first if the region cannot handle the faults of system calls
    /// ([`Region::serves_system_calls`]).
    ///
    /// # Errors
    /// [`RegionError::Range`]; [`RegionError::Cap`] for a range that is larger than the cap;
    /// [`RegionError::Read`] when a block cannot be read; [`RegionError::Timeout`] when other pins
    /// hold the frames that it needs.
    pub fn pin(&self, offset: u64, len: u64) -> Result<Pin, RegionError> {
        let blocks = self.blocks(offset, len)?;
        self.check_cap(&blocks)?;
        let shared = &self.shared;
        // Write-protected blocks must be unprotected for system calls, which only their pager does.
        let is_by_pager = shared.method == Method::Copy && !self.serves_system_calls();
        let is_missing = |block: &usize| is_by_pager || !shared.words[*block].try_pin();
        let missing: Vec<usize> = blocks.clone().filter(is_missing).collect();
        let (offset, len) = (to_usize(offset), to_usize(len));
        // On failure the pins that were taken are released.
        let mut got = blocks.clone().collect::<Vec<_>>();
        got.retain(|block| missing.binary_search(block).is_err());
        if let Err(error) = self.want(Want::Pin, missing, &mut got) {
            got.into_iter().for_each(|block| shared.words[block].unpin());
            return Err(error);
        }
        Ok(Pin::new(shared, blocks, offset, len))
    }

    /// Checks that all of these blocks can be resident at a time.
    fn check_cap(&self, blocks: &Range<usize>) -> Result<(), RegionError> {
        let shared = &self.shared;
        let most = shared.blocks_max();
        let mut wanted = vec![0; shared.pagers];
        blocks.clone().for_each(|block| wanted[shared.pager_of(block)] += 1);
        if wanted.into_iter().all(|wanted: usize| wanted <= most) {
            return Ok(());
        }
        let (region, cap, pagers) = (shared.name.clone(), self.cap_bytes(), shared.pagers);
        let bytes = to_u64(blocks.len() * shared.block_bytes);
        Err(RegionError::Cap { region, bytes, cap, pagers })
    }

    /// Starts to read a range ahead of its use, without waiting. If the range is larger than may be
    /// read ahead at a time, only its first blocks are read. Blocks that have not been touched for
    /// long are evicted for them.
    ///
    /// # Errors
    /// [`RegionError::Range`].
    pub fn prefetch(&self, offset: u64, len: u64) -> Result<(), RegionError> {
        let shared = &self.shared;
        let mut room = vec![shared.blocks_ahead_max(); shared.pagers];
        let fits = |block: &usize| {
            let room = &mut room[shared.pager_of(*block)];
            let fits = *room > 0;
            *room = room.saturating_sub(1);
            fits
        };
        shared.send_parts(self.blocks(offset, len)?.filter(fits), Command::Ahead);
        Ok(())
    }

    /// Evicts a range, writing dirty blocks back first. Blocks that could not be read are not in
    /// memory and are skipped.
    ///
    /// # Errors
    /// [`RegionError::Range`]; [`RegionError::Write`] for a block that cannot be written back and
    /// stays resident, while the others are evicted; [`RegionError::Timeout`] while blocks are
    /// pinned.
    pub fn evict(&self, offset: u64, len: u64) -> Result<(), RegionError> {
        let blocks = self.blocks(offset, len)?.collect();
        self.want(Want::Evict, blocks, &mut Vec::new())
    }

    /// Makes all writes to a range before this call durable; its blocks stay resident. Blocks that
    /// could not be read cannot have been written to and are skipped.
    ///
    /// # Errors
    /// [`RegionError::Range`]; [`RegionError::Write`] for a block that the source refuses, or
    /// [`RegionError::Timeout`] while blocks are pinned, in both cases with all other blocks
    /// durable; and [`RegionError::Sync`] when the source fails to sync. A failed sync is
    /// permanent, because it is unknown which writes were lost.
    pub fn flush(&self, offset: u64, len: u64) -> Result<(), RegionError> {
        let written = self.flush_blocks(self.blocks(offset, len)?);
        let synced = self.shared.sync();
        written.and(synced)
    }

    /// Returns an error if a pager has failed.
    pub(crate) fn check_pagers(&self) -> Result<(), RegionError> {
        match &*lock(&self.shared.broken) {
            Some(message) => {
                let (region, message) = (self.shared.name.clone(), message.clone());
                Err(RegionError::Broken { region, message })
            }
            None => Ok(()),
        }
    }

    /// Returns an error in a process other than the one that runs the pagers.
    fn check_process(&self) -> Result<(), RegionError> {
        if self.process == process::id() {
            return Ok(());
        }
        let region = self.shared.name.clone();
        let message = format!("it is process {}'s; this one was forked off it", self.process);
        Err(RegionError::Broken { region, message })
    }

    fn flush_blocks(&self, blocks: Range<usize>) -> Result<(), RegionError> {
        self.want(Want::Flush, blocks.collect(), &mut Vec::new())
    }

    /// Sends a request for blocks to their pagers and waits for it. Appends the blocks that were
    /// done to `got` (pins only).
    fn want(
        &self,
        want: Want,
        blocks: Vec<usize>,
        got: &mut Vec<usize>,
    ) -> Result<(), RegionError> {
        if blocks.is_empty() {
            return Ok(());
        }
        self.check_process()?;
        let start = Instant::now();
        let waiter = Arc::new(Waiter::new(blocks.len(), want == Want::Pin));
        self.shared.send_parts(blocks, |part| Command::Want(want, part, Arc::clone(&waiter)));
        let result = waiter.wait(self.patience);
        got.extend(waiter.take_done());
        result.map_err(|error| {
            error.unwrap_or_else(|| RegionError::Timeout {
                region: self.shared.name.clone(),
                blocks: waiter.left(),
                waited: start.elapsed(),
            })
        })
    }

    /// Checks that a range lies inside of the region, and returns its end.
    pub(crate) fn check(&self, offset: u64, len: u64) -> Result<u64, RegionError> {
        let all = to_u64(self.shared.len);
        let end = offset.checked_add(len).filter(|end| *end <= all);
        end.ok_or_else(|| self.outside(offset, len, all))
    }

    pub(crate) fn outside(&self, offset: u64, len: u64, all: u64) -> RegionError {
        RegionError::Range { region: self.shared.name.clone(), offset, len, all }
    }

    /// Returns the blocks that a range overlaps.
    fn blocks(&self, offset: u64, len: u64) -> Result<Range<usize>, RegionError> {
        let end = self.check(offset, len)?;
        let block = to_u64(self.shared.block_bytes);
        let first = to_usize(offset / block);
        Ok(first..if len == 0 { first } else { to_usize(end.div_ceil(block)) })
    }
}

/// Claims the region's bytes of a file for exclusive use; `None` if the source is not a file.
fn claim(region: &str, source: &Source) -> Result<Option<Claim>, RegionError> {
    let Some(file) = source.blocks.file() else { return Ok(None) };
    let (region, offset, len) = (region.to_owned(), source.offset, source.len);
    let claim = Claim::take(&file, offset..offset.saturating_add(len));
    claim.map(Some).map_err(|source| RegionError::InUse { region, offset, len, source })
}

impl Drop for Region {
    /// Writes dirty blocks back and syncs the source, if its contents outlive the region.
    fn drop(&mut self) {
        if self.process != process::id() {
            // A forked child has neither the pagers nor the memory.
            let _elsewhere = ManuallyDrop::new(std::mem::take(&mut self.threads));
            return;
        }
        let lasts = self.shared.source.contents == Contents::Stored;
        if lasts && self.threads.len() == self.shared.pagers {
            // No new pins can be taken; blocks that are still pinned are written from their mapped
            // pages.
            let all = 0..self.shared.words.len();
            let (mut saved, rest): (Vec<_>, _) =
                all.clone().partition(|block| self.shared.words[*block].is_pinned());
            if self.want(Want::Flush, rest, &mut Vec::new()).is_err() {
                // The kernel holds pages of some blocks in place, or the source refused a write:
                // dirty blocks are written from their mapped pages.
                saved = all.collect();
            }
            if let Err(error) = self.want(Want::Save, saved, &mut Vec::new()) {
                tracing::error!(%error, "what was written to a region is lost with it");
            }
            if let Err(error) = self.shared.sync() {
                tracing::error!(%error, "what was written to a region is not known to be durable");
            }
        }
        self.shared.stop.store(true, Ordering::Release);
        self.shared.inboxes.iter().for_each(|command_queue| command_queue.bell.ring());
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!(region = self.shared.name, "a pager has panicked");
            }
        }
    }
}
