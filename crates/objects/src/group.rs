//! A group: 64 consecutive ids, and the run of memory that holds their objects.
//!
//! A group takes 32 bytes of the table, half a byte per id. If all objects of the group have the
//! same length, these bytes alone locate an object: the table is small enough to stay in the
//! processor's caches, so that a read misses the caches once.
//!
//! ```text
//! latch    8 bytes   held while the group changes; its version serves optimistic readers
//! run      8 bytes   bits 63..60 flags, 59..48 kind, 47..36 granules, 35..0 first granule
//! present  8 bytes   bit n: id n has an object
//! marked   8 bytes   bit n: with an object, id n is locked or pinned; without, it is reserved
//! ```
//!
//! The kind tells the layout of the run. Objects stand in the order of their ids without gaps, so
//! the position of an object is the number of objects before it:
//!
//! ```text
//! 1..=1008    uniform: all objects have so many bytes
//! REMOTE      uniform: 16 bytes per object, its first granule and its length
//! MIXED       far 8 bytes, read-only 8 bytes, 65 x 2 bytes of start offsets, bytes
//! ```

use terrace_latch::{Latch, Version};
use terrace_sys::size::{to_u64, to_usize};

use crate::bytes;
use crate::slabs::{GRANULE_BYTES, Run, Slabs};
use crate::sync::{AtomicU64, Ordering};

/// Ids of a group.
pub(crate) const GROUP_SLOTS: u64 = 64;
/// The longest object that lies in its group's run; longer ones have runs of their own.
pub(crate) const NEAR_BYTES_MAX: usize = 1008;
/// Bytes in the group's run that locate an object with a run of its own.
pub(crate) const FAR_BYTES: usize = 16;

/// Bits of the first granule of a run.
pub(crate) const START_BITS: u32 = 36;
const LEN_BITS: u32 = 12;
const KIND_BITS: u32 = 12;
const LEN_SHIFT: u32 = START_BITS;
const KIND_SHIFT: u32 = LEN_SHIFT + LEN_BITS;
const FLAG_SHIFT: u32 = KIND_SHIFT + KIND_BITS;

/// Layout of a group's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Objects of any lengths, described by a header.
    Mixed,
    /// Objects of so many bytes each.
    Uniform(usize),
    /// Objects with runs of their own.
    Remote,
}

const MIXED: u64 = 0;
const REMOTE: u64 = (1 << KIND_BITS) - 1;

impl Kind {
    fn bits(self) -> u64 {
        match self {
            Self::Mixed => MIXED,
            Self::Uniform(stride) => to_u64(stride),
            Self::Remote => REMOTE,
        }
    }

    /// Bytes from one object to the next in the uniform kinds.
    #[inline]
    pub(crate) fn stride(self) -> Option<usize> {
        match self {
            Self::Mixed => None,
            Self::Uniform(stride) => Some(stride),
            Self::Remote => Some(FAR_BYTES),
        }
    }
}

/// Flags of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flag {
    /// Some threads create their objects in this group.
    Owned = 1,
    /// The group is in a list of groups with free ids, by the length of their objects.
    Listed = 2,
    /// Compared with the store's flag, tells groups that were changed or copied since a dump began
    /// from the others.
    Turned = 4,
    /// The group is in the list of groups without objects.
    Emptied = 8,
}

/// The second word of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunWord(u64);

impl RunWord {
    /// The run; one of length 0 if the group has none.
    #[inline]
    pub(crate) fn run(self) -> Run {
        let start = self.0 & ((1 << START_BITS) - 1);
        Run { start, len: (self.0 >> LEN_SHIFT) & ((1 << LEN_BITS) - 1) }
    }

    /// Layout of the run.
    #[inline]
    pub(crate) fn kind(self) -> Kind {
        match (self.0 >> KIND_SHIFT) & ((1 << KIND_BITS) - 1) {
            MIXED => Kind::Mixed,
            REMOTE => Kind::Remote,
            stride => Kind::Uniform(to_usize(stride)),
        }
    }

    /// Bytes of the run.
    #[inline]
    pub(crate) fn bytes(self) -> usize {
        to_usize(self.run().len) * GRANULE_BYTES
    }

    #[inline]
    pub(crate) fn has(self, flag: Flag) -> bool {
        self.0 >> FLAG_SHIFT & flag as u64 != 0
    }

    #[must_use]
    pub(crate) fn with(self, flag: Flag, set: bool) -> Self {
        let bit = (flag as u64) << FLAG_SHIFT;
        Self(if set { self.0 | bit } else { self.0 & !bit })
    }

    /// Returns the word with another run and kind, and the same flags.
    #[must_use]
    pub(crate) fn over(self, run: Run, kind: Kind) -> Self {
        debug_assert!(run.start < 1 << START_BITS && run.len < 1 << LEN_BITS, "{run:?}");
        let flags = self.0 >> FLAG_SHIFT << FLAG_SHIFT;
        Self(flags | kind.bits() << KIND_SHIFT | run.len << LEN_SHIFT | run.start)
    }
}

/// Entry of the table for 64 ids. All zero bytes are a group without objects.
#[repr(C, align(32))]
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) latch: Latch,
    run: AtomicU64,
    present: AtomicU64,
    marked: AtomicU64,
}

/// Copy of a group's words at one moment. If it was read without the latch it may be torn, and is
/// discarded when the version has changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) word: RunWord,
    pub(crate) present: u64,
    pub(crate) marked: u64,
}

/// Location of an object's bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) at: *mut u8,
    pub(crate) len: usize,
    /// The object's own run, if it has one.
    pub(crate) far: Option<Run>,
    pub(crate) read_only: bool,
}

impl Group {
    /// Reads the group's words.
    #[inline]
    pub(crate) fn view(&self) -> View {
        View {
            word: RunWord(self.run.load(Ordering::Relaxed)),
            present: self.present.load(Ordering::Relaxed),
            marked: self.marked.load(Ordering::Relaxed),
        }
    }

    /// True if the group has not changed since version `seen`, so that what was read since is
    /// valid.
    #[inline]
    pub(crate) fn is_still(&self, seen: Version) -> bool {
        self.latch.is_still(seen)
    }

    /// Sets the run word. The caller holds the latch; so for the next three.
    pub(crate) fn set_word(&self, word: RunWord) {
        self.run.store(word.0, Ordering::Relaxed);
    }

    /// Takes over the run and objects of `other`, a group that no other thread can see. This group
    /// has none itself.
    pub(crate) fn adopt(&self, other: &View) {
        let word = self.view().word;
        self.set_word(word.over(other.word.run(), other.word.kind()));
        self.present.store(other.present, Ordering::Relaxed);
    }

    pub(crate) fn set_present(&self, slot: u32, present: bool) {
        set(&self.present, slot, present);
    }

    pub(crate) fn set_marked(&self, slot: u32, marked: bool) {
        set(&self.marked, slot, marked);
    }
}

fn set(word: &AtomicU64, slot: u32, value: bool) {
    let (now, bit) = (word.load(Ordering::Relaxed), 1 << slot);
    word.store(if value { now | bit } else { now & !bit }, Ordering::Relaxed);
}

impl View {
    #[inline]
    pub(crate) fn is_present(&self, slot: u32) -> bool {
        self.present >> slot & 1 != 0
    }

    #[inline]
    pub(crate) fn is_marked(&self, slot: u32) -> bool {
        self.marked >> slot & 1 != 0
    }

    /// Number of objects.
    pub(crate) fn count(&self) -> usize {
        self.present.count_ones() as usize
    }

    /// Number of objects before that of a slot.
    #[inline]
    pub(crate) fn rank(&self, slot: u32) -> usize {
        // A group is full as a rule, and counting bits is not one instruction on every processor.
        if self.present == u64::MAX {
            return slot as usize;
        }
        (self.present & ((1 << slot) - 1)).count_ones() as usize
    }

    /// Slots that neither have an object nor are reserved.
    pub(crate) fn free_slots(&self) -> u64 {
        !(self.present | self.marked)
    }

    /// Slots that are reserved.
    pub(crate) fn reserved_slots(&self) -> u64 {
        self.marked & !self.present
    }

    /// Slots that have objects.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> + use<> {
        bits(self.present)
    }

    /// Fast path of most reads: locates the object of a slot if it is present, neither locked nor
    /// pinned, and in a uniform group.
    #[inline]
    pub(crate) fn find_plainly(&self, slabs: &Slabs, slot: u32) -> Option<(*const u8, usize)> {
        let len = to_usize(self.word.0 >> KIND_SHIFT & ((1 << KIND_BITS) - 1));
        let plain = self.present & !self.marked;
        if plain >> slot & 1 == 0 || len.wrapping_sub(1) >= NEAR_BYTES_MAX {
            return None;
        }
        let offset = self.rank(slot) * len;
        let at = slabs.address(self.word.run().start).wrapping_add(offset);
        (offset + len <= self.word.bytes()).then_some((at, len))
    }

    /// Locates the object of a slot, which must be present. Returns `None` if the words are
    /// inconsistent, in which case the latch's version has changed as well.
    #[inline]
    pub(crate) fn find(&self, slabs: &Slabs, slot: u32) -> Option<Found> {
        if let Kind::Uniform(len) = self.word.kind() {
            let offset = self.rank(slot) * len;
            if offset + len > self.word.bytes() {
                return None;
            }
            let at = slabs.address(self.word.run().start).wrapping_add(offset);
            return Some(Found { at, len, far: None, read_only: false });
        }
        self.find_slowly(slabs, slot)
    }

    fn find_slowly(&self, slabs: &Slabs, slot: u32) -> Option<Found> {
        let (run, bytes) = (self.word.run(), self.word.bytes());
        if run.start + run.len > slabs.granules() {
            return None;
        }
        let start = slabs.address(run.start);
        if self.word.kind() == Kind::Remote {
            let offset = self.rank(slot) * FAR_BYTES;
            let whole = offset + FAR_BYTES <= bytes;
            return whole.then(|| far(slabs, start.wrapping_add(offset), false)).flatten();
        }
        if bytes < Header::BYTES {
            return None;
        }
        // SAFETY: the run lies in the slabs and is long enough for a header; concurrent changes of
        // it go through `bytes`.
        let (is_far, read_only, from, to) = unsafe { Header::look(start, slot) };
        if from > to || Header::BYTES + to > bytes {
            return None;
        }
        let at = start.wrapping_add(Header::BYTES + from);
        if is_far {
            return (to - from == FAR_BYTES).then(|| far(slabs, at, read_only)).flatten();
        }
        Some(Found { at, len: to - from, far: None, read_only })
    }
}

impl View {
    /// Slots whose objects have runs of their own. The caller holds the group's latch.
    pub(crate) fn far_slots(&self, slabs: &Slabs) -> u64 {
        match self.word.kind() {
            Kind::Uniform(_) => 0,
            Kind::Remote => self.present,
            Kind::Mixed if self.word.bytes() < Header::BYTES => 0,
            // SAFETY: the run is the group's, which is latched, and long enough for a header.
            Kind::Mixed => unsafe { bytes::read_u64(slabs.address(self.word.run().start)) },
        }
    }

    /// Used bytes of the run. The caller holds the group's latch.
    pub(crate) fn used_bytes(&self, slabs: &Slabs) -> usize {
        match self.word.kind().stride() {
            Some(stride) => self.count() * stride,
            None if self.word.bytes() < Header::BYTES => 0,
            None => {
                let end = slabs.address(self.word.run().start).wrapping_add(Header::END);
                // SAFETY: as above.
                Header::BYTES + usize::from(unsafe { bytes::read_u16(end) })
            }
        }
    }
}

/// Reads the location of an object with a run of its own, from 16 bytes at an address in the slabs.
fn far(slabs: &Slabs, at: *const u8, read_only: bool) -> Option<Found> {
    // SAFETY: the caller checked that the 16 bytes lie in a run of the slabs.
    let far = unsafe { Far { start: bytes::read_u64(at), len: bytes::read_u64(at.add(8)) } };
    let run = far.run()?;
    let inside = run.start.checked_add(run.len).is_some_and(|end| end <= slabs.granules());
    inside.then(|| Found {
        at: slabs.address(run.start),
        len: to_usize(far.len),
        far: Some(run),
        read_only,
    })
}

/// Returns the positions of the set bits.
pub(crate) fn bits(word: u64) -> impl Iterator<Item = u32> {
    let mut left = word;
    std::iter::from_fn(move || {
        let bit = (left != 0).then(|| left.trailing_zeros())?;
        left &= left - 1;
        Some(bit)
    })
}

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
    const END: usize = 16 + 64 * 2;

    /// # Safety
    /// A run in the slabs must begin at `start` that is long enough for a header.
    unsafe fn look(start: *const u8, slot: u32) -> (bool, bool, usize, usize) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_takes_half_a_byte_for_each_id() {
        assert_eq!(size_of::<Group>() * 2, to_usize(GROUP_SLOTS));
    }

    #[test]
    fn words_keep_what_they_are_given() {
        let run = Run { start: (1 << START_BITS) - 1, len: 1011 };
        for kind in [Kind::Mixed, Kind::Remote, Kind::Uniform(1), Kind::Uniform(NEAR_BYTES_MAX)] {
            let word = RunWord(0).with(Flag::Owned, true).over(run, kind);
            assert_eq!((word.run(), word.kind()), (run, kind));
            assert!(word.has(Flag::Owned) && !word.has(Flag::Listed));
            assert!(!word.with(Flag::Owned, false).has(Flag::Owned));
        }
    }

    #[test]
    fn ranks_count_the_objects_before() {
        let view = |present| View { word: RunWord(0), present, marked: 0 };
        assert_eq!(view(u64::MAX).rank(63), 63);
        assert_eq!(view(0b1011).rank(3), 2);
        assert_eq!(view(0).rank(40), 0);
        assert_eq!(view(1 << 63 | 1).slots().collect::<Vec<_>>(), [0, 63]);
    }
}
