//! Errors of the governor.

use std::time::Duration;

use datafusion::common::DataFusionError;
use terrace_pool::PoolError;

/// A refused request, or the reason for which a query was ended.
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
    /// A session was refused, because its tenant has reached its maximum number of sessions.
    #[error("tenant {name} has {limit} sessions, as many as it may")]
    TenantFull {
        /// The tenant.
        name: String,
        /// The tenant's limit.
        limit: u64,
    },
    /// A query was refused after it had waited in its tenant's queue for the maximum time.
    #[error("tenant {name} runs {running} queries, as many as it may")]
    TenantBusy {
        /// The tenant.
        name: String,
        /// Number of its running queries.
        running: u64,
        /// The time waited.
        wait: Duration,
    },
    /// The query was cancelled.
    #[error("query {id} was cancelled")]
    Cancelled {
        /// The query.
        id: u64,
    },
    /// The query was ended because the process has no more memory for it.
    #[error("{0}")]
    OutOfMemory(String),
    /// The query was ended by a limit of its tenant.
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
