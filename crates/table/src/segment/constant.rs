//! Columns with the same value in all rows of a chunk: they need no segment on the store.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::buffer::MutableBuffer;
use datafusion::arrow::datatypes::DataType;

use super::compact::HeapBytes;
use super::decode::Segment;
use super::encode::{BlockPlan, SegmentPlan};
use super::error::SegmentError;
use super::layout::repeated;

/// Maximum bytes of a constant: chunk records hold them, and a block of copies stays below the
/// size of a block.
const CONSTANT_BYTES: usize = 512;

/// The value of a column in all rows of a chunk.
#[derive(Clone, Debug)]
pub struct Constant {
    /// A plain segment of one row.
    bytes: Arc<[u8]>,
    value: ArrayRef,
}

impl PartialEq for Constant {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Constant {
    /// Returns the constant of an array of one row; `None` if the value is too long.
    ///
    /// # Errors
    /// [`SegmentError::Type`] for a type that cannot be stored.
    pub fn of(value: &ArrayRef) -> Result<Option<Self>, SegmentError> {
        let plan = SegmentPlan::new(value.data_type(), vec![BlockPlan::of(value)?])?;
        if value.len() != 1 || plan.bytes() > CONSTANT_BYTES {
            return Ok(None);
        }
        let mut bytes = MutableBuffer::from_len_zeroed(plan.bytes());
        plan.write(&mut bytes)?;
        Self::from_bytes(&bytes, value.data_type()).map(Some)
    }

    /// Returns the constant that [`Constant::bytes`] has encoded.
    ///
    /// # Errors
    /// [`SegmentError`] if the bytes are not a constant of this type.
    pub fn from_bytes(bytes: &[u8], data_type: &DataType) -> Result<Self, SegmentError> {
        let segment = Segment::open_bytes(HeapBytes::copy_of(bytes), data_type)?;
        if (segment.blocks(), segment.rows()) != (1, 1) || segment.compact().is_some() {
            return Err(SegmentError::malformed("a constant is a plain segment of one row"));
        }
        Ok(Self { bytes: bytes.into(), value: segment.block(0)? })
    }

    /// Returns the encoded value.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the value in an array of one row.
    #[must_use]
    pub fn value(&self) -> &ArrayRef {
        &self.value
    }

    /// Returns an array of `rows` rows, each with the constant value.
    ///
    /// # Errors
    /// Errors of Arrow.
    pub fn rows(&self, rows: usize) -> Result<ArrayRef, SegmentError> {
        repeated(&self.value, rows)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{
        Array, Int32Array, ListArray, NullArray, StringViewArray, new_null_array,
    };
    use datafusion::arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn constants_come_back_as_rows() {
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1), None])]);
        let values: [ArrayRef; 5] = [
            Arc::new(Int32Array::from(vec![7])),
            Arc::new(StringViewArray::from(vec!["longer than twelve bytes"])),
            Arc::new(NullArray::new(1)),
            new_null_array(&DataType::Utf8View, 1),
            Arc::new(list),
        ];
        for value in values {
            let constant = Constant::of(&value).expect("encoded").expect("short");
            let again = Constant::from_bytes(constant.bytes(), value.data_type()).expect("decoded");
            assert_eq!(again, constant);
            let rows = again.rows(3).expect("rows");
            assert_eq!((rows.len(), rows.slice(2, 1)), (3, value));
        }
        let long: ArrayRef = Arc::new(StringViewArray::from(vec!["x".repeat(CONSTANT_BYTES)]));
        assert!(Constant::of(&long).expect("encoded").is_none());
        let two: ArrayRef = Arc::new(Int32Array::from(vec![7, 7]));
        assert!(Constant::of(&two).expect("encoded").is_none());
        assert!(Constant::from_bytes(&[0; 64], &DataType::Int32).is_err());
    }
}
