//! Classes of consumers.

use std::fmt;

/// Kind of a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The frames of a buffer pool.
    Pool,
    /// The working memory of one query.
    Query,
    /// The resident blocks of a region.
    Region,
    /// An allocator's arenas.
    Heap,
    /// The object store.
    Objects,
    /// Anything else that is held for as long as the process lives.
    Other,
}

impl Class {
    /// True if a consumer of this class can give bytes back on request and continue, more slowly.
    ///
    /// Elastic consumers share what the others leave of the budget; see
    /// [`crate::Consumer::fair_share`].
    #[must_use]
    pub const fn is_elastic(self) -> bool {
        match self {
            Self::Pool | Self::Query | Self::Region => true,
            Self::Heap | Self::Objects | Self::Other => false,
        }
    }

    /// Returns the name in lower case, as system tables and errors show it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::Query => "query",
            Self::Region => "region",
            Self::Heap => "heap",
            Self::Objects => "objects",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
