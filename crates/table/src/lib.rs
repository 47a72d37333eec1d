//! Tables over the buffer pool: segments, chunks and their statistics, the catalog, scans and
//! writes.
//!
//! A table is a list of immutable [chunks](chunk), a chunk is one segment per column, and a segment
//! is one page of the pool and one extent of the store. The [catalog] names every extent in use;
//! all others are free, so that no space can leak. No other crate opens a segment.

pub mod access;
pub mod canonical;
pub mod catalog;
pub mod chunk;
pub mod data_dir;
pub mod error;
mod failpoint;
pub mod files;
pub mod placement;
pub mod scan;
mod segment;
pub mod sketch;
pub mod statistics;
pub mod table;
pub mod tasks;
mod temporary_files;
#[cfg(test)]
mod test_support;
pub mod transaction;
pub mod unary;
pub mod write;

pub use error::SqlError;
pub use segment::{Encoding, SegmentError};
