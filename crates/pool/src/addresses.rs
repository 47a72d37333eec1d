//! Addresses of pages: in one reserved range if the pool is mapped, in the frames of its tiers if
//! it is framed.

use std::sync::Arc;

use terrace_sys::map::Mapping;

use crate::page::FrameId;

/// Addresses of a pool's pages.
#[derive(Debug)]
pub(crate) struct Addresses {
    /// Address range of all pages; `None` unless the pool is mapped.
    range: Option<Arc<Mapping>>,
    /// Address of the page of frame 0. Steps of 4 KiB from there give the pages of all mapped
    /// frames, or of the frames of the smallest class in DRAM.
    first: FirstData,
}

/// Base address for pointer arithmetic; never dereferenced through this type.
#[derive(Clone, Copy, Debug)]
struct FirstData(*const u8);

// SAFETY: the address is only computed with; nothing is read or written through it.
unsafe impl Send for FirstData {}
// SAFETY: as above.
unsafe impl Sync for FirstData {}

impl Addresses {
    /// Creates the addresses of a mapped pool, whose pages lie in `range`, or of a framed pool if
    /// `range` is `None`. `first` is the address of the page of frame 0.
    pub(crate) fn new(range: Option<Arc<Mapping>>, first: *const u8) -> Self {
        Self { range, first: FirstData(first) }
    }

    /// Returns the address range of all pages of a mapped pool.
    pub(crate) fn range(&self) -> Option<&Mapping> {
        self.range.as_deref()
    }

    /// True if a page has one address for life.
    pub(crate) fn is_mapped(&self) -> bool {
        self.range.is_some()
    }

    /// Returns the likely address of a frame's page without reading the frame: right for a mapped
    /// frame or one of the smallest class in DRAM, arbitrary for others.
    #[inline(always)]
    pub(crate) fn likely(&self, id: FrameId) -> *const u8 {
        self.first.0.wrapping_add(id.mapped_offset())
    }
}
