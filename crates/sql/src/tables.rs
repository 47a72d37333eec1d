//! Tables: segments, chunks and their statistics, the catalog, scans and writes.

pub mod access;
pub(crate) mod canonical;
pub mod catalog;
pub mod chunk;
pub mod data_dir;
pub mod error;
pub(crate) mod failpoint;
pub mod files;
pub(crate) mod placement;
pub mod scan;
pub(crate) mod segment;
pub mod sketch;
pub mod statistics;
pub mod table;
pub(crate) mod tasks;
pub(crate) mod transaction;
pub(crate) mod unary;
pub mod write;
