//! Encoder of blocks: first a plan with an exact size, then the bytes, directly into a page.

use datafusion::arrow::array::types::{ArrowDictionaryKeyType, BinaryViewType, StringViewType};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, GenericByteArray,
    GenericByteViewArray, OffsetSizeTrait, PrimitiveArray, downcast_dictionary_array,
};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer};
use datafusion::arrow::compute::filter;
use datafusion::arrow::datatypes::{
    ArrowNativeType, BinaryType, ByteArrayType, ByteViewType, DataType, LargeBinaryType,
    LargeUtf8Type, Utf8Type,
};

use super::encoding::Encoding;
use super::error::SegmentError;
use super::format::{
    ALIGNMENT, BLOCK_ENTRY_BYTES, BUFFER_ENTRY_BYTES, HAS_VALIDITY, HEADER_BYTES, Header,
    NODE_BYTES, narrow, put, seal,
};
use super::kind::{self, check_type};
use super::view::{Run, compact, write_runs};

/// Contents of one buffer of a block.
enum Source {
    /// These bytes unchanged.
    Bytes(Buffer),
    /// This number of bits; the rest of the last byte is zero.
    Bits(Buffer, usize),
    /// Ranges of the data buffers of a view array.
    Runs { buffers: Vec<Buffer>, runs: Vec<Run>, len: usize },
}

impl Source {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Bits(_, bits) => bits.div_ceil(8),
            Self::Runs { len, .. } => *len,
        }
    }

    fn write(&self, out: &mut [u8]) {
        match self {
            Self::Bytes(bytes) => out.copy_from_slice(bytes),
            Self::Bits(bytes, bits) => {
                out.copy_from_slice(&bytes[..out.len()]);
                if let (Some(last), rest @ 1..) = (out.last_mut(), bits % 8) {
                    *last &= (1 << rest) - 1;
                }
            }
            Self::Runs { buffers, runs, .. } => write_runs(buffers, runs, out),
        }
    }
}

/// One array of a block's tree.
struct Node {
    len: usize,
    validity: bool,
    sources: Vec<Source>,
}

/// One column of one block, ready to be written. It holds the buffers of its source array.
pub struct BlockPlan {
    type_code: u32,
    rows: usize,
    nodes: Vec<Node>,
    directory_bytes: usize,
    body_bytes: usize,
}

impl BlockPlan {
    /// Plans the encoding of `array`.
    ///
    /// # Errors
    /// [`SegmentError::Type`] for a type that cannot be stored, [`SegmentError::TooLong`] if a
    /// buffer would exceed 4 GiB.
    pub fn of(array: &dyn Array) -> Result<Self, SegmentError> {
        check_type(array.data_type())?;
        let mut planner = Planner { nodes: Vec::new() };
        planner.array(array)?;
        let nodes = planner.nodes;
        let buffers: usize = nodes.iter().map(|node| node.sources.len()).sum();
        let sources = nodes.iter().flat_map(|node| &node.sources);
        Ok(Self {
            type_code: kind::code_of(array.data_type()),
            rows: array.len(),
            directory_bytes: nodes.len() * NODE_BYTES + buffers * BUFFER_ENTRY_BYTES,
            body_bytes: sources.map(|source| source.len().next_multiple_of(ALIGNMENT)).sum(),
            nodes,
        })
    }

    /// Returns the number of rows in the block.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the bytes that the block adds to a segment, up to the alignment of its directory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        BLOCK_ENTRY_BYTES + self.directory_bytes + self.body_bytes
    }
}

/// A whole segment, ready to be written.
pub struct SegmentPlan {
    type_code: u32,
    blocks: Vec<BlockPlan>,
}

impl SegmentPlan {
    /// Plans a segment of `blocks`, all of which must be of `data_type`.
    ///
    /// # Errors
    /// [`SegmentError::Malformed`] if one of them is of another type: readers of the segment assume
    /// its type for every block.
    pub fn new(data_type: &DataType, blocks: Vec<BlockPlan>) -> Result<Self, SegmentError> {
        let type_code = kind::code_of(data_type);
        match blocks.iter().position(|block| block.type_code != type_code) {
            None => Ok(Self { type_code, blocks }),
            Some(index) => Err(SegmentError::malformed(format!("block {index} is no {data_type}"))),
        }
    }

    /// Returns the bytes of a segment with `blocks` bytes of blocks, including its alignment.
    #[must_use]
    pub fn bytes_around(blocks: usize) -> usize {
        HEADER_BYTES + blocks + ALIGNMENT
    }

    /// Returns the exact bytes of the segment.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let bodies: usize = self.blocks.iter().map(|block| block.body_bytes).sum();
        self.directory_bytes().next_multiple_of(ALIGNMENT) + bodies
    }

    fn directory_bytes(&self) -> usize {
        let blocks = self.blocks.iter();
        HEADER_BYTES + blocks.map(|b| BLOCK_ENTRY_BYTES + b.directory_bytes).sum::<usize>()
    }

    /// Writes the segment to the beginning of `out`, with zeros in the gaps.
    ///
    /// # Errors
    /// [`SegmentError::Room`] if `out` is shorter than [`SegmentPlan::bytes`],
    /// [`SegmentError::TooLong`] if the segment exceeds 4 GiB.
    pub fn write(&self, out: &mut [u8]) -> Result<(), SegmentError> {
        let (needed, given) = (self.bytes(), out.len());
        let out = out.get_mut(..needed).ok_or(SegmentError::Room { needed, given })?;
        let directory_bytes = self.directory_bytes();
        let header = Header {
            type_code: self.type_code,
            blocks: narrow(self.blocks.len())?,
            rows: narrow(self.blocks.iter().map(BlockPlan::rows).sum())?,
            directory_bytes: narrow(directory_bytes)?,
            segment_bytes: narrow(needed)?,
        };
        header.write(Encoding::Plain, out);
        let mut cursor = Cursor {
            entry: HEADER_BYTES + self.blocks.len() * BLOCK_ENTRY_BYTES,
            body: directory_bytes.next_multiple_of(ALIGNMENT),
        };
        out[directory_bytes..cursor.body].fill(0);
        for (index, block) in self.blocks.iter().enumerate() {
            let at = HEADER_BYTES + index * BLOCK_ENTRY_BYTES;
            put(out, at, narrow(block.rows)?);
            put(out, at + 4, narrow(cursor.entry)?);
            block.nodes.iter().try_for_each(|node| cursor.node(node, out))?;
        }
        seal(&mut out[..directory_bytes]);
        Ok(())
    }
}

/// Positions of the next directory entry and of the next buffer.
struct Cursor {
    entry: usize,
    body: usize,
}

impl Cursor {
    fn node(&mut self, node: &Node, out: &mut [u8]) -> Result<(), SegmentError> {
        let flag = if node.validity { HAS_VALIDITY } else { 0 };
        self.word(narrow(node.len)?, out);
        self.word(narrow(node.sources.len())? | flag, out);
        for source in &node.sources {
            let (start, end) = (self.body, self.body + source.len());
            self.word(narrow(start)?, out);
            self.word(narrow(source.len())?, out);
            source.write(&mut out[start..end]);
            self.body = end.next_multiple_of(ALIGNMENT);
            out[end..self.body].fill(0);
        }
        Ok(())
    }

    fn word(&mut self, word: u32, out: &mut [u8]) {
        put(out, self.entry, word);
        self.entry += 4;
    }
}

/// Visitor of an array and its children in preorder.
struct Planner {
    nodes: Vec<Node>,
}

impl Planner {
    fn array(&mut self, array: &dyn Array) -> Result<(), SegmentError> {
        match array.data_type() {
            DataType::Null => self.node(array, vec![]),
            DataType::Boolean => self.node(array, vec![bits(array.as_boolean().values())]),
            DataType::Utf8 => self.bytes::<Utf8Type>(array.as_bytes()),
            DataType::LargeUtf8 => self.bytes::<LargeUtf8Type>(array.as_bytes()),
            DataType::Binary => self.bytes::<BinaryType>(array.as_bytes()),
            DataType::LargeBinary => self.bytes::<LargeBinaryType>(array.as_bytes()),
            DataType::Utf8View => self.view::<StringViewType>(array.as_byte_view())?,
            DataType::BinaryView => self.view::<BinaryViewType>(array.as_byte_view())?,
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                self.list(array, list.value_offsets(), list.values())?;
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                self.list(array, list.value_offsets(), list.values())?;
            }
            DataType::Map(..) => {
                let map = array.as_map();
                let entries: &dyn Array = map.entries();
                self.list(array, map.value_offsets(), entries)?;
            }
            DataType::FixedSizeList(..) => {
                let list = array.as_fixed_size_list();
                let width = usize::try_from(list.value_length()).unwrap_or(0);
                self.node(array, vec![]);
                let first = usize::try_from(list.value_offset(0)).unwrap_or(0);
                self.array(&list.values().slice(first, list.len() * width))?;
            }
            DataType::Struct(_) => {
                self.node(array, vec![]);
                let columns = array.as_struct().columns();
                columns.iter().try_for_each(|column| self.array(column))?;
            }
            DataType::Dictionary(..) => downcast_dictionary_array! {
                array => self.dictionary(array)?,
                _ => return Err(SegmentError::malformed("a dictionary without integer keys")),
            },
            data_type => {
                let width = data_type.primitive_width().or_else(|| fixed_width(data_type));
                let width = width.ok_or_else(|| unknown(data_type))?;
                self.fixed(array, width);
            }
        }
        Ok(())
    }

    /// Adds the node of `array`, whose buffers besides the validity are `sources`.
    fn node(&mut self, array: &dyn Array, mut sources: Vec<Source>) {
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        if let Some(nulls) = nulls {
            sources.insert(0, bits(nulls.inner()));
        }
        self.nodes.push(Node { len: array.len(), validity: nulls.is_some(), sources });
    }

    fn fixed(&mut self, array: &dyn Array, width: usize) {
        let data = array.to_data();
        let start = data.offset() * width;
        let values = data.buffers()[0].slice_with_length(start, data.len() * width);
        self.node(array, vec![Source::Bytes(values)]);
    }

    fn bytes<T: ByteArrayType>(&mut self, array: &GenericByteArray<T>) {
        let (offsets, start, end) = rebase(array.value_offsets());
        let values = array.values().slice_with_length(start, end - start);
        self.node(array, vec![Source::Bytes(offsets), Source::Bytes(values)]);
    }

    fn view<T: ByteViewType>(
        &mut self,
        array: &GenericByteViewArray<T>,
    ) -> Result<(), SegmentError> {
        let compacted = compact(array)?;
        let mut sources = vec![Source::Bytes(compacted.views)];
        if compacted.len > 0 {
            let buffers = array.data_buffers().to_vec();
            sources.push(Source::Runs { buffers, runs: compacted.runs, len: compacted.len });
        }
        self.node(array, sources);
        Ok(())
    }

    fn list<O: OffsetSizeTrait>(
        &mut self,
        array: &dyn Array,
        offsets: &[O],
        values: &dyn Array,
    ) -> Result<(), SegmentError> {
        let (offsets, start, end) = rebase(offsets);
        self.node(array, vec![Source::Bytes(offsets)]);
        self.array(&values.slice(start, end - start))
    }

    /// Adds the keys and only those values that the keys use.
    fn dictionary<K: ArrowDictionaryKeyType>(
        &mut self,
        array: &DictionaryArray<K>,
    ) -> Result<(), SegmentError> {
        let (keys, values) = compact_dictionary(array)?;
        self.fixed(&keys, size_of::<K::Native>());
        self.array(&values)
    }
}

fn compact_dictionary<K: ArrowDictionaryKeyType>(
    array: &DictionaryArray<K>,
) -> Result<(PrimitiveArray<K>, ArrayRef), SegmentError> {
    let (keys, values) = (array.keys(), array.values());
    let mut used = vec![false; values.len()];
    keys.iter().flatten().for_each(|key| used[key.as_usize()] = true);
    if !used.contains(&false) {
        return Ok((keys.clone(), values.clone()));
    }
    // The new key of a value is the number of used values before it.
    let new_keys: Vec<usize> = used
        .iter()
        .scan(0, |next, &used| {
            let key = *next;
            *next += usize::from(used);
            Some(key)
        })
        .collect();
    // A key under a null need not be within the dictionary; a new key never exceeds the old one.
    let keys = keys.unary(|key| {
        let key = new_keys.get(key.as_usize()).copied().unwrap_or(0);
        K::Native::usize_as(key)
    });
    Ok((keys, filter(values, &BooleanArray::from(used))?))
}

/// Returns the offsets relative to the first, and the range of values that they cover.
fn rebase<O: OffsetSizeTrait>(offsets: &[O]) -> (Buffer, usize, usize) {
    let start = offsets.first().copied().unwrap_or_default();
    let end = offsets.last().copied().unwrap_or_default();
    let rebased: Vec<O> = if offsets.is_empty() {
        vec![O::default()]
    } else {
        offsets.iter().map(|&offset| offset - start).collect()
    };
    (Buffer::from_vec(rebased), start.as_usize(), end.as_usize())
}

fn bits(buffer: &BooleanBuffer) -> Source {
    Source::Bits(buffer.sliced(), buffer.len())
}

fn fixed_width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::FixedSizeBinary(width) => usize::try_from(*width).ok(),
        _ => None,
    }
}

fn unknown(data_type: &DataType) -> SegmentError {
    SegmentError::malformed(format!("no layout for type {data_type}"))
}
