//! Plan of a block: its buffers, their offsets and its length.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BufferSpec, MutableArrayData, layout,
};
use datafusion::arrow::buffer::{Buffer, MutableBuffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use terrace_pool::PAGE_MIN_BYTES;

use super::shape::{Extent, Shape};
use crate::error::Result;

/// Alignment of buffers: recommended for Arrow's kernels, and enough for any type.
const ALIGN_BYTES: usize = 64;
/// Ratio of a view array's buffer bytes to the bytes in use above which it is compacted.
const SPARSE_VIEWS: usize = 2;

/// Arrays to be written as a block: their buffers and the offsets of these in the block.
#[derive(Debug)]
pub struct BlockPlan {
    rows: usize,
    len: usize,
    copies: Vec<(usize, Buffer)>,
    shapes: Vec<Shape>,
}

impl BlockPlan {
    /// Plans a block of `arrays`, all of `rows` rows. Values outside of a slice are not copied.
    ///
    /// # Errors
    /// If a slice cannot be copied out of its array.
    pub fn new(rows: usize, arrays: &[ArrayRef]) -> Result<Self> {
        let mut plan = Self { rows, len: 0, copies: Vec::new(), shapes: Vec::new() };
        for array in arrays {
            let shape = plan.place(compact(array).to_data())?;
            plan.shapes.push(shape);
        }
        plan.len = plan.len.max(1);
        Ok(plan)
    }

    /// Returns the number of rows of each array.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the length of the block in bytes, with padding.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the bytes of the pages that the block will have.
    pub fn bytes(&self) -> u64 {
        self.len.next_multiple_of(PAGE_MIN_BYTES) as u64
    }

    pub(super) fn copy_to(&self, page: &mut [u8]) {
        for (at, buffer) in &self.copies {
            page[*at..*at + buffer.len()].copy_from_slice(buffer);
        }
    }

    pub(super) fn into_shapes(self) -> Vec<Shape> {
        self.shapes
    }

    fn put(&mut self, buffer: Buffer) -> Extent {
        let extent = Extent { at: self.len, len: buffer.len() };
        self.len = (self.len + buffer.len()).next_multiple_of(ALIGN_BYTES);
        self.copies.push((extent.at, buffer));
        extent
    }

    fn place(&mut self, data: ArrayData) -> Result<Shape> {
        let data = if is_whole(&data) { data } else { copy_out(&data)? };
        let nulls = data.nulls().filter(|nulls| nulls.null_count() > 0);
        let nulls = nulls.map(|nulls| nulls.inner().sliced());
        let nulls = nulls.map(|bits| self.put(bits));
        let needed = |index: usize| needed_bytes(&data, index);
        let buffers = data.buffers().iter().enumerate();
        let buffers = buffers.map(|(index, buffer)| {
            let len = needed(index).map_or(buffer.len(), |needed| needed.min(buffer.len()));
            self.put(buffer.slice_with_length(0, len))
        });
        let buffers = buffers.collect();
        let children = data.child_data().iter().map(|child| self.place(child.clone()));
        let children = children.collect::<Result<_>>()?;
        Ok(Shape { data_type: data.data_type().clone(), len: data.len(), nulls, buffers, children })
    }
}

/// Returns the bytes of buffer `index` that the rows of `data` use; `None` where that is not known.
fn needed_bytes(data: &ArrayData, index: usize) -> Option<usize> {
    let ends = |width: usize| match (index, width) {
        (0, width) => Some((data.len() + 1) * width),
        (_, 4) => data.buffers()[0]
            .typed_data::<i32>()
            .get(data.len())
            .map(|end| end.cast_unsigned() as usize),
        (_, _) => data.buffers()[0]
            .typed_data::<i64>()
            .get(data.len())
            .and_then(|end| usize::try_from(*end).ok()),
    };
    match data.data_type() {
        DataType::Utf8 | DataType::Binary => ends(4),
        DataType::LargeUtf8 | DataType::LargeBinary => ends(8),
        data_type => match layout(data_type).buffers.get(index) {
            Some(BufferSpec::FixedWidth { byte_width, .. }) if fixed(data_type) => {
                Some(data.len() * byte_width)
            }
            Some(BufferSpec::BitMap) => Some(data.len().div_ceil(8)),
            _ => None,
        },
    }
}

/// Returns true if every fixed-width buffer of the type has one value per row.
fn fixed(data_type: &DataType) -> bool {
    data_type.is_primitive()
        || matches!(
            data_type,
            DataType::FixedSizeBinary(_) | DataType::Utf8View | DataType::BinaryView
        )
        || matches!(data_type, DataType::Dictionary(_, _))
}

/// Returns true if the buffers begin with the first row and children have no other rows.
fn is_whole(data: &ArrayData) -> bool {
    let first_is_zero = |wide: bool| match data.buffers().first() {
        _ if data.is_empty() => true,
        Some(offsets) if wide => offsets.typed_data::<i64>().first() == Some(&0),
        Some(offsets) => offsets.typed_data::<i32>().first() == Some(&0),
        None => true,
    };
    data.offset() == 0
        && match data.data_type() {
            DataType::Utf8 | DataType::Binary | DataType::List(_) | DataType::Map(_, _) => {
                first_is_zero(false)
            }
            DataType::LargeUtf8 | DataType::LargeBinary | DataType::LargeList(_) => {
                first_is_zero(true)
            }
            _ => true,
        }
}

/// Returns a copy with offset 0.
fn copy_out(data: &ArrayData) -> Result<ArrayData> {
    let mut copy = MutableArrayData::new(vec![data], false, data.len());
    copy.try_extend(0, 0, data.len())?;
    Ok(copy.freeze())
}

/// Returns a copy of a view or dictionary array without the values that its rows do not use, if
/// these are more than half; else the array itself.
pub(crate) fn compact(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => {
            let views = array.as_string_view();
            let used = views.total_buffer_bytes_used();
            let held = views.data_buffers().iter().map(Buffer::len).sum::<usize>();
            let sparse = held > used.saturating_mul(SPARSE_VIEWS);
            if sparse { Arc::new(views.gc()) } else { array.clone() }
        }
        DataType::BinaryView => {
            let views = array.as_binary_view();
            let used = views.total_buffer_bytes_used();
            let held = views.data_buffers().iter().map(Buffer::len).sum::<usize>();
            let sparse = held > used.saturating_mul(SPARSE_VIEWS);
            if sparse { Arc::new(views.gc()) } else { array.clone() }
        }
        DataType::Dictionary(_, values) => {
            let entries = array.as_any_dictionary().values().len();
            // A cast to its values and back leaves the dictionary with only the entries in use.
            let small = (entries > 2 * array.len())
                .then(|| cast(&cast(array, values).ok()?, array.data_type()).ok())
                .flatten();
            small.unwrap_or_else(|| array.clone())
        }
        _ => array.clone(),
    }
}

/// Copies the planned arrays to one new heap buffer.
fn on_heap(plan: BlockPlan) -> Vec<ArrayRef> {
    let mut bytes = MutableBuffer::from_len_zeroed(plan.len());
    plan.copy_to(bytes.as_slice_mut());
    let bytes = Buffer::from(bytes);
    plan.shapes.iter().map(|shape| shape.array(&bytes)).collect()
}

/// Copies arrays of `rows` rows to a new heap buffer, shared with no other array.
pub(crate) fn copy_to_heap(rows: usize, arrays: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
    Ok(on_heap(BlockPlan::new(rows, arrays)?))
}

/// Returns an array made by a kernel, copied if it may share buffers with the kernel's inputs.
pub(crate) fn detach(array: ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        data_type if is_flat(data_type) => array,
        _ => {
            let plan = BlockPlan::new(array.len(), &[Arc::clone(&array)])?;
            on_heap(plan).pop().unwrap_or(array)
        }
    })
}

/// Returns true if kernels copy values of this type entirely, so that outputs share no buffer.
fn is_flat(data_type: &DataType) -> bool {
    data_type.is_primitive()
        || matches!(
            data_type,
            DataType::Null
                | DataType::Boolean
                | DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Binary
                | DataType::LargeBinary
                | DataType::FixedSizeBinary(_)
        )
}
