//! Messages of statements in the log.

use crate::failure::Failure;
use crate::registry::Shown;

/// A statement that a client has had run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logged<'a> {
    /// The number of the connection, and where they are counted that of the statement in it.
    pub(crate) request: &'a str,
    pub(crate) user: &'a str,
    /// Its duration, where it is known.
    pub(crate) seconds: Option<f64>,
    pub(crate) statement: &'a Shown,
}

impl Logged<'_> {
    /// It has ended.
    pub(crate) fn ended(self) {
        let Self { request, user, seconds, statement } = self;
        tracing::info!(
            request,
            user,
            seconds,
            statement = statement.text(),
            "a statement has ended"
        );
    }

    /// It has failed.
    pub(crate) fn failed(self, failure: &Failure) {
        let Self { request, user, seconds, statement } = self;
        // The text of an error may have parts of the statement in it.
        let error = if statement.is_secret() { "" } else { failure.text() };
        let (state, statement) = (failure.state().0, statement.text());
        tracing::info!(request, user, seconds, state, error, statement, "a statement has failed");
    }
}
