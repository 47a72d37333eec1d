//! Tags: a byte of the hash for each slot of a directory, compared sixteen at a time.
//!
//! Most keys that are not in a table are ruled out by their tags, a cache line of which covers 64
//! slots (Kulukundis: Designing a Fast, Efficient, Cache-friendly Hash Table, CppCon 2017).

/// Number of slots of a group.
pub(super) const GROUP: usize = 16;
/// Set in the tag of every slot in use, so that zero is an empty one.
const USED: u8 = 0x80;

/// The tags of a group of slots.
#[derive(Clone, Copy, Debug)]
#[repr(align(16))]
pub(super) struct Tags([u8; GROUP]);

/// Returns the tag of a hash: its seven highest bits, which are also part of the slot's salt.
#[inline]
pub(super) fn tag_of(hash: u64) -> u8 {
    // The shift leaves seven bits.
    (hash >> 57) as u8 | USED
}

impl Tags {
    /// A group of empty slots.
    pub(super) const EMPTY: Self = Self([0; GROUP]);

    /// Returns a mask with a bit set for each slot of the group that has this tag.
    #[inline]
    pub(super) fn matches(&self, tag: u8) -> u32 {
        mask(&self.0, tag)
    }

    /// Returns true if a slot is empty: then the search ends, since no later group has the key.
    #[inline]
    pub(super) fn has_empty(&self) -> bool {
        mask(&self.0, 0) != 0
    }

    /// Returns the first empty slot.
    pub(super) fn first_empty(&self) -> Option<usize> {
        self.0.iter().position(|tag| *tag == 0)
    }

    pub(super) fn set(&mut self, slot: usize, tag: u8) {
        self.0[slot] = tag;
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn mask(tags: &[u8; GROUP], tag: u8) -> u32 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
    // SAFETY: SSE2 is part of x86-64; the unaligned load reads the 16 bytes of the array that
    // `tags` borrows.
    let bits = unsafe {
        let group = _mm_loadu_si128(tags.as_ptr().cast());
        _mm_movemask_epi8(_mm_cmpeq_epi8(group, _mm_set1_epi8(tag.cast_signed())))
    };
    bits.cast_unsigned()
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn mask(tags: &[u8; GROUP], tag: u8) -> u32 {
    let bit = |(slot, other): (usize, &u8)| u32::from(*other == tag) << slot;
    tags.iter().enumerate().map(bit).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_know_their_tags() {
        let mut tags = Tags::EMPTY;
        assert_eq!((tags.matches(USED), tags.first_empty()), (0, Some(0)));
        tags.set(0, tag_of(0));
        tags.set(9, tag_of(u64::MAX));
        tags.set(15, tag_of(u64::MAX));
        assert_eq!(tags.matches(tag_of(1 << 56)), 1);
        assert_eq!(tags.matches(tag_of(u64::MAX)), 1 << 9 | 1 << 15);
        assert_eq!(tags.first_empty(), Some(1));
        (0..GROUP).for_each(|slot| tags.set(slot, tag_of(7 << 60)));
        assert!(!tags.has_empty() && tags.first_empty().is_none());
        assert_eq!(tags.matches(tag_of(7 << 60)), 0xFFFF);
    }
}
