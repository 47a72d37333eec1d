//! Plan of a pool: how many frames and page ids it reserves.

use std::io;
use std::sync::Arc;

use terrace_sys::map::Mapping;
use terrace_sys::size::{format_bytes, to_usize};
use terrace_tier::MemoryTier;

use crate::arena::decline_huge_pages;
use crate::page::{FRAMES_MAX, PAGE_IDS_MAX, PAGE_MIN_BYTES};
use crate::placement::Placement;
use crate::tier::TierFrames;

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
pub(crate) struct Plan {
    placement: Placement,
    /// Factor by which each tier may grow beyond its initial size.
    pub(crate) growth: u64,
    pub(crate) frames: u64,
    pub(crate) pages: u64,
}

impl Plan {
    /// Plans a pool over memory tiers and a store of `stored` bytes. Halves `growth` until there
    /// are enough frame ids; returns the reason if there are too few even without growth.
    pub(crate) fn new(
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
    pub(crate) fn reserve_range(&self, name: &str) -> io::Result<Option<Arc<Mapping>>> {
        if self.placement == Placement::Framed {
            return Ok(None);
        }
        let range = Mapping::reserve(to_usize(self.pages) * PAGE_MIN_BYTES)?;
        decline_huge_pages(&range, name);
        Ok(Some(Arc::new(range)))
    }
}
