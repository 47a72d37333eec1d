//! Segments: one column of one chunk, in one page and one extent.
//!
//! A segment begins with a header and a directory, followed by the buffers of its blocks in Arrow
//! layout, each aligned to 64 bytes. All numbers are little-endian `u32` unless said otherwise.
//!
//! ```text
//!  0  magic "TSEG"           16  rows in the segment
//!  4  version, encoding: u8  20  bytes of header and directory
//!  6  zero: u16              24  bytes of the segment
//!  8  code of the type       28  CRC-32C of header and directory
//! 12  blocks                 32  per block: rows, offset of its first node
//!
//! node: length, buffers, offset and length of each; bit 31 of the number of buffers says that the
//!       first of them is the validity bitmap. The nodes of a block are its tree of arrays in
//!       preorder, as the column's type prescribes.
//! ```
//!
//! A block is read without a copy: each buffer becomes an Arrow buffer of exactly its own length,
//! owned by the pin of the page, so that a query is charged for exactly what it holds. For that,
//! the encoder normalises its output: offsets begin at zero, bitmaps at bit zero, and dictionaries
//! and view buffers hold only what their rows use.
//!
//! A compact segment has one tree of encodings for the column instead of nodes, and one body of
//! buffers. Its directory holds, after the rows of each block (with a zero in place of the offset),
//! the lengths of the tree's description and of the body, and the description. The body begins at
//! the next multiple of 256 bytes. `terrace-compact` defines the contents of both.
//!
//! A column that has the same short value in all rows of a chunk has no segment: the record of the
//! chunk holds the value, as a plain segment of one row.
//!
//! Header and directory have a checksum of their own and are checked against the page on every
//! open. The contents of the buffers (offsets, text, dictionary keys) were valid when they were
//! encoded, and the store's checksum over the whole extent ensures that they are unchanged.

mod compact;
mod constant;
mod decode;
mod encode;
mod encoding;
mod error;
mod format;
mod kind;
mod layout;
#[cfg(test)]
mod tests;
mod view;

pub(crate) use compact::{CompactPlan, HeapBytes};
pub use constant::Constant;
pub use decode::Segment;
pub use encode::{BlockPlan, SegmentPlan};
pub use encoding::Encoding;
pub use error::SegmentError;
pub use kind::check_type;
pub use layout::Layout;
