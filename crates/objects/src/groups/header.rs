//! Structures in the runs of groups: the location of an object with a run of its own, and the
//! header of a mixed run.

use crate::bytes;
use crate::groups::run::Run;
use crate::groups::word::FAR_BYTES;

/// Location of an object with a run of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Far {
    /// First granule.
    pub(crate) start: u64,
    /// Length of the object in bytes.
    pub(crate) len: u64,
}

impl Far {
    /// The object's run; at least a granule, so that pinned objects of no bytes have addresses too.
    pub(crate) fn run(self) -> Option<Run> {
        let len = usize::try_from(self.len).ok().filter(|len| *len <= isize::MAX.unsigned_abs())?;
        Some(Run { start: self.start, len: Run::granules(len.max(1)) })
    }

    pub(crate) fn to_bytes(self) -> [u8; FAR_BYTES] {
        let mut all = [0; FAR_BYTES];
        all[..8].copy_from_slice(&self.start.to_le_bytes());
        all[8..].copy_from_slice(&self.len.to_le_bytes());
        all
    }
}

/// Header at the beginning of a mixed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Bit n: the object of slot n has a run of its own.
    pub(crate) far: u64,
    /// Bit n: the object of slot n may only be read.
    pub(crate) read_only: u64,
    /// Offsets behind the header at which the bytes of each slot begin, and the end of the last
    /// one's.
    pub(crate) starts: [u16; 65],
}

impl Header {
    pub(crate) const BYTES: usize = 16 + 65 * 2;
    /// Offset of the last entry of `starts`, the end of the last object.
    pub(crate) const END: usize = 16 + 64 * 2;

    /// # Safety
    /// A run in the slabs must begin at `start` that is long enough for a header.
    pub(crate) unsafe fn look(start: *const u8, slot: u32) -> (bool, bool, usize, usize) {
        // SAFETY: all of it lies in the header, as slots are below 64.
        unsafe {
            let far = bytes::read_u64(start) >> slot & 1 != 0;
            let read_only = bytes::read_u64(start.add(8)) >> slot & 1 != 0;
            let place = start.add(16 + 2 * slot as usize);
            let (from, to) = (bytes::read_u16(place), bytes::read_u16(place.add(2)));
            (far, read_only, usize::from(from), usize::from(to))
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut all = [0; Self::BYTES];
        all[..8].copy_from_slice(&self.far.to_le_bytes());
        all[8..16].copy_from_slice(&self.read_only.to_le_bytes());
        for (place, start) in all[16..].chunks_exact_mut(2).zip(self.starts) {
            place.copy_from_slice(&start.to_le_bytes());
        }
        all
    }
}
