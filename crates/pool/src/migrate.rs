//! Migration of a mapped pool's pages between tiers: the kernel moves the memory behind their
//! addresses.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use terrace_sys::map::Mapping;
use terrace_sys::policy::PreferredNode;
use terrace_sys::probe::Probe;
use terrace_tier::MemoryTier;
use terrace_tier::mover::{Mover, Outcome};

use crate::page::{FrameId, PageId};
use crate::pool::Inner;

/// NUMA nodes of a mapped pool's tiers, and the mechanism that moves pages between them.
#[derive(Debug)]
pub(crate) struct Nodes {
    mover: Mover,
    /// Node of the tiers that name none: the first with processors.
    home: u32,
}

impl Nodes {
    /// Returns the nodes of the tiers, or `None` if no tier names a node.
    pub(crate) fn find(pool: &str, tiers: &[MemoryTier]) -> Option<Self> {
        if tiers.iter().all(|tier| tier.node.is_none()) {
            return None;
        }
        let probe = Probe::detect();
        let home = probe.nodes.iter().find(|node| !node.cpus.is_empty());
        let home = home.map_or(0, |node| node.id);
        let choice = Mover::choose(&probe);
        tracing::info!(pool, mover = %choice.mover, why = choice.why, "how pages change nodes");
        Some(Self { mover: choice.mover, home })
    }

    fn of(&self, tier: &MemoryTier) -> u32 {
        tier.node.unwrap_or(self.home)
    }
}

impl Inner {
    /// Moves pages from one tier to another, in one batch. Returns true for each page moved.
    ///
    /// An optimistic read of a moved page is invalid, as after any other exclusive hold, although
    /// neither the page's address nor its bytes change.
    pub(crate) fn migrate(
        self: &Arc<Self>,
        range: &Mapping,
        pages: &[(FrameId, PageId)],
        from: usize,
        tier: usize,
    ) -> Vec<bool> {
        let target = &self.tiers[tier];
        let mut places = Vec::with_capacity(pages.len());
        for (id, page) in pages {
            let held = self.try_hold_in_tier(*id, *page, from);
            let place = held.then(|| target.reserve_place(&self.frames[*id])).flatten();
            if held && place.is_none() {
                self.release_exclusive(*id);
            }
            places.push(place);
        }
        let held = pages.iter().zip(&places).filter(|(_, place)| place.is_some());
        let held: Vec<FrameId> = held.map(|((id, _), _)| *id).collect();
        let mut arrived = self.move_memory(range, &held, tier).into_iter();
        let finish = pages.iter().zip(places).map(|((id, page), place)| {
            let Some(place) = place else { return false };
            let arrived = arrived.next().unwrap_or(false);
            if arrived {
                self.change_tier(*id, tier, place);
            } else {
                target.cancel_place(&self.frames[*id], place);
            }
            self.settle(*id, *page);
            arrived
        });
        finish.collect()
    }

    /// Moves the memory of held frames to the tier's node. Returns true for each frame that is
    /// there as a whole.
    fn move_memory(&self, range: &Mapping, ids: &[FrameId], tier: usize) -> Vec<bool> {
        let Some(nodes) = &self.nodes else { return vec![true; ids.len()] };
        let there = nodes.of(&self.tiers[tier].tier);
        let pages = ids.iter().map(|id| (id.mapped_offset(), self.frames[*id].len()));
        let outcomes = nodes.mover.migrate(range, &pages.collect::<Vec<_>>(), there);
        let failed = outcomes.iter().filter(|outcome| **outcome != Outcome::Moved).count();
        if failed > 0 {
            self.counters.move_failures.add(failed as u64);
            tracing::debug!(pool = self.name, failed, there, "pages did not change nodes");
        }
        outcomes.into_iter().map(|outcome| outcome == Outcome::Moved).collect()
    }

    /// Returns a guard; while it lives, memory that this thread touches first comes from the node
    /// of `tier`. The thread's policy places the page: a policy of the page's own would split the
    /// range until the kernel refuses more.
    pub(crate) fn prefer(&self, tier: usize) -> Option<PreferredNode> {
        let nodes = self.nodes.as_ref()?;
        let entered = PreferredNode::enter(nodes.of(&self.tiers[tier].tier));
        entered
            .inspect_err(|error| tracing::debug!(pool = self.name, %error, "no node preferred"))
            .ok()
    }

    /// Populates the page of a new mapped frame, so that its memory is on the tier's node.
    pub(crate) fn settle_memory(&self, id: FrameId, len: usize) {
        let Some(range) = self.range.as_ref().filter(|_| self.nodes.is_some()) else { return };
        let _node = self.prefer(self.frames[id].tier());
        if let Err(error) = range.populate(id.mapped_offset(), len) {
            tracing::debug!(pool = self.name, %error, "memory is touched when it is written");
        }
    }

    fn change_tier(&self, id: FrameId, tier: usize, place: u32) {
        let frame = &self.frames[id];
        let from = frame.tier();
        self.tiers[from].leave(&self.frames, id);
        // There are at most MEMORY_TIERS_MAX tiers.
        self.tiers[tier].enter(&self.frames, u8::try_from(tier).unwrap_or(u8::MAX), id, place);
        // A page that was just demoted is cold until it is fixed again.
        frame.cold.store(tier > from, Ordering::Relaxed);
        frame.forget_promotion();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_ledger::Ledger;
    use terrace_store::{MemoryBlocks, Store};
    use terrace_sys::migrate::nodes_of;
    use terrace_sys::numa;
    use terrace_tier::MemoryTier;

    use crate::{Placement, Pool, PoolConfig};

    const MIB: u64 = 1 << 20;

    /// With several nodes the pages really move; with one the kernel reports that they are there
    /// already.
    #[test]
    fn pages_lie_on_the_nodes_of_their_tiers() {
        let store = Store::open(Arc::new(MemoryBlocks::new(64 * MIB)), "memory", 64 * MIB);
        let nodes = numa::nodes();
        let far = nodes[nodes.len() - 1].id;
        let mut config = PoolConfig::new("nodes", Ledger::new(4 * MIB));
        config.memory.push(MemoryTier {
            name: "far".into(),
            capacity_bytes: 8 * MIB,
            node: Some(far),
            latency_ns: 0,
        });
        config.store = Some(Arc::new(store.expect("opens")));
        config.placement = Placement::Mapped;
        let pool = Pool::new(config).expect("opens");
        let space = pool.create_space("owner", None).expect("room");
        let mut pages = Vec::new();
        for n in 0..2000_u32 {
            let (page, mut bytes) = space.allocate(4096 * (1 + n as usize % 3)).expect("room");
            bytes[..4].copy_from_slice(&n.to_le_bytes());
            pages.push(page);
        }
        for (n, page) in (0..2000_u32).zip(&mut pages) {
            assert_eq!(space.read(page).expect("there")[..4], n.to_le_bytes());
        }
        let stats = pool.stats();
        assert!(stats.tiers[1].demoted > 100, "{stats:?}");
        let home = pool.inner.nodes.as_ref().expect("a tier names a node").home;
        let range = pool.inner.range.as_ref().expect("mapped");
        let mut seen = [0; 2];
        for page in &mut pages {
            let held = space.read(page).expect("there");
            let (tier, len) = (held.tier(), held.len());
            let start = page.id().mapped_frame().mapped_offset();
            let offsets: Vec<usize> = (start..start + len).step_by(4096).collect();
            let wanted = i32::try_from([home, far][tier]).expect("small");
            let found = nodes_of(range, &offsets).expect("told");
            assert_eq!(found, vec![wanted; offsets.len()], "{page:?} in tier {tier}");
            seen[tier] += 1;
        }
        assert!(seen.iter().all(|seen| *seen > 100), "{seen:?}");
    }
}
