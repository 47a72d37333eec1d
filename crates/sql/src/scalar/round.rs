//! Rounding before a cast to an integer.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, LargeListArray, ListArray, PrimitiveArray,
};
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Decimal256Type, Float16Type, Float32Type,
    Float64Type, i256,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use terrace_table::unary::{apply_to_one, name_of_one, type_of_one};

/// Rounds the operand of a cast to an integer, as PostgreSQL does: floating-point numbers half to
/// even, decimals half away from zero. Arrow's cast truncates.
///
/// In a plan it has the name of its argument, so that the cast has the same name as without it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct RoundToInteger {
    signature: Signature,
}

impl RoundToInteger {
    pub(crate) fn function() -> ScalarUDF {
        ScalarUDF::new_from_impl(Self { signature: Signature::any(1, Volatility::Immutable) })
    }

    /// True if a cast between these types, or between lists of them, has to round first.
    pub(crate) fn is_needed(from: &DataType, to: &DataType) -> bool {
        if let (Some(from), Some(to)) = (item_of(from), item_of(to)) {
            return Self::is_needed(from, to);
        }
        let has_fraction = match from {
            DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => *scale > 0,
            other => other.is_floating(),
        };
        has_fraction && to.is_integer()
    }
}

impl ScalarUDFImpl for RoundToInteger {
    fn name(&self) -> &str {
        "round_to_integer"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        name_of_one(self.name(), args)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        type_of_one(self.name(), arg_types)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        apply_to_one(self.name(), &args.args, rounded)
    }
}

fn rounded(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Float16 => {
            unary::<Float16Type>(array, |value| half_of(f32::from(value).round_ties_even()))
        }
        DataType::Float32 => unary::<Float32Type>(array, f32::round_ties_even),
        DataType::Float64 => unary::<Float64Type>(array, f64::round_ties_even),
        DataType::Decimal128(_, scale) => {
            let unit = 10_i128.pow(u32::from(scale.unsigned_abs()));
            decimal::<Decimal128Type>(array, |value| {
                let rest = value % unit;
                let whole = value - rest;
                // At least half a unit, without doubling, which could overflow.
                let away =
                    if rest.unsigned_abs() >= unit.unsigned_abs().div_ceil(2) { unit } else { 0 };
                whole.checked_add(away * value.signum())
            })?
        }
        DataType::Decimal256(_, scale) => {
            let unit = i256::from_i128(10).wrapping_pow(u32::from(scale.unsigned_abs()));
            let half = unit.wrapping_div(i256::from_i128(2));
            decimal::<Decimal256Type>(array, |value| {
                let rest = value.checked_rem(unit)?;
                let whole = value.checked_sub(rest)?;
                let is_away = rest.wrapping_abs() >= half && rest != i256::ZERO;
                match (is_away, value.is_negative()) {
                    (false, _) => Some(whole),
                    (true, false) => whole.checked_add(unit),
                    (true, true) => whole.checked_sub(unit),
                }
            })?
        }
        DataType::List(item) => {
            let lists = array.as_list::<i32>();
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            let values = rounded(lists.values())?;
            Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, nulls)?)
        }
        DataType::LargeList(item) => {
            let lists = array.as_list::<i64>();
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            let values = rounded(lists.values())?;
            Arc::new(LargeListArray::try_new(Arc::clone(item), offsets, values, nulls)?)
        }
        DataType::FixedSizeList(item, size) => {
            let lists = array.as_fixed_size_list();
            let (values, nulls) = (rounded(lists.values())?, lists.nulls().cloned());
            Arc::new(FixedSizeListArray::try_new(Arc::clone(item), *size, values, nulls)?)
        }
        other => return internal_err!("{other} has no fraction to round"),
    })
}

/// The type of the items of a list.
fn item_of(of: &DataType) -> Option<&DataType> {
    match of {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Some(item.data_type())
        }
        _ => None,
    }
}

fn half_of(value: f32) -> <Float16Type as ArrowPrimitiveType>::Native {
    <Float16Type as ArrowPrimitiveType>::Native::from_f32(value)
}

fn unary<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    round: impl Fn(T::Native) -> T::Native,
) -> ArrayRef {
    let rounded: PrimitiveArray<T> = array.as_primitive::<T>().unary(round);
    Arc::new(rounded.with_data_type(array.data_type().clone()))
}

/// Rounds decimals. The result may have one more digit than the decimal type, but fits its native
/// integer.
fn decimal<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    round: impl Fn(T::Native) -> Option<T::Native>,
) -> Result<ArrayRef> {
    let overflow = || ArrowError::ArithmeticOverflow("a decimal cannot be rounded".to_owned());
    let rounded: PrimitiveArray<T> =
        array.as_primitive::<T>().try_unary(|value| round(value).ok_or_else(overflow))?;
    Ok(Arc::new(rounded.with_data_type(array.data_type().clone())))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Decimal128Array, Float64Array};

    use super::*;

    #[test]
    fn floats_go_to_the_nearest_even_and_decimals_away_from_zero() {
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.5, 1.5, 2.5, -0.5, -1.5, 2.4]));
        let values = rounded(&floats).expect("rounds");
        let values: Vec<f64> = values.as_primitive::<Float64Type>().values().to_vec();
        assert_eq!(values, [0.0, 2.0, 2.0, 0.0, -2.0, 2.0]);
        let decimals = Decimal128Array::from(vec![5, 15, 25, -5, -15, 24, -24, 0])
            .with_precision_and_scale(10, 1)
            .expect("decimals");
        let decimals: ArrayRef = Arc::new(decimals);
        let values = rounded(&decimals).expect("rounds");
        let values: Vec<i128> = values.as_primitive::<Decimal128Type>().values().to_vec();
        assert_eq!(values, [10, 20, 30, -10, -20, 20, -20, 0]);
    }
}
