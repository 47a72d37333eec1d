//! Zeroed table of 64-bit words, on huge pages if it is large.

use std::ops::{Deref, DerefMut};

use terrace_sys::map::{HUGE_PAGE_BYTES, Mapping};

/// A table of words, all zero at first.
///
/// A hash table is read at random, so on pages of 4 KiB nearly every access also misses the TLB.
/// Large tables are therefore mapped and ask for huge pages; without huge pages they work just the
/// same.
#[derive(Debug)]
pub(crate) struct Words(Backing);

#[derive(Debug)]
enum Backing {
    Small(Vec<u64>),
    Large(Mapping, usize),
}

impl Words {
    /// Creates a table of `len` zeros.
    pub(crate) fn zeroed(len: usize) -> Self {
        let bytes = len.saturating_mul(size_of::<u64>());
        if bytes >= HUGE_PAGE_BYTES
            && let Ok(mapping) = Mapping::reserve(bytes)
        {
            // A kernel without huge pages refuses the advice and needs none.
            let _ = mapping.advise_huge(true);
            return Self(Backing::Large(mapping, len));
        }
        Self(Backing::Small(vec![0; len]))
    }
}

impl Deref for Words {
    type Target = [u64];

    #[inline]
    fn deref(&self) -> &[u64] {
        match &self.0 {
            Backing::Small(words) => words,
            // SAFETY: the mapping is page-aligned, has room for `len` words, was zeroed by the
            // kernel, is never decommitted and lives as long as `self`; only this type has its
            // address, and gives it out as its own borrow.
            Backing::Large(mapping, len) => unsafe {
                std::slice::from_raw_parts(mapping.as_ptr().cast::<u64>(), *len)
            },
        }
    }
}

impl DerefMut for Words {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u64] {
        match &mut self.0 {
            Backing::Small(words) => words,
            // SAFETY: as for `deref`; the exclusive borrow rules out any other reference.
            Backing::Large(mapping, len) => unsafe {
                std::slice::from_raw_parts_mut(mapping.as_ptr().cast::<u64>(), *len)
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_begin_as_zero_and_keep_what_is_written() {
        for len in [0, 7, HUGE_PAGE_BYTES / 8, HUGE_PAGE_BYTES / 4 + 3] {
            let mut words = Words::zeroed(len);
            assert_eq!(words.len(), len);
            assert!(words.iter().all(|word| *word == 0));
            for (n, word) in (1_u64..).zip(words.iter_mut()) {
                *word = n;
            }
            assert!((1_u64..).zip(words.iter()).all(|(n, word)| n == *word));
        }
    }
}
