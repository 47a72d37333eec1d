//! NUMA nodes of a mapped pool's tiers, and the moving of pages between them by the kernel.

use terrace_sys::map::Mapping;
use terrace_sys::policy::PreferredNode;
use terrace_sys::probe::Probe;
use terrace_tier::MemoryTier;
use terrace_tier::mover::{Mover, Outcome};

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

    /// Returns the node of the memory of a tier.
    pub(crate) fn of(&self, tier: &MemoryTier) -> u32 {
        tier.node.unwrap_or(self.home)
    }

    /// Moves parts of a range, as offsets and lengths, to a node. Returns true for each part that
    /// is there as a whole.
    pub(crate) fn migrate(
        &self,
        range: &Mapping,
        parts: &[(usize, usize)],
        there: u32,
    ) -> Vec<bool> {
        let outcomes = self.mover.migrate(range, parts, there);
        outcomes.into_iter().map(|outcome| outcome == Outcome::Moved).collect()
    }

    /// Returns a guard; while it lives, memory that this thread touches first comes from the node
    /// of `tier`. The thread's policy places the page: a policy of the page's own would split the
    /// range until the kernel refuses more.
    pub(crate) fn prefer(&self, pool: &str, tier: &MemoryTier) -> Option<PreferredNode> {
        let entered = PreferredNode::enter(self.of(tier));
        entered.inspect_err(|error| tracing::debug!(pool, %error, "no node preferred")).ok()
    }
}
