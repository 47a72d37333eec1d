//! List of the exclusive byte ranges of a region.

use std::ops::Range;
use std::sync::{RwLock, RwLockReadGuard};

use terrace_sys::sync::{read, write};

/// Exclusive byte ranges of a region and their owners.
#[derive(Debug, Default)]
pub(crate) struct Parts(RwLock<Vec<Taken>>);

#[derive(Debug)]
pub(crate) struct Taken {
    bytes: Range<usize>,
    holder: String,
}

impl Taken {
    pub(crate) fn holder(&self) -> &str {
        &self.holder
    }
}

impl Parts {
    /// Locks the list for reading: no part is taken or released while the guard is held.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Vec<Taken>> {
        read(&self.0)
    }

    /// Adds a part.
    ///
    /// # Errors
    /// Names the holder of a part that overlaps it.
    pub(crate) fn take(&self, bytes: Range<usize>, holder: String) -> Result<(), String> {
        let mut parts = write(&self.0);
        if let Some(taken) = first_within(&parts, bytes.clone()) {
            return Err(taken.holder.clone());
        }
        parts.push(Taken { bytes, holder });
        Ok(())
    }

    /// Removes a part.
    pub(crate) fn release(&self, bytes: &Range<usize>) {
        write(&self.0).retain(|part| part.bytes != *bytes);
    }
}

/// Returns the first part that overlaps a range.
pub(crate) fn first_within(parts: &[Taken], range: Range<usize>) -> Option<&Taken> {
    parts.iter().find(|part| range.start < part.bytes.end && part.bytes.start < range.end)
}
