//! Collection of a segment's statistics, block by block.

use datafusion::arrow::array::types::{BinaryViewType, StringViewType};
use datafusion::arrow::array::{
    Array, ArrayAccessor, ArrayIter, AsArray, PrimitiveArray, UInt64Array, downcast_integer_array,
    downcast_primitive_array,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::{max, max_boolean, min, min_boolean, take};
use datafusion::arrow::datatypes::{
    ArrowNativeType, ArrowNativeTypeOp, ArrowNumericType, BinaryType, DataType, LargeBinaryType,
    LargeUtf8Type, Utf8Type,
};
use datafusion::common::ScalarValue;

use super::bounds::Bound;
use super::segment::SegmentStatistics;
use super::views::ordered_views;
use crate::error::SqlError;
use crate::sketch::{Sketch, hash_bytes, hash_word};

/// Rows of a first block above which a dense sketch, of 4 KiB, is used from the start.
const MANY: usize = 1_024;

/// Collector of the statistics of one column of one chunk.
#[derive(Default)]
pub struct Collector {
    rows: usize,
    nulls: usize,
    min: Option<ScalarValue>,
    max: Option<ScalarValue>,
    sketch: Sketch,
    nested: bool,
}

impl Collector {
    /// Adds the values of a block.
    ///
    /// # Errors
    /// [`SqlError::DataFusion`] when DataFusion refuses a value of the array.
    pub fn add(&mut self, array: &dyn Array) -> Result<(), SqlError> {
        if self.rows == 0 && array.len() > MANY {
            self.sketch.expect_many();
        }
        self.rows += array.len();
        self.nulls += array.logical_null_count();
        self.values(array)
    }

    /// Returns the statistics, and the sketch to merge into the column's.
    #[must_use]
    pub fn finish(mut self) -> (SegmentStatistics, Sketch) {
        self.sketch.settle();
        let values = self.rows - self.nulls;
        let distinct = (!self.nested)
            .then(|| self.sketch.estimate().min(u64::try_from(values).unwrap_or(u64::MAX)));
        let statistics = SegmentStatistics {
            rows: self.rows,
            nulls: self.nulls,
            min: self.min.map(Bound::below),
            max: self.max.and_then(Bound::above),
            distinct,
        };
        (statistics, self.sketch)
    }

    fn values(&mut self, array: &dyn Array) -> Result<(), SqlError> {
        match array.data_type() {
            DataType::Null => {}
            DataType::Boolean => self.booleans(array),
            DataType::Utf8 => {
                let least = ordered(array.as_bytes::<Utf8Type>(), &mut self.sketch);
                self.range(least, |text| ScalarValue::Utf8(Some(text.to_owned())));
            }
            DataType::LargeUtf8 => {
                let least = ordered(array.as_bytes::<LargeUtf8Type>(), &mut self.sketch);
                self.range(least, |text| ScalarValue::LargeUtf8(Some(text.to_owned())));
            }
            DataType::Utf8View => {
                let array = array.as_byte_view::<StringViewType>();
                let least = ordered_views(array, &mut self.sketch);
                self.range(least, |row| ScalarValue::Utf8View(Some(array.value(row).to_owned())));
            }
            DataType::Binary => {
                let least = ordered(array.as_bytes::<BinaryType>(), &mut self.sketch);
                self.range(least, |bytes| ScalarValue::Binary(Some(bytes.to_vec())));
            }
            DataType::LargeBinary => {
                let least = ordered(array.as_bytes::<LargeBinaryType>(), &mut self.sketch);
                self.range(least, |bytes| ScalarValue::LargeBinary(Some(bytes.to_vec())));
            }
            DataType::BinaryView => {
                let array = array.as_byte_view::<BinaryViewType>();
                let least = ordered_views(array, &mut self.sketch);
                self.range(least, |row| ScalarValue::BinaryView(Some(array.value(row).to_vec())));
            }
            DataType::FixedSizeBinary(width) => {
                let least = ordered(array.as_fixed_size_binary(), &mut self.sketch);
                let value = |b: &[u8]| ScalarValue::FixedSizeBinary(*width, Some(b.to_vec()));
                self.range(least, value);
            }
            DataType::Dictionary(..) => self.dictionary(array)?,
            DataType::Interval(_) => {
                // Intervals of months and days have no order that agrees with comparisons.
                downcast_primitive_array!(
                    array => hash_all(array, &mut self.sketch),
                    _ => {}
                );
            }
            _ => downcast_primitive_array!(
                array => self.primitive(array)?,
                _ => self.nested = true
            ),
        }
        Ok(())
    }

    fn primitive<T>(&mut self, array: &PrimitiveArray<T>) -> Result<(), SqlError>
    where
        T: ArrowNumericType,
        T::Native: ArrowNativeTypeOp,
    {
        hash_all(array, &mut self.sketch);
        if let (Some(least), Some(greatest)) = (min(array), max(array)) {
            let value = |native| ScalarValue::new_primitive::<T>(Some(native), array.data_type());
            self.widen(value(least)?, value(greatest)?);
        }
        Ok(())
    }

    fn booleans(&mut self, array: &dyn Array) {
        let array = array.as_boolean();
        if let (Some(least), Some(greatest)) = (min_boolean(array), max_boolean(array)) {
            self.sketch.add(hash_word(u64::from(least)));
            self.sketch.add(hash_word(u64::from(greatest)));
            self.widen(least.into(), greatest.into());
        }
    }

    /// Adds the dictionary values that the block's keys use.
    fn dictionary(&mut self, array: &dyn Array) -> Result<(), SqlError> {
        let dictionary = array.as_any_dictionary();
        let mut used = vec![false; dictionary.values().len()];
        let keys = dictionary.keys();
        downcast_integer_array!(
            keys => keys.iter().flatten().for_each(|key| used[key.as_usize()] = true),
            _ => {}
        );
        let used = used.iter().zip(0_u64..).filter_map(|(&used, key)| used.then_some(key));
        let values = take(dictionary.values(), &UInt64Array::from_iter_values(used), None)?;
        self.values(&values)
    }

    fn range<V>(&mut self, found: Option<(V, V)>, value: impl Fn(V) -> ScalarValue) {
        if let Some((least, greatest)) = found {
            self.widen(value(least), value(greatest));
        }
    }

    fn widen(&mut self, least: ScalarValue, greatest: ScalarValue) {
        if self.min.as_ref().is_none_or(|min| least < *min) {
            self.min = Some(least);
        }
        if self.max.as_ref().is_none_or(|max| greatest > *max) {
            self.max = Some(greatest);
        }
    }
}

/// Adds every value to the sketch and returns the least and the greatest value.
fn ordered<'a, A, V>(array: A, sketch: &mut Sketch) -> Option<(V, V)>
where
    A: ArrayAccessor<Item = V>,
    V: AsRef<[u8]> + Ord + Copy + 'a,
{
    let mut range: Option<(V, V)> = None;
    for value in ArrayIter::new(array).flatten() {
        sketch.add(hash_bytes(value.as_ref()));
        range = Some(match range {
            None => (value, value),
            Some((least, greatest)) if value < least => (value, greatest),
            Some((least, greatest)) => (least, greatest.max(value)),
        });
    }
    range
}

fn hash_all<T: ArrowNumericType>(array: &PrimitiveArray<T>, sketch: &mut Sketch) {
    let bytes = array.values().inner().as_slice();
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    match size_of::<T::Native>() {
        1 => words(bytes.as_chunks::<1>().0, nulls, sketch, |value| u8::from_le_bytes(*value)),
        2 => words(bytes.as_chunks::<2>().0, nulls, sketch, |value| u16::from_le_bytes(*value)),
        4 => words(bytes.as_chunks::<4>().0, nulls, sketch, |value| u32::from_le_bytes(*value)),
        8 => words(bytes.as_chunks::<8>().0, nulls, sketch, |value| u64::from_le_bytes(*value)),
        width => {
            for (row, value) in bytes.chunks_exact(width).enumerate() {
                if nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                    sketch.add(hash_bytes(value));
                }
            }
        }
    }
}

fn words<const N: usize, W: Into<u64>>(
    values: &[[u8; N]],
    nulls: Option<&NullBuffer>,
    sketch: &mut Sketch,
    word: impl Fn(&[u8; N]) -> W,
) {
    match nulls {
        None => values.iter().for_each(|value| sketch.add(hash_word(word(value).into()))),
        Some(nulls) => {
            nulls.valid_indices().for_each(|row| sketch.add(hash_word(word(&values[row]).into())));
        }
    }
}
