//! Compact segments: one encoded column, read block by block.

use std::ops::Range;

use bytes::Bytes;
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::buffer::{BooleanBuffer, MutableBuffer};
use datafusion::arrow::datatypes::DataType;
use terrace_compact::{BODY_ALIGNMENT, Column, Encoded, Rows};

use super::encoding::Encoding;
use super::error::SegmentError;
use super::format::{BLOCK_ENTRY_BYTES, HEADER_BYTES, Header, Words, narrow, put, seal, wide};
use super::kind;

/// Bytes of the two length fields, of the description and of the body.
const LENGTHS_BYTES: usize = 8;

/// A compact segment, ready to be written.
pub(crate) struct CompactPlan {
    type_code: u32,
    rows: Vec<usize>,
    encoded: Encoded,
}

impl CompactPlan {
    /// Encodes `blocks`, which are of one type. `None` if that type is always stored plain, or the
    /// values do not shrink.
    ///
    /// # Errors
    /// [`SegmentError::Compact`] if the encodings reject the values.
    pub fn of(blocks: &[&dyn Array]) -> Result<Option<Self>, SegmentError> {
        let Some(first) = blocks.first() else { return Ok(None) };
        let rows = blocks.iter().map(|block| block.len()).collect();
        let type_code = kind::code_of(first.data_type());
        let encoded = terrace_compact::encode(blocks)?;
        Ok(encoded.map(|encoded| Self { type_code, rows, encoded }))
    }

    /// Returns the exact bytes of the segment.
    pub fn bytes(&self) -> usize {
        self.directory_bytes().next_multiple_of(BODY_ALIGNMENT) + self.encoded.body_bytes()
    }

    fn directory_bytes(&self) -> usize {
        let entries = self.rows.len() * BLOCK_ENTRY_BYTES;
        HEADER_BYTES + entries + LENGTHS_BYTES + self.encoded.description().len()
    }

    /// Writes the segment to the beginning of `out`, with zeros in the gaps.
    ///
    /// # Errors
    /// As [`SegmentPlan::write`](super::SegmentPlan::write).
    pub fn write(&self, out: &mut [u8]) -> Result<(), SegmentError> {
        let (needed, given) = (self.bytes(), out.len());
        let out = out.get_mut(..needed).ok_or(SegmentError::Room { needed, given })?;
        let directory_bytes = self.directory_bytes();
        let header = Header {
            type_code: self.type_code,
            blocks: narrow(self.rows.len())?,
            rows: narrow(self.rows.iter().sum())?,
            directory_bytes: narrow(directory_bytes)?,
            segment_bytes: narrow(needed)?,
        };
        header.write(Encoding::Compact, out);
        let mut at = HEADER_BYTES;
        for rows in &self.rows {
            put(out, at, narrow(*rows)?);
            put(out, at + 4, 0);
            at += BLOCK_ENTRY_BYTES;
        }
        put(out, at, narrow(self.encoded.description().len())?);
        put(out, at + 4, narrow(self.encoded.body_bytes())?);
        out[at + LENGTHS_BYTES..directory_bytes].copy_from_slice(self.encoded.description());
        seal(&mut out[..directory_bytes]);
        let body = directory_bytes.next_multiple_of(BODY_ALIGNMENT);
        out[directory_bytes..body].fill(0);
        self.encoded.write_body(&mut out[body..]);
        Ok(())
    }
}

/// An opened compact segment, whose blocks are decoded on request.
#[derive(Debug)]
pub struct CompactBlocks {
    column: Column,
    /// First row of each block, and the end of the last.
    starts: Vec<usize>,
}

impl CompactBlocks {
    /// Opens the segment in `bytes`, whose header has been checked.
    pub(super) fn open(
        bytes: &Bytes,
        header: &Header,
        data_type: &DataType,
    ) -> Result<Self, SegmentError> {
        let (blocks, directory_bytes) = (wide(header.blocks), wide(header.directory_bytes));
        let mut words = Words::new(bytes, HEADER_BYTES, directory_bytes);
        let mut starts = vec![0];
        let mut rows: usize = 0;
        for _ in 0..blocks {
            rows = rows.saturating_add(words.next_len()?);
            words.next()?;
            starts.push(rows);
        }
        if rows != wide(header.rows) {
            return Err(SegmentError::malformed("its blocks have other rows than the segment"));
        }
        let (description_bytes, body_bytes) = (words.next_len()?, words.next_len()?);
        let at = HEADER_BYTES + blocks * BLOCK_ENTRY_BYTES + LENGTHS_BYTES;
        let body = directory_bytes.next_multiple_of(BODY_ALIGNMENT);
        let body = body..body.saturating_add(body_bytes);
        if at.saturating_add(description_bytes) != directory_bytes
            || body.end != wide(header.segment_bytes)
        {
            return Err(SegmentError::malformed("its directory gives lengths that do not add up"));
        }
        let description = &bytes[at..directory_bytes];
        let column = Column::open(description, &bytes.slice(body), data_type, rows)?;
        Ok(Self { column, starts })
    }

    /// Decodes the rows of block `index`, or those of them that are set in `selected`.
    ///
    /// # Errors
    /// [`SegmentError`] if there is no such block or it cannot be decoded.
    pub fn read(
        &self,
        index: usize,
        selected: Option<&BooleanBuffer>,
    ) -> Result<ArrayRef, SegmentError> {
        let range = self.range(index)?;
        let rows = match selected {
            None => Rows::All(range),
            Some(bits) => Rows::Selected(range, bits.clone()),
        };
        Ok(self.column.read(&rows)?)
    }

    /// Returns the values of a dictionary without nulls; `None` for any other column.
    ///
    /// # Errors
    /// As [`CompactBlocks::read`].
    pub fn distinct_values(&self) -> Result<Option<ArrayRef>, SegmentError> {
        Ok(self.column.distinct_values()?)
    }

    /// Returns a bit for each row of block `index`: the one that `wanted` has for its value among
    /// [`CompactBlocks::distinct_values`].
    ///
    /// # Errors
    /// As [`CompactBlocks::read`].
    pub fn rows_with(&self, index: usize, wanted: &[bool]) -> Result<BooleanBuffer, SegmentError> {
        Ok(self.column.rows_with(self.range(index)?, wanted)?)
    }

    fn range(&self, index: usize) -> Result<Range<usize>, SegmentError> {
        match (self.starts.get(index), self.starts.get(index + 1)) {
            (Some(start), Some(end)) => Ok(*start..*end),
            _ => Err(SegmentError::malformed(format!(
                "it has {} blocks, asked for block {index}",
                self.starts.len() - 1
            ))),
        }
    }
}

/// Aligned bytes on the heap.
pub(crate) struct HeapBytes(MutableBuffer);

impl HeapBytes {
    pub fn bytes(bytes: MutableBuffer) -> Bytes {
        Bytes::from_owner(Self(bytes))
    }

    pub(super) fn copy_of(bytes: &[u8]) -> Bytes {
        let mut copy = MutableBuffer::with_capacity(bytes.len());
        copy.extend_from_slice(bytes);
        Self::bytes(copy)
    }
}

impl AsRef<[u8]> for HeapBytes {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}
