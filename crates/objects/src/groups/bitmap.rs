//! Bitmap of the used granules of a slab: one bit per granule, claimed and released concurrently.
//!
//! A claim sets bits word by word, and clears them again when it meets a bit that is already set.
//! So two claims never both succeed over one granule, and a failed one leaves no bits set.

use std::sync::atomic::{AtomicU64, Ordering};

const BITS: usize = 64;

/// Bitmap of one slab, as the words that hold it.
#[derive(Clone, Copy)]
pub(crate) struct Bitmap<'a>(pub(crate) &'a [AtomicU64]);

impl Bitmap<'_> {
    /// Number of bits.
    pub(crate) fn len(self) -> usize {
        self.0.len() * BITS
    }

    /// Returns the start of a run of `len` clear bits within `from..to`. Another thread may claim
    /// it before the caller does.
    pub(crate) fn find(self, from: usize, to: usize, len: usize) -> Option<usize> {
        let mut start = self.next(from, to, false);
        while to.saturating_sub(start) >= len {
            let end = self.next(start, start + len, true);
            if end - start == len {
                return Some(start);
            }
            start = self.next(end, to, false);
        }
        None
    }

    /// Returns the first bit of `from..to` that equals `set`, or `to`.
    fn next(self, from: usize, to: usize, set: bool) -> usize {
        let mut at = from;
        while at < to {
            let word = self.0[at / BITS].load(Ordering::Relaxed);
            let wanted = (if set { word } else { !word }) >> (at % BITS);
            if wanted != 0 {
                return to.min(at + wanted.trailing_zeros() as usize);
            }
            at = (at / BITS + 1) * BITS;
        }
        to
    }

    /// Sets `len` bits from `start` on, all of them or none. Returns true if it set them.
    pub(crate) fn claim(self, start: usize, len: usize) -> bool {
        for (done, word, mask) in pieces(start, len) {
            let before = self.0[word].fetch_or(mask, Ordering::AcqRel);
            if before & mask != 0 {
                self.0[word].fetch_and(!(mask & !before), Ordering::AcqRel);
                self.release(start, done);
                return false;
            }
        }
        true
    }

    /// Clears `len` bits from `start` on, which the caller has claimed.
    pub(crate) fn release(self, start: usize, len: usize) {
        for (_, word, mask) in pieces(start, len) {
            let before = self.0[word].fetch_and(!mask, Ordering::AcqRel);
            debug_assert_eq!(before & mask, mask, "granules were given back twice");
        }
    }

    /// Returns the length of the run of clear bits that contains `start..start + len`, which is
    /// clear.
    pub(crate) fn around(self, start: usize, len: usize) -> usize {
        let end = self.next(start + len, self.len(), true);
        let mut at = start;
        while at > 0 {
            let (word, bits) = ((at - 1) / BITS, (at - 1) % BITS + 1);
            let above = self.0[word].load(Ordering::Relaxed) << (BITS - bits);
            let clear = (above.leading_zeros() as usize).min(bits);
            at -= clear;
            if clear < bits {
                break;
            }
        }
        end - at
    }

    /// Number of set bits.
    pub(crate) fn count(self) -> usize {
        self.0.iter().map(|word| word.load(Ordering::Relaxed).count_ones() as usize).sum()
    }
}

/// Returns the words that `len` bits from `start` on lie in, as tuples of the number of bits
/// before, the index of the word, and the mask of the bits in it.
fn pieces(start: usize, len: usize) -> impl Iterator<Item = (usize, usize, u64)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = start + done;
        let bits = (len - done).min(BITS - at % BITS);
        let piece = (done, at / BITS, (u64::MAX >> (BITS - bits.max(1))) << (at % BITS));
        done += bits;
        (bits > 0).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(count: usize) -> Vec<AtomicU64> {
        (0..count).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn runs_are_found_claimed_and_given_back() {
        let words = words(4);
        let bitmap = Bitmap(&words);
        assert_eq!(bitmap.len(), 256);
        assert_eq!(bitmap.find(0, 256, 256), Some(0));
        assert!(bitmap.claim(3, 130));
        assert_eq!(bitmap.count(), 130);
        assert_eq!(bitmap.find(0, 256, 3), Some(0));
        assert_eq!(bitmap.find(0, 256, 4), Some(133));
        assert_eq!(bitmap.find(0, 256, 124), None);
        assert_eq!(bitmap.find(140, 150, 10), Some(140));
        assert_eq!(bitmap.find(140, 150, 11), None);
        bitmap.release(60, 10);
        assert_eq!(bitmap.find(0, 256, 10), Some(60));
        assert_eq!(bitmap.find(61, 256, 10), Some(133));
    }

    #[test]
    fn what_is_clear_around_a_run_is_counted() {
        let words = words(4);
        let bitmap = Bitmap(&words);
        assert_eq!(bitmap.around(70, 5), 256);
        assert!(bitmap.claim(60, 5) && bitmap.claim(130, 1) && bitmap.claim(255, 1));
        assert_eq!(bitmap.around(70, 5), 65);
        assert_eq!(bitmap.around(65, 65), 65);
        assert_eq!(bitmap.around(0, 1), 60);
        assert_eq!(bitmap.around(131, 1), 124);
        assert_eq!(bitmap.around(254, 1), 124);
    }

    #[test]
    fn a_claim_that_fails_leaves_nothing() {
        let words = words(3);
        let bitmap = Bitmap(&words);
        assert!(bitmap.claim(130, 5));
        assert!(!bitmap.claim(10, 150));
        assert_eq!(bitmap.count(), 5);
        assert!(bitmap.claim(10, 120) && bitmap.claim(135, 57));
        assert_eq!(bitmap.find(10, 192, 1), None);
    }

    #[test]
    fn claims_of_many_threads_never_overlap() {
        let words = words(8);
        let rounds = if cfg!(miri) { 20 } else { 20_000 };
        let taken: Vec<AtomicU64> = (0..512).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (bitmap, taken) = (Bitmap(&words), &taken);
                scope.spawn(move || {
                    for round in 0..rounds {
                        let len = 1 + (round * 7 + thread * 31) % 150;
                        let Some(start) = bitmap.find((round * 13) % 100, 512, len) else {
                            continue;
                        };
                        if !bitmap.claim(start, len) {
                            continue;
                        }
                        for owner in &taken[start..start + len] {
                            assert_eq!(owner.swap(1, Ordering::Relaxed), 0);
                        }
                        for owner in &taken[start..start + len] {
                            owner.store(0, Ordering::Relaxed);
                        }
                        bitmap.release(start, len);
                    }
                });
            }
        });
        assert_eq!(Bitmap(&words).count(), 0);
    }
}
