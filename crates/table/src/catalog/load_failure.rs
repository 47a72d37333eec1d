//! Failures of reading the catalog's file.

use super::bytes::Missing;

/// A failure of reading the catalog's file: of redb, or a record that is not as it was written.
pub(super) enum LoadFailure {
    Read(redb::Error),
    Damaged(String),
}

impl<E: Into<redb::Error>> From<E> for LoadFailure {
    fn from(error: E) -> Self {
        Self::Read(error.into())
    }
}

/// Returns the failure for a record that cannot be read.
pub(super) fn damaged(what: impl std::fmt::Display) -> impl FnOnce(Missing) -> LoadFailure {
    move |missing| LoadFailure::Damaged(format!("{what} cannot be read: {missing}"))
}
