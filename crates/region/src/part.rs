//! Parts: exclusive byte ranges of a region.

use std::ops::Range;
use std::sync::Arc;

use terrace_sys::size::to_u64;

use crate::advice::Advice;
use crate::error::RegionError;
use crate::region::Region;

/// Exclusive byte range of a region, held until this is dropped: no other part overlaps it, and no
/// safe call of the region reads, changes or loses a byte of it.
#[derive(Debug)]
pub struct Part {
    region: Arc<Region>,
    bytes: Range<usize>,
}

impl Part {
    /// Takes `len` bytes from `offset` on; `holder` names the owner in the errors of other callers.
    ///
    /// # Errors
    /// [`RegionError::Range`]; [`RegionError::Taken`] when another part overlaps the range;
    /// [`RegionError::Broken`] when a pager has failed.
    pub fn take(
        region: &Arc<Region>,
        holder: impl Into<String>,
        offset: usize,
        len: usize,
    ) -> Result<Self, RegionError> {
        region.check(to_u64(offset), to_u64(len))?;
        region.check_pagers()?;
        let bytes = offset..offset + len;
        let taken = region.parts().take(bytes.clone(), holder.into());
        taken.map_err(|holder| region.taken(holder, to_u64(offset), to_u64(len)))?;
        Ok(Self { region: Arc::clone(region), bytes })
    }

    /// Region of the part.
    #[must_use]
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Offset of the part in the region.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.bytes.start
    }

    /// Length of the part in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True if the part is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the address of the first byte, valid until the region is dropped.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.region.as_ptr().wrapping_add(self.bytes.start)
    }

    /// Gives an access hint as [`Region::advise`] does, at an offset from the part's first byte.
    /// Callers that use the addresses directly must account for the bytes that advice may lose.
    ///
    /// # Errors
    /// As [`Region::advise`].
    pub fn advise(&self, offset: usize, len: usize, advice: Advice) -> Result<(), RegionError> {
        let end = offset.checked_add(len).filter(|end| *end <= self.len());
        let Some(_) = end else {
            return Err(self.region.outside(to_u64(offset), to_u64(len), to_u64(self.len())));
        };
        self.region.advise_any(to_u64(self.bytes.start + offset), to_u64(len), advice)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.region.parts().release(&self.bytes);
    }
}
