//! Parts of a region that have one user each.

use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use terrace_sys::size::to_u64;

use crate::error::RegionError;
use crate::region::{Advice, Region};

/// Who has which bytes.
#[derive(Debug, Default)]
pub(crate) struct Parts(RwLock<Vec<Taken>>);

#[derive(Debug)]
pub(crate) struct Taken {
    bytes: Range<usize>,
    pub(crate) holder: String,
}

impl Parts {
    /// Nobody takes a part, or gives one back, while this is held.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Vec<Taken>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Vec<Taken>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first part that has a byte of a range.
pub(crate) fn first_within(parts: &[Taken], range: Range<usize>) -> Option<&Taken> {
    parts.iter().find(|part| range.start < part.bytes.end && part.bytes.start < range.end)
}

/// A part of a region that is one user's alone until this is dropped: no other part has a byte of
/// it, and no safe call of the region reads, changes or loses one.
#[derive(Debug)]
pub struct Part {
    region: Arc<Region>,
    bytes: Range<usize>,
}

impl Part {
    /// Takes `len` bytes from `offset` on; `holder` is who has them, for the errors of others.
    ///
    /// # Errors
    /// [`RegionError::Range`]; [`RegionError::Taken`] when somebody has a byte of them;
    /// [`RegionError::Broken`] when the region does not get its bytes in and out any more.
    pub fn take(
        region: &Arc<Region>,
        holder: impl Into<String>,
        offset: usize,
        len: usize,
    ) -> Result<Self, RegionError> {
        region.check(to_u64(offset), to_u64(len))?;
        region.check_pagers()?;
        let bytes = offset..offset + len;
        let mut parts = region.parts().write();
        if let Some(taken) = first_within(&parts, bytes.clone()) {
            return Err(region.taken(taken, to_u64(offset), to_u64(len)));
        }
        parts.push(Taken { bytes: bytes.clone(), holder: holder.into() });
        drop(parts);
        Ok(Self { region: Arc::clone(region), bytes })
    }

    /// The region.
    #[must_use]
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Where it begins.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.bytes.start
    }

    /// Its bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Its first byte. The address is valid until the region is dropped.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.region.as_ptr().wrapping_add(self.bytes.start)
    }

    /// As [`Region::advise`], of bytes that are counted from the part's first one. Whoever uses
    /// their addresses answers for what advice does to them.
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
        self.region.parts().write().retain(|part| part.bytes != self.bytes);
    }
}
