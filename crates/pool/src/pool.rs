//! The pool: its configuration, its parts, its statistics.
//!
//! Locking order, outermost first: a frame's latch, a space's ids, the blocks of dropped spaces,
//! the pool's spaces, the loader's queue, the promotions, an arena's lists, an account, a parking
//! bucket. What the store refused, the sleep of those who wait for frames and a policy's own state
//! are locked under latches at most, and nothing under them. A page's state word is no lock: it is
//! changed by whoever holds what [`crate::state`] says.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::{Duration, Instant};

use terrace_market::Ledger;
use terrace_sys::map::Mapping;
use terrace_sys::size::{format_bytes, to_usize};
use terrace_tier::MemoryTier;
use terrace_tier::store::Store;

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

/// Memory tiers a pool can have; a frame names its tier in a byte, and eviction walks them all.
pub const MEMORY_TIERS_MAX: usize = 8;

/// How a pool is set up.
#[derive(Debug)]
pub struct PoolConfig {
    /// The pool's name, in statistics and errors.
    pub name: String,
    /// The ledger of the DRAM budget, shared with the other consumers.
    pub ledger: Ledger,
    /// The memory tiers, fastest first; the first is DRAM, bounded by the ledger.
    pub memory: Vec<MemoryTier>,
    /// Where pages go that leave memory.
    pub store: Option<Arc<Store>>,
    /// Bytes of DRAM that the pool takes at once and never gives back.
    pub floor_bytes: u64,
    /// How long a caller waits for a frame or a latch before it gets an error; a day at most.
    pub patience: Duration,
    /// Bytes of pages that the ledger may owe. Who has found no frame for two seconds may be
    /// waiting for others that wait, too; a frame beyond the budget lets it go on. The debt is
    /// paid as soon as pages can go.
    pub overdraft_bytes: u64,
    /// Threads that read pages ahead of those who will want them.
    pub loaders: usize,
    /// Which pages stay.
    pub residency: Arc<dyn Residency>,
    /// Where pages are.
    pub placement: Placement,
    /// How many times its first size each memory tier may grow to, by [`Pool::resize`] or by the
    /// ledger: addresses and tables are reserved for it. Less where there are not enough frame ids.
    pub growth: u64,
}

impl PoolConfig {
    /// A pool of the ledger's whole budget of DRAM without a store, with the default policy.
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

/// A buffer pool over memory tiers and a store. Clones are the same pool.
///
/// Its background threads end when the last clone, and with it the last [`Space`], is dropped.
#[derive(Clone, Debug)]
pub struct Pool {
    pub(crate) inner: Arc<Inner>,
    _workers: Arc<Workers>,
}

/// The parts of a pool, shared with guards and background threads.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) name: String,
    pub(crate) lot: ParkingLot,
    pub(crate) frames: FrameTable,
    pub(crate) pages: PageTable,
    pub(crate) tiers: Vec<TierFrames>,
    /// The addresses of all pages, in a mapped pool.
    pub(crate) range: Option<Arc<Mapping>>,
    /// Where the page of frame 0 begins, and with a step of 4 KiB those of all mapped frames, or of
    /// the smallest class in DRAM.
    first_data: FirstData,
    /// Where a mapped pool's tiers are, if any is on a node of its own.
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
    /// Pages of slower tiers that are worth a frame in a faster one.
    pub(crate) promotions: Mutex<VecDeque<(FrameId, PageId)>>,
    pub(crate) refusals: Mutex<Refusals>,
    /// Bytes of pages in memory that have no extent yet.
    pub(crate) unbacked: AtomicU64,
    /// Bytes of the longest page that there was.
    pub(crate) longest: AtomicUsize,
    /// Pages that are being written to the store.
    pub(crate) writing: AtomicUsize,
    /// Bytes of frames handed out so far: the pool's clock.
    pub(crate) handed_out: AtomicU64,
    pub(crate) heat: Heat,
    pub(crate) closed: AtomicBool,
}

/// An address that is only reckoned with, never read.
#[derive(Clone, Copy, Debug)]
struct FirstData(*const u8);

// SAFETY: nobody reads through the address.
unsafe impl Send for FirstData {}
// SAFETY: as above.
unsafe impl Sync for FirstData {}

/// Where those wait who found no frame, and the background worker that makes room.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    waiting: AtomicUsize,
    lock: Mutex<()>,
    frame: Condvar,
    work: Condvar,
}

impl Progress {
    /// Tells those who wait for a frame to look again.
    pub(crate) fn notify(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            drop(lock(&self.lock));
            self.frame.notify_all();
        }
    }

    /// Waits until somebody freed a frame, `longest` at most.
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

    /// The background worker's sleep.
    pub(crate) fn idle(&self, longest: Duration) {
        let guard = lock(&self.lock);
        drop(self.work.wait_timeout(guard, longest));
    }
}

impl Pool {
    /// Sets a pool up: reserves its address ranges, takes its floor, starts its threads.
    ///
    /// # Errors
    /// [`PoolError::Config`] for tiers that make no sense or a floor that the ledger does not have;
    /// [`PoolError::System`] when the kernel refuses address space.
    pub fn new(config: PoolConfig) -> Result<Self, PoolError> {
        let loaders = config.loaders.max(1);
        let inner = Arc::new(Inner::new(config)?);
        let workers = Workers::start(&inner, loaders)?;
        Ok(Self { inner, _workers: Arc::new(workers) })
    }

    /// Registers an owner of pages. Beyond `grant_bytes` of memory its pages are the first to go.
    ///
    /// # Errors
    /// [`PoolError::Config`] when 65,535 spaces live already.
    pub fn create_space(
        &self,
        name: impl Into<String>,
        grant_bytes: Option<u64>,
    ) -> Result<Space, PoolError> {
        Space::create(self.clone(), name.into(), grant_bytes)
    }

    /// Evicts clean pages until at least `bytes` went back to the ledger, or it finds none to
    /// evict; the bytes that the ledger got. Does no I/O and stops at the pool's floor, so it may
    /// be called from within a poll.
    pub fn release_clean(&self, bytes: u64) -> u64 {
        self.inner.release(0, bytes, Effort::Clean)
    }

    /// As [`Pool::release_clean`], and writes dirty pages to the store where clean ones are not
    /// enough. For callers that may wait for the store.
    pub fn release(&self, bytes: u64) -> u64 {
        self.inner.release(0, bytes, Effort::Write)
    }

    /// Writes the pages that the store does not have as they are, and leaves them in memory; the
    /// bytes written. Pages that somebody holds or writes at this moment are left out. What is in
    /// the store then leaves memory without a write; it is safe once the store was synced.
    ///
    /// # Errors
    /// [`PoolError::Store`] when the store refused pages, which stay as they are;
    /// [`PoolError::NoStore`].
    pub fn flush(&self) -> Result<u64, PoolError> {
        self.inner.flush()
    }

    /// Changes what a memory tier may hold while the pool is at work; tier 0 is DRAM, whose size is
    /// the budget of the ledger that the pool shares with others. A tier that shrinks gives pages
    /// up first, a little at a time, and has its new size when this returns.
    ///
    /// # Errors
    /// [`PoolError::Config`] for a tier that there is not, below the pool's floor or its longest
    /// page, and beyond what [`PoolConfig::growth`] reserved; [`PoolError::Resize`] when the tier
    /// became no smaller for the pool's patience: it keeps the size that it has come to.
    pub fn resize(&self, tier: usize, bytes: u64) -> Result<(), PoolError> {
        self.inner.resize(tier, bytes)
    }

    /// The pool's counters.
    pub fn stats(&self) -> PoolStats {
        self.inner.stats()
    }

    /// Bytes of DRAM, the first tier, that the pool holds: one look at a counter.
    pub fn dram_bytes(&self) -> u64 {
        self.inner.tiers[0].account.used()
    }

    /// The spaces alive, by name.
    pub fn spaces(&self) -> Vec<SpaceStats> {
        self.inner.space_stats()
    }

    /// Where pages go that leave memory.
    pub fn store(&self) -> Option<&Arc<Store>> {
        self.inner.store.as_ref()
    }

    /// Where the pool's pages are.
    pub fn placement(&self) -> Placement {
        match self.inner.range {
            None => Placement::Framed,
            Some(_) => Placement::Mapped,
        }
    }

    /// The pool's name.
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

    /// Where the page of a frame most likely begins, without a look at the frame: that of a mapped
    /// frame, or of one of the smallest class in DRAM. Anything for others.
    #[inline(always)]
    pub(crate) fn data_of(&self, id: FrameId) -> *const u8 {
        self.first_data.0.wrapping_add(id.mapped_offset())
    }

    /// The pool's clock: MiB of frames handed out so far, modulo 2^32.
    #[inline]
    pub(crate) fn now(&self) -> u32 {
        // The clock wraps; ages are differences.
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

    /// Who holds the pool's memory, largest first.
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

/// The longest patience: as good as for ever, and a time that clocks can add.
const PATIENCE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Page ids a pool reserves entries for: 32 GiB of address space, touched as ids come into use.
const PAGES_MAX: u64 = 1 << 30;
const _: () = assert!(PAGES_MAX <= PAGE_IDS_MAX);

/// Addresses of a mapped pool over the bytes that it may have: pages of any length are aligned to
/// the next power of two, and what is freed in one length serves none of another. Address space is
/// free, up to the frame ids that there are.
const RANGE_FACTOR: u64 = 16;

/// How many frames and page ids a pool has.
#[derive(Clone, Copy, Debug)]
struct Plan {
    placement: Placement,
    /// How many times its first size each tier may have.
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
        // What has too many frames when it has grown may have few enough with less.
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

    /// The addresses of all pages, in a mapped pool.
    fn reserve_range(&self, name: &str) -> io::Result<Option<Arc<Mapping>>> {
        if self.placement == Placement::Framed {
            return Ok(None);
        }
        let range = Mapping::reserve(to_usize(self.pages) * PAGE_MIN_BYTES)?;
        decline_huge_pages(&range, name);
        Ok(Some(Arc::new(range)))
    }
}
