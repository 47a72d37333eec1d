//! Fixing and releasing pages: by hint, through the page table, or by loading.
//!
//! Expected cost of a fix in DRAM: with a right hint one atomic exchange on the frame's latch word,
//! about 20 ns; through the page table one more cache line.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use terrace_store::Extent;

use crate::error::PoolError;
use crate::frame::Frame;
use crate::page::{FrameId, PageId, PageRef};
use crate::pool::Inner;
use crate::residency::Access;
use crate::space::Owner;
use crate::state::{PageState, Seen};

/// Latch mode of a fix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hold {
    Shared,
    Exclusive,
}

impl Hold {
    fn access(self) -> Access {
        match self {
            Hold::Shared => Access::Read,
            Hold::Exclusive => Access::Write,
        }
    }
}

impl Inner {
    fn no_such_page(&self, page: PageId) -> PoolError {
        PoolError::NoSuchPage { pool: self.name.clone(), page }
    }

    pub(crate) fn latch_timeout(&self, page: PageId, waited: Duration) -> PoolError {
        let space = self.pages.find(page).map_or(0, |entry| entry.owner().0);
        let (pool, space) = (self.name.clone(), self.space_name(space));
        PoolError::LatchTimeout { pool, page, space, waited }
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
    fn wrong_space(&self, page: PageId, owner: Owner) -> PoolError {
        let (pool, space) = (self.name.clone(), self.owner_name(owner));
        let owner = self.owner_name(self.pages[page].owner());
        PoolError::WrongSpace { pool, page, space, owner }
    }

    /// Fixes a page of `owner` and repairs its hint.
    pub(crate) fn fix(
        self: &Arc<Self>,
        page: &mut PageRef,
        owner: Owner,
        hold: Hold,
    ) -> Result<FrameId, PoolError> {
        self.fix_until(page, owner, hold, None)
    }

    /// Fixes a page of `owner` and repairs its hint. Waits until `deadline`, or without one for the
    /// pool's timeout.
    pub(crate) fn fix_until(
        self: &Arc<Self>,
        page: &mut PageRef,
        owner: Owner,
        hold: Hold,
        deadline: Option<Instant>,
    ) -> Result<FrameId, PoolError> {
        if let Some(frame) = self.fix_by_hint(*page, owner, hold) {
            self.counters.hint_hits.add(1);
            self.after_fix(frame, hold.access());
            return Ok(frame);
        }
        self.counters.look_ups.add(1);
        let frame = self.fix_by_id(page.id(), owner, hold, deadline)?;
        // Under the hold the page cannot be freed and its id not reused, so this check is final.
        if self.pages[page.id()].owner() != owner {
            self.let_go(frame, hold);
            return Err(self.wrong_space(page.id(), owner));
        }
        page.repair(frame);
        self.after_fix(frame, hold.access());
        Ok(frame)
    }

    /// Fixes the page in the frame that the hint names, if that frame has the page of `owner` and
    /// its latch is free. The page is checked before the latch is taken, which avoids the latch for
    /// most wrong hints, and again under the latch.
    fn fix_by_hint(self: &Arc<Self>, page: PageRef, owner: Owner, hold: Hold) -> Option<FrameId> {
        let id = page.hint()?;
        let frame = self.frames.find(id).filter(|frame| frame.holds(page.id()))?;
        if !self.try_hold_in(frame, id, hold, page.id()) {
            return None;
        }
        if !frame.is_of(owner) {
            self.let_go(id, hold);
            return None;
        }
        Some(id)
    }

    /// Tries the latch of `id`, and keeps the hold only if the frame has `page` then.
    pub(crate) fn try_hold(self: &Arc<Self>, id: FrameId, hold: Hold, page: PageId) -> bool {
        self.try_hold_in(&self.frames[id], id, hold, page)
    }

    fn try_hold_in(self: &Arc<Self>, frame: &Frame, id: FrameId, hold: Hold, page: PageId) -> bool {
        let taken = match hold {
            Hold::Shared => frame.latch.try_shared(),
            Hold::Exclusive => frame.latch.try_exclusive(),
        };
        taken && self.keep_if(frame, id, hold, page)
    }

    fn keep_if(self: &Arc<Self>, frame: &Frame, id: FrameId, hold: Hold, page: PageId) -> bool {
        let right = frame.holds(page);
        if !right {
            self.let_go(id, hold);
        }
        right
    }

    /// Releases a hold on a page that was not the one looked for. Like any other hold it may have
    /// kept a thread that doomed that page from freeing it.
    #[cold]
    fn let_go(self: &Arc<Self>, id: FrameId, hold: Hold) {
        match hold {
            Hold::Shared => self.release_shared(id),
            Hold::Exclusive => self.release_exclusive(id),
        }
    }

    fn fix_by_id(
        self: &Arc<Self>,
        page: PageId,
        owner: Owner,
        hold: Hold,
        deadline: Option<Instant>,
    ) -> Result<FrameId, PoolError> {
        let entry = self.pages.find(page).ok_or_else(|| self.no_such_page(page))?;
        // Before any wait or load on behalf of a page of another space.
        self.check_owner(page, owner)?;
        // Reading the clock costs as much as the fix: it is read only if the caller has to wait.
        if let PageState::Resident(id) = entry.state.get()
            && self.try_hold(id, hold, page)
        {
            return Ok(id);
        }
        let start = Instant::now();
        let deadline = deadline.unwrap_or_else(|| start + self.patience);
        loop {
            match entry.state.get() {
                PageState::Free => return Err(self.no_such_page(page)),
                PageState::Stored => self.load_now(page, deadline)?,
                PageState::Loading => {
                    if entry.state.loaded(&self.lot, Some(deadline)).is_none() {
                        return Err(self.latch_timeout(page, start.elapsed()));
                    }
                }
                PageState::Resident(id) => match self.hold_in(id, hold, page, deadline) {
                    Some(true) => return Ok(id),
                    Some(false) => {}
                    None => return Err(self.latch_timeout(page, start.elapsed())),
                },
            }
            if Instant::now() > deadline {
                return Err(self.latch_timeout(page, start.elapsed()));
            }
        }
    }

    /// Waits for the latch of `id`. False if the page had left the frame by then, `None` if
    /// `deadline` passed.
    pub(crate) fn hold_in(
        self: &Arc<Self>,
        id: FrameId,
        hold: Hold,
        page: PageId,
        deadline: Instant,
    ) -> Option<bool> {
        let frame = &self.frames[id];
        let here = || frame.holds(page);
        let taken = match hold {
            Hold::Shared => frame.latch.shared_while(&self.lot, Some(deadline), here),
            Hold::Exclusive => frame.latch.exclusive_while(&self.lot, Some(deadline), here),
        };
        taken.map(|taken| taken && self.keep_if(frame, id, hold, page))
    }

    /// Counts the fix, updates the page's recency, and emulates the latency of a slow tier.
    pub(crate) fn after_fix(&self, id: FrameId, access: Access) {
        let frame = &self.frames[id];
        frame.touch(self.now(), self.heat.epoch());
        let tier = frame.tier();
        self.count_fixes(tier, 1, frame.len());
        if tier > 0 {
            self.serve_slowly(id, tier, access);
        }
    }

    pub(crate) fn count_fixes(&self, tier: usize, fixes: u64, len: usize) {
        let counters = &self.tier_counters[tier];
        counters.fixes.add(fixes);
        counters.fixed_bytes.add(fixes * len as u64);
    }

    /// Injects the slow tier's emulated latency, and requests promotion if the policy wants it.
    #[cold]
    pub(crate) fn serve_slowly(&self, id: FrameId, tier: usize, access: Access) {
        self.tiers[tier].delay();
        self.consider_promotion(id, access);
    }

    pub(crate) fn consider_promotion(&self, id: FrameId, access: Access) {
        let frame = &self.frames[id];
        let asked = frame.asked.load(Ordering::Relaxed);
        if !asked && self.residency.promote(&self.view(frame), access) {
            self.ask_promotion(id);
        }
    }

    /// Releases a shared hold. If it was the last one, a doomed page is freed.
    pub(crate) fn release_shared(self: &Arc<Self>, id: FrameId) {
        let frame = &self.frames[id];
        if frame.latch.release_shared(&self.lot) {
            self.after_release(id);
        }
    }

    /// Releases the exclusive hold. A doomed page is freed.
    pub(crate) fn release_exclusive(self: &Arc<Self>, id: FrameId) {
        self.frames[id].latch.release_exclusive(&self.lot);
        self.after_release(id);
    }

    fn after_release(self: &Arc<Self>, id: FrameId) {
        if self.frames[id].may_be_doomed() {
            self.look_for_doom(id);
        }
        self.progress.notify();
    }

    /// Frees the page of a frame that was released, if the page is doomed and not held.
    #[cold]
    fn look_for_doom(self: &Arc<Self>, id: FrameId) {
        let Some(page) = self.frames[id].page() else { return };
        let seen = self.pages[page].state.look();
        if seen.is_doomed() && seen.state() == PageState::Resident(id) {
            self.try_free_resident(id, page);
        }
    }

    /// Frees a page: at once, or if it is held with its last hold, or if it is loading after the
    /// load.
    pub(crate) fn free(self: &Arc<Self>, page: PageId) {
        let Some(entry) = self.pages.find(page) else { return };
        if let Some(doomed) = entry.state.doom() {
            self.free_doomed(page, doomed);
        }
    }

    /// Frees the page that was `seen` doomed, in whatever state it is by now. If another thread was
    /// faster, the id may have been reused (ABA): the new page is not touched.
    pub(crate) fn free_doomed(self: &Arc<Self>, page: PageId, mut seen: Seen) {
        let entry = &self.pages[page];
        loop {
            let mut left_to_holder = false;
            match seen.state() {
                PageState::Free | PageState::Loading => return,
                PageState::Stored => {
                    // Read before the id is free: another page may then overwrite the entry.
                    let (extent, owner) = (self.extent_to_free(page), entry.owner());
                    if entry.state.end(&self.lot, seen) {
                        self.free_extent(extent);
                        self.return_id(owner, page);
                        return;
                    }
                }
                PageState::Resident(id) => {
                    self.frames[id].doom();
                    if self.try_free_resident(id, page) {
                        return;
                    }
                    left_to_holder = true;
                }
            }
            let now = entry.state.look();
            if !now.same_life(seen) || (left_to_holder && now == seen) {
                return;
            }
            seen = now;
        }
    }

    /// Frees `page` if it is in frame `id`, doomed, and not held. Returns true if it did.
    fn try_free_resident(self: &Arc<Self>, id: FrameId, page: PageId) -> bool {
        if !self.try_hold(id, Hold::Exclusive, page) {
            return false;
        }
        // Another thread may have freed the page, and its id may name a new page here by now (ABA).
        // Under the hold its word cannot change any more, except that it may be doomed.
        let doomed = self.pages[page].state.look().is_doomed();
        if doomed {
            self.free_held(id, page);
        } else {
            self.release_exclusive(id);
        }
        doomed
    }

    /// Frees `page`, which is in frame `id` under the caller's exclusive hold.
    fn free_held(self: &Arc<Self>, id: FrameId, page: PageId) {
        let entry = &self.pages[page];
        let (extent, owner) = (self.extent_to_free(page), entry.owner());
        if entry.stored().is_none() {
            self.unbacked.fetch_sub(entry.len() as u64, Ordering::Relaxed);
        }
        self.give_room(&[id]);
        let stepped = entry.state.step(&self.lot, PageState::Resident(id), PageState::Free);
        debug_assert!(stepped.is_some(), "{page:?} left {id:?} under an exclusive hold");
        self.vacate(id);
        self.free_extent(extent);
        self.return_id(owner, page);
    }

    /// Returns the page's extent, unless a directory outside the pool still refers to it.
    fn extent_to_free(&self, page: PageId) -> Option<Extent> {
        let entry = &self.pages[page];
        entry.stored().filter(|_| !entry.is_forgotten()).map(|stored| stored.extent)
    }

    fn free_extent(&self, extent: Option<Extent>) {
        if let (Some(store), Some(extent)) = (&self.store, extent) {
            store.free(extent);
        }
    }

    /// Decommits the memory of mapped frames, all held exclusively by the caller, whose pages are
    /// about to leave memory. Framed pages release theirs in [`Inner::vacate`].
    ///
    /// Must be called before the page's state changes: a mapped page has the same frame when it is
    /// loaded again, and another thread may load it at once.
    pub(crate) fn give_room(&self, ids: &[FrameId]) {
        let Some(range) = &self.range else { return };
        let ranges: Vec<_> =
            ids.iter().map(|id| (id.mapped_offset(), self.frames[*id].committed())).collect();
        let given = range.decommit_batch(&ranges);
        if let Err(error) = &given {
            tracing::warn!(pool = self.name, %error, "memory of pages was not given back");
        }
        for id in ids {
            let frame = &self.frames[*id];
            if given.is_ok() {
                frame.set_committed(0);
            }
            self.tiers[frame.tier()].leave(&self.frames, *id);
        }
    }

    /// Removes the page from a frame held exclusively, releases the hold, and frees a framed pool's
    /// frame.
    pub(crate) fn vacate(self: &Arc<Self>, id: FrameId) {
        let frame = &self.frames[id];
        let (tier, len) = (frame.tier(), frame.len());
        self.spaces.left(frame.space.load(Ordering::Relaxed), len as u64);
        frame.set_page(None);
        frame.clear_doom();
        frame.dirty.store(false, Ordering::Relaxed);
        frame.latch.release_exclusive(&self.lot);
        if self.range.is_none() {
            self.tiers[tier].release(&self.frames, id, len);
        }
        self.progress.notify();
    }
}

#[cfg(test)]
mod tests;
