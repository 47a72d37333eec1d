//! Byte access to a node, under a latch or under an optimistic read.

use std::cmp::Ordering;

use terrace_pool::OptimisticGuard;

/// Bytes of a page, which may change while they are read. A result is valid only if the page is
/// latched, or was validated afterwards; no access leaves the page.
pub(crate) trait Source {
    /// Length of the page in bytes.
    fn len(&self) -> usize;

    /// Reads the little-endian number at byte `at`, a multiple of 2; `None` if it is not in the
    /// page.
    fn u16_at(&self, at: usize) -> Option<u16>;

    /// As [`Source::u16_at`], at a multiple of 4.
    fn u32_at(&self, at: usize) -> Option<u32>;

    /// As [`Source::u16_at`], at a multiple of 8.
    fn u64_at(&self, at: usize) -> Option<u64>;

    /// Counts the numbers below `bound` among `count` from `at` on, a multiple of 8; `None` if they
    /// are not all in the page.
    fn count_below(&self, at: usize, count: usize, bound: u64) -> Option<usize>;

    /// Copies bytes from `at` on; false if they are not all in the page.
    fn copy(&self, at: usize, into: &mut [u8]) -> bool;

    /// Compares `len` bytes from `at` on with `other`; `None` if they are not all in the page.
    fn compare(&self, at: usize, len: usize, other: &[u8]) -> Option<Ordering>;
}

impl Source for OptimisticGuard<'_> {
    #[inline]
    fn len(&self) -> usize {
        OptimisticGuard::len(self)
    }

    #[inline]
    fn u16_at(&self, at: usize) -> Option<u16> {
        OptimisticGuard::u16_at(self, at)
    }

    #[inline]
    fn u32_at(&self, at: usize) -> Option<u32> {
        OptimisticGuard::u32_at(self, at)
    }

    #[inline]
    fn u64_at(&self, at: usize) -> Option<u64> {
        OptimisticGuard::u64_at(self, at)
    }

    #[inline]
    fn count_below(&self, at: usize, count: usize, bound: u64) -> Option<usize> {
        OptimisticGuard::count_below(self, at, count, bound)
    }

    #[inline]
    fn copy(&self, at: usize, into: &mut [u8]) -> bool {
        OptimisticGuard::copy(self, at, into)
    }

    #[inline]
    fn compare(&self, at: usize, len: usize, other: &[u8]) -> Option<Ordering> {
        OptimisticGuard::compare(self, at, len, other)
    }
}

impl Source for [u8] {
    #[inline]
    fn len(&self) -> usize {
        <[u8]>::len(self)
    }

    #[inline]
    fn u16_at(&self, at: usize) -> Option<u16> {
        self.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
    }

    #[inline]
    fn u32_at(&self, at: usize) -> Option<u32> {
        self.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }

    #[inline]
    fn u64_at(&self, at: usize) -> Option<u64> {
        self.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    fn count_below(&self, at: usize, count: usize, bound: u64) -> Option<usize> {
        let (words, _) = self.get(at..at.checked_add(count.checked_mul(8)?)?)?.as_chunks();
        Some(words.iter().filter(|word| u64::from_le_bytes(**word) < bound).count())
    }

    #[inline]
    fn copy(&self, at: usize, into: &mut [u8]) -> bool {
        let from = at.checked_add(into.len()).and_then(|end| self.get(at..end));
        from.map(|from| into.copy_from_slice(from)).is_some()
    }

    #[inline]
    fn compare(&self, at: usize, len: usize, other: &[u8]) -> Option<Ordering> {
        Some(self.get(at..at.checked_add(len)?)?.cmp(other))
    }
}
