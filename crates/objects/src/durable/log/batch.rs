//! Batches of changes in a log.
//!
//! ```text
//! batch    salt 8, checksum of the head 4, checksum of the changes 4, bytes 8, synced 8,
//!          number 8, checksum of the head before 4, changes
//! ```
//!
//! The head is recognized without the changes, and bytes of objects cannot imitate it without the
//! salt of the file: recovery finds heads in one pass, whatever bytes objects have. Both checksums
//! cover the batch's offset, too.

use std::collections::TryReserveError;

use terrace_sys::size::to_u64;

use crate::durable::blocks::{BlockPosition, Link, checksum, u32_at, u64_at};
use crate::durable::change::Change;

pub(crate) const BATCH_HEAD_BYTES: usize = 44;
/// Offset of the first byte that the checksum of a head covers.
const SUMMED: usize = 12;

/// Header of a batch, without its salt; the [module](self) shows its layout in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchHead {
    /// Bytes of the batch's changes.
    pub(crate) len: u64,
    /// Bytes of the file that were on the device when this batch was written; 0 if even the log
    /// before this one may not have been there completely.
    pub(crate) synced: u64,
    /// The batch before.
    pub(crate) after: Link,
    changes_sum: u32,
    sum: u32,
}

impl BatchHead {
    pub(crate) fn of(place: BlockPosition, after: Link, synced: u64, changes: &[u8]) -> Self {
        let (len, changes_sum) = (to_u64(changes.len()), checksum(place, changes));
        let mut head = Self { len, synced, after, changes_sum, sum: 0 };
        head.sum = checksum(place, &head.to_bytes(place)[SUMMED..]);
        head
    }

    pub(crate) fn to_bytes(self, place: BlockPosition) -> [u8; BATCH_HEAD_BYTES] {
        let mut all = [0; BATCH_HEAD_BYTES];
        all[..8].copy_from_slice(&place.salt.to_le_bytes());
        all[8..12].copy_from_slice(&self.sum.to_le_bytes());
        all[12..16].copy_from_slice(&self.changes_sum.to_le_bytes());
        all[16..24].copy_from_slice(&self.len.to_le_bytes());
        all[24..32].copy_from_slice(&self.synced.to_le_bytes());
        all[32..40].copy_from_slice(&self.after.number.to_le_bytes());
        all[40..].copy_from_slice(&self.after.sum.to_le_bytes());
        all
    }

    /// Returns the head at a position, if these bytes are one.
    pub(crate) fn from_bytes(all: &[u8; BATCH_HEAD_BYTES], place: BlockPosition) -> Option<Self> {
        let sum = u32_at(all, 8);
        if u64_at(all, 0) != place.salt || checksum(place, &all[SUMMED..]) != sum {
            return None;
        }
        let after = Link { number: u64_at(all, 32), sum: u32_at(all, 40) };
        let (changes_sum, len, synced) = (u32_at(all, 12), u64_at(all, 16), u64_at(all, 24));
        Some(Self { len, synced, after, changes_sum, sum })
    }

    /// True if these are the changes of the batch at a position.
    pub(crate) fn is_of(self, place: BlockPosition, changes: &[u8]) -> bool {
        checksum(place, changes) == self.changes_sum
    }

    /// Returns the link to the next batch.
    pub(crate) fn link(self) -> Link {
        Link { number: self.after.number.wrapping_add(1), sum: self.sum }
    }
}

/// Changes that become a batch, behind room for its head, so that both are written at once.
pub(crate) struct Changes(Vec<u8>);

impl Default for Changes {
    fn default() -> Self {
        Self(vec![0; BATCH_HEAD_BYTES])
    }
}

impl Changes {
    pub(crate) fn len(&self) -> usize {
        self.0.len() - BATCH_HEAD_BYTES
    }

    pub(crate) fn append(&mut self, change: Change<'_>) -> Result<(), TryReserveError> {
        self.0.try_reserve(change.bytes_max())?;
        change.append(&mut self.0);
        Ok(())
    }

    /// Clears the changes, and keeps memory for at most `kept_bytes`.
    pub(crate) fn clear(&mut self, kept_bytes: usize) {
        self.0.truncate(BATCH_HEAD_BYTES);
        self.0.shrink_to(kept_bytes);
    }

    /// Returns the batch at a position of the file, and the link to the next one.
    pub(crate) fn batch(
        &mut self,
        place: BlockPosition,
        after: Link,
        synced: u64,
    ) -> (&[u8], Link) {
        let (to, changes) = self.0.split_at_mut(BATCH_HEAD_BYTES);
        let head = BatchHead::of(place, after, synced, changes);
        to.copy_from_slice(&head.to_bytes(place));
        (&self.0, head.link())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_told_by_its_salt_its_place_and_every_bit() {
        let (place, after) = (BlockPosition { salt: 7, offset: 64 }, Link { number: 5, sum: 9 });
        let head = BatchHead::of(place, after, 64, b"changes");
        let bytes = head.to_bytes(place);
        assert_eq!(BatchHead::from_bytes(&bytes, place), Some(head));
        assert!(head.is_of(place, b"changes") && !head.is_of(place, b"changed"));
        assert_eq!(head.link().number, 6);
        for place in [BlockPosition { salt: 8, ..place }, BlockPosition { offset: 65, ..place }] {
            assert_eq!(BatchHead::from_bytes(&bytes, place), None);
            assert!(!head.is_of(place, b"changes"));
        }
        for bit in 0..8 * BATCH_HEAD_BYTES {
            let mut other = bytes;
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(BatchHead::from_bytes(&other, place), None, "{bit}");
        }
    }
}
