//! Core of a pool: the structure that owns its tables, tiers, queues and counters. The operations
//! in the layers above take a reference to it.
//!
//! Lock order, outermost first: a frame's latch, a space's ids, the blocks of dropped spaces, the
//! live spaces, the loaders' queue, the promotions, an arena's lists, an account, a parking bucket.
//! The store's refusals, the wait for frames and a policy's own state are locked under latches at
//! most, and no lock is taken under them. A page's state word is not a lock: only the thread named
//! in [`crate::state`] may change it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_latch::ParkingLot;
use terrace_ledger::Ledger;
use terrace_store::Store;
use terrace_sys::size::to_usize;

use crate::account::Account;
use crate::addresses::Addresses;
use crate::backlog::Backlog;
use crate::clock::Clock;
use crate::config::PoolConfig;
use crate::error::PoolError;
use crate::frame::{Frame, FrameTable};
use crate::heat::Heat;
use crate::nodes::Nodes;
use crate::owner::Owner;
use crate::page::PageId;
use crate::page_ids::{IdBlocks, Stride};
use crate::plan::Plan;
use crate::progress::Progress;
use crate::promotions::Promotions;
use crate::residency::{PageView, Residency};
use crate::space_table::SpaceTable;
use crate::state::PageState;
use crate::stats::Counters;
use crate::table::PageTable;
use crate::tier::{MEMORY_TIERS_MAX, TierFrames};

/// Upper bound of timeouts; large enough to mean "forever" without overflowing `Instant`.
const PATIENCE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Parts of a pool, shared with guards and background threads. Each part changes only by its own
/// methods.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) name: String,
    /// Timeout of a caller that waits for a frame or a latch.
    pub(crate) patience: Duration,
    /// Bytes by which the pool may exceed its budget.
    pub(crate) overdraft_bytes: u64,
    pub(crate) lot: ParkingLot,
    pub(crate) frames: FrameTable,
    pub(crate) pages: PageTable,
    /// The memory tiers, fastest first.
    pub(crate) tiers: Vec<TierFrames>,
    pub(crate) addresses: Addresses,
    /// NUMA nodes of a mapped pool's tiers, if any tier names a node.
    pub(crate) nodes: Option<Nodes>,
    pub(crate) spaces: SpaceTable,
    pub(crate) id_blocks: IdBlocks,
    pub(crate) store: Option<Arc<Store>>,
    pub(crate) backlog: Backlog,
    pub(crate) residency: Arc<dyn Residency>,
    pub(crate) clock: Clock,
    pub(crate) heat: Heat,
    pub(crate) promotions: Promotions,
    pub(crate) progress: Progress,
    pub(crate) counters: Counters,
}

/// Reserves the frames of all tiers.
fn reserve_tiers(
    config: &PoolConfig,
    growth: u64,
    addresses: Option<&Arc<terrace_sys::map::Mapping>>,
) -> Result<Vec<TierFrames>, PoolError> {
    let name = &config.name;
    let mut tiers = Vec::new();
    let mut first = 0_u32;
    for (index, tier) in config.memory.iter().enumerate() {
        let account = if index == 0 {
            Account::open(&config.ledger, name, config.floor_bytes)
        } else {
            Account::open(&Ledger::new(tier.capacity_bytes), name, 0)
        };
        let account = account.map_err(|denied| PoolError::config(name, denied.to_string()))?;
        let most = tier.capacity_bytes * growth;
        let tier = TierFrames::reserve(tier.clone(), index, account, first, most, addresses);
        tiers.push(tier.map_err(PoolError::system(name, "reserving address space for frames"))?);
        // Bounded by FRAMES_MAX in the plan.
        first += u32::try_from(TierFrames::frames(most)).unwrap_or(u32::MAX);
    }
    Ok(tiers)
}

impl Core {
    /// Reserves the address ranges of a pool and takes its floor from the ledger.
    pub(crate) fn new(config: PoolConfig) -> Result<Self, PoolError> {
        let name = config.name.clone();
        let system = |what| PoolError::system(&name, what);
        if !(1..=MEMORY_TIERS_MAX).contains(&config.memory.len()) {
            let reason = format!("needs 1 to {MEMORY_TIERS_MAX} memory tiers");
            return Err(PoolError::config(&name, reason));
        }
        let stored = config.store.as_ref().map_or(0, |store| store.stats().capacity_bytes);
        let plan = Plan::new(config.placement, config.growth, &config.memory, stored)
            .map_err(|reason| PoolError::config(&name, reason))?;
        let range = plan.reserve_range(&name).map_err(system("reserving addresses for pages"))?;
        let nodes = range.as_ref().and_then(|_| Nodes::find(&name, &config.memory));
        let tiers = reserve_tiers(&config, plan.growth, range.as_ref())?;
        Ok(Self {
            patience: config.patience.min(PATIENCE_MAX),
            overdraft_bytes: config.overdraft_bytes,
            lot: ParkingLot::new(),
            frames: FrameTable::reserve(to_usize(plan.frames))
                .map_err(system("reserving the frame table"))?,
            pages: PageTable::reserve(to_usize(plan.pages))
                .map_err(system("reserving the page table"))?,
            addresses: Addresses::new(range, tiers[0].first_data()),
            nodes,
            spaces: SpaceTable::reserve().map_err(system("reserving the space table"))?,
            id_blocks: IdBlocks::default(),
            store: config.store,
            backlog: Backlog::default(),
            residency: config.residency,
            clock: Clock::default(),
            heat: Heat::default(),
            promotions: Promotions::default(),
            progress: Progress::default(),
            counters: Counters::of_tiers(tiers.len()),
            tiers,
            name,
        })
    }

    /// Returns the end of the wait of a caller that begins to wait now.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.patience
    }

    /// Returns the store, or an error if the pool has none.
    pub(crate) fn need_store(&self) -> Result<&Arc<Store>, PoolError> {
        self.store.as_ref().ok_or_else(|| PoolError::NoStore { pool: self.name.clone() })
    }

    /// Returns the stride of the ids of pages of `len` bytes.
    pub(crate) fn stride(&self, len: usize) -> Stride {
        Stride::of(len, self.addresses.is_mapped())
    }

    /// Builds the policy's view of the page in a frame.
    pub(crate) fn view(&self, frame: &Frame) -> PageView {
        PageView {
            tier: frame.tier(),
            len_bytes: frame.len().max(1),
            age_mib: frame.age(self.clock.now()),
            fixes: frame.fixes_by(self.heat.epoch()),
            mean_fixes: self.heat.mean_fixes(frame.tier().saturating_sub(1)),
            dirty: frame.is_dirty(),
            cold: frame.is_cold(),
            grant_use: self.spaces.grant_use(frame.space()),
        }
    }

    /// Returns an error for a page that belongs to another space than `owner`. A free page belongs
    /// to no space.
    pub(crate) fn check_owner(&self, page: PageId, owner: Owner) -> Result<(), PoolError> {
        let Some(entry) = self.pages.find(page) else { return Ok(()) };
        // The owner of a new page is set before its state leaves `Free`.
        if entry.state.get() == PageState::Free || entry.owner() == owner {
            return Ok(());
        }
        Err(self.wrong_space(page, owner))
    }

    #[cold]
    pub(crate) fn wrong_space(&self, page: PageId, owner: Owner) -> PoolError {
        let (pool, space) = (self.name.clone(), self.spaces.name(owner));
        let owner = self.spaces.name(self.pages[page].owner());
        PoolError::WrongSpace { pool, page, space, owner }
    }

    pub(crate) fn no_such_page(&self, page: PageId) -> PoolError {
        PoolError::NoSuchPage { pool: self.name.clone(), page }
    }

    pub(crate) fn latch_timeout(&self, page: PageId, waited: Duration) -> PoolError {
        let owner = self.pages.find(page).map_or(Owner::default(), |entry| entry.owner());
        let (pool, space) = (self.name.clone(), self.spaces.name(owner));
        PoolError::LatchTimeout { pool, page, space, waited }
    }
}
