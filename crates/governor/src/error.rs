//! Errors of the governor: refusals, and reasons for which queries end.

use std::time::Duration;

use datafusion::common::DataFusionError;
use terrace_pool::PoolError;

/// An error of the memory, the admission or the end of a query.
#[derive(Debug, thiserror::Error)]
pub enum GovernorError {
    /// DataFusion refused to build a runtime.
    #[error(transparent)]
    DataFusion(#[from] DataFusionError),
    /// The buffer pool failed.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// An unsupported or invalid value, with the alternative.
    #[error("{what} is not possible; {instead}")]
    Refused {
        /// The request.
        what: String,
        /// The alternative.
        instead: String,
    },
    /// A tenant that has reached its maximum number of sessions.
    #[error("tenant {name} has {limit} sessions, as many as it may")]
    TenantFull {
        /// The tenant.
        name: String,
        /// The tenant's limit.
        limit: u64,
    },
    /// A query that has waited in its tenant's queue for the maximum time.
    #[error("tenant {name} runs {running} queries, as many as it may")]
    TenantBusy {
        /// The tenant.
        name: String,
        /// Number of its running queries.
        running: u64,
        /// The time waited.
        wait: Duration,
    },
    /// A query that was cancelled.
    #[error("query {id} was cancelled")]
    Cancelled {
        /// The query.
        id: u64,
    },
    /// A query that was ended because the process has no more memory for it.
    #[error("{0}")]
    OutOfMemory(String),
    /// A query that was stopped by a limit of its tenant.
    #[error("{0}")]
    TenantLimit(String),
}

/// Converts an error of the pool to DataFusion's.
pub fn pool_error(error: PoolError) -> DataFusionError {
    match error {
        PoolError::Exhausted { .. } => DataFusionError::ResourcesExhausted(error.to_string()),
        other => DataFusionError::External(Box::new(other)),
    }
}
