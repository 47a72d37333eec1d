//! State that a region's pagers and its callers share, and its creation from a configuration.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use terrace_ledger::{Class, Consumer};
use terrace_sys::histogram::Recorder;
use terrace_sys::map::Mapping;
use terrace_sys::numa::memory_bytes;
use terrace_sys::size::{PAGE_BYTES, format_bytes, to_u64, to_usize};
use terrace_sys::sync::lock;
use terrace_sys::userfault::{FaultsOf, Userfault};

use crate::block::{Block, Word};
use crate::calibrate;
use crate::command_queue::{Command, CommandQueue};
use crate::config::{
    BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, Contents, DEPTH_MAX, HUGE_BYTES, Method, RegionConfig, Source,
};
use crate::error::RegionError;
use crate::parts::Parts;
use crate::stats::Counters;
use crate::userfault::open_fault;

/// Smallest stripe, the run of adjacent blocks that one pager serves, and the maximum number of
/// stripes, which keeps the kernel's mappings of a region few.
const STRIPE_BYTES_MIN: usize = 16 << 20;
const STRIPES_MAX: usize = 4096;
/// Maximum number of pagers of a region.
const PAGERS_MAX: usize = 64;
/// Divisor of a pager's blocks: this share is kept free of prefetch and readahead.
const AHEAD_ROOM: usize = 8;

/// State that a region's pagers and its callers share.
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) source: Source,
    pub(crate) method: Method,
    /// Faults that the pagers may handle: those of all code or of user code alone.
    pub(crate) faults: FaultsOf,
    /// True if every pager has io_uring.
    pub(crate) has_rings: AtomicBool,
    pub(crate) mapping: Arc<Mapping>,
    pub(crate) block_bytes: usize,
    /// Length of the region in bytes, whole pages.
    pub(crate) len: usize,
    /// Bytes that transfers cover: all of them, unless the source ends inside of the last page and
    /// does not grow.
    pub(crate) source_len: usize,
    /// Length that a file is cut to after its last block is written, if it ends inside of a page.
    pub(crate) file_end: Option<u64>,
    pub(crate) parts: Parts,
    /// Error of the first sync that failed. Earlier writes may be lost, and a later sync would not
    /// report it again.
    unsynced: Mutex<Option<String>>,
    /// Failure of the first pager that stopped.
    pub(crate) broken: Mutex<Option<String>>,
    /// Number of adjacent blocks that one pager serves before those of the next begin.
    pub(crate) stripe_blocks: usize,
    pub(crate) pagers: usize,
    pub(crate) depth: usize,
    /// Shared state of each block.
    pub(crate) words: Box<[Word]>,
    pub(crate) consumer: Consumer,
    /// Maximum number of frames of each pager, and the current number of frames of all pagers.
    pub(crate) cap_frames: AtomicUsize,
    pub(crate) frames: AtomicUsize,
    /// Maximum number of blocks of a readahead window.
    pub(crate) ahead_blocks: usize,
    /// True if sequential streams are read ahead.
    pub(crate) looks_ahead: AtomicBool,
    pub(crate) inboxes: Vec<CommandQueue>,
    /// True once the region is being dropped: the pagers end.
    pub(crate) stop: AtomicBool,
    /// Number of blocks that the source refuses to take.
    pub(crate) stuck: AtomicUsize,
    pub(crate) counters: Counters,
    pub(crate) recorders: Vec<Recorder>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("name", &self.name)
            .field("source", &self.source)
            .field("method", &self.method)
            .field("block_bytes", &self.block_bytes)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn has_huge_pages(&self) -> bool {
        has_huge_pages(self.method, self.block_bytes)
    }

    /// Offset of a block in the region.
    pub(crate) fn offset(&self, block: usize) -> usize {
        block * self.block_bytes
    }

    pub(crate) fn block_len(&self, block: usize) -> usize {
        self.block_bytes.min(self.len - block * self.block_bytes)
    }

    /// Bytes of a block that are transferred.
    pub(crate) fn transfer_len(&self, block: usize) -> usize {
        self.block_len(block).min(self.source_len - block * self.block_bytes)
    }

    pub(crate) fn pager_of(&self, block: usize) -> usize {
        block / self.stripe_blocks % self.pagers
    }

    pub(crate) fn send(&self, pager: usize, command: Command) {
        self.inboxes[pager].send(command);
    }

    /// Maximum number of blocks of a pager that can be resident at a time. Where blocks are copied,
    /// one frame is kept as the buffer to copy from.
    pub(crate) fn blocks_max(&self) -> usize {
        let frames = self.cap_frames.load(Ordering::Relaxed);
        frames - usize::from(self.method == Method::Copy)
    }

    /// Maximum number of blocks of a pager that are read ahead of demand at a time; the rest is
    /// room for blocks that threads touch meanwhile.
    pub(crate) fn blocks_ahead_max(&self) -> usize {
        let most = self.blocks_max();
        (most - most.div_ceil(AHEAD_ROOM)).max(1)
    }

    /// Syncs the source. The first error is kept and returned from then on, because a device
    /// reports a failed write once and then drops the bytes.
    pub(crate) fn sync(&self) -> Result<(), RegionError> {
        let mut unsynced = lock(&self.unsynced);
        if unsynced.is_none()
            && let Err(error) = self.source.blocks.sync()
        {
            self.counters.break_for(error.to_string());
            *unsynced = Some(error.to_string());
        }
        match &*unsynced {
            Some(message) => {
                let (region, message) = (self.name.clone(), message.clone());
                Err(RegionError::Sync { region, message })
            }
            None => Ok(()),
        }
    }

    /// Returns the error of a block that cannot be read.
    pub(crate) fn unreadable(&self, block: usize, message: &str) -> RegionError {
        let (region, offset) = (self.name.clone(), to_u64(self.offset(block)));
        RegionError::Read { region, offset, message: message.to_owned() }
    }

    /// Returns the error of a block that cannot be written.
    pub(crate) fn unwritable(&self, block: usize, message: &str) -> RegionError {
        let (region, offset) = (self.name.clone(), to_u64(self.offset(block)));
        RegionError::Write { region, offset, message: message.to_owned() }
    }

    /// Sends each pager the blocks of its stripes.
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

impl Shared {
    /// Creates the shared state from a configuration that [`check`] has accepted.
    pub(crate) fn new(config: RegionConfig, source: Source) -> Result<Self, RegionError> {
        let (name, block_bytes) = (config.name, config.block_bytes);
        let file_end = file_end(&name, &source)?;
        let source_len = source_len(&name, &source)?;
        let mapping = Mapping::reserve(to_usize(source.len))
            .map_err(system(&name, "reserving the region's addresses"))?;
        // The cap limits resident memory, even if this process locks its memory (`mlockall`).
        mapping.unlock().map_err(system(&name, "unlocking the region's addresses"))?;
        // A child process must not share pages that move.
        mapping.leave_out_of_forks().map_err(system(&name, "keeping the region out of forks"))?;
        let len = mapping.len();
        let blocks = len.div_ceil(block_bytes);
        let stripe_bytes = STRIPE_BYTES_MIN.max(len.div_ceil(STRIPES_MAX));
        let pagers = config.pagers;
        let fault = open_fault(&name)?;
        let method = method(&name, &fault, config.method, block_bytes)?;
        // Fails on kernels without huge pages, where there is nothing to request or to decline.
        let _ = mapping.advise_huge(has_huge_pages(method, block_bytes));
        let inboxes = (0..pagers).map(|_| CommandQueue::new()).collect::<Result<Vec<_>, _>>();
        Ok(Self {
            cap_frames: AtomicUsize::new(cap_frames(&name, block_bytes, pagers, config.cap_bytes)?),
            consumer: config.ledger.register(&name, Class::Region),
            inboxes: inboxes.map_err(system(&name, "making a doorbell"))?,
            source,
            method,
            faults: fault.faults(),
            has_rings: AtomicBool::new(true),
            mapping: Arc::new(mapping),
            block_bytes,
            len,
            source_len: source_len.min(len),
            file_end,
            parts: Parts::default(),
            unsynced: Mutex::default(),
            broken: Mutex::default(),
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

/// Metadata of each block in bytes.
const BLOCK_NOTES_BYTES: u64 = to_u64(size_of::<Word>() + size_of::<Block>());

/// Checks the sizes and counts of a configuration.
pub(crate) fn check(config: &RegionConfig, source: &Source) -> Result<(), RegionError> {
    let wrong = |reason: String| RegionError::Config { region: config.name.clone(), reason };
    let block_bytes = config.block_bytes;
    if !block_bytes.is_power_of_two() || !(BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&block_bytes)
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
    // No overflow: below 2^51 blocks of some hundred bytes each.
    let notes = source.len.div_ceil(to_u64(block_bytes)) * BLOCK_NOTES_BYTES;
    if notes > memory_bytes() / 2 {
        let all = [source.len, to_u64(block_bytes), notes].map(format_bytes);
        return Err(wrong(format!(
            "{} in blocks of {} need {} of notes, more than half of this machine's memory; larger \
             blocks need less",
            all[0], all[1], all[2]
        )));
    }
    if !(1..=PAGERS_MAX).contains(&config.pagers) {
        return Err(wrong(format!("{} pagers cannot be; 1 to 64 can", config.pagers)));
    }
    if !(1..=DEPTH_MAX).contains(&config.depth) {
        return Err(wrong(format!("{} blocks at a time cannot be; 1 to 16 can", config.depth)));
    }
    Ok(())
}

/// Returns the paging method: the requested one, or the cheaper one by measurement.
fn method(
    name: &str,
    fault: &Userfault,
    requested: Option<Method>,
    block_bytes: usize,
) -> Result<Method, RegionError> {
    match (requested, fault.features().moves) {
        (Some(Method::Move), false) => {
            let reason = "the kernel does not move pages (Linux 6.8 does)".to_owned();
            Err(RegionError::Config { region: name.to_owned(), reason })
        }
        (Some(method), _) => Ok(method),
        (None, false) => Ok(Method::Copy),
        (None, true) => {
            let huge = has_huge_pages(Method::Move, block_bytes);
            Ok(calibrate::cheaper(fault, block_bytes, huge))
        }
    }
}

/// True if blocks may be made of huge pages, which are moved as such. The region's mapping then is
/// advised to use huge pages as well: a page table of small pages at the fault address would make
/// the kernel split the huge page that is moved there. Not for blocks smaller than a huge page,
/// which would split it, nor for copied ones, which are made of small pages.
fn has_huge_pages(method: Method, block_bytes: usize) -> bool {
    method == Method::Move && block_bytes >= HUGE_BYTES
}

/// Returns the length that a file must have after every write of the region's last block, if the
/// file ends inside of a page of the region.
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

/// Returns the bytes of the region that transfers cover. A file grows by whole pages and is cut
/// afterwards; a source with a fixed end is not written beyond it.
fn source_len(name: &str, source: &Source) -> Result<usize, RegionError> {
    let whole = source.len.next_multiple_of(to_u64(PAGE_BYTES));
    let Some(file) = source.blocks.file() else {
        let alignment = source.blocks.alignment_bytes().max(1);
        return Ok(to_usize(source.len.next_multiple_of(alignment).min(whole)));
    };
    if !file.is_block_device() {
        return Ok(to_usize(whole));
    }
    let all = file.len().map_err(system(name, "asking for the device's length"))?;
    let left = all.saturating_sub(source.offset);
    if left < source.len {
        let (region, (len, offset)) = (name.to_owned(), (source.len, source.offset));
        let reason = format!("{len} bytes at {offset} of a device: it has {all}");
        return Err(RegionError::Config { region, reason });
    }
    Ok(to_usize(whole.min(left)))
}

pub(crate) fn system(
    region: &str,
    what: &'static str,
) -> impl FnOnce(std::io::Error) -> RegionError {
    let region = region.to_owned();
    move |source| RegionError::System { region, what, source }
}

/// Returns the maximum number of frames of each pager.
pub(crate) fn cap_frames(
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
