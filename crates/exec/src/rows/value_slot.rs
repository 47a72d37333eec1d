//! Slots of variable values in rows.

/// Maximum length of a variable value that is stored inline in its slot.
pub(super) const INLINE_BYTES: usize = 12;

/// The slot of a variable value: a view of Arrow, with the variable page in place of the buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot(pub(super) i128);

impl Slot {
    #[inline]
    pub(super) fn len(self) -> usize {
        self.word(0)
    }

    /// Returns the variable page and the offset in it of a long value.
    #[inline]
    pub(super) fn place(self) -> (usize, usize) {
        (self.word(8), self.word(12))
    }

    /// Returns true if the first four bytes of a long value are those of `value`.
    #[inline]
    pub(super) fn starts_like(self, value: &[u8]) -> bool {
        self.0.to_le_bytes()[4..8] == value[..4]
    }

    #[inline]
    fn word(self, at: usize) -> usize {
        let bytes = self.0.to_le_bytes();
        u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize
    }

    /// Returns the slot of the same value at another location.
    pub(super) fn moved_to(self, page: usize, offset: usize) -> i128 {
        let mut bytes = self.0.to_le_bytes();
        // Pages and buffers are fewer, and offsets smaller, than 2^32.
        let word = |value: usize| u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes();
        bytes[8..12].copy_from_slice(&word(page));
        bytes[12..].copy_from_slice(&word(offset));
        i128::from_le_bytes(bytes)
    }
}

fn word(value: usize) -> u32 {
    // Values and pages have at most 16 MiB, and collections less than 2^32 pages.
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Returns a slot with the value in it: its length, then its bytes.
#[inline]
pub(super) fn inline_slot(value: &[u8]) -> i128 {
    let mut slot = [0_u8; 16];
    slot[..4].copy_from_slice(&word(value.len()).to_le_bytes());
    slot[4..4 + value.len()].copy_from_slice(value);
    i128::from_le_bytes(slot)
}

/// Returns a slot that refers to the value: its length, its first four bytes, page and offset.
pub(super) fn long_slot(value: &[u8], page: usize, offset: usize) -> i128 {
    let mut slot = [0_u8; 16];
    slot[..4].copy_from_slice(&word(value.len()).to_le_bytes());
    slot[4..8].copy_from_slice(&value[..4]);
    slot[8..12].copy_from_slice(&word(page).to_le_bytes());
    slot[12..].copy_from_slice(&word(offset).to_le_bytes());
    i128::from_le_bytes(slot)
}
