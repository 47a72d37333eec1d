//! Errors in the form in which clients receive them.

use std::time::Duration;
use std::{fmt, io};

use datafusion::common::DataFusionError;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::response::{ErrorResponse, NoticeResponse};
use terrace_sql::session::Notice;

pub(crate) use crate::sql_state::SqlState;

/// A failed statement, message or connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    state: SqlState,
    text: String,
    /// The `DETAIL` field of the error.
    detail: Option<String>,
    /// The `HINT` field of the error: advice to the user.
    hint: Option<&'static str>,
    /// True if the failure ends the connection.
    is_fatal: bool,
    /// True if the statement has exceeded its time limit.
    is_late: bool,
}

impl Failure {
    /// Returns a failure that the connection survives.
    pub(crate) fn new(state: SqlState, text: impl Into<String>) -> Self {
        let (detail, hint) = (None, None);
        Self { state, text: text.into(), detail, hint, is_fatal: false, is_late: false }
    }

    /// Returns a failure that ends the connection.
    pub(crate) fn fatal(state: SqlState, text: impl Into<String>) -> Self {
        Self { is_fatal: true, ..Self::new(state, text) }
    }

    /// Returns the failure of a statement that has reached its client's `statement_timeout`.
    pub(crate) fn late(limit: Duration) -> Self {
        let text = format!("the statement has run for statement_timeout, {limit:?}");
        Self { is_late: true, ..Self::new(SqlState::CANCELLED, text) }
    }

    /// Returns the failure with a `DETAIL` field, which clients show below the text.
    pub(crate) fn with_detail(self, detail: String) -> Self {
        Self { detail: Some(detail), ..self }
    }

    /// Returns the failure with a `HINT` field: advice to the user, which clients show below the
    /// text.
    pub(crate) fn with_hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint), ..self }
    }

    /// True if [`Failure::late`] made this failure.
    pub(crate) fn is_late(&self) -> bool {
        self.is_late
    }

    pub(crate) fn is_fatal(&self) -> bool {
        self.is_fatal
    }

    /// Returns the SQLSTATE.
    pub(crate) fn state(&self) -> SqlState {
        self.state
    }

    /// Returns the error's text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the error's text and its detail in one text, for protocols without a field for
    /// details.
    pub(crate) fn whole_text(&self) -> String {
        match &self.detail {
            Some(detail) => format!("{}: {}", self.text, detail.replace('\n', ", ")),
            None => self.text.clone(),
        }
    }

    /// Returns the message that reports the failure to the client.
    pub(crate) fn message(&self) -> PgWireBackendMessage {
        let severity = if self.is_fatal { "FATAL" } else { "ERROR" };
        PgWireBackendMessage::ErrorResponse(ErrorResponse::new(self.fields(severity)))
    }

    /// Returns the failure as a notice of severity `WARNING`; the client's statement continues.
    pub(crate) fn warning(&self) -> PgWireBackendMessage {
        PgWireBackendMessage::NoticeResponse(NoticeResponse::new(self.fields("WARNING")))
    }

    /// Returns the message that sends a statement's notice to the client.
    pub(crate) fn notice(notice: &Notice) -> PgWireBackendMessage {
        let fields = Self::new(SqlState(notice.code), notice.text.as_str());
        let fields = fields.fields(notice.severity.as_str());
        PgWireBackendMessage::NoticeResponse(NoticeResponse::new(fields))
    }

    /// Returns a notice of severity `NOTICE`, for a client whose statement has succeeded.
    pub(crate) fn note(text: &str) -> PgWireBackendMessage {
        let fields = Self::new(SqlState::SUCCESS, text).fields("NOTICE");
        PgWireBackendMessage::NoticeResponse(NoticeResponse::new(fields))
    }

    fn fields(&self, severity: &str) -> Vec<(u8, String)> {
        // The wire protocol ends texts with a zero byte.
        let shown = |text: &str| text.replace('\0', "\u{fffd}");
        let mut fields = vec![
            (b'S', severity.to_owned()),
            (b'V', severity.to_owned()),
            (b'C', self.state.0.to_owned()),
            (b'M', shown(&self.text)),
        ];
        fields.extend(self.detail.as_deref().map(|detail| (b'D', shown(detail))));
        fields.extend(self.hint.map(|hint| (b'H', hint.to_owned())));
        fields
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

/// An I/O error means a broken connection, so it is fatal.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::fatal(SqlState::CONNECTION, error.to_string())
    }
}

/// The error of a function that a query calls; it keeps its SQLSTATE.
impl From<Failure> for DataFusionError {
    fn from(failure: Failure) -> Self {
        Self::External(Box::new(failure))
    }
}
