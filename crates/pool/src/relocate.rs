//! Relocation of pages between memory tiers: a framed page is copied into another frame, and the
//! kernel moves the memory behind the address of a mapped page.

use terrace_sys::map::Mapping;

use crate::core::Core;
use crate::hold::{self, Hold};
use crate::occupancy;
use crate::page::{FrameId, PageId};
use crate::state::PageState;

/// Moves pages from one tier to another. Returns true for each page moved; the others are held or
/// gone, or the tier has no room for them.
pub(crate) fn relocate(
    core: &Core,
    pages: &[(FrameId, PageId)],
    from: usize,
    to: usize,
) -> Vec<bool> {
    match core.addresses.range() {
        Some(range) => migrate(core, range, pages, from, to),
        None => pages.iter().map(|(id, page)| copy(core, *id, *page, to)).collect(),
    }
}

/// Copies a page into a frame of another tier and updates its state. False if the page is held or
/// gone, or the tier has no frame.
fn copy(core: &Core, from: FrameId, page: PageId, tier: usize) -> bool {
    let source = &core.frames[from];
    let len = core.pages[page].len();
    let Some(taken) = occupancy::take_from(core, tier, page, len) else { return false };
    let give_back = || core.tiers[tier].release(&core.frames, taken.frame, len);
    if !hold::try_hold(core, from, Hold::Exclusive, page) {
        give_back();
        return false;
    }
    if source.len() != len {
        hold::release_exclusive(core, from);
        give_back();
        return false;
    }
    let entry = &core.pages[page];
    // A page that was just demoted is cold until it is fixed again.
    let cold = tier > source.tier();
    occupancy::occupy(core, taken.frame, page, entry.owner().space(), len, cold);
    let target = &core.frames[taken.frame];
    // SAFETY: both frames are held exclusively by this thread, and they are different frames.
    unsafe { target.bytes_mut().copy_from_slice(source.bytes()) };
    target.continue_page(source);
    let to = PageState::Resident(taken.frame);
    let stepped = entry.state.step(&core.lot, PageState::Resident(from), to);
    debug_assert!(stepped.is_some(), "{page:?} left {from:?} under an exclusive hold");
    occupancy::vacate(core, from);
    hold::settle(core, taken.frame, page);
    true
}

/// Moves pages of a mapped pool from one tier to another, in one batch. Returns true for each page
/// moved.
///
/// An optimistic read of a moved page is invalid, as after any other exclusive hold, although
/// neither the page's address nor its bytes change.
fn migrate(
    core: &Core,
    range: &Mapping,
    pages: &[(FrameId, PageId)],
    from: usize,
    tier: usize,
) -> Vec<bool> {
    let target = &core.tiers[tier];
    let mut places = Vec::with_capacity(pages.len());
    for (id, page) in pages {
        let held = hold::try_hold_in_tier(core, *id, *page, from);
        let place = held.then(|| target.reserve_place(&core.frames[*id])).flatten();
        if held && place.is_none() {
            hold::release_exclusive(core, *id);
        }
        places.push(place);
    }
    let held = pages.iter().zip(&places).filter(|(_, place)| place.is_some());
    let held: Vec<FrameId> = held.map(|((id, _), _)| *id).collect();
    let mut arrived = move_memory(core, range, &held, tier).into_iter();
    let finish = pages.iter().zip(places).map(|((id, page), place)| {
        let Some(place) = place else { return false };
        let arrived = arrived.next().unwrap_or(false);
        if arrived {
            change_tier(core, *id, tier, place);
        } else {
            target.cancel_place(&core.frames[*id], place);
        }
        hold::settle(core, *id, *page);
        arrived
    });
    finish.collect()
}

/// Moves the memory of held frames to the tier's node. Returns true for each frame that is there as
/// a whole.
fn move_memory(core: &Core, range: &Mapping, ids: &[FrameId], tier: usize) -> Vec<bool> {
    let Some(nodes) = &core.nodes else { return vec![true; ids.len()] };
    let there = nodes.of(core.tiers[tier].memory());
    let pages = ids.iter().map(|id| (id.mapped_offset(), core.frames[*id].len()));
    let arrived = nodes.migrate(range, &pages.collect::<Vec<_>>(), there);
    let failed = arrived.iter().filter(|arrived| !**arrived).count();
    if failed > 0 {
        core.counters.move_failures.add(failed as u64);
        tracing::debug!(pool = core.name, failed, there, "pages did not change nodes");
    }
    arrived
}

/// Enters a held page, whose memory is in place, into another tier.
fn change_tier(core: &Core, id: FrameId, tier: usize, place: u32) {
    let frame = &core.frames[id];
    let from = frame.tier();
    core.tiers[from].leave(&core.frames, id);
    core.tiers[tier].enter(&core.frames, id, place);
    // A page that was just demoted is cold until it is fixed again.
    frame.set_cold(tier > from);
    frame.forget_promotion();
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
        let core = pool.core();
        let nodes = core.nodes.as_ref().expect("a tier names a node");
        let home = nodes.of(core.tiers[0].memory());
        let range = core.addresses.range().expect("mapped");
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
