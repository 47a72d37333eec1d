//! The buffer pool: configuration, shared state, statistics.
//!
//! Lock order, outermost first: a frame's latch, a space's ids, the blocks of dropped spaces, the
//! pool's spaces, the loader's queue, the promotions, an arena's lists, an account, a parking
//! bucket. The store's refusals, the wait for frames and a policy's own state are locked under
//! latches at most, and no lock is taken under them. A page's state word is not a lock: only the
//! thread named in [`crate::state`] may change it.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::{Duration, Instant};

use terrace_ledger::Ledger;
use terrace_store::Store;
use terrace_sys::map::Mapping;
use terrace_sys::size::{format_bytes, to_usize};
use terrace_tier::MemoryTier;

use crate::account::Account;
use crate::arena::{TierFrames, decline_huge_pages};
use crate::error::{PoolError, largest};
use crate::evict::Effort;
use crate::frame::FrameTable;
use crate::heat::Heat;
use crate::load::LoadQueue;
use crate::migrate::Nodes;
use crate::page::{FRAMES_MAX, FrameId, PAGE_IDS_MAX, PAGE_MIN_BYTES, PageId};
use crate::placement::Placement;
use crate::residency::{Residency, SampledScore};
use crate::space::{Space, SpaceInner, SpaceTable};
use crate::stats::{Counters, PoolStats, SpaceStats, TierCounters, TierStats};
use crate::sync::lock;
use crate::table::PageTable;
use crate::worker::Workers;
use crate::write_back::Refusals;
use terrace_latch::ParkingLot;

/// Maximum number of memory tiers of a pool; a frame stores its tier in a byte, and eviction visits
/// every tier.
pub const MEMORY_TIERS_MAX: usize = 8;

/// Configuration of a pool.
#[derive(Debug)]
pub struct PoolConfig {
    /// The pool's name, in statistics and errors.
    pub name: String,
    /// The ledger of the DRAM budget, shared with the other consumers.
    pub ledger: Ledger,
    /// The memory tiers, fastest first; the first is DRAM, bounded by the ledger.
    pub memory: Vec<MemoryTier>,
    /// Store that holds the pages evicted from memory.
    pub store: Option<Arc<Store>>,
    /// Bytes of DRAM that the pool reserves when it is created and never returns to the ledger.
    pub floor_bytes: u64,
    /// Timeout of a caller that waits for a frame or a latch, at most a day; then it gets an error.
    pub patience: Duration,
    /// Bytes by which the pool may exceed its budget to break a deadlock. A caller that has found
    /// no frame for two seconds may be waiting for callers that wait as well; it gets a frame
    /// beyond the budget. The debt is repaid as soon as pages can be evicted.
    pub overdraft_bytes: u64,
    /// Number of loader threads, which serve fetches and readahead.
    pub loaders: usize,
    /// Policy that decides which pages stay in which tier.
    pub residency: Arc<dyn Residency>,
    /// Placement of pages: in frames, or at one address for life.
    pub placement: Placement,
    /// Factor by which each memory tier may grow beyond its initial size, by [`Pool::resize`] or by
    /// the ledger: addresses and tables are reserved for it. Less if there are not enough frame
    /// ids.
    pub growth: u64,
}

impl PoolConfig {
    /// Returns the configuration of a pool over the ledger's whole budget of DRAM, without a store
    /// and with the default policy.
    pub fn new(name: impl Into<String>, ledger: Ledger) -> Self {
        let capacity_bytes = ledger.budget();
        let dram = MemoryTier { name: "dram".into(), capacity_bytes, node: None, latency_ns: 0 };
        Self {
            name: name.into(),
            ledger,
            memory: vec![dram],
            store: None,
            floor_bytes: 0,
            patience: Duration::from_secs(30),
            overdraft_bytes: 0,
            loaders: 2,
            residency: Arc::new(SampledScore),
            placement: Placement::Framed,
            growth: 4,
        }
    }
}

/// A buffer pool over memory tiers and a store. Clones share one pool.
///
/// The background threads end when the last clone is dropped, and with it the last [`Space`].
#[derive(Clone, Debug)]
pub struct Pool {
    pub(crate) inner: Arc<Inner>,
    _workers: Arc<Workers>,
}

/// State of a pool, shared with guards and background threads.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) name: String,
    pub(crate) lot: ParkingLot,
    pub(crate) frames: FrameTable,
    pub(crate) pages: PageTable,
    pub(crate) tiers: Vec<TierFrames>,
    /// Address range of all pages; `None` unless the pool is mapped.
    pub(crate) range: Option<Arc<Mapping>>,
    /// Address of the page of frame 0. Steps of 4 KiB from there give the pages of all mapped
    /// frames, or of the frames of the smallest class in DRAM.
    first_data: FirstData,
    /// NUMA nodes of a mapped pool's tiers, if any tier names a node.
    pub(crate) nodes: Option<Nodes>,
    pub(crate) tier_counters: Vec<TierCounters>,
    pub(crate) counters: Counters,
    pub(crate) store: Option<Arc<Store>>,
    pub(crate) residency: Arc<dyn Residency>,
    pub(crate) patience: Duration,
    pub(crate) overdraft: u64,
    pub(crate) spaces: SpaceTable,
    pub(crate) names: Mutex<HashMap<u32, Weak<SpaceInner>>>,
    pub(crate) loads: LoadQueue,
    pub(crate) progress: Progress,
    /// Queue of pages of slower tiers to promote to a faster one.
    pub(crate) promotions: Mutex<VecDeque<(FrameId, PageId)>>,
    pub(crate) refusals: Mutex<Refusals>,
    /// Bytes of pages in memory that have no extent in the store yet.
    pub(crate) unbacked: AtomicU64,
    /// Length in bytes of the longest page so far.
    pub(crate) longest: AtomicUsize,
    /// Number of pages that are being written to the store.
    pub(crate) writing: AtomicUsize,
    /// Bytes of frames handed out so far; the pool's logical clock.
    pub(crate) handed_out: AtomicU64,
    pub(crate) heat: Heat,
    pub(crate) closed: AtomicBool,
}

/// Base address for pointer arithmetic; never dereferenced through this type.
#[derive(Clone, Copy, Debug)]
struct FirstData(*const u8);

// SAFETY: the address is only computed with; nothing is read or written through it.
unsafe impl Send for FirstData {}
// SAFETY: as above.
unsafe impl Sync for FirstData {}

/// Wait queues: callers without a frame wait for `frame`, the background worker for `work`.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    waiting: AtomicUsize,
    lock: Mutex<()>,
    frame: Condvar,
    work: Condvar,
}

impl Progress {
    /// Wakes every caller that waits for a frame, to retry.
    pub(crate) fn notify(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            drop(lock(&self.lock));
            self.frame.notify_all();
        }
    }

    /// Waits for a frame to be freed, for at most `longest`.
    pub(crate) fn wait(&self, longest: Duration) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let guard = lock(&self.lock);
        drop(self.frame.wait_timeout(guard, longest));
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes the background worker.
    pub(crate) fn ask(&self) {
        self.work.notify_one();
    }

    /// Puts the background worker to sleep until it is woken, for at most `longest`.
    pub(crate) fn idle(&self, longest: Duration) {
        let guard = lock(&self.lock);
        drop(self.work.wait_timeout(guard, longest));
    }
}

impl Pool {
    /// Creates a pool: reserves its address ranges, takes its floor from the ledger, starts its
    /// threads.
    ///
    /// # Errors
    /// [`PoolError::Config`] if the tiers are invalid or the ledger cannot grant the floor;
    /// [`PoolError::System`] if the kernel refuses address space or a thread.
    pub fn new(config: PoolConfig) -> Result<Self, PoolError> {
        let loaders = config.loaders.max(1);
        let inner = Arc::new(Inner::new(config)?);
        let workers = Workers::start(&inner, loaders)?;
        Ok(Self { inner, _workers: Arc::new(workers) })
    }

    /// Registers an owner of pages. Once the owner holds more than `grant_bytes` of memory, its
    /// pages are evicted before those of owners within their grants.
    ///
    /// # Errors
    /// [`PoolError::Config`] if 65,535 spaces are alive.
    pub fn create_space(
        &self,
        name: impl Into<String>,
        grant_bytes: Option<u64>,
    ) -> Result<Space, PoolError> {
        Space::create(self.clone(), name.into(), grant_bytes)
    }

    /// Evicts clean pages until at least `bytes` went back to the ledger, or until no clean page is
    /// left to evict. Returns the bytes that went back. Does no I/O and stops at the pool's floor,
    /// so it may be called from within a poll.
    pub fn release_clean(&self, bytes: u64) -> u64 {
        self.inner.release(0, bytes, Effort::Clean)
    }

    /// Like [`Pool::release_clean`], but also writes dirty pages to the store if clean ones are not
    /// enough. For callers that may block on the store.
    pub fn release(&self, bytes: u64) -> u64 {
        self.inner.release(0, bytes, Effort::Write)
    }

    /// Writes every dirty page to the store and keeps it in memory. Returns the bytes written.
    /// Skips pages that are held by a writer or are being written. A page written this way can be
    /// evicted without I/O; it survives a crash once the store was synced.
    ///
    /// # Errors
    /// [`PoolError::Store`] if the store refused pages, which stay dirty; [`PoolError::NoStore`] if
    /// the pool has no store.
    pub fn flush(&self) -> Result<u64, PoolError> {
        self.inner.flush()
    }

    /// Changes the capacity of a memory tier while the pool is in use. Tier 0 is DRAM, whose
    /// capacity is the budget of the ledger that the pool shares with others. A tier that shrinks
    /// first evicts pages in small steps, and has its new size when this returns.
    ///
    /// # Errors
    /// [`PoolError::Config`] if there is no such tier, or if `bytes` is below the pool's floor or
    /// its longest page, or beyond what [`PoolConfig::growth`] reserved; [`PoolError::Resize`] if
    /// the tier did not get any smaller for the pool's timeout: it keeps the size reached so far.
    pub fn resize(&self, tier: usize, bytes: u64) -> Result<(), PoolError> {
        self.inner.resize(tier, bytes)
    }

    /// Returns the pool's counters.
    pub fn stats(&self) -> PoolStats {
        self.inner.stats()
    }

    /// Returns the bytes of DRAM, the first tier, that the pool holds. Cheap: reads one counter
    /// under a lock.
    pub fn dram_bytes(&self) -> u64 {
        self.inner.tiers[0].account.used()
    }

    /// Returns the statistics of all live spaces, sorted by name.
    pub fn spaces(&self) -> Vec<SpaceStats> {
        self.inner.space_stats()
    }

    /// Returns the store that holds the pages evicted from memory, if the pool has one.
    pub fn store(&self) -> Option<&Arc<Store>> {
        self.inner.store.as_ref()
    }

    /// Returns the placement of the pool's pages.
    pub fn placement(&self) -> Placement {
        match self.inner.range {
            None => Placement::Framed,
            Some(_) => Placement::Mapped,
        }
    }

    /// Returns the pool's name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }
}

pub(crate) fn config_error(pool: &str, reason: impl Into<String>) -> PoolError {
    PoolError::Config { pool: pool.to_owned(), reason: reason.into() }
}

impl Inner {
    fn new(config: PoolConfig) -> Result<Self, PoolError> {
        let name = config.name;
        let system = |what| {
            let pool = name.clone();
            move |source| PoolError::System { pool, what, source }
        };
        if !(1..=MEMORY_TIERS_MAX).contains(&config.memory.len()) {
            return Err(config_error(&name, format!("needs 1 to {MEMORY_TIERS_MAX} memory tiers")));
        }
        let stored = config.store.as_ref().map_or(0, |store| store.stats().capacity_bytes);
        let plan = Plan::new(config.placement, config.growth, &config.memory, stored)
            .map_err(|reason| config_error(&name, reason))?;
        let range = plan.reserve_range(&name).map_err(system("reserving addresses for pages"))?;
        let nodes = range.as_ref().and_then(|_| Nodes::find(&name, &config.memory));
        let mut tiers = Vec::new();
        let mut first = 0_u32;
        for (index, tier) in config.memory.into_iter().enumerate() {
            let capacity = tier.capacity_bytes;
            let account = if index == 0 {
                Account::open(&config.ledger, &name, config.floor_bytes)
            } else {
                Account::open(&Ledger::new(capacity), &name, 0)
            };
            let account = account.map_err(|denied| config_error(&name, denied.to_string()))?;
            let most = capacity * plan.growth;
            let tier = TierFrames::reserve(tier, account, first, most, range.as_ref())
                .map_err(system("reserving address space for frames"))?;
            tiers.push(tier);
            // Bounded by FRAMES_MAX in the plan.
            first += u32::try_from(TierFrames::frames(most)).unwrap_or(u32::MAX);
        }
        let first_data = tiers[0].first_data();
        Ok(Self {
            lot: ParkingLot::new(),
            frames: FrameTable::reserve(to_usize(plan.frames))
                .map_err(system("reserving the frame table"))?,
            pages: PageTable::reserve(to_usize(plan.pages))
                .map_err(system("reserving the page table"))?,
            tier_counters: tiers.iter().map(|_| TierCounters::default()).collect(),
            tiers,
            first_data: FirstData(first_data),
            range,
            nodes,
            counters: Counters::default(),
            store: config.store,
            residency: config.residency,
            patience: config.patience.min(PATIENCE_MAX),
            overdraft: config.overdraft_bytes,
            spaces: SpaceTable::reserve().map_err(system("reserving the space table"))?,
            names: Mutex::default(),
            loads: LoadQueue::default(),
            progress: Progress::default(),
            promotions: Mutex::default(),
            refusals: Mutex::default(),
            unbacked: AtomicU64::new(0),
            longest: AtomicUsize::new(0),
            writing: AtomicUsize::new(0),
            handed_out: AtomicU64::new(0),
            heat: Heat::default(),
            closed: AtomicBool::new(false),
            name,
        })
    }

    /// Returns the likely address of a frame's page without reading the frame: right for a mapped
    /// frame or one of the smallest class in DRAM, arbitrary for others.
    #[inline(always)]
    pub(crate) fn data_of(&self, id: FrameId) -> *const u8 {
        self.first_data.0.wrapping_add(id.mapped_offset())
    }

    /// Returns the pool's logical clock: MiB of frames handed out so far, modulo 2^32.
    #[inline]
    pub(crate) fn now(&self) -> u32 {
        // The clock wraps; ages are wrapping differences.
        #[expect(clippy::cast_possible_truncation)]
        let now = (self.handed_out.load(Ordering::Relaxed) >> 20) as u32;
        now
    }

    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.patience
    }

    pub(crate) fn store(&self) -> Result<&Arc<Store>, PoolError> {
        self.store.as_ref().ok_or_else(|| PoolError::NoStore { pool: self.name.clone() })
    }

    fn space_stats(&self) -> Vec<SpaceStats> {
        let spaces: Vec<_> = lock(&self.names).values().filter_map(Weak::upgrade).collect();
        let mut stats: Vec<_> = spaces
            .iter()
            .map(|space| SpaceStats {
                name: space.name.clone(),
                resident_bytes: self.spaces.resident(space.id),
                grant_bytes: self.spaces.grant(space.id),
            })
            .collect();
        stats.sort_by(|a, b| a.name.cmp(&b.name));
        stats
    }

    /// Spaces that hold the pool's memory, largest first.
    pub(crate) fn holders(&self) -> Vec<(String, u64)> {
        let spaces = self.space_stats().into_iter();
        largest(spaces.map(|space| (space.name, space.resident_bytes)))
    }

    fn stats(&self) -> PoolStats {
        let tiers = self.tiers.iter().zip(&self.tier_counters).map(|(tier, counters)| TierStats {
            name: tier.tier.name.clone(),
            capacity_bytes: tier.account.budget(),
            used_bytes: tier.account.used(),
            page_bytes: tier.page_bytes(),
            warm_bytes: tier.warm_bytes(),
            fixes: counters.fixes.get(),
            fixed_bytes: counters.fixed_bytes.get(),
            promoted: counters.promoted.get(),
            demoted: counters.demoted.get(),
            evicted: counters.evicted.get(),
        });
        let counters = &self.counters;
        PoolStats {
            name: self.name.clone(),
            tiers: tiers.collect(),
            hint_hits: counters.hint_hits.get(),
            look_ups: counters.look_ups.get(),
            loads: counters.loads.get(),
            loaded_bytes: counters.loaded_bytes.get(),
            write_backs: counters.write_backs.get(),
            written_bytes: counters.written_bytes.get(),
            write_failures: counters.write_failures.get(),
            waits: counters.waits.get(),
            owed_frames: counters.owed_frames.get(),
            move_failures: counters.move_failures.get(),
        }
    }
}

/// Upper bound of timeouts; large enough to mean "forever" without overflowing `Instant`.
const PATIENCE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum number of page ids that a pool reserves entries for: 32 GiB of address space, touched as
/// ids come into use.
const PAGES_MAX: u64 = 1 << 30;
const _: () = assert!(PAGES_MAX <= PAGE_IDS_MAX);

/// Ratio of a mapped pool's address range to the bytes that it may hold: pages of any length are
/// aligned to the next power of two, and an address range freed at one length is not reused for
/// another. Address space is free, up to the number of frame ids.
const RANGE_FACTOR: u64 = 16;

/// Numbers of frames and page ids of a pool.
#[derive(Clone, Copy, Debug)]
struct Plan {
    placement: Placement,
    /// Factor by which each tier may grow beyond its initial size.
    growth: u64,
    frames: u64,
    pages: u64,
}

impl Plan {
    fn new(
        placement: Placement,
        growth: u64,
        memory: &[MemoryTier],
        stored: u64,
    ) -> Result<Self, String> {
        let plan = |growth| Self::with_growth(placement, growth, memory, stored);
        // A pool with too many frames at full growth may fit with less growth.
        let mut growth = growth.max(1);
        loop {
            match plan(growth) {
                Err(_) if growth > 1 => growth /= 2,
                planned => return planned,
            }
        }
    }

    fn with_growth(
        placement: Placement,
        growth: u64,
        memory: &[MemoryTier],
        stored: u64,
    ) -> Result<Self, String> {
        let tiers = memory.iter().map(|tier| tier.capacity_bytes.saturating_mul(growth));
        let bytes = tiers.clone().fold(stored, u64::saturating_add);
        let units = bytes / PAGE_MIN_BYTES as u64;
        let (frames, pages) = match placement {
            Placement::Framed => {
                (tiers.map(TierFrames::frames).sum(), units.clamp(1 << 16, PAGES_MAX))
            }
            Placement::Mapped if units > FRAMES_MAX => {
                return Err(format!(
                    "a mapped pool has at most {} of pages, not {}: make the store smaller, or \
                     the placement framed",
                    format_bytes(FRAMES_MAX * PAGE_MIN_BYTES as u64),
                    format_bytes(bytes),
                ));
            }
            Placement::Mapped => {
                let pages = (units * RANGE_FACTOR).clamp(1 << 16, FRAMES_MAX);
                (pages, pages)
            }
        };
        if frames > FRAMES_MAX {
            return Err(format!("{frames} frames; at most {FRAMES_MAX}"));
        }
        Ok(Self { placement, growth, frames, pages })
    }

    /// Reserves the address range of all pages; `None` unless the pool is mapped.
    fn reserve_range(&self, name: &str) -> io::Result<Option<Arc<Mapping>>> {
        if self.placement == Placement::Framed {
            return Ok(None);
        }
        let range = Mapping::reserve(to_usize(self.pages) * PAGE_MIN_BYTES)?;
        decline_huge_pages(&range, name);
        Ok(Some(Arc::new(range)))
    }
}
