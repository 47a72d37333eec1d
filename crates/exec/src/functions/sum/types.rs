//! Result and state types of sums, and arithmetic of sums.

use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::AccumulatorArgs;

use crate::functions::wide::{Wide, array, out_of_range, state_type};

/// Computes the result from a sum and the number of its values.
pub(super) type Finish<S> = fn(&Types, S, u64) -> Result<ScalarValue>;

/// The types of an aggregate that keeps a sum.
#[derive(Clone, Debug)]
pub(super) struct Types {
    /// The type of the values, which for a sum has the precision of the result.
    pub(super) values: DataType,
    /// The type of the sum in a state.
    pub(super) sum: DataType,
    pub(super) result: DataType,
}

impl Types {
    pub(super) fn of(args: &AccumulatorArgs<'_>) -> Self {
        let result = args.return_type().clone();
        let sum = state_type(&result).unwrap_or_else(|| result.clone());
        Self { values: result.clone(), sum, result }
    }

    pub(super) fn add<S: Wide>(&self, sum: S, more: S) -> Result<S> {
        sum.add_checked(more).map_err(|_| out_of_range("sum", &self.result))
    }

    pub(super) fn result<S: Wide>(&self, sum: Option<S>) -> Result<ScalarValue> {
        self.scalar(sum, |sums, nulls| S::results("sum", sums, nulls, &self.result))
    }

    pub(super) fn state<S: Wide>(&self, sum: Option<S>) -> Result<ScalarValue> {
        self.scalar(sum, |sums, nulls| array(&self.sum, sums, nulls))
    }

    fn scalar<S: Wide>(
        &self,
        sum: Option<S>,
        array: impl FnOnce(Vec<S>, Option<NullBuffer>) -> Result<ArrayRef>,
    ) -> Result<ScalarValue> {
        let nulls = sum.is_none().then(|| NullBuffer::new_null(1));
        let array = array(vec![sum.unwrap_or(S::ZERO)], nulls)?;
        ScalarValue::try_from_array(&array, 0)
    }

    /// Returns the sum of an array's values.
    pub(super) fn total<V, S>(&self, values: &PrimitiveArray<V>) -> Result<S>
    where
        V: ArrowPrimitiveType,
        V::Native: Into<S>,
        S: Wide,
    {
        let add = |sum, value: V::Native| self.add(sum, value.into());
        if values.null_count() > 0 {
            return values.iter().flatten().try_fold(S::ZERO, add);
        }
        let any: &dyn Array = values;
        if let Some(values) = any.as_primitive_opt::<Int64Type>() {
            return Ok(S::from(total_of_integers(values.values())));
        }
        values.values().iter().copied().try_fold(S::ZERO, add)
    }
}

/// Returns the sum of 64-bit integers, by separate sums of their 32-bit halves: this loop is
/// vectorized.
fn total_of_integers(values: &[i64]) -> i128 {
    // Chunks so short that the sums of halves fit.
    let sums = values.chunks(1 << 20).map(|values| {
        let halves = values.iter().fold((0_u64, 0_u64), |(high, low), value| {
            // As unsigned: a value is 2^63 less than this.
            let value = value.cast_unsigned() ^ (1 << 63);
            (high + (value >> 32), low + (value & u64::from(u32::MAX)))
        });
        let offset = i128::from(terrace_sys::size::to_u64(values.len())) << 63;
        (i128::from(halves.0) << 32) + i128::from(halves.1) - offset
    });
    sums.sum()
}
