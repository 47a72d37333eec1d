//! Access hints of a region: readahead, and bytes that never change or are not needed.

use std::sync::atomic::Ordering;

use terrace_sys::size::{to_u64, to_usize};

use super::Region;
use crate::advice::Advice;
use crate::error::RegionError;
use crate::parts::first_within;

impl Region {
    /// Gives an access hint for a range. [`Advice::Unused`] and [`Advice::Used`] neither wait nor
    /// allocate.
    ///
    /// # Errors
    /// [`RegionError::Range`]; for [`Advice::Immutable`] the errors of [`Region::flush`];
    /// [`RegionError::Taken`] for advice that may lose bytes, if bytes of the range are held as a
    /// [`Part`](crate::Part).
    pub fn advise(&self, offset: u64, len: u64, advice: Advice) -> Result<(), RegionError> {
        let blocks = self.blocks(offset, len)?;
        let loses = matches!(advice, Advice::Immutable | Advice::Unused);
        if loses && !blocks.is_empty() {
            // Immutable advice covers whole blocks: writes anywhere in such a block may be lost.
            let block_bytes = self.shared.block_bytes;
            let range = match advice {
                Advice::Immutable => blocks.start * block_bytes..blocks.end * block_bytes,
                _ => to_usize(offset)..to_usize(offset + len),
            };
            if advice == Advice::Immutable {
                self.flush_blocks(blocks)?;
            }
            let parts = self.shared.parts.read();
            if let Some(taken) = first_within(&parts, range) {
                return Err(self.taken(taken.holder().to_owned(), offset, len));
            }
            return self.set_advice(offset, len, advice);
        }
        self.set_advice(offset, len, advice)
    }

    /// Applies advice as [`Region::advise`] does, to bytes that the caller holds exclusively.
    pub(crate) fn advise_any(
        &self,
        offset: u64,
        len: u64,
        advice: Advice,
    ) -> Result<(), RegionError> {
        if advice == Advice::Immutable {
            self.flush_blocks(self.blocks(offset, len)?)?;
        }
        self.set_advice(offset, len, advice)
    }

    fn set_advice(&self, offset: u64, len: u64, advice: Advice) -> Result<(), RegionError> {
        let blocks = self.blocks(offset, len)?;
        match advice {
            Advice::Sequential => self.shared.looks_ahead.store(true, Ordering::Relaxed),
            Advice::Random => self.shared.looks_ahead.store(false, Ordering::Relaxed),
            Advice::Immutable | Advice::Mutable => {
                let immutable = advice == Advice::Immutable;
                blocks.for_each(|block| self.shared.words[block].set_immutable(immutable));
            }
            Advice::Unused => self.tell_unused(offset, len),
            Advice::Used => blocks.for_each(|block| self.shared.words[block].set_used()),
        }
        Ok(())
    }

    fn tell_unused(&self, offset: u64, len: u64) {
        let block = to_u64(self.shared.block_bytes);
        let end = offset + len;
        let is_all = end == to_u64(self.shared.len);
        let end = if is_all { end.div_ceil(block) } else { end / block };
        let whole = to_usize(offset.div_ceil(block))..to_usize(end);
        if whole.is_empty() {
            return;
        }
        whole.clone().for_each(|block| self.shared.words[block].set_unused());
        self.shared
            .inboxes
            .iter()
            .for_each(|command_queue| command_queue.tell_unused(whole.clone()));
    }
}
