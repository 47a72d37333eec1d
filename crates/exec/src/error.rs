//! Errors of paged operators.

use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use terrace_pool::{PAGE_MAX_BYTES, PoolError};
use terrace_sys::size::format_bytes;

/// The result of an operation of a paged operator.
pub type Result<T, E = ExecError> = std::result::Result<T, E>;

/// An error of a paged operator.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The pool could not allocate, read or pin a page.
    #[error("a page of an operator: {0}")]
    Pool(#[from] PoolError),
    /// Arrow could not build or convert an array.
    #[error("{0}")]
    Arrow(#[from] ArrowError),
    /// A value is longer than a page.
    #[error("a value of {} is longer than a page, which has at most {}",
        format_bytes(*.0), format_bytes(PAGE_MAX_BYTES as u64))]
    ValueTooLong(u64),
    /// Rows that an operator must hold in memory at once do not fit.
    #[error(
        "{rows} rows that are needed at once take {}, and memory is {} in all; split long values \
         over several rows, or give the database more memory",
        format_bytes(*bytes), format_bytes(*dram_bytes)
    )]
    BatchTooLarge {
        /// Number of the rows.
        rows: usize,
        /// Bytes of the rows.
        bytes: u64,
        /// Capacity of the pool's DRAM tier in bytes.
        dram_bytes: u64,
    },
    /// The values of one group, which its aggregate must hold in memory at once, do not fit.
    #[error(
        "the values that an aggregate keeps of one group take {}, and memory is {} in all; \
         aggregate fewer rows at once, or give the database more memory",
        format_bytes(*bytes), format_bytes(*dram_bytes)
    )]
    GroupTooLarge {
        /// Bytes of the values.
        bytes: u64,
        /// Capacity of the pool's DRAM tier in bytes.
        dram_bytes: u64,
    },
    /// A row is wider than a page.
    #[error("rows of {} columns need {} each; a page has at most {}",
        .columns, format_bytes(*.width as u64), format_bytes(PAGE_MAX_BYTES as u64))]
    RowTooWide {
        /// Columns of the row.
        columns: usize,
        /// Bytes of the row.
        width: usize,
    },
    /// Row pages cannot hold values of this type.
    #[error("rows cannot hold values of type {0}")]
    Type(DataType),
    /// A row was accessed while its page was not pinned, or for writing while pinned for reading.
    #[error("row {row} of page {page} is not pinned{how}; this is a mistake of the operator")]
    NotPinned {
        /// Index of the page.
        page: usize,
        /// Index of the row in the page.
        row: usize,
        /// The access that was tried: empty for a read, else a text that follows "is not pinned".
        how: &'static str,
    },
    /// Columns do not match a row layout.
    #[error("{0}")]
    Mismatch(String),
}

impl From<ExecError> for DataFusionError {
    fn from(error: ExecError) -> Self {
        match error {
            ExecError::Arrow(error) => DataFusionError::ArrowError(Box::new(error), None),
            error => DataFusionError::External(Box::new(error)),
        }
    }
}
