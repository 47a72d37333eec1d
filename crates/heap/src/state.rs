//! State of a heap: its range of memory and its arena, from their set-up to their end.

use std::io;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use terrace_ledger::Class;
use terrace_region::{Backing, Part, Pin, RegionError};
use terrace_sys::map::Mapping;
use terrace_sys::size::{PAGE_BYTES, to_u64};
use tikv_jemalloc_sys::{MALLOCX_ARENA, MALLOCX_TCACHE_NONE, dallocx, mallocx};

use crate::arena::{self, Arena, Refused};
use crate::blocks::UsedBlocks;
use crate::cache::CachesOfHeap;
use crate::config::{HeapConfig, Metadata, Retain};
use crate::error::{HeapError, refused};
use crate::hooks::{self, Memory, Range};
use crate::size_class::size_within;
use crate::stats::HeapStats;

/// Divisor for a range that also holds metadata: one part of the range in this many is left out of
/// the arena's first extent. Metadata of 128 bytes per page take a quarter of that part.
const TOGETHER_SHARE: usize = 8;
/// Maximum number of purges of an arena while another thread is purging it.
const PURGES_MAX: usize = 10_000;
/// Bytes of a region that are pinned while the arena's first block is written there.
const FIRST_BLOCK_BYTES: usize = 4 << 20;

/// State shared by the clones of a heap.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) name: String,
    kind: &'static str,
    metadata: Metadata,
    pub(crate) arena: Arena,
    /// Range with the hooks that jemalloc calls; it stays at its address until the arena is
    /// destroyed.
    pub(crate) range: Arc<Range>,
    pub(crate) thread_caches: bool,
    /// Number of the heap's life, unique in the process; a reset begins a new life.
    life: AtomicU64,
    caches: Arc<CachesOfHeap>,
}

static LIVES: AtomicU64 = AtomicU64::new(1);

impl Inner {
    /// Creates the state of a heap: its range, and its arena, set up as the configuration demands.
    ///
    /// # Errors
    /// As [`crate::Heap::new`].
    pub(crate) fn new(config: HeapConfig) -> Result<Self, HeapError> {
        config.check()?;
        let range = Arc::new(range(&config)?);
        let together = config.metadata == Metadata::Together;
        // A pager thread must never block on an allocator lock that is held by a thread with a
        // pending page fault.
        let _first = if together { first_block(&config)? } else { None };
        let data = Arc::as_ptr(&range).cast_mut().cast();
        let metadata = together.then(|| hooks::metadata_hooks(data));
        // SAFETY: the range begins with its hooks, and its `Arc` keeps it in place until the drop
        // of `Inner` destroys the arena, or for good if that fails. The range changes through its
        // lock and its atomics only.
        let arena = unsafe { Arena::create(metadata) };
        let arena = arena.map_err(refused(&config.name))?;
        let inner = Self {
            kind: config.memory.kind(),
            metadata: config.metadata,
            arena,
            range,
            thread_caches: config.thread_caches,
            life: AtomicU64::new(LIVES.fetch_add(1, Ordering::Relaxed)),
            caches: Arc::default(),
            name: config.name,
        };
        // SAFETY: as above.
        unsafe { inner.arena.set_data_hooks(data) }.map_err(refused(&inner.name))?;
        inner.set_up(config.retain, config.decay_ms).map_err(refused(&inner.name))?;
        if config.retain != Retain::Off {
            inner.take_addresses()?;
            inner.arena.keep_large_extents().map_err(refused(&inner.name))?;
        }
        Ok(inner)
    }

    fn set_up(&self, retain: Retain, decay_ms: Option<u32>) -> Result<(), Refused> {
        let growth = match retain {
            Retain::On { growth_bytes_max } => growth_bytes_max,
            Retain::Off => PAGE_BYTES,
        };
        self.arena.set_growth(growth)?;
        let decay = decay_ms.map_or(-1, |ms| isize::try_from(ms).unwrap_or(isize::MAX));
        self.arena.set_decay(decay)
    }

    /// Makes the arena take its range as one extent, which costs no memory. jemalloc merges only
    /// parts of the same extent, so freed memory can serve objects of any length again.
    fn take_addresses(&self) -> Result<(), HeapError> {
        let room = self.range.room();
        // Later blocks of metadata lie in the range, too.
        let bytes = size_within(match self.metadata {
            Metadata::Separate => room,
            Metadata::Together => room - room / PAGE_BYTES / TOGETHER_SHARE * PAGE_BYTES,
        });
        self.range.begin(bytes);
        let flags = MALLOCX_ARENA(self.arena.index()) | MALLOCX_TCACHE_NONE;
        // SAFETY: the size is not zero; the flags name a live arena, and no cache.
        let object = NonNull::new(unsafe { mallocx(bytes, flags) });
        let no_room = || HeapError::NoRoom { heap: self.name.clone(), bytes };
        // SAFETY: just allocated with these flags.
        unsafe { dallocx(object.ok_or_else(no_room)?.as_ptr(), flags) };
        for _ in 0..PURGES_MAX {
            self.arena.purge().map_err(refused(&self.name))?;
            if self.range.has_begun() {
                return Ok(());
            }
            // One of jemalloc's own threads is purging the arena.
            thread::yield_now();
        }
        let source = io::Error::other("it keeps pages that are free");
        Err(refused(&self.name)(Refused { key: "purge".to_owned(), source }))
    }

    /// Returns the number of the heap's current life. It changes when the heap is reset, and so
    /// invalidates the thread caches of earlier lives.
    pub(crate) fn life(&self) -> u64 {
        self.life.load(Ordering::Acquire)
    }

    /// Returns the caches of the heap.
    pub(crate) fn caches(&self) -> &Arc<CachesOfHeap> {
        &self.caches
    }

    /// Destroys all caches. Threads no longer use the ones that they know: those belong to the life
    /// that ends.
    pub(crate) fn end_caches(&self) {
        self.life.store(LIVES.fetch_add(1, Ordering::Relaxed), Ordering::Release);
        self.caches.end_all();
    }

    /// Returns the heap's statistics.
    pub(crate) fn stats(&self) -> Result<HeapStats, HeapError> {
        arena::take_statistics().map_err(refused(&self.name))?;
        self.taken_stats()
    }

    /// True if every page in use holds objects or metadata.
    pub(crate) fn is_all_back(&self) -> bool {
        let active = arena::take_statistics().and_then(|()| self.arena.statistic("pactive"));
        let (taken, _) = self.range.used();
        let unused =
            |active| taken.saturating_sub(self.range.metadata_bytes() + active * PAGE_BYTES);
        active.is_ok_and(|active| unused(active) == 0)
    }

    /// Returns one of the arena's statistics, as of the last refresh.
    pub(crate) fn statistic(&self, name: &str) -> Result<usize, Refused> {
        self.arena.statistic(name)
    }

    /// Returns the heap's statistics as of the last refresh.
    pub(crate) fn taken_stats(&self) -> Result<HeapStats, HeapError> {
        let of = |name| self.arena.statistic(name).map(to_u64).map_err(refused(&self.name));
        let (taken, peak) = self.range.used();
        Ok(HeapStats {
            name: self.name.clone(),
            memory: self.kind,
            metadata: self.metadata,
            bytes: to_u64(self.range.len()),
            taken_bytes: to_u64(taken),
            taken_bytes_max: to_u64(peak),
            small_bytes: of("small.allocated")?,
            large_bytes: of("large.allocated")?,
            metadata_bytes: of("base")?,
            free_bytes: of("pdirty")? * to_u64(PAGE_BYTES) + of("retained")?,
            extents: self.range.calls.load(Ordering::Relaxed),
            refusals: self.range.refusals.load(Ordering::Relaxed),
            caches: to_u64(self.caches.count()),
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.end_caches();
        if let Err(refused) = self.arena.destroy() {
            tracing::error!(heap = self.name, key = refused.key, error = %refused.source,
                "an arena stays, and its memory with it");
            // The arena may call its hooks for as long as the process lives.
            let _stays = ManuallyDrop::new(Arc::clone(&self.range));
            return;
        }
        // A region without another owner is dropped with the heap; its blocks need no eviction.
        if self.range.region().is_some_and(|region| Arc::strong_count(region) > 1) {
            self.range.end();
        }
    }
}

fn of_region(heap: &str) -> impl FnOnce(RegionError) -> HeapError {
    let heap = heap.to_owned();
    |source| HeapError::Region { heap, source }
}

fn range(config: &HeapConfig) -> Result<Range, HeapError> {
    let system = |what| {
        let heap = config.name.clone();
        move |source| HeapError::System { heap, what, source }
    };
    let ledger = config.ledger.as_ref();
    let consumer = ledger.map(|ledger| ledger.register(config.name.clone(), Class::Heap));
    let keeps = config.retain != Retain::Off;
    let bytes = config.memory.bytes();
    if let Backing::Region { region, offset, .. } = &config.memory {
        let part = Part::take(region, format!("heap {}", config.name), *offset, bytes);
        let part = part.map_err(of_region(&config.name))?;
        let start = part.as_ptr();
        let blocks = UsedBlocks::new(part);
        return Ok(Range::new((start, bytes), Memory::Region(blocks), keeps, consumer));
    }
    let mapping = Mapping::reserve(bytes).map_err(system("reserving addresses"))?;
    if let Backing::Node { node, .. } = config.memory {
        mapping.bind(node).map_err(system("binding memory to the node"))?;
    }
    let start = mapping.as_ptr();
    Ok(Range::new((start, bytes), Memory::Own(mapping), keeps, consumer))
}

/// Pins the first block of an arena over a region.
fn first_block(config: &HeapConfig) -> Result<Option<Pin>, HeapError> {
    let Backing::Region { region, offset, bytes } = &config.memory else { return Ok(None) };
    let pinned = region.pin(to_u64(*offset), to_u64(FIRST_BLOCK_BYTES.min(*bytes)));
    Ok(Some(pinned.map_err(of_region(&config.name))?))
}
