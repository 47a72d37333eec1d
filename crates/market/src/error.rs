//! What the ledger refuses.

use std::sync::Arc;

/// A grant that the budget could not cover.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{consumer}` asked for {asked} bytes of DRAM, but {available} of the budget of {budget} bytes \
     are free"
)]
pub struct Denied {
    /// The name of the consumer that asked.
    pub consumer: Arc<str>,
    /// The bytes it asked for.
    pub asked: u64,
    /// The bytes that were free at that moment.
    pub available: u64,
    /// The budget of the ledger in bytes.
    pub budget: u64,
}

/// An operation on the ledger itself that was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MarketError {
    /// The new budget is smaller than what consumers hold.
    #[error(
        "a budget of {asked} bytes is below the {held} bytes that consumers hold; \
         ask for {held} or more, or have them give bytes back first"
    )]
    BelowHeld {
        /// The budget asked for, in bytes.
        asked: u64,
        /// What all consumers held together at that moment, debt included, in bytes.
        held: u64,
    },
    /// The new budget is larger than the ledger can count.
    #[error("a budget of {asked} bytes is above the largest, {limit} bytes")]
    AboveLimit {
        /// The budget asked for, in bytes.
        asked: u64,
        /// The largest budget, in bytes.
        limit: u64,
    },
}
