//! Wake-up signal of the market.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use terrace_sys::sync::lock;

/// Signal from queries that begin, end or lack memory to the thread of the market.
#[derive(Debug, Default)]
pub struct Wakeup {
    rung: Mutex<Rung>,
    heard: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rung {
    is_rung: bool,
    in_hurry: bool,
    is_over: bool,
}

impl Wakeup {
    /// Signals that a query has begun or ended.
    pub fn ring(&self) {
        self.note(|rung| rung.is_rung = true);
    }

    /// Signals that a query lacks memory.
    pub(super) fn hurry(&self) {
        self.note(|rung| (rung.is_rung, rung.in_hurry) = (true, true));
    }

    /// Signals the waiting thread to end.
    pub fn stop(&self) {
        self.note(|rung| rung.is_over = true);
    }

    /// Waits for a signal, or for at most `patience`. Returns true if the signal is urgent (a query
    /// lacks memory), false for another signal or none, and `None` if the thread is to end.
    pub fn wait(&self, patience: Option<Duration>) -> Option<bool> {
        let rung = lock(&self.rung);
        let quiet = |rung: &mut Rung| !rung.is_rung && !rung.is_over;
        let mut rung = match patience {
            None => self.heard.wait_while(rung, quiet).unwrap_or_else(PoisonError::into_inner),
            Some(patience) => {
                let waited = self.heard.wait_timeout_while(rung, patience, quiet);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        let hurry = rung.in_hurry;
        (rung.is_rung, rung.in_hurry) = (false, false);
        (!rung.is_over).then_some(hurry)
    }

    fn note(&self, note: impl FnOnce(&mut Rung)) {
        note(&mut lock(&self.rung));
        self.heard.notify_one();
    }
}
