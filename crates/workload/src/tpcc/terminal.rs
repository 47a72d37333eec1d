//! Terminals, which run transactions.

use super::database::Tpcc;
use crate::random::Random;
use crate::sessions::Sessions;

/// Terminal: per-thread state for running transactions.
pub struct Terminal {
    pub(super) random: Random,
    /// Number of this terminal. With `entries`, the number of history rows that it has written, it
    /// forms the key of the next one.
    pub(super) session: u32,
    pub(super) entries: u32,
    /// Reused buffers in which transactions collect numbers and rows.
    pub(super) numbers: Vec<u32>,
    pub(super) row: Vec<u8>,
}

impl Tpcc {
    /// Creates the terminal of one more thread.
    pub fn terminal(&self) -> Terminal {
        let number = self.sessions.next();
        // Loading uses the session numbers below `districts` in the history; those of a run follow.
        let districts = self.undelivered.len() as u64;
        let session = u32::try_from(districts + Sessions::before(number)).unwrap_or(u32::MAX);
        let random = Random::new(self.seed, number);
        Terminal { random, session, entries: 0, numbers: Vec::new(), row: Vec::new() }
    }
}

impl Terminal {
    /// Displays a number: the value is discarded, but the compiler must compute it.
    pub(super) fn show(&mut self, number: i64) {
        std::hint::black_box(number);
    }
}
