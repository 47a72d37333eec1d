//! Reasons for which queries end early.

use crate::error::GovernorError;

/// Reason of a query's end, if its user did not cancel it.
#[derive(Debug)]
pub(super) enum Ending {
    /// The process has no more memory for it.
    Memory(String),
    /// It exceeded a limit of its tenant.
    Limit(String),
}

impl Ending {
    /// Returns the error that the query with this id ends with.
    pub(super) fn error(&self, id: u64) -> GovernorError {
        match self {
            Self::Memory(why) => GovernorError::OutOfMemory(format!("query {id}: {why}")),
            Self::Limit(why) => GovernorError::TenantLimit(format!("query {id}: {why}")),
        }
    }
}
