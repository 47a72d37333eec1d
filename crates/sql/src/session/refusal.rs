//! Constructor of the error for unsupported statements.

use terrace_table::error::SqlError;

/// The error for an unsupported statement, with the one to write instead.
pub(super) fn refused(what: &str, instead: &str) -> SqlError {
    SqlError::Refused { what: what.to_owned(), instead: instead.to_owned() }
}
