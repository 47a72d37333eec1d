//! Sending and taking of a session's notices.

use crate::session::notice::Notice;
use crate::session::state::Session;

impl Session {
    /// Takes the notices of the statements since the last call, oldest first. Those of a statement
    /// are complete once its rows have been read.
    #[must_use]
    pub fn take_notices(&self) -> Vec<Notice> {
        self.notices.take()
    }

    /// Queues a notice for the client, which gets it in addition to the result of the statement.
    pub(in crate::session) fn notice(&self, notice: Notice) {
        self.notices.give(notice);
    }
}
