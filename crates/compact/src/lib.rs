//! Column compression: encodes Arrow arrays to bytes and decodes them.
//!
//! A column of some thousand rows becomes one tree of encodings (dictionary, frame of reference,
//! bit packing, run-length, FSST), chosen by sampling, and the buffers of the tree become one
//! contiguous body. A column is opened from the body without copying it, and any range of its rows
//! is decoded by itself, all of them or those that a mask selects.
//!
//! - The crate knows nothing of pages, files or queries: bytes come as [`Bytes`](bytes::Bytes),
//!   whose owner keeps them in memory.
//! - The description of the tree ([`Encoded::description`]) is separate from the buffers, so that
//!   the caller that stores both can verify it on every open.
//! - Null rows are a bitmap beside the tree; the tree never contains a null.
//! - Types that gain nothing, and columns that do not shrink, are not encoded: [`encode`] returns
//!   `None`, and the caller keeps them as they are.
//!
//! Descriptions are checked when a column is opened. Text in the buffers is trusted to be valid
//! UTF-8; any other bytes that cannot be decoded are an error, not a panic.

mod column;
mod encode;
mod error;
mod gather;
mod library;
mod storage;
#[cfg(test)]
mod tests;

pub use column::{Column, Rows};
pub use encode::{BODY_ALIGNMENT, Encoded, encode};
pub use error::CompactError;
