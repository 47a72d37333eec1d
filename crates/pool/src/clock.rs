//! Logical clock of a pool: the bytes of frames that it has handed out.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of frames handed out so far.
#[derive(Debug, Default)]
pub(crate) struct Clock(AtomicU64);

impl Clock {
    /// Advances by the bytes of a frame that is handed out.
    pub(crate) fn advance(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Returns the time: MiB of frames handed out so far, modulo 2^32.
    #[inline]
    pub(crate) fn now(&self) -> u32 {
        // The clock wraps; ages are wrapping differences.
        #[expect(clippy::cast_possible_truncation)]
        let now = (self.0.load(Ordering::Relaxed) >> 20) as u32;
        now
    }
}
