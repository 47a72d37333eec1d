//! Layout of a chunk: the number of rows of each of its blocks.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, UInt32Array};
use datafusion::arrow::compute::take;

use super::error::SegmentError;
use super::format::{BLOCK_ENTRY_BYTES, HEADER_BYTES, Header, Words, is_sealed, wide};

/// The number of rows of each block of a chunk, the same for all of its segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout(Arc<[usize]>);

impl Layout {
    /// Returns the layout of the segment that begins at `bytes`.
    ///
    /// # Errors
    /// [`SegmentError`] if the bytes are no segment.
    pub fn of_segment(bytes: &[u8]) -> Result<Self, SegmentError> {
        let (header, _) = Header::read(bytes)?;
        let (blocks, directory_bytes) = (wide(header.blocks), wide(header.directory_bytes));
        let entries = HEADER_BYTES.saturating_add(blocks.saturating_mul(BLOCK_ENTRY_BYTES));
        let directory = bytes.get(..directory_bytes).filter(|directory| is_sealed(directory));
        if directory.is_none() || entries > directory_bytes {
            return Err(SegmentError::malformed("its directory is not as it was written"));
        }
        let mut words = Words::new(bytes, HEADER_BYTES, directory_bytes);
        let rows = (0..blocks).map(|_| {
            let rows = words.next_len()?;
            words.next()?;
            Ok(rows)
        });
        rows.collect::<Result<_, SegmentError>>().map(Self)
    }

    /// Returns the layout of a chunk without segments, in blocks of at most `block_rows`.
    #[must_use]
    pub fn even(rows: usize, block_rows: usize) -> Self {
        let starts = (0..rows).step_by(block_rows.max(1));
        Self(starts.map(|start| block_rows.min(rows - start)).collect())
    }

    /// Returns the number of blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of all rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.0.iter().sum()
    }

    /// Returns the number of rows of a block; `None` if there is no such block.
    #[must_use]
    pub fn block_rows(&self, index: usize) -> Option<usize> {
        self.0.get(index).copied()
    }
}

/// Returns an array of `rows` rows, each the only value of `value`.
///
/// # Errors
/// Errors of Arrow.
pub(super) fn repeated(value: &ArrayRef, rows: usize) -> Result<ArrayRef, SegmentError> {
    Ok(take(value, &UInt32Array::from_value(0, rows), None)?)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Int32Array;
    use datafusion::arrow::buffer::MutableBuffer;
    use datafusion::arrow::datatypes::DataType;

    use super::super::encode::{BlockPlan, SegmentPlan};
    use super::*;

    #[test]
    fn layouts_are_those_of_segments_or_even() {
        let blocks: [ArrayRef; 2] =
            [Arc::new(Int32Array::from(vec![1, 2, 3])), Arc::new(Int32Array::from(vec![4]))];
        let plans = blocks.iter().map(|block| BlockPlan::of(block).expect("planned"));
        let plan = SegmentPlan::new(&DataType::Int32, plans.collect()).expect("planned");
        let mut bytes = MutableBuffer::from_len_zeroed(plan.bytes());
        plan.write(&mut bytes).expect("written");
        let layout = Layout::of_segment(&bytes).expect("a layout");
        assert_eq!((layout.blocks(), layout.rows()), (2, 4));
        assert_eq!((layout.block_rows(0), layout.block_rows(1)), (Some(3), Some(1)));
        assert_eq!(layout.block_rows(2), None);
        bytes[40] ^= 1;
        assert!(Layout::of_segment(&bytes).is_err());
        let even = Layout::even(20, 8);
        assert_eq!((even.blocks(), even.block_rows(2)), (3, Some(4)));
        assert_eq!(Layout::even(0, 8).blocks(), 0);
    }
}
