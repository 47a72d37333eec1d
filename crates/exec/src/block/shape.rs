//! Extents of the buffers of one array in its block.

use datafusion::arrow::array::{ArrayData, ArrayRef, make_array};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use datafusion::arrow::datatypes::DataType;

/// A byte range of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) at: usize,
    pub(super) len: usize,
}

/// One array of a block, and its children.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) data_type: DataType,
    pub(super) len: usize,
    pub(super) nulls: Option<Extent>,
    pub(super) buffers: Vec<Extent>,
    pub(super) children: Vec<Shape>,
}

impl Extent {
    fn of(self, bytes: &Buffer) -> Buffer {
        bytes.slice_with_length(self.at, self.len)
    }
}

impl Shape {
    /// Returns the array whose buffers are in `bytes`, the whole block; without a copy.
    pub(super) fn array(&self, bytes: &Buffer) -> ArrayRef {
        make_array(self.data(bytes))
    }

    fn data(&self, bytes: &Buffer) -> ArrayData {
        let nulls = self
            .nulls
            .map(|extent| NullBuffer::new(BooleanBuffer::new(extent.of(bytes), 0, self.len)));
        let builder = ArrayData::builder(self.data_type.clone())
            .len(self.len)
            .nulls(nulls)
            .buffers(self.buffers.iter().map(|extent| extent.of(bytes)).collect())
            .child_data(self.children.iter().map(|child| child.data(bytes)).collect());
        // SAFETY: the type, length and buffers are those of the valid array that the block's plan
        // copied here, with offset 0; the page belongs to the block alone and is not written after
        // the copy, and the store verifies what it reads back. The buffers own the pin of the page.
        unsafe { builder.build_unchecked() }
    }
}
