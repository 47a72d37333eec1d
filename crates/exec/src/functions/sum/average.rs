//! Averages of integers: their exact sum, divided by their number and rounded once.
//!
//! DataFusion adds integers as floating-point numbers. Beyond 2^53 each addition rounds, and the
//! average depends on the order of rows, which differs from run to run with several threads.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Float64Array,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, Int64Type, IntervalUnit, UInt64Type,
};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use super::distinct::{distinct, sliding_distinct};
use super::groups::{nulls, nulls_of_taken, taken};
use super::types::Types;
use super::{Sum, one};
use crate::functions::wide::{array, natives, state_type};

/// Returns true for argument types whose averages are computed here: after coercion, all integers.
pub(in crate::functions) fn is_exact(argument: &DataType) -> bool {
    matches!(argument, DataType::Int64 | DataType::UInt64)
}

/// Returns the type to which `avg` casts an argument of type `from`, for an integer, an interval or
/// an untyped null; `None` for other types.
pub(in crate::functions) fn coerced(from: &DataType) -> Option<DataType> {
    match from {
        DataType::UInt64 => Some(DataType::UInt64),
        DataType::Null => Some(DataType::Int64),
        DataType::Interval(_) => Some(DataType::Interval(IntervalUnit::MonthDayNano)),
        from if from.is_integer() => Some(DataType::Int64),
        _ => None,
    }
}

/// Returns the fields of a state: the number of values and their sum, or a list of distinct values.
pub(in crate::functions) fn state_fields(
    args: StateFieldsArgs<'_>,
    argument: &DataType,
) -> Result<Vec<FieldRef>> {
    if args.is_distinct {
        let return_field = Arc::new(Field::new(args.name, argument.clone(), true));
        return sum_udaf().state_fields(StateFieldsArgs { return_field, ..args });
    }
    let types = Types::of_average(argument);
    let field =
        |part, data_type| Arc::new(Field::new(format_state_name(args.name, part), data_type, true));
    Ok(vec![field("count", DataType::UInt64), field("sum", types.sum)])
}

/// Calls a generic function with the Arrow type of the argument.
macro_rules! of_argument {
    ($argument:expr, $function:ident($($with:expr),*)) => {
        match $argument {
            DataType::Int64 => Ok($function::<Int64Type>($($with),*)),
            DataType::UInt64 => Ok($function::<UInt64Type>($($with),*)),
            other => internal_err!("an exact average of {other}"),
        }
    };
}

/// Creates the accumulator of one group.
pub(in crate::functions) fn accumulator(
    args: &AccumulatorArgs<'_>,
    argument: &DataType,
) -> Result<Box<dyn Accumulator>> {
    let types = Types::of_average(argument);
    if args.is_distinct {
        let return_field = Arc::new(Field::new(args.name, argument.clone(), true));
        // It collects the distinct values.
        let stock = sum_udaf().accumulator(AccumulatorArgs { return_field, ..args.clone() })?;
        return of_argument!(argument, of_distinct(types, stock));
    }
    of_argument!(argument, of_one(types))
}

/// Creates the accumulator of a sliding window frame.
pub(in crate::functions) fn sliding(
    args: &AccumulatorArgs<'_>,
    argument: &DataType,
) -> Result<Box<dyn Accumulator>> {
    let types = Types::of_average(argument);
    match args.is_distinct {
        true => of_argument!(argument, of_sliding_distinct(types)),
        false => of_argument!(argument, of_one(types)),
    }
}

/// Creates the accumulator of many groups.
pub(in crate::functions) fn groups(argument: &DataType) -> Result<Box<dyn GroupsAccumulator>> {
    of_argument!(argument, of_many(Types::of_average(argument)))
}

/// Integer types whose averages are computed from a sum in 128 bits.
trait Integer: ArrowPrimitiveType<Native: Into<i128>> {}

impl Integer for Int64Type {}
impl Integer for UInt64Type {}

fn of_one<V: Integer>(types: Types) -> Box<dyn Accumulator> {
    Box::new(Average(one::<V, i128>(types)))
}

fn of_distinct<V: Integer>(types: Types, stock: Box<dyn Accumulator>) -> Box<dyn Accumulator> {
    distinct::<V, i128>(types, stock, average)
}

fn of_sliding_distinct<V: Integer>(types: Types) -> Box<dyn Accumulator> {
    sliding_distinct::<V, i128>(types, average)
}

fn of_many<V: Integer>(types: Types) -> Box<dyn GroupsAccumulator> {
    Box::new(Averages::<V> { types, sums: Vec::new(), counts: Vec::new(), values: PhantomData })
}

impl Types {
    fn of_average(argument: &DataType) -> Self {
        let sum = state_type(argument).unwrap_or_else(|| argument.clone());
        Self { result: argument.clone(), sum }
    }
}

#[allow(clippy::unnecessary_wraps, reason = "sums of other types may not fit their results")]
fn average(_: &Types, sum: i128, count: u64) -> Result<ScalarValue> {
    Ok(ScalarValue::Float64((count > 0).then(|| quotient(sum, count))))
}

/// Returns the double nearest to `sum / count`; of two that are equally near, the even one. `count`
/// is at least 1.
fn quotient(sum: i128, count: u64) -> f64 {
    const EXACT: u64 = 1 << 53;
    let size = sum.unsigned_abs();
    if size <= u128::from(EXACT) && count <= EXACT {
        return sum as f64 / count as f64;
    }
    // The quotient has 64 bits or more here, so the remainder only decides between above and below
    // the midpoint of two doubles: one sticky bit.
    let shift = size.leading_zeros();
    let (shifted, count) = (size << shift, u128::from(count));
    let quotient = (shifted / count) | u128::from(shifted % count != 0);
    let quotient = quotient as f64 / 2_f64.powi(shift.cast_signed());
    if sum < 0 { -quotient } else { quotient }
}

/// The average of one group or of a window frame.
struct Average<V>(Sum<V, i128>);

impl<V> fmt::Debug for Average<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Average({})", self.0.types.result)
    }
}

impl<V: Integer> Accumulator for Average<V> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.retract_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (counts, sums) = (natives::<u64>(&states[0])?, natives::<i128>(&states[1])?);
        for row in taken(states[1].nulls(), None, sums.len()) {
            self.0.sum = self.0.types.add(self.0.sum, sums[row])?;
            self.0.count += counts[row];
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        average(&self.0.types, self.0.sum, self.0.count)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let Sum { types, sum, count, .. } = &self.0;
        let is_some = *count > 0;
        let count = ScalarValue::UInt64(is_some.then_some(*count));
        Ok(vec![count, types.state(is_some.then_some(*sum))?])
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }
}

/// The averages of many groups.
struct Averages<V> {
    types: Types,
    sums: Vec<i128>,
    counts: Vec<u64>,
    values: PhantomData<fn(V)>,
}

impl<V> Averages<V> {
    fn resize(&mut self, groups: usize) {
        self.sums.resize(groups, 0);
        self.counts.resize(groups, 0);
    }

    fn add(&mut self, group: usize, sum: i128, count: u64) -> Result<()> {
        self.sums[group] = self.types.add(self.sums[group], sum)?;
        self.counts[group] += count;
        Ok(())
    }

    fn take(&mut self, emit: EmitTo) -> (Vec<u64>, Vec<i128>) {
        (emit.take_needed(&mut self.counts), emit.take_needed(&mut self.sums))
    }

    fn states(
        &self,
        counts: Vec<u64>,
        sums: Vec<i128>,
        nulls: Option<NullBuffer>,
    ) -> Result<Vec<ArrayRef>> {
        let counts = array(&DataType::UInt64, counts, nulls.clone())?;
        Ok(vec![counts, array(&self.types.sum, sums, nulls)?])
    }
}

impl<V> fmt::Debug for Averages<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Averages({})", self.types.result)
    }
}

impl<V: Integer> GroupsAccumulator for Averages<V> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.resize(total);
        let values = values[0].as_primitive::<V>();
        for row in taken(values.nulls(), filter, values.len()) {
            self.add(groups[row], values.value(row).into(), 1)?;
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.resize(total);
        let (counts, sums) = (natives::<u64>(&states[0])?, natives::<i128>(&states[1])?);
        for row in taken(states[1].nulls(), None, sums.len()) {
            self.add(groups[row], sums[row], counts[row])?;
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let (counts, sums) = self.take(emit);
        let averages = sums.iter().zip(&counts).map(|(sum, count)| match count {
            0 => None,
            count => Some(quotient(*sum, *count)),
        });
        Ok(Arc::new(averages.collect::<Float64Array>()))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let (counts, sums) = self.take(emit);
        let nulls = nulls(counts.iter().map(|count| *count > 0).collect());
        self.states(counts, sums, nulls)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<V>();
        let sums: Vec<i128> = values.values().iter().map(|value| (*value).into()).collect();
        let nulls = nulls_of_taken(values.nulls(), filter, values.len());
        self.states(vec![1; sums.len()], sums, nulls)
    }

    fn size(&self) -> usize {
        let group = size_of::<i128>() + size_of::<u64>();
        size_of_val(self) + self.sums.capacity() * group
    }
}

#[cfg(test)]
mod tests {
    use terrace_testkit::Rng;

    use super::*;

    #[test]
    fn a_quotient_is_rounded_once() {
        let max = i128::from(i64::MAX);
        for (sum, count, expected) in [
            (0, 1, 0.0),
            (7, 2, 3.5),
            (-7, 2, -3.5),
            (max, 1, 9_223_372_036_854_775_807.0),
            ((1 << 53) + 1, 1, 9_007_199_254_740_992.0),
            ((1 << 53) + 3, 1, 9_007_199_254_740_996.0),
            // A little above the midpoint of two doubles.
            (((1 << 53) + 1) * 1000 + 1, 1000, 9_007_199_254_740_994.0),
            (-((1 << 53) + 1) * 1000 - 1, 1000, -9_007_199_254_740_994.0),
            (max * 3 - 1, 3, 9_223_372_036_854_775_807.0),
        ] {
            assert_eq!(quotient(sum, count), expected, "{sum} / {count}");
        }
    }

    /// Compares doubles with the exact quotient, in integers: none is nearer.
    #[test]
    fn no_double_is_nearer_than_the_quotient() {
        let mut rng = Rng::new(7);
        for _ in 0..20_000 {
            let bits = 40 + rng.below(60);
            let sum = (i128::from(rng.next_u64()) << 64) | i128::from(rng.next_u64());
            let sum = (sum & i128::MAX) >> (127 - bits);
            let count_bits = 1 + rng.below(40);
            let count = 1 + rng.below(1 << count_bits);
            let found = quotient(sum, count);
            if !(4_294_967_296.0..=1e17).contains(&found) {
                continue;
            }
            // Both times 2^20, beyond which no double of this size has bits.
            let distance = |double: f64| {
                let (mantissa, exponent) =
                    (double.to_bits() & ((1 << 52) - 1), double.to_bits() >> 52);
                let double = i128::from(mantissa + (1 << 52)) << (exponent + 20 - 1075);
                (double * i128::from(count) - (sum << 20)).abs()
            };
            for other in [found.next_up(), found.next_down()] {
                assert!(distance(found) <= distance(other), "{sum} / {count}: {found}");
            }
        }
    }
}
