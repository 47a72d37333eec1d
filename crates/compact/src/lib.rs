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
//! - Null rows are a bitmap after the buffers of the tree; the tree never contains a null.
//! - Types that gain nothing, and columns that do not shrink, are not encoded: [`encode`] returns
//!   `None`, and the caller keeps them as they are.
//!
//! Descriptions are checked when a column is opened. Text in the buffers is trusted to be valid
//! UTF-8; any other bytes that cannot be decoded are an error, not a panic.
//!
//! ```
//! use arrow_array::{Array, Int64Array};
//! use terrace_compact::{Column, Rows, encode};
//!
//! # fn main() -> Result<(), terrace_compact::CompactError> {
//! let numbers = Int64Array::from_iter_values((0..10_000).map(|row| row % 100));
//! let encoded = encode(&[&numbers])?.expect("seven bits are enough");
//! let mut body = vec![0; encoded.body_bytes()];
//! encoded.write_body(&mut body);
//! assert!(body.len() < 8 * numbers.len() / 4);
//!
//! let (body, rows) = (body.into(), numbers.len());
//! let column = Column::open(encoded.description(), &body, numbers.data_type(), rows)?;
//! let some = column.read(&Rows::All(150..160))?;
//! assert_eq!(&*some, &numbers.slice(150, 10) as &dyn Array);
//! # Ok(())
//! # }
//! ```

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
