//! Averages of integers and decimals: their exact sum, divided by their number and rounded once.
//!
//! DataFusion adds integers as floating-point numbers. Beyond 2^53 each addition rounds, and the
//! average depends on the order of rows, which differs from run to run with several threads. Its
//! averages of decimals are cut off after few digits, and a sum beyond 38 digits wraps around.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Float64Array,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Decimal32Type, Decimal64Type,
    Decimal128Type, Decimal256Type, Field, FieldRef, Int64Type, IntervalUnit, UInt64Type, i256,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use super::distinct::{distinct, sliding_distinct};
use super::groups::{nulls, nulls_of_taken, taken};
use super::types::Types;
use super::{Sum, one};
use crate::functions::wide::{Wide, array, natives, out_of_range, state_type};

/// Returns true for argument types whose averages are computed here: after coercion, all integers
/// and decimals.
pub(in crate::functions) fn is_exact(argument: &DataType) -> bool {
    matches!(argument, DataType::Int64 | DataType::UInt64) || argument.is_decimal()
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

/// Returns the type of averages of the type `argument`, if it is not DataFusion's: of intervals,
/// which a session plans as another function, and of decimals.
///
/// An average of decimals has 16 digits after the point, as a quotient has, or as many as fit
/// beside the digits before the point, and at least DataFusion's, which are four more than those of
/// the argument.
pub(in crate::functions) fn result_type(argument: &DataType) -> Option<DataType> {
    const DIGITS: i8 = 16;
    let of = |digits: u8, scale: i8, all: u8| {
        let room = all.cast_signed() - (digits.cast_signed() - scale);
        scale.saturating_add(4).min(all.cast_signed()).max(room.min(DIGITS))
    };
    match *argument {
        DataType::Interval(_) => Some(argument.clone()),
        DataType::Decimal128(digits, scale) => {
            let all = DECIMAL128_MAX_PRECISION;
            Some(DataType::Decimal128(all, of(digits, scale, all)))
        }
        DataType::Decimal256(digits, scale) => {
            let all = DECIMAL256_MAX_PRECISION;
            Some(DataType::Decimal256(all, of(digits, scale, all)))
        }
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
    let field =
        |part, data_type| Arc::new(Field::new(format_state_name(args.name, part), data_type, true));
    Ok(vec![field("count", DataType::UInt64), field("sum", sum_type(argument)?)])
}

/// Decimals of more digits are added in 256 bits: 10^10 of fewer fit 128 bits.
const NARROW_DIGITS: u8 = 28;

fn sum_type(argument: &DataType) -> Result<DataType> {
    match argument {
        DataType::Decimal128(digits, scale) if *digits > NARROW_DIGITS => {
            Ok(DataType::Decimal256(DECIMAL256_MAX_PRECISION, *scale))
        }
        _ => match state_type(argument) {
            Some(sum) => Ok(sum),
            None => internal_err!("an exact average of {argument}"),
        },
    }
}

/// Calls a generic function with the Arrow type of the argument and the native type of the sums.
macro_rules! of_argument {
    ($argument:expr, $function:ident($($with:expr),*)) => {
        match $argument {
            DataType::Int64 => Ok($function::<Int64Type, i128>($($with),*)),
            DataType::UInt64 => Ok($function::<UInt64Type, i128>($($with),*)),
            DataType::Decimal32(..) => Ok($function::<Decimal32Type, i128>($($with),*)),
            DataType::Decimal64(..) => Ok($function::<Decimal64Type, i128>($($with),*)),
            DataType::Decimal128(digits, _) if *digits > NARROW_DIGITS => {
                Ok($function::<Decimal128Type, i256>($($with),*))
            }
            DataType::Decimal128(..) => Ok($function::<Decimal128Type, i128>($($with),*)),
            DataType::Decimal256(..) => Ok($function::<Decimal256Type, i256>($($with),*)),
            other => internal_err!("an exact average of {other}"),
        }
    };
}

/// Creates the accumulator of one group.
pub(in crate::functions) fn accumulator(
    args: &AccumulatorArgs<'_>,
    argument: &DataType,
) -> Result<Box<dyn Accumulator>> {
    let types = Types::of_average(argument, args.return_type())?;
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
    let types = Types::of_average(argument, args.return_type())?;
    match args.is_distinct {
        true => of_argument!(argument, of_sliding_distinct(types)),
        false => of_argument!(argument, of_one(types)),
    }
}

/// Creates the accumulator of many groups.
pub(in crate::functions) fn groups(
    args: &AccumulatorArgs<'_>,
    argument: &DataType,
) -> Result<Box<dyn GroupsAccumulator>> {
    of_argument!(argument, of_many(Types::of_average(argument, args.return_type())?))
}

fn of_one<V: Valued<S>, S: Divided>(types: Types) -> Box<dyn Accumulator> {
    Box::new(Average(one::<V, S>(types)))
}

fn of_distinct<V: Valued<S>, S: Divided>(
    types: Types,
    stock: Box<dyn Accumulator>,
) -> Box<dyn Accumulator> {
    distinct::<V, S>(types, stock, average)
}

fn of_sliding_distinct<V: Valued<S>, S: Divided>(types: Types) -> Box<dyn Accumulator> {
    sliding_distinct::<V, S>(types, average)
}

fn of_many<V: Valued<S>, S: Divided>(types: Types) -> Box<dyn GroupsAccumulator> {
    let (sums, counts) = (Vec::new(), Vec::new());
    Box::new(Averages::<V, S> { types, sums, counts, values: PhantomData })
}

/// Types of values whose sums have the native type `S`.
trait Valued<S>: ArrowPrimitiveType<Native: Into<S>> {}

impl<S, V: ArrowPrimitiveType<Native: Into<S>>> Valued<S> for V {}

impl Types {
    fn of_average(argument: &DataType, result: &DataType) -> Result<Self> {
        Ok(Self { values: argument.clone(), sum: sum_type(argument)?, result: result.clone() })
    }

    /// Returns averages, given sums and the numbers of their values; null for 0 values.
    fn averages<S: Divided>(&self, sums: &[S], counts: &[u64]) -> Result<ArrayRef> {
        let pairs = sums.iter().copied().zip(counts.iter().copied());
        if self.result == DataType::Float64 {
            let averages = pairs.map(|(sum, count)| match count {
                0 => Ok(None),
                count => sum.quotient(count).map(Some),
            });
            return Ok(Arc::new(averages.collect::<Result<Float64Array>>()?));
        }
        let more_digits = scale(&self.result).abs_diff(scale(&self.sum));
        let averages = pairs.map(|(sum, count)| match count {
            0 => Ok(S::ZERO),
            count => {
                rounded(sum, count, more_digits).map_err(|_| out_of_range("avg", &self.result))
            }
        });
        let nulls = nulls(counts.iter().map(|count| *count > 0).collect());
        S::results("avg", averages.collect::<Result<_>>()?, nulls, &self.result)
    }
}

/// Returns the number of a decimal type's digits after the point.
fn scale(data_type: &DataType) -> i8 {
    match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => *scale,
        _ => 0,
    }
}

fn average<S: Divided>(types: &Types, sum: S, count: u64) -> Result<ScalarValue> {
    ScalarValue::try_from_array(&types.averages(&[sum], &[count])?, 0)
}

/// Returns `sum / count` times `10^more_digits`, rounded to an integer: half away from zero, as
/// PostgreSQL rounds. `count` is at least 1.
fn rounded<S: Wide>(sum: S, count: u64, more_digits: u8) -> Result<S, ArrowError> {
    let count = S::from(i128::from(count));
    let factor = S::from(10).pow_checked(u32::from(more_digits))?;
    let (whole, rest) = (sum.div_checked(count)?, sum.mod_checked(count)?);
    // The rest is smaller than a number of rows: its product fits.
    let rest = rest.mul_checked(factor)?;
    let (part, rest) = (rest.div_checked(count)?, rest.mod_checked(count)?);
    let below = whole.mul_checked(factor)?.add_checked(part)?;
    let twice = rest.add_checked(rest)?;
    Ok(match (twice.is_ge(count), twice.is_le(count.neg_checked()?)) {
        (true, _) => below.add_checked(S::ONE)?,
        (_, true) => below.sub_checked(S::ONE)?,
        _ => below,
    })
}

/// Native types of sums that are divided to a double.
trait Divided: Wide {
    /// Returns the double nearest to `self / count`; `count` is at least 1.
    fn quotient(self, count: u64) -> Result<f64>;
}

impl Divided for i128 {
    fn quotient(self, count: u64) -> Result<f64> {
        Ok(quotient(self, count))
    }
}

impl Divided for i256 {
    fn quotient(self, _: u64) -> Result<f64> {
        internal_err!("an average of decimals that is a double")
    }
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
struct Average<V, S>(Sum<V, S>);

impl<V, S> fmt::Debug for Average<V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Average({})", self.0.types.result)
    }
}

impl<V: Valued<S>, S: Divided> Accumulator for Average<V, S> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.retract_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (counts, sums) = (natives::<u64>(&states[0])?, natives::<S>(&states[1])?);
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
struct Averages<V, S> {
    types: Types,
    sums: Vec<S>,
    counts: Vec<u64>,
    values: PhantomData<fn(V)>,
}

impl<V, S: Divided> Averages<V, S> {
    fn resize(&mut self, groups: usize) {
        self.sums.resize(groups, S::ZERO);
        self.counts.resize(groups, 0);
    }

    fn add(&mut self, group: usize, sum: S, count: u64) -> Result<()> {
        self.sums[group] = self.types.add(self.sums[group], sum)?;
        self.counts[group] += count;
        Ok(())
    }

    fn take(&mut self, emit: EmitTo) -> (Vec<u64>, Vec<S>) {
        (emit.take_needed(&mut self.counts), emit.take_needed(&mut self.sums))
    }

    fn states(
        &self,
        counts: Vec<u64>,
        sums: Vec<S>,
        nulls: Option<NullBuffer>,
    ) -> Result<Vec<ArrayRef>> {
        let counts = array(&DataType::UInt64, counts, nulls.clone())?;
        Ok(vec![counts, array(&self.types.sum, sums, nulls)?])
    }
}

impl<V, S> fmt::Debug for Averages<V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Averages({})", self.types.result)
    }
}

impl<V: Valued<S>, S: Divided> GroupsAccumulator for Averages<V, S> {
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
        let (counts, sums) = (natives::<u64>(&states[0])?, natives::<S>(&states[1])?);
        for row in taken(states[1].nulls(), None, sums.len()) {
            self.add(groups[row], sums[row], counts[row])?;
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let (counts, sums) = self.take(emit);
        self.types.averages(&sums, &counts)
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
        let sums: Vec<S> = values.values().iter().map(|value| (*value).into()).collect();
        let nulls = nulls_of_taken(values.nulls(), filter, values.len());
        self.states(vec![1; sums.len()], sums, nulls)
    }

    fn size(&self) -> usize {
        let group = size_of::<S>() + size_of::<u64>();
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

    #[test]
    fn averages_of_decimals_have_digits_of_quotients_where_they_fit() {
        for (digits, scale, expected) in
            [(4, 2, 16), (38, 2, 6), (38, 0, 4), (30, 2, 10), (38, 38, 38), (38, 20, 24)]
        {
            let found = result_type(&DataType::Decimal128(digits, scale));
            assert_eq!(found, Some(DataType::Decimal128(38, expected)), "{digits}, {scale}");
        }
        let wide = result_type(&DataType::Decimal256(50, 2));
        assert_eq!(wide, Some(DataType::Decimal256(76, 16)));
    }

    #[test]
    fn quotients_of_decimals_are_rounded_half_away_from_zero() {
        for (sum, count, digits, expected) in [
            (200, 3, 4, 666_667),
            (-200, 3, 4, -666_667),
            (1, 8, 2, 13),
            (-1, 8, 2, -13),
            (1, 3, 4, 3_333),
            (7, 2, 0, 4),
            (i128::MAX, 1, 0, i128::MAX),
        ] {
            assert_eq!(rounded(sum, count, digits).ok(), Some(expected), "{sum} / {count}");
            let wide = rounded(i256::from(sum), count, digits).ok();
            assert_eq!(wide, Some(i256::from(expected)), "{sum} / {count}");
        }
        assert!(rounded(i128::MAX, 1, 1).is_err());
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
