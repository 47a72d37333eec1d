//! The interface of residency policies, which decide which pages stay in which tier.
//!
//! The pool draws frames at random and asks the policy for a score; the lowest are the victims.
//! Sampling needs no list that every fix would have to update, works over any mix of page sizes,
//! and 32 draws find a page in the lowest tenth with a probability of 97 %.

use std::time::Duration;

/// Kind of access of a fix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reads the page's bytes.
    Read,
    /// Changes the page's bytes.
    Write,
}

/// A policy's view of a page in a frame.
#[derive(Clone, Copy, Debug)]
pub struct PageView {
    /// Index of the page's memory tier; 0 is the fastest.
    pub tier: usize,
    /// Length of the page.
    pub len_bytes: usize,
    /// MiB of frames handed out since the page's last fix.
    pub age_mib: u32,
    /// Fixes since the page came into this frame, up to 255; halved with every epoch that has
    /// passed.
    pub fixes: u8,
    /// Mean number of fixes per page of the next faster tier, counted the same way; in DRAM, of
    /// DRAM itself.
    pub mean_fixes: f32,
    /// True if the page differs from its copy on the store, or has none.
    pub dirty: bool,
    /// True if a scan brought the page in and it was not fixed again.
    pub cold: bool,
    /// Resident bytes of the page's owner divided by the owner's grant; 0 without a grant.
    pub grant_use: f64,
}

/// Activity of a pool over a short time, for policies that learn from it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interval {
    /// Length of the interval.
    pub elapsed: Duration,
    /// Fixes by memory tier, and the extra nanoseconds of a fix in that tier over one in DRAM.
    pub fixes: Vec<(u64, u64)>,
    /// Pages read from the store.
    pub loads: u64,
    /// Pages written to the store.
    pub write_backs: u64,
    /// Pages promoted or demoted.
    pub moves: u64,
}

/// Decides which pages stay in which tier.
///
/// All methods but [`Residency::observe`] are called under latches, by many threads, millions of
/// times: they must be short arithmetic over their arguments, and must not block.
pub trait Residency: Send + Sync + std::fmt::Debug {
    /// Returns the value of keeping this page in its tier. The page with the lowest score is
    /// evicted or demoted first; only the order of scores matters.
    fn score(&self, page: &PageView) -> f64;

    /// Admission to a slower tier: returns true if a victim is demoted to the next memory tier,
    /// which has `lower_free` bytes free of `lower_capacity`, and false if it leaves memory.
    fn admit(&self, page: &PageView, lower_free: u64, lower_capacity: u64) -> bool;

    /// Returns true if a page of a slower tier is to be promoted to the next faster one after this
    /// fix. Not called while the page is queued for promotion; if the promotion fails, the page's
    /// fixes are counted from 0 again.
    fn promote(&self, page: &PageView, access: Access) -> bool;

    /// Returns the index of the memory tier that a page read from the store is placed in, below
    /// `tiers`, the number of memory tiers; 0, the fastest, by default. If that tier has no room,
    /// the page is placed in the fastest.
    fn fetch_tier(&self, tiers: usize) -> usize {
        let _ = tiers;
        0
    }

    /// Reports the pool's activity since the last call. Called by one thread, fifty times a second
    /// while that thread is otherwise idle, and whenever it is woken.
    fn observe(&self, interval: &Interval) {
        let _ = interval;
    }
}
