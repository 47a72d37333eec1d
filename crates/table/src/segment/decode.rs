//! Zero-copy reader of segments.

use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::{
    ArrayData, ArrayDataBuilder, ArrayRef, BufferSpec, layout, make_array, new_null_array,
};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer};
use datafusion::arrow::datatypes::DataType;
#[cfg(test)]
use terrace_pool::Pinned;

use super::compact::{CompactBlocks, HeapBytes};
use super::encoding::Encoding;
use super::error::SegmentError;
use super::format::{
    ALIGNMENT, BLOCK_ENTRY_BYTES, HAS_VALIDITY, HEADER_BYTES, Header, Words, is_sealed, narrow,
    wide,
};
use super::kind;
use super::layout::{Layout, repeated};

/// Owner that keeps a page in memory for as long as an array points into it.
#[cfg(test)]
struct PageOwner(Pinned);

#[cfg(test)]
impl AsRef<[u8]> for PageOwner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A segment in a page, with its directory checked.
#[derive(Debug)]
pub struct Segment {
    bytes: Bytes,
    data_type: DataType,
    header: Header,
    compact: Option<CompactBlocks>,
    /// For a constant column, which has no segment on the store: its value, and the chunk's layout.
    repeated: Option<(ArrayRef, Layout)>,
}

impl Segment {
    /// Opens the segment at the beginning of `page`.
    #[cfg(test)]
    pub fn open(page: Pinned, data_type: &DataType) -> Result<Self, SegmentError> {
        Self::open_bytes(Bytes::from_owner(PageOwner(page)), data_type)
    }

    /// Opens the segment at the beginning of `bytes`, which must be aligned to 64 bytes. They must
    /// be those that [`SegmentPlan::write`](super::SegmentPlan::write) wrote, or a store has
    /// compared them with the checksum they had then: the contents of the buffers are not checked
    /// again. That is why the module is private to this crate.
    ///
    /// # Errors
    /// [`SegmentError`] if the bytes are not a segment of `data_type`.
    pub fn open_bytes(bytes: Bytes, data_type: &DataType) -> Result<Self, SegmentError> {
        let (header, encoding) = Header::read(&bytes)?;
        if bytes.as_ptr().align_offset(ALIGNMENT) != 0 {
            return Err(SegmentError::malformed("it is not aligned to 64 bytes"));
        }
        if header.type_code != kind::code_of(data_type) {
            return Err(SegmentError::malformed(format!("it does not hold {data_type}")));
        }
        let directory = HEADER_BYTES..=wide(header.segment_bytes);
        let entries = wide(header.blocks).saturating_mul(BLOCK_ENTRY_BYTES);
        if wide(header.segment_bytes) > bytes.len()
            || !directory.contains(&wide(header.directory_bytes))
            || HEADER_BYTES.saturating_add(entries) > wide(header.directory_bytes)
        {
            return Err(SegmentError::malformed("its header gives lengths beyond its end"));
        }
        if !is_sealed(&bytes[..wide(header.directory_bytes)]) {
            return Err(SegmentError::malformed("its directory is not as it was written"));
        }
        let compact = match encoding {
            Encoding::Plain => None,
            Encoding::Compact => Some(CompactBlocks::open(&bytes, &header, data_type)?),
        };
        Ok(Self { bytes, data_type: data_type.clone(), header, compact, repeated: None })
    }

    /// Returns a segment whose rows all are the only value of `value`, in blocks of this layout.
    ///
    /// # Errors
    /// [`SegmentError::TooLong`] for more rows than a segment can have.
    pub fn repeating(value: &ArrayRef, layout: &Layout) -> Result<Self, SegmentError> {
        let data_type = value.data_type().clone();
        let header = Header {
            type_code: kind::code_of(&data_type),
            blocks: narrow(layout.blocks())?,
            rows: narrow(layout.rows())?,
            directory_bytes: 0,
            segment_bytes: 0,
        };
        let repeated = Some((Arc::clone(value), layout.clone()));
        Ok(Self { bytes: Bytes::new(), data_type, header, compact: None, repeated })
    }

    /// Returns the blocks of a compact segment; `None` for a plain one.
    #[must_use]
    pub fn compact(&self) -> Option<&CompactBlocks> {
        self.compact.as_ref()
    }

    /// Copies the segment into bytes of its own.
    ///
    /// # Errors
    /// As [`Segment::open_bytes`].
    pub fn copied(&self) -> Result<Self, SegmentError> {
        if let Some((value, layout)) = &self.repeated {
            return Self::repeating(value, layout);
        }
        let bytes = &self.bytes[..wide(self.header.segment_bytes)];
        Self::open_bytes(HeapBytes::copy_of(bytes), &self.data_type)
    }

    /// Returns the number of blocks in the segment.
    #[must_use]
    pub fn blocks(&self) -> usize {
        wide(self.header.blocks)
    }

    /// Returns the number of rows in the segment.
    #[must_use]
    pub fn rows(&self) -> usize {
        wide(self.header.rows)
    }

    /// Returns the rows of block `index` as an array over the page, or decoded from it.
    ///
    /// # Errors
    /// [`SegmentError`] if there is no such block or its directory is malformed.
    pub fn block(&self, index: usize) -> Result<ArrayRef, SegmentError> {
        if let Some(compact) = &self.compact {
            return compact.read(index, None);
        }
        if let Some((value, _)) = &self.repeated {
            return repeated(value, self.block_rows(index)?);
        }
        let (rows, nodes) = self.block_entry(index)?;
        if self.data_type == DataType::Null {
            return self.null_block(rows, nodes);
        }
        let mut reader = Reader { segment: self, words: self.words(nodes) };
        let data = reader.array(&self.data_type)?;
        if data.len() != rows {
            return Err(SegmentError::malformed(format!(
                "block {index} has {rows} rows and an array of {}",
                data.len()
            )));
        }
        Ok(make_array(data))
    }

    /// Returns the number of rows in block `index`.
    ///
    /// # Errors
    /// [`SegmentError`] if there is no such block.
    pub fn block_rows(&self, index: usize) -> Result<usize, SegmentError> {
        let rows = self.repeated.as_ref().and_then(|(_, layout)| layout.block_rows(index));
        if let Some(rows) = rows {
            return Ok(rows);
        }
        self.block_entry(index).map(|(rows, _)| rows)
    }

    fn null_block(&self, rows: usize, nodes: usize) -> Result<ArrayRef, SegmentError> {
        let node = self.words(nodes).next_len()?;
        if node != rows || rows > self.rows() {
            return Err(SegmentError::malformed("its blocks hold more rows than the segment"));
        }
        Ok(new_null_array(&DataType::Null, rows))
    }

    fn block_entry(&self, index: usize) -> Result<(usize, usize), SegmentError> {
        if index >= self.blocks() {
            return Err(SegmentError::malformed(format!(
                "it has {} blocks, asked for block {index}",
                self.blocks()
            )));
        }
        let mut words = self.words(HEADER_BYTES + index * BLOCK_ENTRY_BYTES);
        Ok((words.next_len()?, words.next_len()?))
    }

    fn words(&self, at: usize) -> Words<'_> {
        Words::new(&self.bytes, at, wide(self.header.directory_bytes))
    }

    /// Returns the buffer at `offset`, of exactly `len` bytes.
    fn buffer(&self, offset: usize, len: usize) -> Result<Buffer, SegmentError> {
        let end = offset.saturating_add(len);
        let body = wide(self.header.directory_bytes)..=wide(self.header.segment_bytes);
        if !body.contains(&offset) || !body.contains(&end) || !offset.is_multiple_of(ALIGNMENT) {
            return Err(SegmentError::malformed(format!(
                "a buffer of {len} bytes at {offset} is not within it"
            )));
        }
        if len == 0 {
            // An empty slice has no address in the page and need not be aligned.
            return Ok(MutableBuffer::new(0).into());
        }
        Ok(Buffer::from(self.bytes.slice(offset..end)))
    }
}

/// A decoded node of the directory: one array of a block, without its children.
struct Node {
    len: usize,
    nulls: Option<NullBuffer>,
    buffers: Vec<Buffer>,
}

/// Reader of the nodes of one block in preorder.
struct Reader<'a> {
    segment: &'a Segment,
    words: Words<'a>,
}

impl Reader<'_> {
    fn array(&mut self, data_type: &DataType) -> Result<ArrayData, SegmentError> {
        let node = self.node(data_type)?;
        let mut children = Vec::new();
        match data_type {
            DataType::Dictionary(_, values) => children.push(self.array(values)?),
            DataType::Struct(fields) => {
                for field in fields {
                    children.push(self.array(field.data_type())?);
                }
            }
            _ => {
                if let Some(field) = kind::element(data_type) {
                    children.push(self.array(field.data_type())?);
                }
            }
        }
        build(data_type, node, children)
    }

    fn node(&mut self, data_type: &DataType) -> Result<Node, SegmentError> {
        let len = self.words.next_len()?;
        let count = self.words.next()?;
        let validity = count & HAS_VALIDITY != 0;
        let count = wide(count & !HAS_VALIDITY);
        let expected = layout(data_type).buffers.len();
        let variadic = usize::from(layout(data_type).variadic);
        let plain = count.saturating_sub(usize::from(validity));
        if !(expected..=expected + variadic).contains(&plain) {
            return Err(SegmentError::malformed(format!(
                "an array of {data_type} with {plain} buffers"
            )));
        }
        let nulls = validity.then(|| self.nulls(len)).transpose()?;
        let buffers = (0..plain).map(|_| self.buffer()).collect::<Result<_, _>>()?;
        Ok(Node { len, nulls, buffers })
    }

    fn nulls(&mut self, len: usize) -> Result<NullBuffer, SegmentError> {
        let bits = self.buffer()?;
        if bits.len() != len.div_ceil(8) {
            return Err(SegmentError::malformed(format!(
                "a validity bitmap of {} bytes for {len} values",
                bits.len()
            )));
        }
        Ok(NullBuffer::new(BooleanBuffer::new(bits, 0, len)))
    }

    fn buffer(&mut self) -> Result<Buffer, SegmentError> {
        let (offset, len) = (self.words.next_len()?, self.words.next_len()?);
        self.segment.buffer(offset, len)
    }
}

/// Compares the length of every buffer with the length that the type requires.
fn check_lengths(data_type: &DataType, node: &Node) -> Result<(), SegmentError> {
    let specs = layout(data_type).buffers;
    // Texts and lists have one more offset than values.
    let offsets = matches!(specs.last(), Some(BufferSpec::VariableWidth))
        || matches!(data_type, DataType::List(_) | DataType::LargeList(_) | DataType::Map(..));
    for (index, (buffer, spec)) in node.buffers.iter().zip(&specs).enumerate() {
        let values = node.len + usize::from(offsets && index == 0);
        let expected = match spec {
            BufferSpec::FixedWidth { byte_width, .. } => values.saturating_mul(*byte_width),
            BufferSpec::BitMap => values.div_ceil(8),
            BufferSpec::VariableWidth | BufferSpec::AlwaysNull => buffer.len(),
        };
        if buffer.len() != expected {
            return Err(SegmentError::malformed(format!(
                "a buffer of {} bytes for {} values of {data_type}",
                buffer.len(),
                node.len
            )));
        }
    }
    Ok(())
}

fn build(
    data_type: &DataType,
    node: Node,
    children: Vec<ArrayData>,
) -> Result<ArrayData, SegmentError> {
    if let DataType::FixedSizeList(_, width) = data_type {
        let width = usize::try_from(*width).unwrap_or(0);
        let values = children.first().map_or(0, ArrayData::len);
        if Some(values) != node.len.checked_mul(width) {
            return Err(SegmentError::malformed(format!(
                "{values} values for {} lists of {width}",
                node.len
            )));
        }
    }
    check_lengths(data_type, &node)?;
    let builder = ArrayDataBuilder::new(data_type.clone())
        .len(node.len)
        .nulls(node.nulls)
        .buffers(node.buffers)
        .child_data(children);
    // SAFETY: every buffer is aligned and as long as the type requires, see above; `validate` below
    // compares the first and last offset with the values and the lengths of the children with the
    // type before any other code reads the contents. The contents are what the encoder copied from
    // an array of the same type, which the type's code in the header and the checksum of the extent
    // ensure. The buffers own the pin of the page, so no thread writes to it or frees it while the
    // array lives.
    let data = unsafe { builder.skip_validation(true).build() }?;
    data.validate()?;
    Ok(data)
}
