//! Errors of a pool.

use std::io;
use std::time::Duration;

use terrace_store::StoreError;
use terrace_sys::size::format_bytes;

use crate::page::{PAGE_MAX_BYTES, PageId};

/// An error of the buffer pool.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// No frame came free before the call's deadline: every page was latched, pinned, or dirty
    /// without a store to go to.
    #[error(
        "pool {pool}: no frame for {} within {waited:?}: every page is latched, pinned, or dirty \
         without a store to go to. Of {} of DRAM the pool has: {}{}; others have: {}",
        format_bytes(*asked_bytes), format_bytes(*.dram_bytes), list(.holders),
        held(*.held_bytes), list(.others)
    )]
    Exhausted {
        /// The pool's name.
        pool: String,
        /// Bytes of the page that found no frame.
        asked_bytes: u64,
        /// Time that the pool tried.
        waited: Duration,
        /// Bytes of DRAM that the pool shares with the other consumers of its ledger.
        dram_bytes: u64,
        /// Spaces with resident bytes, largest first.
        holders: Vec<(String, u64)>,
        /// Bytes of pages in DRAM that were latched or pinned; `None` if the caller did not wait,
        /// since counting them visits every frame.
        held_bytes: Option<u64>,
        /// Other consumers that hold bytes, largest first.
        others: Vec<(String, u64)>,
    },
    /// A memory tier could not be shrunk to the requested size.
    #[error(
        "pool {pool}: {tier} did not shrink to {} within {waited:?} and has {}: its other pages \
         are latched, pinned, or dirty without a store to go to, or come as fast as they go",
        format_bytes(*asked_bytes), format_bytes(*has_bytes)
    )]
    Resize {
        /// The pool's name.
        pool: String,
        /// The name of the tier.
        tier: String,
        /// Requested size.
        asked_bytes: u64,
        /// Size reached.
        has_bytes: u64,
        /// Time without any progress.
        waited: Duration,
    },
    /// A page is longer than any frame or than the pool's memory, or is empty.
    #[error(
        "pool {pool}: a page of {asked_bytes} bytes cannot be: pages have 1 byte to {}",
        format_bytes(*.limit_bytes)
    )]
    PageSize {
        /// The pool's name.
        pool: String,
        /// Requested length.
        asked_bytes: u64,
        /// The largest length that fits.
        limit_bytes: u64,
    },
    /// The page was freed, or never existed.
    #[error("pool {pool}: page {page} does not exist (freed, or of another pool)")]
    NoSuchPage {
        /// The pool's name.
        pool: String,
        /// The requested page.
        page: PageId,
    },
    /// The page belongs to another space than the one whose method was called.
    #[error(
        "pool {pool}: page {page} belongs to {owner}, not to {space}: the reference is of another \
         space, or of a page that was freed; ask the space that made it"
    )]
    WrongSpace {
        /// The pool's name.
        pool: String,
        /// The requested page.
        page: PageId,
        /// The name of the space whose method was called.
        space: String,
        /// The name of the space that owns the page.
        owner: String,
    },
    /// The page is durable, hence immutable: a directory outside the pool refers to its bytes.
    #[error("pool {pool}: page {page} is durable and cannot be written; write a new page instead")]
    Durable {
        /// The pool's name.
        pool: String,
        /// The requested page.
        page: PageId,
    },
    /// The page's latch was not free within the timeout.
    #[error("pool {pool}: page {page} of {space} stayed latched for {waited:?}")]
    LatchTimeout {
        /// The pool's name.
        pool: String,
        /// The requested page.
        page: PageId,
        /// The page's owner.
        space: String,
        /// Time that the caller waited.
        waited: Duration,
    },
    /// All page ids are in use.
    #[error("pool {pool}: all {limit} page ids are in use")]
    PageIds {
        /// The pool's name.
        pool: String,
        /// Number of page ids of the pool.
        limit: u64,
    },
    /// The pool has no store, which the operation needs.
    #[error("pool {pool} has no store: give it a file or device tier")]
    NoStore {
        /// The pool's name.
        pool: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The configuration is invalid.
    #[error("pool {pool}: {reason}")]
    Config {
        /// The pool's name.
        pool: String,
        /// The problem, and what would be valid.
        reason: String,
    },
    /// A system call that the pool needs failed.
    #[error("pool {pool}: {what}: {source}")]
    System {
        /// The pool's name.
        pool: String,
        /// The operation that failed.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// The pool is shutting down.
    #[error("pool {pool} is shutting down")]
    Closed {
        /// The pool's name.
        pool: String,
    },
}

/// The eight largest holders, largest first.
pub(crate) fn largest(holders: impl Iterator<Item = (String, u64)>) -> Vec<(String, u64)> {
    let mut holders: Vec<_> = holders.filter(|(_, bytes)| *bytes > 0).collect();
    holders.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    holders.truncate(8);
    holders
}

fn held(bytes: Option<u64>) -> String {
    bytes.map_or(String::new(), |bytes| format!(" ({} latched or pinned)", format_bytes(bytes)))
}

fn list(holders: &[(String, u64)]) -> String {
    if holders.is_empty() {
        return "nothing".to_owned();
    }
    let one = |(name, bytes): &(String, u64)| format!("{name} {}", format_bytes(*bytes));
    holders.iter().map(one).collect::<Vec<_>>().join(", ")
}

impl PoolError {
    pub(crate) fn config(pool: &str, reason: impl Into<String>) -> Self {
        Self::Config { pool: pool.to_owned(), reason: reason.into() }
    }

    /// Returns a function that converts the kernel's error of the operation `what`.
    pub(crate) fn system(pool: &str, what: &'static str) -> impl FnOnce(io::Error) -> Self {
        let pool = pool.to_owned();
        move |source| Self::System { pool, what, source }
    }

    pub(crate) fn page_size(pool: &str, asked: usize, limit: u64) -> Self {
        let limit_bytes = limit.min(PAGE_MAX_BYTES as u64);
        Self::PageSize { pool: pool.to_owned(), asked_bytes: asked as u64, limit_bytes }
    }
}
