//! Consistency check of the slabs.

use std::sync::atomic::AtomicU64;

use terrace_sys::size::to_usize;

use super::slab::State;
use super::{SLAB_WORDS, Slabs};
use crate::groups::bitmap::Bitmap;
use crate::groups::run::{Run, SLAB_GRANULES};

impl Slabs {
    /// Checks that the used granules are exactly those of `runs`, each in one run only. No thread
    /// may allocate or free meanwhile.
    pub(crate) fn check(&self, runs: impl Iterator<Item = Run>) -> Result<(), String> {
        let high = self.high();
        let words = (0..high * SLAB_WORDS).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        for run in runs {
            self.check_run(&words, run)?;
        }
        for n in 0..high {
            let (slab, mine) = (self.slab(n), Bitmap(&words[n * SLAB_WORDS..(n + 1) * SLAB_WORDS]));
            let (used, known) = (self.bitmap(n).count(), mine.count());
            let counted = SLAB_GRANULES - slab.free();
            let right = if slab.is(State::Empty) {
                (0, 0) == (used, known)
            } else if slab.is(State::Large) {
                known > 0 && used == 0
            } else {
                used == known && used == counted
            };
            if !right {
                return Err(format!(
                    "slab {n}: {used} granules are marked, {known} belong to objects, {counted} \
                     are counted"
                ));
            }
        }
        Ok(())
    }

    fn check_run(&self, words: &[AtomicU64], run: Run) -> Result<(), String> {
        let (start, len) = (to_usize(run.start), to_usize(run.len));
        if start.checked_add(len).is_none_or(|end| end > words.len() * 64) {
            return Err(format!("{run:?} is beyond all slabs"));
        }
        if !Bitmap(words).claim(start, len) {
            return Err(format!("{run:?} overlaps another"));
        }
        let n = start / SLAB_GRANULES;
        let (bitmap, start) = (self.bitmap(n), start % SLAB_GRANULES);
        let large = self.slab(n).is(State::Large);
        if !large && (start + len > bitmap.len() || bitmap.find(start, start + len, 1).is_some()) {
            return Err(format!("{run:?} is not marked as used"));
        }
        Ok(())
    }
}
