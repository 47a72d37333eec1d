//! Eviction: selection of victims, and demotion, write-back or dropping of each.
//!
//! A page leaves a tier in one of three ways: it is demoted (copied to the next memory tier), it is
//! dropped because the store has its bytes, or it is written first and then dropped. All three only
//! try the frame's latch, so an evictor never waits for a latch.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::fix::Hold;
use crate::frame::Frame;
use crate::page::{FrameId, PageId};
use crate::pool::Inner;
use crate::residency::PageView;
use crate::state::PageState;
use crate::write_back::Haste;

/// Operations that an eviction may use to make room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effort {
    /// Drop clean pages, and demote: no I/O.
    Clean,
    /// Also write dirty pages.
    Write,
    /// Also let the kernel move pages to other nodes, which holds the pages for the duration of the
    /// move: for the background worker, ahead of demand.
    Keep,
}

impl Effort {
    fn writes(self) -> bool {
        self != Effort::Clean
    }

    fn haste(self) -> Haste {
        if self == Effort::Keep { Haste::Later } else { Haste::Now }
    }
}

/// Frames drawn for one decision, and the maximum number of draws to find them.
const SAMPLE: usize = 32;
const LOOKS_MAX: usize = 4 * SAMPLE;
/// Share of a sample that is evicted, lowest scores first (1 / `VICTIM_SHARE`).
const VICTIM_SHARE: usize = 4;
/// Approximate number of pages that an eviction or a promotion holds at a time: as many as one
/// system call releases or moves for little more than the price of one.
const VICTIMS_MAX: usize = 64;
/// Maximum bytes that a promotion holds at a time, except for a single longer page.
const PROMOTION_BATCH_BYTES: usize = 8 << 20;
/// Maximum number of frames visited by one sweep, which begins at a random frame; the rest is left
/// to the next call.
const SWEEP_LOOKS_MAX: u64 = 1 << 16;
/// Maximum number of decisions of one call, so that a call ends even while other threads take what
/// it frees.
const ROUNDS_MAX: usize = 64;
/// Maximum number of decisions in a row that free nothing, as when the store refuses dirty pages.
const IDLE_ROUNDS_MAX: usize = 4;
/// Maximum bytes written in one batch: enough to keep the device busy, few enough to be held
/// briefly.
pub(crate) const WRITE_BATCH_BYTES: usize = 8 << 20;

#[derive(Clone, Copy)]
struct Candidate {
    id: FrameId,
    page: PageId,
    score: f64,
    len: usize,
    dirty: bool,
}

/// Returns a pseudo-random number that differs between calls and threads.
pub(crate) fn random() -> u64 {
    use std::cell::Cell;
    thread_local!(static STATE: Cell<u64> = const { Cell::new(0) });
    STATE.with(|state| {
        // splitmix64, seeded by the address of the thread's own state.
        let seed = if state.get() == 0 { std::ptr::from_ref(state).addr() as u64 } else { 0 };
        let next = (state.get() ^ seed).wrapping_add(0x9E37_79B9_7F4A_7C15);
        state.set(next);
        let mixed = (next ^ (next >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    })
}

impl Inner {
    /// Builds the policy's view of the page in a frame.
    pub(crate) fn view(&self, frame: &Frame) -> PageView {
        PageView {
            tier: frame.tier(),
            len_bytes: frame.len().max(1),
            age_mib: self.now().wrapping_sub(frame.last_fix.load(Ordering::Relaxed)),
            fixes: frame.fixes_by(self.heat.epoch()),
            mean_fixes: self.heat.mean_fixes(frame.tier().saturating_sub(1)),
            dirty: frame.dirty.load(Ordering::Relaxed),
            cold: frame.cold.load(Ordering::Relaxed),
            grant_use: self.spaces.grant_use(frame.space.load(Ordering::Relaxed)),
        }
    }

    fn candidate(&self, id: FrameId, effort: Effort, lower: bool) -> Option<Candidate> {
        let frame = &self.frames[id];
        let page = frame.page()?;
        if frame.latch.is_held() || frame.writing.load(Ordering::Relaxed) {
            return None;
        }
        let view = self.view(frame);
        let writable = effort.writes() && self.store.is_some();
        if view.dirty && !writable && !lower {
            return None;
        }
        let score = self.residency.score(&view);
        Some(Candidate { id, page, score, len: view.len_bytes, dirty: view.dirty })
    }

    /// Evicts at least `bytes` from a tier, or as much as possible. Returns the bytes of the pages
    /// that left.
    ///
    /// `class` is the size class whose frames the caller needs: half of the draws are from it, so
    /// that one of its frames becomes warm.
    pub(crate) fn evict(
        self: &Arc<Self>,
        tier: usize,
        bytes: u64,
        effort: Effort,
        class: Option<usize>,
    ) -> u64 {
        let mut freed = 0;
        let mut idle_rounds = 0;
        for _ in 0..ROUNDS_MAX {
            // If the store refuses dirty pages, clean pages must still be evicted.
            let effort = if idle_rounds == 0 { effort } else { Effort::Clean };
            let victims = self.victims(tier, effort, class, bytes - freed, |_| true);
            if victims.is_empty() {
                break;
            }
            let gone = self.evict_these(tier, &victims, effort, bytes - freed);
            freed += gone;
            idle_rounds = if gone == 0 { idle_rounds + 1 } else { 0 };
            if freed >= bytes || idle_rounds == IDLE_ROUNDS_MAX {
                break;
            }
        }
        freed
    }

    /// Selects the pages with the lowest scores, of about `bytes`, few enough to be held at a time.
    fn victims(
        &self,
        tier: usize,
        effort: Effort,
        class: Option<usize>,
        bytes: u64,
        wanted: impl Fn(&Candidate) -> bool,
    ) -> Vec<Candidate> {
        let (mut all, mut all_bytes) = (Vec::new(), 0);
        while all.len() < VICTIMS_MAX && (all.is_empty() || all_bytes < bytes) {
            let before = all.len();
            for victim in self.sample(tier, effort, class, &wanted) {
                if all.iter().all(|known: &Candidate| known.id != victim.id) {
                    all_bytes += victim.len as u64;
                    all.push(victim);
                }
            }
            if all.len() == before {
                break;
            }
        }
        if all.is_empty() { self.sweep(tier, effort, &wanted) } else { all }
    }

    /// Writes pages that have no copy on the store, lowest score first, about `bytes` of them, and
    /// keeps them in memory. Returns the bytes written.
    pub(crate) fn write_some(self: &Arc<Self>, bytes: u64) -> u64 {
        let unbacked = |found: &Candidate| found.dirty && self.pages[found.page].stored().is_none();
        let write = |tier| {
            let (mut batch, mut batch_bytes) = (Vec::new(), 0);
            for found in self.victims(tier, Effort::Write, None, bytes, unbacked) {
                if batch_bytes >= bytes {
                    break;
                }
                batch_bytes += found.len as u64;
                batch.push((found.id, found.page));
            }
            self.write_and_keep(&batch, &mut None)
        };
        (0..self.tiers.len()).map(write).find(|written| *written > 0).unwrap_or(0)
    }

    /// Returns the lowest-scored quarter of a random sample, lowest first.
    fn sample(
        &self,
        tier: usize,
        effort: Effort,
        class: Option<usize>,
        wanted: impl Fn(&Candidate) -> bool,
    ) -> Vec<Candidate> {
        let lower = tier + 1 < self.tiers.len();
        let mut found: Vec<Candidate> = Vec::with_capacity(SAMPLE);
        for look in 0..LOOKS_MAX {
            if found.len() == SAMPLE {
                break;
            }
            let class = class.filter(|_| look % 2 == 0);
            let Some(id) = self.tiers[tier].draw(random(), class) else { continue };
            if found.iter().all(|candidate| candidate.id != id) {
                found.extend(self.candidate(id, effort, lower).filter(&wanted));
            }
        }
        found.sort_by(|a, b| a.score.total_cmp(&b.score));
        found.truncate(found.len().div_ceil(VICTIM_SHARE));
        found
    }

    /// Visits the frames of the tier one after the other, for when sampling found no victim.
    fn sweep(
        &self,
        tier: usize,
        effort: Effort,
        wanted: impl Fn(&Candidate) -> bool,
    ) -> Vec<Candidate> {
        let lower = tier + 1 < self.tiers.len();
        let frames = &self.tiers[tier];
        let begun = frames.begun();
        let start = random() % begun.max(1);
        (0..begun.min(SWEEP_LOOKS_MAX))
            .filter_map(|step| frames.nth((start + step) % begun))
            .filter_map(|id| self.candidate(id, effort, lower).filter(&wanted))
            .take(SAMPLE / VICTIM_SHARE)
            .collect()
    }

    /// Evicts the first of `victims` from the tier, until `bytes` are free. Returns the bytes
    /// freed.
    fn evict_these(
        self: &Arc<Self>,
        tier: usize,
        victims: &[Candidate],
        effort: Effort,
        bytes: u64,
    ) -> u64 {
        let mut planned = 0;
        let needed = victims.iter().take_while(|victim| {
            let more = planned < bytes.max(1);
            planned += victim.len as u64;
            more
        });
        let needed: Vec<Candidate> = needed.copied().collect();
        let moved = self.demote(tier, &needed, effort);
        let mut freed = 0;
        let (mut clean, mut dirty, mut dirty_bytes) = (Vec::new(), Vec::new(), 0);
        let most = self.batch_bytes(WRITE_BATCH_BYTES);
        for (victim, moved) in needed.iter().zip(moved) {
            if moved {
                freed += victim.len as u64;
            } else if !victim.dirty {
                clean.push((victim.id, victim.page));
            } else if effort.writes() && dirty_bytes < most {
                dirty_bytes += victim.len;
                dirty.push((victim.id, victim.page));
            }
        }
        freed + self.drop_clean(tier, &clean) + self.write_and_drop(tier, &dirty, effort)
    }

    /// Tries to acquire the exclusive hold of a page that is in this frame and this tier. The tier
    /// must be checked, since a mapped frame keeps its page when it moves to another tier.
    pub(crate) fn try_hold_in_tier(
        self: &Arc<Self>,
        id: FrameId,
        page: PageId,
        tier: usize,
    ) -> bool {
        if !self.try_hold(id, Hold::Exclusive, page) {
            return false;
        }
        let is_there = self.frames[id].tier() == tier;
        if !is_there {
            self.release_exclusive(id);
        }
        is_there
    }

    /// Drops those pages that are still in the tier, not held, and clean. Returns their bytes.
    fn drop_clean(self: &Arc<Self>, tier: usize, clean: &[(FrameId, PageId)]) -> u64 {
        let held = clean.iter().copied().filter(|(id, page)| {
            let held = self.try_hold_in_tier(*id, *page, tier);
            let dirty = held && self.frames[*id].dirty.load(Ordering::Relaxed);
            if dirty {
                self.release_exclusive(*id);
            }
            held && !dirty
        });
        self.drop_held(&held.collect::<Vec<_>>())
    }

    /// Drops clean pages that the caller holds exclusively. Returns their bytes.
    fn drop_held(self: &Arc<Self>, held: &[(FrameId, PageId)]) -> u64 {
        let tiers_and_lens = held.iter().map(|(id, _)| {
            let frame = &self.frames[*id];
            (frame.tier(), frame.len() as u64)
        });
        let tiers_and_lens: Vec<_> = tiers_and_lens.collect();
        self.give_room(&held.iter().map(|(id, _)| *id).collect::<Vec<_>>());
        for ((id, page), (tier, _)) in held.iter().zip(&tiers_and_lens) {
            let state = &self.pages[*page].state;
            let stepped = state.step(&self.lot, PageState::Resident(*id), PageState::Stored);
            debug_assert!(stepped.is_some(), "{page:?} left {id:?} under an exclusive hold");
            self.vacate(*id);
            self.tier_counters[*tier].evicted.add(1);
            // A thread that dooms a held page leaves freeing it to the holder.
            if let Some(seen) = stepped.filter(|seen| seen.is_doomed()) {
                self.free_doomed(*page, seen);
            }
        }
        tiers_and_lens.iter().map(|(_, len)| len).sum()
    }

    fn write_and_drop(
        self: &Arc<Self>,
        tier: usize,
        dirty: &[(FrameId, PageId)],
        effort: Effort,
    ) -> u64 {
        if dirty.is_empty() {
            return 0;
        }
        let mut held = self.write_back(dirty, effort.haste());
        held.retain(|(id, _)| {
            let frame = &self.frames[*id];
            let upgraded = frame.tier() == tier && frame.latch.try_upgrade();
            if !upgraded {
                self.release_shared(*id);
            }
            upgraded
        });
        self.drop_held(&held)
    }

    /// Demotes pages to the next memory tier, if there is one and the policy admits them. Returns
    /// true for each page moved.
    fn demote(self: &Arc<Self>, tier: usize, victims: &[Candidate], effort: Effort) -> Vec<bool> {
        let lower = tier + 1;
        // A caller that waits for a frame must not wait for the kernel to move pages.
        let by_kernel = self.nodes.is_some() && effort != Effort::Keep;
        let Some(frames) = self.tiers.get(lower).filter(|_| !by_kernel) else {
            return vec![false; victims.len()];
        };
        let (mut headroom, mut short) = (frames.headroom(), 0);
        let admitted = victims.iter().map(|victim| {
            let view = self.view(&self.frames[victim.id]);
            let admits = self.residency.admit(&view, headroom, frames.account.budget());
            if admits {
                let len = victim.len as u64;
                short += len.saturating_sub(headroom);
                headroom = headroom.saturating_sub(len);
            }
            admits
        });
        let admitted: Vec<bool> = admitted.collect();
        if short > 0 {
            self.make_room(lower, short, Effort::Clean, None);
        }
        let chosen = victims.iter().zip(&admitted).filter(|(_, admitted)| **admitted);
        let chosen: Vec<_> = chosen.map(|(victim, _)| (victim.id, victim.page)).collect();
        let mut moved = self.relocate(&chosen, tier, lower).into_iter();
        let result = admitted.iter().map(|admitted| *admitted && moved.next().unwrap_or(false));
        let result: Vec<bool> = result.collect();
        let count = result.iter().filter(|moved| **moved).count();
        self.tier_counters[lower].demoted.add(count as u64);
        result
    }

    /// Moves pages from one tier to another. Returns true for each page moved; the others are held
    /// or gone, or the tier has no room for them.
    fn relocate(
        self: &Arc<Self>,
        pages: &[(FrameId, PageId)],
        from: usize,
        to: usize,
    ) -> Vec<bool> {
        match &self.range {
            Some(range) => self.migrate(range, pages, from, to),
            None => pages.iter().map(|(id, page)| self.move_page(*id, *page, to)).collect(),
        }
    }

    /// Copies a page into a frame of another tier and updates its state. False if the page is held
    /// or gone, or the tier has no frame.
    fn move_page(self: &Arc<Self>, from: FrameId, page: PageId, tier: usize) -> bool {
        let source = &self.frames[from];
        let len = self.pages[page].len();
        let Some(taken) = self.take_from(tier, page, len) else { return false };
        let give_back = || self.tiers[tier].release(&self.frames, taken.frame, len);
        if !self.try_hold(from, Hold::Exclusive, page) {
            give_back();
            return false;
        }
        if source.len() != len {
            self.release_exclusive(from);
            give_back();
            return false;
        }
        let entry = &self.pages[page];
        let space = entry.owner().0;
        // A page that was just demoted is cold until it is fixed again.
        let cold = tier > source.tier();
        self.occupy(taken.frame, page, space, len, cold);
        let target = &self.frames[taken.frame];
        // SAFETY: both frames are held exclusively by this thread, and they are different frames.
        unsafe { target.bytes_mut().copy_from_slice(source.bytes()) };
        target.dirty.store(source.dirty.load(Ordering::Relaxed), Ordering::Relaxed);
        target.last_fix.store(source.last_fix.load(Ordering::Relaxed), Ordering::Relaxed);
        let to = PageState::Resident(taken.frame);
        let stepped = entry.state.step(&self.lot, PageState::Resident(from), to);
        debug_assert!(stepped.is_some(), "{page:?} left {from:?} under an exclusive hold");
        self.vacate(from);
        self.settle(taken.frame, page);
        true
    }

    /// Releases the exclusive hold of a page that has just come into a frame.
    pub(crate) fn settle(self: &Arc<Self>, id: FrameId, page: PageId) {
        // Must come after the state change: a thread that dooms the page later finds this frame.
        if self.pages[page].state.look().is_doomed() {
            self.frames[id].doom();
        }
        self.release_exclusive(id);
    }

    /// Promotes pages that are fixed often in slower memory to the next faster tier, if that has
    /// room to spare. A page that finds no room must be fixed as often again before it is queued
    /// again.
    pub(crate) fn promote(self: &Arc<Self>, pages: &[PageId]) {
        for upper in 0..self.tiers.len().saturating_sub(1) {
            let here = pages.iter().filter_map(|page| {
                let PageState::Resident(id) = self.pages.find(*page)?.state.get() else {
                    return None;
                };
                (self.frames[id].tier() == upper + 1).then_some((id, *page))
            });
            let here: Vec<(FrameId, PageId)> = here.collect();
            let mut rest = here.as_slice();
            while !rest.is_empty() {
                let (batch, after) = rest.split_at(self.promotion_batch(rest));
                self.promote_to(upper, batch);
                rest = after;
            }
        }
    }

    /// Number of pages from the front that are promoted together, at least one.
    fn promotion_batch(&self, pages: &[(FrameId, PageId)]) -> usize {
        let mut bytes = 0;
        let fits = pages.iter().take(VICTIMS_MAX).take_while(|(_, page)| {
            bytes += self.pages[*page].len();
            bytes <= PROMOTION_BATCH_BYTES
        });
        fits.count().max(1)
    }

    fn promote_to(self: &Arc<Self>, upper: usize, batch: &[(FrameId, PageId)]) {
        let bytes: u64 = batch.iter().map(|(_, page)| self.pages[*page].len() as u64).sum();
        let spare = self.low_water(upper);
        let short = (spare + bytes).saturating_sub(self.tiers[upper].headroom());
        if short > 0 {
            self.make_room(upper, short, Effort::Clean, None);
        }
        let mut room = self.tiers[upper].headroom().saturating_sub(spare);
        let fit = batch.iter().take_while(|(_, page)| {
            let len = self.pages[*page].len() as u64;
            let fits = len <= room;
            room = room.saturating_sub(len);
            fits
        });
        let fit = fit.count();
        let mut moved = self.relocate(&batch[..fit], upper + 1, upper);
        moved.resize(batch.len(), false);
        for ((id, _), moved) in batch.iter().zip(moved) {
            if moved {
                self.tier_counters[upper].promoted.add(1);
            } else {
                self.frames[*id].forget_promotion();
            }
        }
    }
}
