//! Columns encoded small: Arrow arrays to bytes and back.
//!
//! A column of some thousand rows becomes one tree of encodings (dictionary, frame of reference,
//! bit packing, runs, FSST), chosen by sampling, and the buffers of that tree become one run of
//! bytes. It is opened from those bytes without copying them, and any range of its rows is decoded
//! on its own, all of them or those a mask selects.
//!
//! - The crate knows nothing of pages, files or queries: bytes come as [`Bytes`](bytes::Bytes),
//!   whose owner keeps them in memory.
//! - What describes the tree ([`Encoded::description`]) is apart from the buffers, so that whoever
//!   stores both can check it on every open.
//! - Null rows are a bitmap beside the tree; the tree never sees a null.
//! - Types that gain nothing, and columns that do not shrink, are not encoded: [`encode`] returns
//!   none, and the caller keeps them as they are.
//!
//! The descriptions are checked when they are opened; what the buffers hold is trusted as far as
//! text goes, and anything in them that cannot be decoded is an error, not a panic.

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
