//! What can go wrong in a pool.

use std::io;
use std::time::Duration;

use terrace_sys::size::format_bytes;
use terrace_tier::store::StoreError;

use crate::page::{PAGE_MAX_BYTES, PageId};

/// An error of the buffer pool.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// Every frame that could make room stayed latched for the whole patience of the pool.
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
        /// How long the pool tried.
        waited: Duration,
        /// Bytes of DRAM that the pool shares with the other consumers of its ledger.
        dram_bytes: u64,
        /// Spaces with resident bytes, largest first.
        holders: Vec<(String, u64)>,
        /// Bytes of pages in DRAM that were latched or pinned; not looked up for those who did not
        /// wait.
        held_bytes: Option<u64>,
        /// Other consumers that hold bytes, largest first.
        others: Vec<(String, u64)>,
    },
    /// A memory tier did not become as small as it should.
    #[error(
        "pool {pool}: {tier} did not shrink to {} within {waited:?} and has {}: its other pages \
         are latched, pinned, or dirty without a store to go to, or come as fast as they go",
        format_bytes(*asked_bytes), format_bytes(*has_bytes)
    )]
    Resize {
        /// The pool's name.
        pool: String,
        /// The tier.
        tier: String,
        /// What it should have.
        asked_bytes: u64,
        /// What it has come to.
        has_bytes: u64,
        /// How long nothing was won.
        waited: Duration,
    },
    /// A page longer than any frame, or longer than the pool's memory, or empty.
    #[error(
        "pool {pool}: a page of {asked_bytes} bytes cannot be: pages have 1 byte to {}",
        format_bytes(*.limit_bytes)
    )]
    PageSize {
        /// The pool's name.
        pool: String,
        /// The length asked for.
        asked_bytes: u64,
        /// The largest length that fits.
        limit_bytes: u64,
    },
    /// The page was freed, or never was.
    #[error("pool {pool}: page {page} does not exist (freed, or of another pool)")]
    NoSuchPage {
        /// The pool's name.
        pool: String,
        /// The page asked for.
        page: PageId,
    },
    /// The page belongs to another space than the one that was asked.
    #[error(
        "pool {pool}: page {page} belongs to {owner}, not to {space}: the reference is of another \
         space, or of a page that was freed; ask the space that made it"
    )]
    WrongSpace {
        /// The pool's name.
        pool: String,
        /// The page asked for.
        page: PageId,
        /// The space that was asked.
        space: String,
        /// The space that the page belongs to.
        owner: String,
    },
    /// The page is durable: a directory outside the pool names its bytes.
    #[error("pool {pool}: page {page} is durable and cannot be written; write a new page instead")]
    Durable {
        /// The pool's name.
        pool: String,
        /// The page asked for.
        page: PageId,
    },
    /// The page's latch stayed busy.
    #[error("pool {pool}: page {page} of {space} stayed latched for {waited:?}")]
    LatchTimeout {
        /// The pool's name.
        pool: String,
        /// The page asked for.
        page: PageId,
        /// The page's owner.
        space: String,
        /// How long the caller waited.
        waited: Duration,
    },
    /// All page ids are in use.
    #[error("pool {pool}: all {limit} page ids are in use")]
    PageIds {
        /// The pool's name.
        pool: String,
        /// How many there are.
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
    /// The pool cannot be set up like this.
    #[error("pool {pool}: {reason}")]
    Config {
        /// The pool's name.
        pool: String,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// The kernel refused something the pool needs.
    #[error("pool {pool}: {what}: {source}")]
    System {
        /// The pool's name.
        pool: String,
        /// What was being done.
        what: &'static str,
        /// The kernel's word.
        source: io::Error,
    },
    /// The pool is shutting down.
    #[error("pool {pool} is shutting down")]
    Closed {
        /// The pool's name.
        pool: String,
    },
}

/// The eight that hold most.
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
    pub(crate) fn page_size(pool: &str, asked: usize, limit: u64) -> Self {
        let limit_bytes = limit.min(PAGE_MAX_BYTES as u64);
        Self::PageSize { pool: pool.to_owned(), asked_bytes: asked as u64, limit_bytes }
    }
}
