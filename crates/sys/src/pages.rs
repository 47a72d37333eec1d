//! Committed-on-touch memory with one owner, as slices.

use std::io;

use crate::map::Mapping;
use crate::size::PAGE_BYTES;

/// Pages of a mapping with this value as the only owner, so that they can be borrowed as slices and
/// decommitted without an unsafe block.
#[derive(Debug)]
pub struct Pages {
    mapping: Mapping,
}

impl Pages {
    /// Reserves `len` bytes (rounded up to a page), bound to a node or unbound, with or without
    /// huge pages.
    ///
    /// # Errors
    /// As [`Mapping::reserve`] and [`Mapping::bind`]. A kernel without huge pages is no error.
    pub fn reserve(len: usize, node: Option<u32>, huge: bool) -> io::Result<Pages> {
        let mapping = Mapping::reserve(len)?;
        if let Some(node) = node {
            mapping.bind(node)?;
        }
        match mapping.advise_huge(huge) {
            Err(error) if error.kind() != io::ErrorKind::InvalidInput => Err(error),
            _ => Ok(Pages { mapping }),
        }
    }

    /// Returns the bytes; zero where never written.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is readable for its whole length and only `self` refers to it;
        // decommitting and unmapping it need `self` exclusively.
        unsafe { std::slice::from_raw_parts(self.mapping.as_ptr(), self.mapping.len()) }
    }

    /// Returns the bytes, for writing.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` excludes every other borrow.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.as_ptr(), self.mapping.len()) }
    }

    /// Returns the bytes as 64-bit words.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        let count = self.mapping.len() / size_of::<u64>();
        // SAFETY: as in `bytes`; a mapping starts on a page boundary; any bits are a valid word.
        unsafe { std::slice::from_raw_parts(self.mapping.as_ptr().cast(), count) }
    }

    /// Returns the bytes as 64-bit words, for writing.
    #[must_use]
    pub fn words_mut(&mut self) -> &mut [u64] {
        let count = self.mapping.len() / size_of::<u64>();
        // SAFETY: as in `words`, and `&mut self` excludes every other borrow.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.as_ptr().cast(), count) }
    }

    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Writes to every page, which commits it.
    pub fn touch(&mut self) {
        self.bytes_mut().iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 1);
    }

    /// Decommits a range of whole pages, which reads as zero afterwards.
    ///
    /// # Errors
    /// As [`Mapping::decommit`].
    pub fn decommit(&mut self, offset: usize, len: usize) -> io::Result<()> {
        self.mapping.decommit(offset, len)
    }

    /// Decommits many ranges `(offset, len)`.
    ///
    /// # Errors
    /// As [`Mapping::decommit_batch`].
    pub fn decommit_batch(&mut self, ranges: &[(usize, usize)]) -> io::Result<()> {
        self.mapping.decommit_batch(ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_zero_until_written_and_after_decommit() {
        let mut pages = Pages::reserve(3 * PAGE_BYTES, Some(0), false).expect("memory");
        assert!(pages.bytes().iter().all(|byte| *byte == 0));
        pages.words_mut().fill(u64::MAX);
        pages.decommit(PAGE_BYTES, PAGE_BYTES).expect("a whole page");
        let ones = pages.words().iter().filter(|word| **word == u64::MAX).count();
        assert_eq!(ones, 2 * PAGE_BYTES / 8);
        pages.decommit_batch(&[(0, 4096), (8192, 4096)]).expect("whole pages");
        assert!(pages.bytes().iter().all(|byte| *byte == 0));
        pages.touch();
        assert_eq!(pages.bytes().iter().filter(|byte| **byte == 1).count(), 3);
        assert!(Pages::reserve(4096, Some(1 << 20), false).is_err());
    }
}
