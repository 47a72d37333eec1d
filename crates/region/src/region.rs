//! A region as its users see it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use terrace_market::{Class, Consumer};
use terrace_sys::histogram::Recorder;
use terrace_sys::map::Mapping;
use terrace_sys::size::{PAGE_BYTES, format_bytes, to_u64, to_usize};

use crate::block::Word;
use crate::calibrate;
use crate::config::{
    BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, Contents, DEPTH_MAX, HUGE_BYTES, Method, RegionConfig, Source,
};
use crate::error::RegionError;
use crate::inbox::{Command, Inbox, Want};
use crate::pager::{Pager, open_fault};
use crate::stats::{Counters, RegionStats};
use crate::waiter::Waiter;

/// Blocks next to each other that one pager serves: at least so many bytes, and so few parts of a
/// region that the kernel has mappings for them.
const STRIPE_BYTES_MIN: usize = 16 << 20;
const STRIPES_MAX: usize = 4096;
/// Pagers of a region at most.
const PAGERS_MAX: usize = 64;

/// What a region's pagers and its users share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) source: Source,
    pub(crate) method: Method,
    pub(crate) mapping: Arc<Mapping>,
    pub(crate) block_bytes: usize,
    /// Bytes of the region, whole pages.
    pub(crate) len: usize,
    /// Bytes of the source when it is a file that ends inside of the last page.
    pub(crate) file_end: Option<u64>,
    pub(crate) stripe_blocks: usize,
    pub(crate) pagers: usize,
    pub(crate) depth: usize,
    pub(crate) words: Box<[Word]>,
    pub(crate) consumer: Consumer,
    /// Frames of each pager, at most and now.
    pub(crate) cap_frames: AtomicUsize,
    pub(crate) frames: AtomicUsize,
    pub(crate) ahead_blocks: usize,
    pub(crate) looks_ahead: AtomicBool,
    pub(crate) inboxes: Vec<Inbox>,
    pub(crate) stop: AtomicBool,
    /// Blocks that the source refuses to take.
    pub(crate) stuck: AtomicUsize,
    pub(crate) counters: Counters,
    pub(crate) recorders: Vec<Recorder>,
}

impl Shared {
    pub(crate) fn has_huge_pages(&self) -> bool {
        has_huge_pages(self.method, self.block_bytes)
    }

    pub(crate) fn block_len(&self, block: usize) -> usize {
        self.block_bytes.min(self.len - block * self.block_bytes)
    }

    pub(crate) fn pager_of(&self, block: usize) -> usize {
        block / self.stripe_blocks % self.pagers
    }

    pub(crate) fn send(&self, pager: usize, command: Command) {
        self.inboxes[pager].send(command);
    }

    /// Sends each pager its part of the blocks.
    pub(crate) fn send_parts(
        &self,
        blocks: impl IntoIterator<Item = usize>,
        command: impl Fn(Vec<usize>) -> Command,
    ) {
        let mut parts = vec![Vec::new(); self.pagers];
        blocks.into_iter().for_each(|block| parts[self.pager_of(block)].push(block));
        for (pager, part) in parts.into_iter().enumerate().filter(|(_, part)| !part.is_empty()) {
            self.send(pager, command(part));
        }
    }
}

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
/// A region is not inherited by a child process (`fork`): its addresses are not mapped there.
#[derive(Debug)]
pub struct Region {
    shared: Arc<Shared>,
    patience: Duration,
    threads: Vec<JoinHandle<()>>,
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
    /// [`RegionError::Config`] for sizes that cannot be; [`RegionError::Platform`] when the kernel
    /// has no userfaultfd or io_uring for this process; [`RegionError::System`] when memory, a
    /// thread or the budget for two blocks of each pager is not to be had.
    pub fn new(config: RegionConfig, source: Source) -> Result<Self, RegionError> {
        let patience = config.patience;
        let shared = Arc::new(Shared::new(config, source)?);
        let mut region = Self { shared: Arc::clone(&shared), patience, threads: Vec::new() };
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
    /// When it is outside.
    #[must_use]
    pub fn load(&self, offset: usize) -> u8 {
        self.atomic(offset).load(Ordering::Relaxed)
    }

    /// Changes a byte by an atomic store, as [`Region::load`] reads it.
    ///
    /// # Panics
    /// When it is outside.
    pub fn store(&self, offset: usize, value: u8) {
        self.atomic(offset).store(value, Ordering::Relaxed);
    }

    fn atomic(&self, offset: usize) -> &AtomicU8 {
        assert!(offset < self.len(), "byte {offset} of a region of {}", self.len());
        // SAFETY: the byte is inside of the mapping, which lives as long as the region; whoever
        // uses its address otherwise answers for races.
        unsafe { AtomicU8::from_ptr(self.as_ptr().add(offset)) }
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

    /// Brings a range into memory and keeps it there. What a system call must not find absent,
    /// where faults of the kernel are not told, is pinned before.
    ///
    /// # Errors
    /// [`RegionError::Range`]; [`RegionError::Read`] when a block cannot be read;
    /// [`RegionError::Timeout`] when others keep the frames that it takes.
    pub fn pin(&self, offset: u64, len: u64) -> Result<Pin, RegionError> {
        let blocks = self.blocks(offset, len)?;
        let shared = &self.shared;
        let missing: Vec<usize> =
            blocks.clone().filter(|block| !shared.words[*block].try_pin()).collect();
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

    /// Asks for a range ahead of its use, and does not wait.
    ///
    /// # Errors
    /// [`RegionError::Range`].
    pub fn prefetch(&self, offset: u64, len: u64) -> Result<(), RegionError> {
        self.shared.send_parts(self.blocks(offset, len)?, Command::Ahead);
        Ok(())
    }

    /// Says how a range is used. [`Advice::Unused`] and [`Advice::Used`] neither wait nor allocate.
    ///
    /// # Errors
    /// [`RegionError::Range`].
    pub fn advise(&self, offset: u64, len: u64, advice: Advice) -> Result<(), RegionError> {
        let blocks = self.blocks(offset, len)?;
        match advice {
            Advice::Sequential => self.shared.looks_ahead.store(true, Ordering::Relaxed),
            Advice::Random => self.shared.looks_ahead.store(false, Ordering::Relaxed),
            Advice::Immutable | Advice::Mutable => {
                // What was written before the advice is kept.
                if advice == Advice::Immutable {
                    self.flush_blocks(blocks.clone())?;
                }
                let immutable = advice == Advice::Immutable;
                blocks.for_each(|block| self.shared.words[block].set_immutable(immutable));
            }
            Advice::Unused => self.tell_unused(offset, len),
            Advice::Used => blocks.for_each(|block| self.shared.words[block].set_used()),
        }
        Ok(())
    }

    /// Takes a range out of memory, written back where it has changed.
    ///
    /// # Errors
    /// [`RegionError::Range`]; [`RegionError::Write`] for a block that stays;
    /// [`RegionError::Timeout`] while blocks are pinned.
    pub fn evict(&self, offset: u64, len: u64) -> Result<(), RegionError> {
        let blocks = self.blocks(offset, len)?.collect();
        self.want(Want::Evict, blocks, &mut Vec::new())
    }

    /// Makes what was written to a range before this call durable. It stays in memory.
    ///
    /// # Errors
    /// [`RegionError::Range`]; [`RegionError::Write`] for a block that the source refuses;
    /// [`RegionError::Sync`] when the source does not sync; [`RegionError::Timeout`] while blocks
    /// are pinned.
    pub fn flush(&self, offset: u64, len: u64) -> Result<(), RegionError> {
        self.flush_blocks(self.blocks(offset, len)?)?;
        self.shared.source.blocks.sync().map_err(|error| RegionError::Sync {
            region: self.shared.name.clone(),
            message: error.to_string(),
        })
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
        let start = Instant::now();
        let waiter = Arc::new(Waiter::new(blocks.len()));
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

    /// The blocks of a range.
    fn blocks(&self, offset: u64, len: u64) -> Result<Range<usize>, RegionError> {
        let all = to_u64(self.shared.len);
        let end = offset.checked_add(len).filter(|end| *end <= all);
        let Some(end) = end else {
            return Err(RegionError::Range { region: self.shared.name.clone(), offset, len, all });
        };
        let block = to_u64(self.shared.block_bytes);
        let first = to_usize(offset / block);
        Ok(first..if len == 0 { first } else { to_usize(end.div_ceil(block)) })
    }
}

impl Drop for Region {
    /// Writes back what has changed, where the source is one that lasts.
    fn drop(&mut self) {
        let lasts = self.shared.source.contents == Contents::Stored;
        if lasts && self.threads.len() == self.shared.pagers {
            let all = 0..self.shared.words.len();
            if let Err(error) = self.flush_blocks(all) {
                tracing::error!(%error, "what was written to a region is lost with it");
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

pub(crate) fn system(
    region: &str,
    what: &'static str,
) -> impl FnOnce(std::io::Error) -> RegionError {
    let region = region.to_owned();
    move |source| RegionError::System { region, what, source }
}

/// Frames of each pager.
fn cap_frames(
    region: &str,
    block_bytes: usize,
    pagers: usize,
    cap_bytes: u64,
) -> Result<usize, RegionError> {
    let frames = to_usize(cap_bytes) / block_bytes / pagers;
    if frames >= 2 {
        return Ok(frames);
    }
    let least = format_bytes(to_u64(2 * block_bytes * pagers));
    let reason =
        format!("a cap of {} is too small; it takes {least} at least", format_bytes(cap_bytes));
    Err(RegionError::Config { region: region.to_owned(), reason })
}

impl Shared {
    fn new(config: RegionConfig, source: Source) -> Result<Self, RegionError> {
        let name = config.name;
        let wrong = |reason: String| RegionError::Config { region: name.clone(), reason };
        let block_bytes = config.block_bytes;
        if !block_bytes.is_power_of_two()
            || !(BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&block_bytes)
        {
            return Err(wrong(format!(
                "a block of {block_bytes} bytes cannot be; powers of two from 4 KiB to 4 MiB can"
            )));
        }
        if !source.offset.is_multiple_of(to_u64(PAGE_BYTES)) || source.len == 0 {
            return Err(wrong(format!(
                "{} bytes from {} on of the source cannot be mapped; an offset is a multiple of 4 \
                 KiB, and a region has bytes",
                source.len, source.offset
            )));
        }
        let end = source.offset.checked_add(source.len);
        let end = end.and_then(|end| end.checked_next_multiple_of(to_u64(PAGE_BYTES)));
        if end.is_none_or(|end| i64::try_from(end).is_err()) {
            return Err(wrong(format!(
                "{} bytes from {} on of the source cannot be mapped; a source ends below 8 EiB",
                source.len, source.offset
            )));
        }
        if !(1..=PAGERS_MAX).contains(&config.pagers) {
            return Err(wrong(format!("{} pagers cannot be; 1 to 64 can", config.pagers)));
        }
        if !(1..=DEPTH_MAX).contains(&config.depth) {
            return Err(wrong(format!("{} blocks at a time cannot be; 1 to 16 can", config.depth)));
        }
        let file_end = file_end(&name, &source)?;
        let mapping = Mapping::reserve(to_usize(source.len))
            .map_err(system(&name, "reserving the region's addresses"))?;
        // A child must not share pages that move.
        mapping.leave_out_of_forks().map_err(system(&name, "keeping the region out of forks"))?;
        let len = mapping.len();
        let blocks = len.div_ceil(block_bytes);
        let stripe_bytes = STRIPE_BYTES_MIN.max(len.div_ceil(STRIPES_MAX));
        let pagers = config.pagers;
        let method = method(&name, config.method, block_bytes)?;
        // Where there are no huge pages there is nothing to ask for or to decline.
        let _ = mapping.advise_huge(has_huge_pages(method, block_bytes));
        let inboxes = (0..pagers).map(|_| Inbox::new()).collect::<Result<Vec<_>, _>>();
        Ok(Self {
            cap_frames: AtomicUsize::new(cap_frames(&name, block_bytes, pagers, config.cap_bytes)?),
            consumer: config.ledger.register(&name, Class::Region),
            inboxes: inboxes.map_err(system(&name, "making a doorbell"))?,
            source,
            method,
            mapping: Arc::new(mapping),
            block_bytes,
            len,
            file_end,
            stripe_blocks: stripe_bytes.div_ceil(block_bytes),
            pagers,
            depth: config.depth,
            words: (0..blocks).map(|_| Word::default()).collect(),
            frames: AtomicUsize::new(0),
            ahead_blocks: config.ahead_bytes / block_bytes,
            looks_ahead: AtomicBool::new(config.ahead_bytes > 0),
            stop: AtomicBool::new(false),
            stuck: AtomicUsize::new(0),
            counters: Counters::default(),
            recorders: (0..pagers).map(|_| Recorder::new()).collect(),
            name,
        })
    }
}

/// How blocks get into their place: as it was asked for, or the cheaper way.
fn method(name: &str, asked: Option<Method>, block_bytes: usize) -> Result<Method, RegionError> {
    let fault = open_fault(name)?;
    match (asked, fault.features().moves) {
        (Some(Method::Move), false) => {
            let reason = "the kernel does not move pages (Linux 6.8 does)".to_owned();
            Err(RegionError::Config { region: name.to_owned(), reason })
        }
        (Some(method), _) => Ok(method),
        (None, false) => Ok(Method::Copy),
        (None, true) => {
            let huge = has_huge_pages(Method::Move, block_bytes);
            Ok(calibrate::cheaper(&fault, block_bytes, huge))
        }
    }
}

/// Whether a block may be made of huge pages, which are moved as such. A fault then asks for a huge
/// page's entry too: a table of pages in its place would have the kernel split what is moved there.
/// Blocks that share a huge page would split it, and copied ones are made of pages.
fn has_huge_pages(method: Method, block_bytes: usize) -> bool {
    method == Method::Move && block_bytes >= HUGE_BYTES
}

/// Where a file ends that ends inside of the region's last page, and does so after every write.
fn file_end(name: &str, source: &Source) -> Result<Option<u64>, RegionError> {
    let Some(file) = source.blocks.file() else { return Ok(None) };
    if source.contents == Contents::Blank || file.is_block_device() {
        return Ok(None);
    }
    let len = file.len().map_err(system(name, "asking for the file's length"))?;
    let end = source.offset + source.len;
    Ok((len <= end.next_multiple_of(to_u64(PAGE_BYTES)) && !len.is_multiple_of(to_u64(PAGE_BYTES)))
        .then_some(len.max(end)))
}
