//! Log messages about statements.

use crate::failure::Failure;
use crate::registry::Shown;

/// A statement of a client, for the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logged<'a> {
    /// The number of the connection and, if the connection counts them, of the statement in it.
    pub(crate) request: &'a str,
    pub(crate) user: &'a str,
    /// Duration of the statement, if known.
    pub(crate) seconds: Option<f64>,
    pub(crate) statement: &'a Shown,
}

impl Logged<'_> {
    /// Logs that the statement has ended.
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

    /// Logs that the statement has failed.
    pub(crate) fn failed(self, failure: &Failure) {
        let Self { request, user, seconds, statement } = self;
        // The text of an error may contain parts of the statement.
        let error = if statement.is_secret() { "" } else { failure.text() };
        let (state, statement) = (failure.state().0, statement.text());
        tracing::info!(request, user, seconds, state, error, statement, "a statement has failed");
    }
}
