//! The second word of a group: its run, the layout of the run, and the flags of the group.

use terrace_sys::size::{to_u64, to_usize};

use crate::groups::run::{GRANULE_BYTES, Run, START_BITS};

/// The longest object that lies in its group's run; longer ones have runs of their own.
pub(crate) const NEAR_BYTES_MAX: usize = 1008;
/// Bytes in the group's run that locate an object with a run of its own.
pub(crate) const FAR_BYTES: usize = 16;

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
    /// Objects of the same length, in bytes.
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
    /// A maker creates objects in this group.
    Owned = 1,
    /// The group is in a list of groups with free ids, by the length of their objects.
    Listed = 2,
    /// Equals the store's flag if the group was changed or copied since the last dump began
    /// (`durable::snapshot`).
    Turned = 4,
    /// The group is in the list of groups without objects.
    Emptied = 8,
}

/// The second word of a group: see the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunWord(u64);

impl RunWord {
    #[inline]
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline]
    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    /// Length of the objects, if they are all of one length and in the run.
    #[inline]
    pub(crate) fn uniform_len(self) -> Option<usize> {
        let len = to_usize(self.0 >> KIND_SHIFT & ((1 << KIND_BITS) - 1));
        (len.wrapping_sub(1) < NEAR_BYTES_MAX).then_some(len)
    }

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
    #[inline]
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
