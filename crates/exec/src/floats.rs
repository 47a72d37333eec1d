//! Floating-point comparison by SQL's rules: the two zeros are equal, and so are all NaNs.
//!
//! Arrow's kernels compare bits, and there are many bit patterns of NaN: `0.0 / 0.0` has its sign
//! set on x86-64, a NaN parsed from text has not. [`canonical`] gives equal values equal bits,
//! which makes hashes, bytes and bit orders agree with SQL. A canonical NaN is positive, so that it
//! is above infinity in the total order of IEEE 754, as in PostgreSQL and DuckDB.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayData, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, make_array,
};
use datafusion::arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};
use datafusion::common::Result;
use half::f16;

/// A floating-point type of Arrow, compared by SQL's rules.
pub(crate) trait Float: Copy + PartialOrd + Default {
    /// The canonical NaN.
    const NAN: Self;
    /// The least number.
    const NEG_INFINITY: Self;

    /// Returns the bits of the number as the high bits of a word.
    fn top_bits(self) -> u64;

    fn is_nan(self) -> bool {
        self.partial_cmp(&self).is_none()
    }

    /// Returns the representative of all values that SQL considers equal to this one: the
    /// positive NaN for NaNs, 0.0 for both zeros.
    fn canonical(self) -> Self {
        match self {
            value if value.is_nan() => Self::NAN,
            value if value.top_bits() << 1 == 0 => Self::default(),
            value => value,
        }
    }

    /// Returns true if two values are equal in SQL.
    fn is_same(self, other: Self) -> bool {
        self == other || (self.is_nan() && other.is_nan())
    }

    /// Returns true if this value is greater than `other` in the order of SQL, in which NaN is the
    /// greatest.
    fn is_above(self, other: Self) -> bool {
        self > other || (self.is_nan() && !other.is_nan())
    }
}

impl Float for f16 {
    const NAN: Self = f16::NAN;
    const NEG_INFINITY: Self = f16::NEG_INFINITY;

    fn top_bits(self) -> u64 {
        u64::from(self.to_bits()) << 48
    }
}

impl Float for f32 {
    const NAN: Self = f32::NAN;
    const NEG_INFINITY: Self = f32::NEG_INFINITY;

    fn top_bits(self) -> u64 {
        u64::from(self.to_bits()) << 32
    }
}

impl Float for f64 {
    const NAN: Self = f64::NAN;
    const NEG_INFINITY: Self = f64::NEG_INFINITY;

    fn top_bits(self) -> u64 {
        self.to_bits()
    }
}

/// Returns true if values of a type are floating-point numbers or contain them.
pub fn has_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => has_floats(values),
        DataType::RunEndEncoded(_, field)
        | DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_floats(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| has_floats(field.data_type())),
        data_type => data_type.is_floating(),
    }
}

/// The numbers that are made canonical.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// NaNs.
    Nans,
    /// NaNs and zeros.
    All,
}

/// Returns the array with canonical floating-point numbers, also inside nested values, so that
/// equal numbers have equal bits. Returns the array itself if it is canonical or has no floats.
///
/// # Errors
/// If Arrow cannot rebuild the nested array.
pub fn canonical(array: &ArrayRef) -> Result<ArrayRef> {
    of_scope(array, Scope::All)
}

/// As [`canonical`], but a zero keeps its sign, which is visible in results.
///
/// # Errors
/// As [`canonical`].
pub fn canonical_nans(array: &ArrayRef) -> Result<ArrayRef> {
    of_scope(array, Scope::Nans)
}

fn of_scope(array: &ArrayRef, scope: Scope) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Float16 => Ok(numbers::<Float16Type>(array, scope)),
        DataType::Float32 => Ok(numbers::<Float32Type>(array, scope)),
        DataType::Float64 => Ok(numbers::<Float64Type>(array, scope)),
        data_type if has_floats(data_type) => Ok(make_array(nested(array.to_data(), scope)?)),
        _ => Ok(Arc::clone(array)),
    }
}

/// Applies [`canonical`] to each of `arrays`.
///
/// # Errors
/// As [`canonical`].
pub(crate) fn all_canonical(arrays: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
    arrays.iter().map(canonical).collect()
}

fn numbers<T>(array: &ArrayRef, scope: Scope) -> ArrayRef
where
    T: ArrowPrimitiveType,
    T::Native: Float,
{
    let values = array.as_primitive::<T>();
    let nan = T::Native::NAN.top_bits();
    // The canonical NaN is not odd; it takes the zero's place where zeros stay.
    let zero = if scope == Scope::All { 1 << 63 } else { nan };
    let odd = |value: &T::Native| {
        let bits = value.top_bits();
        bits != nan && (value.is_nan() || bits == zero)
    };
    // Branch-free, so that the loop is vectorized.
    if !values.values().iter().fold(false, |found, value| found | odd(value)) {
        return Arc::clone(array);
    }
    let canonical: PrimitiveArray<T> =
        values.unary(|value| if odd(&value) { value.canonical() } else { value });
    Arc::new(canonical)
}

fn nested(data: ArrayData, scope: Scope) -> Result<ArrayData> {
    let children = data.child_data().iter().map(|child| {
        let child = of_scope(&make_array(child.clone()), scope)?;
        Ok(child.to_data())
    });
    let children = children.collect::<Result<Vec<_>>>()?;
    Ok(data.into_builder().child_data(children).build()?)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{DictionaryArray, Float64Array, Int32Array, ListArray};
    use datafusion::arrow::datatypes::Int32Type;

    use super::*;

    const NEGATIVE_NAN: f64 = f64::from_bits(0xFFF8_0000_0000_0001);

    fn bits(array: &ArrayRef) -> Vec<u64> {
        array.as_primitive::<Float64Type>().values().iter().map(|it| it.to_bits()).collect()
    }

    #[test]
    fn equal_numbers_come_to_have_equal_bits() {
        let odd: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, NEGATIVE_NAN, 1.5, f64::NAN]));
        let same = canonical(&odd).expect("numbers");
        let expected = [0.0, f64::NAN, 1.5, f64::NAN].map(f64::to_bits);
        assert_eq!(bits(&same), expected);
        assert!(Arc::ptr_eq(&same, &canonical(&same).expect("numbers")), "no copy");
        let signed = [-0.0, f64::NAN, 1.5, f64::NAN].map(f64::to_bits);
        assert_eq!(bits(&canonical_nans(&odd).expect("numbers")), signed, "zeros keep their sign");
        let keys = Int32Array::from(vec![0, 1, 1]);
        let dictionary: ArrayRef =
            Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::clone(&odd)));
        let values = canonical(&dictionary).expect("a dictionary");
        assert_eq!(bits(values.as_dictionary::<Int32Type>().values()), expected);
        let list = ListArray::from_iter_primitive::<Float64Type, _, _>([
            Some(vec![Some(-0.0), None]),
            None,
            Some(vec![Some(NEGATIVE_NAN)]),
        ]);
        let list = canonical(&(Arc::new(list) as ArrayRef)).expect("a list");
        let values = list.as_list::<i32>().values();
        assert_eq!((bits(values)[0], bits(values)[2]), (expected[0], expected[1]));
        assert_eq!(values.null_count(), 1);
    }

    #[test]
    fn a_nan_is_above_all_others() {
        assert!(NEGATIVE_NAN.is_above(f64::INFINITY) && !f64::INFINITY.is_above(NEGATIVE_NAN));
        assert!(!NEGATIVE_NAN.is_above(f64::NAN) && !f64::NAN.is_above(NEGATIVE_NAN));
        assert!(1.0_f64.is_above(f64::NEG_INFINITY) && !0.0_f64.is_above(-0.0));
        assert!(f16::NAN.is_above(f16::INFINITY));
        assert!(NEGATIVE_NAN.is_same(f64::NAN) && (-0.0_f64).is_same(0.0) && !1.0_f64.is_same(2.0));
    }
}
