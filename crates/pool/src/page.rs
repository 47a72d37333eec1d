//! Ids of pages and frames, references with hints, and size classes.

use std::fmt;

/// Bytes of the smallest page, and the unit of page lengths.
pub const PAGE_MIN_BYTES: usize = 4096;
/// Bytes of the largest page.
pub const PAGE_MAX_BYTES: usize = 16 << 20;
/// Number of size classes: frames of 4 KiB x 2^k up to [`PAGE_MAX_BYTES`].
pub(crate) const CLASSES: usize = 13;

/// Number of bits of a frame id.
pub(crate) const FRAME_BITS: u32 = 28;
const FRAME_MASK: u64 = (1 << FRAME_BITS) - 1;
/// Number of page ids. They have 36 bits: 64 Gi pages, 256 TiB of 4 KiB pages.
pub(crate) const PAGE_IDS_MAX: u64 = 1 << (64 - FRAME_BITS);
/// Number of frame ids. They have 28 bits, and one value means "none": 1 TiB of 4 KiB frames.
pub(crate) const FRAMES_MAX: u64 = FRAME_MASK;

/// Id of a page, the same for as long as the page lives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageId(pub(crate) u64);

impl PageId {
    /// Returns the id as a number.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}", self.0)
    }
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Index of a frame in the frame table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct FrameId(pub(crate) u32);

impl PageId {
    /// Returns the page's frame in a mapped pool, the same for life.
    pub(crate) fn mapped_frame(self) -> FrameId {
        // A mapped pool has no more page ids than there are frame ids.
        FrameId(u32::try_from(self.0).unwrap_or(u32::MAX))
    }
}

impl FrameId {
    /// Returns the page whose frame this is, in a mapped pool.
    pub(crate) fn mapped_page(self) -> PageId {
        PageId(u64::from(self.0))
    }

    /// Returns the offset of the page in the range of a mapped pool.
    pub(crate) fn mapped_offset(self) -> usize {
        self.0 as usize * PAGE_MIN_BYTES
    }
}

/// Reference to a page: its id and the frame where it was last seen, in 8 bytes.
///
/// The frame is a hint (LIPAH; Otaki et al., CIDR 2025, section 3): if it is right, a fix skips the
/// page table; if it is wrong, the fix looks the page up and repairs the hint in place. The hint is
/// never trusted, so a reference may be copied, stored and kept for as long as its page lives.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageRef(u64);

impl PageRef {
    pub(crate) fn new(id: PageId, frame: Option<FrameId>) -> Self {
        let hint = frame.map_or(FRAME_MASK, |frame| u64::from(frame.0));
        Self(id.0 << FRAME_BITS | hint)
    }

    /// Returns the id of the page.
    #[inline]
    pub fn id(self) -> PageId {
        PageId(self.0 >> FRAME_BITS)
    }

    #[inline]
    pub(crate) fn hint(self) -> Option<FrameId> {
        let hint = self.0 & FRAME_MASK;
        // The mask keeps 28 bits, which a u32 holds.
        u32::try_from(hint).ok().filter(|_| hint != FRAME_MASK).map(FrameId)
    }

    pub(crate) fn repair(&mut self, frame: FrameId) {
        self.0 = (self.0 & !FRAME_MASK) | u64::from(frame.0);
    }

    /// Returns the reference without a hint: a fix of it goes through the page table.
    #[must_use]
    pub fn without_hint(self) -> Self {
        Self(self.0 | FRAME_MASK)
    }

    /// Returns the reference as a word, to keep it in an atomic or in another page.
    #[inline]
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// Returns the reference that [`PageRef::to_bits`] encoded.
    #[inline]
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl fmt::Debug for PageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hint() {
            Some(frame) => write!(f, "page {} (frame {}?)", self.id(), frame.0),
            None => write!(f, "page {}", self.id()),
        }
    }
}

/// Returns the length of a page of `bytes`: the next multiple of 4 KiB, or `None` outside 1 byte to
/// 16 MiB.
pub(crate) fn page_len(bytes: usize) -> Option<usize> {
    (1..=PAGE_MAX_BYTES).contains(&bytes).then(|| bytes.next_multiple_of(PAGE_MIN_BYTES))
}

/// Returns the smallest size class whose frames hold a page of `len` bytes.
pub(crate) fn class_of(len: usize) -> usize {
    let units = len.div_ceil(PAGE_MIN_BYTES).next_power_of_two();
    units.trailing_zeros() as usize
}

/// Returns the bytes of a frame of `class`.
pub(crate) fn class_bytes(class: usize) -> usize {
    PAGE_MIN_BYTES << class
}

/// Returns the bytes of the shortest page of `class`.
pub(crate) fn class_len_min(class: usize) -> usize {
    match class {
        0 => PAGE_MIN_BYTES,
        _ => class_bytes(class - 1) + PAGE_MIN_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_keep_both_halves() {
        let mut page = PageRef::new(PageId(PAGE_IDS_MAX - 1), None);
        assert_eq!((page.id().0, page.hint()), (PAGE_IDS_MAX - 1, None));
        page.repair(FrameId(7));
        assert_eq!((page.id().0, page.hint()), (PAGE_IDS_MAX - 1, Some(FrameId(7))));
        assert_eq!(PageRef::from_bits(page.to_bits()), page);
        assert_eq!(page.without_hint(), PageRef::new(PageId(PAGE_IDS_MAX - 1), None));
        assert_eq!(size_of::<PageRef>(), 8);
    }

    #[test]
    fn classes_cover_every_length() {
        assert_eq!((page_len(0), page_len(PAGE_MAX_BYTES + 1)), (None, None));
        assert_eq!((page_len(1), page_len(PAGE_MAX_BYTES)), (Some(4096), Some(PAGE_MAX_BYTES)));
        for len in (4096..=PAGE_MAX_BYTES).step_by(4096) {
            let class = class_of(len);
            assert!(class < CLASSES && class_bytes(class) >= len);
            assert!(class == 0 || class_bytes(class - 1) < len);
            assert!(class_len_min(class) <= len && class_of(class_len_min(class)) == class);
        }
    }
}
