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
//! The kind is the layout of the run. Objects lie in the order of their ids without gaps, so the
//! position of an object is the number of objects before it:
//!
//! ```text
//! 1..=1008    uniform: length of every object in bytes
//! REMOTE      uniform: 16 bytes per object, its first granule and its length
//! MIXED       far 8 bytes, read-only 8 bytes, 65 x 2 bytes of start offsets, bytes
//! ```

use std::mem::ManuallyDrop;

use terrace_latch::{Latch, ParkingLot, Version};
use terrace_sys::size::to_usize;

use crate::bytes;
use crate::groups::header::{Far, Header};
use crate::groups::run::Run;
use crate::groups::slabs::Slabs;
use crate::groups::word::{FAR_BYTES, Kind, RunWord};
use crate::sync::{AtomicU64, Ordering};

/// Number of ids in a group.
pub(crate) const GROUP_SLOTS: u64 = 64;

/// Entry of the table for 64 ids. All zero bytes are a group without objects.
#[repr(C, align(32))]
#[derive(Debug, Default)]
pub(crate) struct Group {
    latch: Latch,
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
            word: RunWord::from_bits(self.run.load(Ordering::Relaxed)),
            present: self.present.load(Ordering::Relaxed),
            marked: self.marked.load(Ordering::Relaxed),
        }
    }

    /// Returns the version of the group for an optimistic read; `None` while it changes.
    #[inline]
    pub(crate) fn version(&self) -> Option<Version> {
        self.latch.version()
    }

    /// True if the group has not changed since version `seen`, so that what was read since is
    /// valid.
    #[inline]
    pub(crate) fn is_still(&self, seen: Version) -> bool {
        self.latch.is_still(seen)
    }

    /// Latches the group, and waits until other threads have released it.
    #[inline]
    pub(crate) fn latch<'a>(&'a self, lot: &'a ParkingLot) -> Latched<'a> {
        if !self.latch.try_exclusive() {
            self.latch.exclusive(lot);
        }
        Latched { group: self, lot }
    }

    /// Latches the group as a thread that has waited does, through the parking lot. Loom sees the
    /// lot's mutex, which stands for the order that the atomics of the slabs give: it does not see
    /// those.
    #[cfg(all(test, loom))]
    pub(crate) fn latch_by_lot<'a>(&'a self, lot: &'a ParkingLot) -> Latched<'a> {
        self.latch.exclusive(lot);
        Latched { group: self, lot }
    }

    /// Latches the group, unless another thread holds it.
    #[inline]
    pub(crate) fn try_latch<'a>(&'a self, lot: &'a ParkingLot) -> Option<Latched<'a>> {
        self.latch.try_exclusive().then(|| Latched { group: self, lot })
    }

    /// Sets the run word. The caller holds the latch, here and in the next three functions.
    #[inline]
    pub(crate) fn set_word(&self, word: RunWord) {
        self.run.store(word.to_bits(), Ordering::Relaxed);
    }

    /// Takes over the run and objects of `other`, a group that no other thread can see. This group
    /// has none itself.
    pub(crate) fn adopt(&self, other: &View) {
        let word = self.view().word;
        self.set_word(word.over(other.word.run(), other.word.kind()));
        self.present.store(other.present, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn set_present(&self, slot: u32, present: bool) {
        set(&self.present, slot, present);
    }

    #[inline]
    pub(crate) fn set_marked(&self, slot: u32, marked: bool) {
        set(&self.marked, slot, marked);
    }
}

#[inline]
fn set(word: &AtomicU64, slot: u32, value: bool) {
    let (now, bit) = (word.load(Ordering::Relaxed), 1 << slot);
    word.store(if value { now | bit } else { now & !bit }, Ordering::Relaxed);
}

/// A group whose latch is held until this is dropped.
pub(crate) struct Latched<'a> {
    group: &'a Group,
    lot: &'a ParkingLot,
}

impl Drop for Latched<'_> {
    #[inline]
    fn drop(&mut self) {
        self.group.latch.release_exclusive(self.lot);
    }
}

impl<'a> Latched<'a> {
    /// Returns the group.
    #[inline]
    pub(crate) fn group(&self) -> &'a Group {
        self.group
    }

    /// Downgrades to a shared hold: the group cannot change, but others may read it.
    pub(crate) fn downgrade(self) -> Held<'a> {
        let latched = ManuallyDrop::new(self);
        latched.group.latch.downgrade(latched.lot);
        Held { group: latched.group, lot: latched.lot }
    }
}

/// A group that cannot change while this lives, by a shared hold of its latch.
pub(crate) struct Held<'a> {
    group: &'a Group,
    lot: &'a ParkingLot,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.group.latch.release_shared(self.lot);
    }
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
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.present.count_ones() as usize
    }

    /// Number of objects in slots below `slot`.
    #[inline]
    pub(crate) fn rank(&self, slot: u32) -> usize {
        // A group is full as a rule, and counting bits is not one instruction on every processor.
        if self.present == u64::MAX {
            return slot as usize;
        }
        (self.present & ((1 << slot) - 1)).count_ones() as usize
    }

    /// Slots that neither have an object nor are reserved.
    #[inline]
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
        let plain = self.present & !self.marked;
        let len = self.word.uniform_len().filter(|_| plain >> slot & 1 != 0)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_takes_half_a_byte_for_each_id() {
        assert_eq!(size_of::<Group>() * 2, to_usize(GROUP_SLOTS));
    }

    #[test]
    fn ranks_count_the_objects_before() {
        let view = |present| View { word: RunWord::from_bits(0), present, marked: 0 };
        assert_eq!(view(u64::MAX).rank(63), 63);
        assert_eq!(view(0b1011).rank(3), 2);
        assert_eq!(view(0).rank(40), 0);
        assert_eq!(view(1 << 63 | 1).slots().collect::<Vec<_>>(), [0, 63]);
    }
}
