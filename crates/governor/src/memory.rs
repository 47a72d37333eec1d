//! Working memory of queries: the memory pool of DataFusion's operators.
//!
//! Each query has a [`QueryMemoryPool`] of its own, so that every request for bytes is attributed
//! to a query. All of them draw on one ledger, which the buffer pool draws on too: when the ledger
//! is empty, the pool gives up clean frames before an operator is told to spill.
//!
//! A query takes bytes of the ledger in leases and grants them to its operators, so that a batch
//! costs one short lock of its own query and no contention on the ledger's shared word. At most one
//! lease is idle, and none once the operators hold nothing.
//!
//! The module `fairness` decides how much each operator may hold under contention. An operator that
//! is entitled to bytes which exist, but are not free yet, waits for them while other tasks move
//! off its thread: briefly while the pool writes pages or another operator spills, longer while
//! other queries hold bytes that will be released. So an operator that can spill is not told to
//! spill because the pool is slow, and one that cannot spill does not fail its query because
//! another query is at its peak.
//!
//! The market ([`crate::market`]) may limit a query. Then its operators share the limit by the same
//! thresholds, whatever other queries hold, and bytes above it are released within a batch.
//!
//! Locking order: `reservations` is held for arithmetic and for the ledger's lock-free grants,
//! never while the pool is asked for frames.

mod budget;
mod fairness;
mod limit;
mod operator;
mod operators;
mod paged;
mod query_pool;
mod reservations;
#[cfg(test)]
mod tests;
mod wakeup;
mod watch;

pub use budget::{DRAM_BYTES_MIN, MemoryBudget, Reserve};
pub use operator::OperatorMemory;
pub(crate) use operator::OperatorState;
pub(crate) use paged::PagedMemory;
pub use query_pool::QueryMemoryPool;
pub use watch::{Limit as ProcessLimit, ProcessMemory, QueryMark, Watch};
