//! Notices: messages of a statement to its client in addition to its result, such as that an object
//! of `DROP ... IF EXISTS` does not exist. Their texts and codes are those of PostgreSQL.

use std::fmt;
use std::sync::{Arc, Mutex};

use terrace_sys::sync::lock;
use terrace_table::catalog::Snapshot;

/// Maximum number of notices that are kept until the client takes them; further ones are dropped.
const NOTICES_MAX: usize = 1000;

/// Severity of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The statement skipped work, as its IF EXISTS or a similar clause allows.
    Notice,
    /// The statement probably did not do what its client expects.
    Warning,
}

impl Severity {
    /// Returns the name that PostgreSQL gives it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Notice => "NOTICE",
            Self::Warning => "WARNING",
        }
    }
}

/// A message of a statement to its client that is not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Severity of the notice.
    pub severity: Severity,
    /// Its SQLSTATE.
    pub code: &'static str,
    /// Its text.
    pub text: String,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:  {}", self.severity.as_str(), self.text)
    }
}

impl Notice {
    fn note(code: &'static str, text: String) -> Self {
        Self { severity: Severity::Notice, code, text }
    }

    /// Returns a warning.
    pub(super) fn warning(code: &'static str, text: &str) -> Self {
        Self { severity: Severity::Warning, code, text: text.to_owned() }
    }

    /// Returns the notice that an object does not exist, of a statement that allows for that.
    pub(super) fn missing(what: impl fmt::Display) -> Self {
        Self::note("00000", format!("{what} does not exist, skipping"))
    }

    /// Returns the notice that a table, view or sequence does not exist, or not even its schema.
    pub(super) fn missing_relation(
        snapshot: &Snapshot,
        kind: &str,
        schema: &str,
        name: &str,
    ) -> Self {
        match snapshot.has_schema(schema) {
            true => Self::missing(format_args!("{kind} \"{name}\"")),
            false => Self::missing(format_args!("schema \"{schema}\"")),
        }
    }

    /// Returns the notice that an object exists already, of a statement that keeps it. `code` is
    /// that of the error of a statement that does not.
    pub(super) fn exists(code: &'static str, what: impl fmt::Display) -> Self {
        Self::note(code, format!("{what} already exists, skipping"))
    }

    /// Returns the notice that a table, view or sequence exists already.
    pub(super) fn relation_exists(name: &str) -> Self {
        Self::exists("42P07", format_args!("relation \"{name}\""))
    }

    /// Returns the notice that nothing is done, because of `what`.
    pub(super) fn skipped(what: &str) -> Self {
        Self::note("00000", format!("{what}, skipping"))
    }

    /// Returns the notice that CASCADE has dropped other objects too; `None` if there are none.
    pub(super) fn cascades(others: &[String]) -> Option<Self> {
        let text = match others {
            [] => return None,
            [one] => format!("drop cascades to {one}"),
            all => format!("drop cascades to {} other objects: {}", all.len(), all.join(", ")),
        };
        Some(Self::note("00000", text))
    }

    /// Returns the notice that a lock of a table does not prevent inserts by other sessions.
    pub(super) fn additions_go_on() -> Self {
        let text = "INSERT and COPY of other sessions do not wait for a lock of a table";
        Self::note("00000", text.to_owned())
    }

    /// Returns the notice that a role is a member of another already.
    pub(super) fn is_member(member: &str, role: &str) -> Self {
        let text = format!("role \"{member}\" is already a member of role \"{role}\"");
        Self::note("00000", text)
    }

    /// Returns the warning that a role is no member of another.
    pub(super) fn is_no_member(member: &str, role: &str) -> Self {
        let text = format!("role \"{member}\" is not a member of role \"{role}\"");
        Self::warning("01000", &text)
    }
}

/// The notices of a session that its client has not taken yet, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Notices(Arc<Mutex<Vec<Notice>>>);

impl Notices {
    /// Adds a notice.
    pub(super) fn give(&self, notice: Notice) {
        let mut all = lock(&self.0);
        if all.len() < NOTICES_MAX {
            all.push(notice);
        }
    }

    /// Takes all notices.
    pub(super) fn take(&self) -> Vec<Notice> {
        std::mem::take(&mut lock(&self.0))
    }
}
