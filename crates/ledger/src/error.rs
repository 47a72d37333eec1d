//! Errors of the ledger.

use std::sync::Arc;

/// Error of a grant that the budget cannot cover.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{consumer}` asked for {asked} bytes of DRAM, but {available} of the budget of {budget} bytes \
     are free"
)]
pub struct Denied {
    /// Name of the consumer.
    pub consumer: Arc<str>,
    /// Bytes asked for.
    pub asked: u64,
    /// Bytes that were free at that moment.
    pub available: u64,
    /// Budget of the ledger in bytes.
    pub budget: u64,
}

/// Error of an operation on the ledger itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The new budget is smaller than the bytes that consumers hold.
    #[error(
        "a budget of {asked} bytes is below the {held} bytes that consumers hold; \
         ask for {held} or more, or have them give bytes back first"
    )]
    BelowHeld {
        /// Budget asked for, in bytes.
        asked: u64,
        /// Bytes held by all consumers at that moment, debt included.
        held: u64,
    },
    /// The new budget is larger than the ledger can count.
    #[error("a budget of {asked} bytes is above the largest, {limit} bytes")]
    AboveLimit {
        /// Budget asked for, in bytes.
        asked: u64,
        /// Largest budget, in bytes.
        limit: u64,
    },
}
