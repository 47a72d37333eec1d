//! A region as its users see it.

use std::mem::ManuallyDrop;
use std::ops::Range;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use terrace_sys::claim::Claim;
use terrace_sys::size::{to_u64, to_usize};
use terrace_sys::userfault::FaultsOf;

use crate::config::{Contents, Method, RegionConfig, Source};
use crate::error::RegionError;
use crate::inbox::{Command, Want};
use crate::lock;
use crate::pager::Pager;
use crate::parts::{Parts, Taken, first_within};
use crate::shared::{self, Shared, cap_frames, system};
use crate::stats::RegionStats;
use crate::waiter::Waiter;

/// What users say of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Blocks are touched one after the other: the next ones are asked for ahead, as without
    /// advice. Holds for the whole region.
    Sequential,
    /// Blocks are touched in no order: nothing is asked for ahead. Holds for the whole region.
    Random,
    /// Bytes never change again: blocks leave without a look at whether they did. What is written
    /// to them nevertheless may be lost.
    Immutable,
    /// Bytes may change, as without advice.
    Mutable,
    /// Bytes are not needed any more. Blocks that lie in the range as a whole leave without being
    /// written, and are read as zeros or as they were, until they are used again.
    Unused,
    /// Bytes are used again, as without advice, and may change; said before they are written to.
    Used,
}

/// Memory over a source. See the crate's documentation.
///
/// The addresses are valid until the region is dropped. Who uses them answers for races among
/// threads, as with any memory; the region itself never changes a byte that is in place.
///
/// One system call over more blocks than the cap has frames waits for ever: it holds what it waits
/// for. Pins end before the region does.
///
/// A region is not inherited by a child process (`fork`): its addresses are not mapped there, and
/// dropping a child's copy does nothing.
///
/// A region has its bytes of a file alone: other regions, and stores, are refused them.
#[derive(Debug)]
pub struct Region {
    shared: Arc<Shared>,
    patience: Duration,
    threads: Vec<JoinHandle<()>>,
    /// Given back when the pagers have ended.
    _claim: Option<Claim>,
    /// The process that has the pagers.
    process: u32,
}

/// Blocks that stay where they are until this is dropped: in memory, at their addresses.
#[derive(Debug)]
pub struct Pin {
    shared: Arc<Shared>,
    blocks: Range<usize>,
    offset: usize,
    len: usize,
}

impl Pin {
    /// The first byte that was pinned.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.shared.mapping.as_ptr().wrapping_add(self.offset)
    }

    /// Bytes that were asked for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none were.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.blocks.clone().for_each(|block| self.shared.words[block].unpin());
    }
}

impl Region {
    /// Maps a source and starts its pagers.
    ///
    /// # Errors
    /// [`RegionError::Config`] for sizes that cannot be; [`RegionError::InUse`] when another region
    /// or a store has bytes of the source; [`RegionError::Platform`] when the kernel
    /// has no userfaultfd for this process; [`RegionError::System`] when memory, a
    /// thread or the budget for two blocks of each pager is not to be had.
    pub fn new(config: RegionConfig, source: Source) -> Result<Self, RegionError> {
        let patience = config.patience;
        shared::check(&config, &source)?;
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

    /// The first byte.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.shared.mapping.as_ptr()
    }

    /// Bytes, those of the source rounded up to a page of 4 KiB.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.len
    }

    /// Whether there are none; never true.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A byte, by an atomic load; who writes to it at the same time does so by atomics, too.
    ///
    /// # Panics
    /// When it is outside, or somebody has it as a [`Part`](crate::Part).
    #[must_use]
    pub fn load(&self, offset: usize) -> u8 {
        self.atomic(offset, |byte| byte.load(Ordering::Relaxed))
    }

    /// Changes a byte by an atomic store, as [`Region::load`] reads it.
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
            panic!("byte {offset} of region {} is a part of {}", self.name(), taken.holder);
        }
        // SAFETY: the byte is inside of the mapping, which lives as long as the region, and is no
        // part of anybody's while the list is held; whoever uses its address otherwise answers for
        // races.
        use_it(unsafe { AtomicU8::from_ptr(self.as_ptr().add(offset)) })
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.shared.parts
    }

    pub(crate) fn taken(&self, taken: &Taken, offset: u64, len: u64) -> RegionError {
        let (region, holder) = (self.shared.name.clone(), taken.holder.clone());
        RegionError::Taken { region, offset, len, holder }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Bytes of a block.
    #[must_use]
    pub fn block_bytes(&self) -> usize {
        self.shared.block_bytes
    }

    /// How blocks get into their place.
    #[must_use]
    pub fn method(&self) -> Method {
        self.shared.method
    }

    /// Whether system calls may be given any address of the region. Where this process may see
    /// faults of its own code alone (see PLATFORM.md), a system call that is given a block which is
    /// not in memory ends with `EFAULT`: what it is given is pinned before.
    #[must_use]
    pub fn serves_system_calls(&self) -> bool {
        self.shared.faults == FaultsOf::All
    }

    /// How blocks move to and from the source: `io_uring`, or `threads` where the source is no
    /// file or the kernel refuses io_uring to this process.
    #[must_use]
    pub fn engine(&self) -> &'static str {
        let is_file = self.shared.source.blocks.file().is_some();
        if is_file && self.shared.has_rings.load(Ordering::Relaxed) {
            "io_uring"
        } else {
            "threads"
        }
    }

    /// What it has done.
    #[must_use]
    pub fn stats(&self) -> RegionStats {
        let frames = self.shared.frames.load(Ordering::Relaxed);
        let resident_bytes = to_u64(frames * self.shared.block_bytes);
        self.shared.counters.stats(resident_bytes, &self.shared.recorders)
    }

    /// [`RegionStats::denied`] alone, which costs one load.
    #[must_use]
    pub fn denied(&self) -> u64 {
        self.shared.counters.denied.get()
    }

    /// How many bytes may be in memory.
    #[must_use]
    pub fn cap_bytes(&self) -> u64 {
        let shared = &self.shared;
        let frames = shared.cap_frames.load(Ordering::Relaxed) * shared.pagers;
        to_u64(frames * shared.block_bytes)
    }

    /// Changes how many bytes may be in memory; what is too much leaves soon.
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

    /// Brings a range into memory and keeps it there. What a system call is given is pinned before,
    /// where its faults are not told ([`Region::serves_system_calls`]).
    ///
    /// # Errors
    /// [`RegionError::Range`]; [`RegionError::Cap`] for more than may be in memory;
    /// [`RegionError::Read`] when a block cannot be read; [`RegionError::Timeout`] when others keep
    /// the frames that it takes.
    pub fn pin(&self, offset: u64, len: u64) -> Result<Pin, RegionError> {
        let blocks = self.blocks(offset, len)?;
        self.check_cap(&blocks)?;
        let shared = &self.shared;
        // Blocks that are protected are opened for system calls by their pager.
        let is_by_pager = shared.method == Method::Copy && !self.serves_system_calls();
        let is_missing = |block: &usize| is_by_pager || !shared.words[*block].try_pin();
        let missing: Vec<usize> = blocks.clone().filter(is_missing).collect();
        let (offset, len) = (to_usize(offset), to_usize(len));
        // What is pinned is given back by its drop, whatever happens to the rest.
        let mut got = blocks.clone().collect::<Vec<_>>();
        got.retain(|block| missing.binary_search(block).is_err());
        if let Err(error) = self.want(Want::Pin, missing, &mut got) {
            got.into_iter().for_each(|block| shared.words[block].unpin());
            return Err(error);
        }
        Ok(Pin { shared: Arc::clone(shared), blocks, offset, len })
    }

    /// Whether all of these blocks can be in memory at a time.
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

    /// Asks for a range ahead of its use, and does not wait: for its first blocks, if it is more
    /// than may be in memory at a time. What has not been touched for long leaves for them.
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

    /// Says how a range is used. [`Advice::Unused`] and [`Advice::Used`] neither wait nor allocate.
    ///
    /// # Errors
    /// [`RegionError::Range`]; for [`Advice::Immutable`] as [`Region::flush`];
    /// [`RegionError::Taken`] for advice by which bytes may be lost, of a range in which somebody
    /// has a [`Part`](crate::Part).
    pub fn advise(&self, offset: u64, len: u64, advice: Advice) -> Result<(), RegionError> {
        let blocks = self.blocks(offset, len)?;
        let loses = matches!(advice, Advice::Immutable | Advice::Unused);
        if loses && !blocks.is_empty() {
            // Bytes of immutable blocks are lost wherever in the block they are.
            let block_bytes = self.shared.block_bytes;
            let range = match advice {
                Advice::Immutable => blocks.start * block_bytes..blocks.end * block_bytes,
                _ => to_usize(offset)..to_usize(offset + len),
            };
            if advice == Advice::Immutable {
                self.flush_blocks(blocks)?;
            }
            let parts = self.shared.parts.read();
            if let Some(taken) = first_within(&parts, range) {
                return Err(self.taken(taken, offset, len));
            }
            return self.set_advice(offset, len, advice);
        }
        self.set_advice(offset, len, advice)
    }

    /// As [`Region::advise`], of bytes that are the caller's.
    pub(crate) fn advise_any(
        &self,
        offset: u64,
        len: u64,
        advice: Advice,
    ) -> Result<(), RegionError> {
        if advice == Advice::Immutable {
            self.flush_blocks(self.blocks(offset, len)?)?;
        }
        self.set_advice(offset, len, advice)
    }

    fn set_advice(&self, offset: u64, len: u64, advice: Advice) -> Result<(), RegionError> {
        let blocks = self.blocks(offset, len)?;
        match advice {
            Advice::Sequential => self.shared.looks_ahead.store(true, Ordering::Relaxed),
            Advice::Random => self.shared.looks_ahead.store(false, Ordering::Relaxed),
            Advice::Immutable | Advice::Mutable => {
                let immutable = advice == Advice::Immutable;
                blocks.for_each(|block| self.shared.words[block].set_immutable(immutable));
            }
            Advice::Unused => self.tell_unused(offset, len),
            Advice::Used => blocks.for_each(|block| self.shared.words[block].set_used()),
        }
        Ok(())
    }

    /// Takes a range out of memory, written back where it has changed. Of what could not be read
    /// there is nothing to take out.
    ///
    /// # Errors
    /// [`RegionError::Range`]; [`RegionError::Write`] for a block that stays, of which the others
    /// do not; [`RegionError::Timeout`] while blocks are pinned.
    pub fn evict(&self, offset: u64, len: u64) -> Result<(), RegionError> {
        let blocks = self.blocks(offset, len)?.collect();
        self.want(Want::Evict, blocks, &mut Vec::new())
    }

    /// Makes what was written to a range before this call durable. It stays in memory. To what
    /// could not be read nobody has written.
    ///
    /// # Errors
    /// [`RegionError::Range`]; [`RegionError::Write`] for a block that the source refuses, or
    /// [`RegionError::Timeout`] while blocks are pinned: all others are durable; and
    /// [`RegionError::Sync`] when the source does not sync, from then on for good: nobody knows
    /// what it has lost.
    pub fn flush(&self, offset: u64, len: u64) -> Result<(), RegionError> {
        let written = self.flush_blocks(self.blocks(offset, len)?);
        let synced = self.shared.sync();
        written.and(synced)
    }

    /// Whether all pagers do their work.
    pub(crate) fn check_pagers(&self) -> Result<(), RegionError> {
        match &*lock(&self.shared.broken) {
            Some(message) => {
                let (region, message) = (self.shared.name.clone(), message.clone());
                Err(RegionError::Broken { region, message })
            }
            None => Ok(()),
        }
    }

    /// Whether this is the process that has the pagers.
    fn check_process(&self) -> Result<(), RegionError> {
        if self.process == process::id() {
            return Ok(());
        }
        let region = self.shared.name.clone();
        let message = format!("it is process {}'s; this one was forked off it", self.process);
        Err(RegionError::Broken { region, message })
    }

    fn tell_unused(&self, offset: u64, len: u64) {
        let block = to_u64(self.shared.block_bytes);
        let end = offset + len;
        let is_all = end == to_u64(self.shared.len);
        let end = if is_all { end.div_ceil(block) } else { end / block };
        let whole = to_usize(offset.div_ceil(block))..to_usize(end);
        if whole.is_empty() {
            return;
        }
        whole.clone().for_each(|block| self.shared.words[block].set_unused());
        self.shared.inboxes.iter().for_each(|inbox| inbox.tell_unused(whole.clone()));
    }

    fn flush_blocks(&self, blocks: Range<usize>) -> Result<(), RegionError> {
        self.want(Want::Flush, blocks.collect(), &mut Vec::new())
    }

    /// Has pagers do something with blocks and waits for it; `got` are those that were done.
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

    /// Whether a range lies inside; its end.
    pub(crate) fn check(&self, offset: u64, len: u64) -> Result<u64, RegionError> {
        let all = to_u64(self.shared.len);
        let end = offset.checked_add(len).filter(|end| *end <= all);
        end.ok_or_else(|| self.outside(offset, len, all))
    }

    pub(crate) fn outside(&self, offset: u64, len: u64, all: u64) -> RegionError {
        RegionError::Range { region: self.shared.name.clone(), offset, len, all }
    }

    /// The blocks of a range.
    fn blocks(&self, offset: u64, len: u64) -> Result<Range<usize>, RegionError> {
        let end = self.check(offset, len)?;
        let block = to_u64(self.shared.block_bytes);
        let first = to_usize(offset / block);
        Ok(first..if len == 0 { first } else { to_usize(end.div_ceil(block)) })
    }
}

/// Takes the bytes of a file that a region is over for it alone.
fn claim(region: &str, source: &Source) -> Result<Option<Claim>, RegionError> {
    let Some(file) = source.blocks.file() else { return Ok(None) };
    let (region, offset, len) = (region.to_owned(), source.offset, source.len);
    let claim = Claim::take(&file, offset..offset.saturating_add(len));
    claim.map(Some).map_err(|source| RegionError::InUse { region, offset, len, source })
}

impl Drop for Region {
    /// Writes back what has changed and makes it durable, where the source is one that lasts.
    fn drop(&mut self) {
        if self.process != process::id() {
            // Neither the pagers nor the memory are here.
            let _elsewhere = ManuallyDrop::new(std::mem::take(&mut self.threads));
            return;
        }
        let lasts = self.shared.source.contents == Contents::Stored;
        if lasts && self.threads.len() == self.shared.pagers {
            // Nobody pins any more; what is still pinned is written from where it is.
            let all = 0..self.shared.words.len();
            let (mut saved, rest): (Vec<_>, _) =
                all.clone().partition(|block| self.shared.words[*block].is_pinned());
            if self.want(Want::Flush, rest, &mut Vec::new()).is_err() {
                // The kernel holds some in their place, or the source refused one: those that have
                // changed are written from there.
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
        self.shared.inboxes.iter().for_each(|inbox| inbox.bell.ring());
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!(region = self.shared.name, "a pager has panicked");
            }
        }
    }
}
