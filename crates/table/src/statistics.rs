//! Statistics of segments, chunks and tables, available without reading the data.
//!
//! Statistics are collected while a chunk is written: rows, nulls, minimum, maximum and an estimate
//! of distinct values per segment. Chunk pruning and join ordering use them.

mod bounds;
mod collect;
mod planner;
mod pruning;
mod segment;
#[cfg(test)]
mod tests;
mod views;

pub use bounds::{BOUND_BYTES, Bound};
pub use collect::Collector;
pub(crate) use planner::of_chunks;
pub use pruning::{ChunkPruning, predicate, prune};
pub use segment::SegmentStatistics;
