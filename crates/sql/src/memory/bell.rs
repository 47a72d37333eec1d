//! What wakes the market.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Rung by queries that begin, end or lack something; one thread waits for it.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: Mutex<Rung>,
    heard: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rung {
    is_rung: bool,
    in_hurry: bool,
    is_over: bool,
}

impl Bell {
    /// Somebody has come or gone.
    pub(crate) fn ring(&self) {
        self.note(|rung| rung.is_rung = true);
    }

    /// Somebody lacks something.
    pub(super) fn hurry(&self) {
        self.note(|rung| (rung.is_rung, rung.in_hurry) = (true, true));
    }

    /// Nobody rings any more.
    pub(crate) fn stop(&self) {
        self.note(|rung| rung.is_over = true);
    }

    /// Waits until it rings, or for as long as `patience`; whether there is a hurry, and none when
    /// nobody will ring any more.
    pub(crate) fn wait(&self, patience: Option<Duration>) -> Option<bool> {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
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
        note(&mut self.rung.lock().unwrap_or_else(PoisonError::into_inner));
        self.heard.notify_one();
    }
}
