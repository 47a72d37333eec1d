//! Quantiles: values at fractions of the way from the first to the last.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, ListArray, UInt32Array,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use datafusion::arrow::compute::{cast, take};
use datafusion::arrow::datatypes::{DataType, Field, Float64Type, Int64Type, TimeUnit};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::function::AccumulatorArgs;

use super::constant::constant;
use super::definition::Definition;
use super::factory::{Factory, list_of};
use super::sorted::{Sorted, for_each_sorted};
use super::values::Values;

/// `quantile_disc(x, fraction)` and `percentile_disc(fraction) WITHIN GROUP (ORDER BY x)`: the
/// discrete percentile, the first value of the order whose cumulative share is at least `fraction`.
/// An array of fractions gives an array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Discrete;

/// `quantile_cont(x, fraction)` and `percentile_cont(fraction) WITHIN GROUP (ORDER BY x)`: the
/// continuous percentile, interpolated between the two nearest values. Numbers give DOUBLE; dates
/// and timestamps give timestamps, as in DuckDB. An array of fractions gives an array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Continuous;

/// The second argument of a quantile.
#[derive(Clone, Debug)]
struct Fractions {
    /// One fraction, or those of an array; a null fraction gives a null.
    fractions: Vec<Option<f64>>,
    is_array: bool,
    /// True if the array itself is null.
    is_null: bool,
    descending: bool,
}

impl Fractions {
    fn new(args: &AccumulatorArgs<'_>, function: &str) -> Result<Self> {
        let value = constant(args, function, 1)?;
        let descending = args.order_bys.first().is_some_and(|key| key.options.descending);
        let is_array = args.expr_fields.get(1).is_some_and(|field| field.data_type().is_nested());
        let is_null = value.is_null();
        let numbers = match &value {
            ScalarValue::List(list) if !is_null => list.value(0),
            ScalarValue::List(_) => Arc::new(Float64Array::new_null(0)),
            value => value.to_array()?,
        };
        let fractions: Vec<Option<f64>> = numbers.as_primitive::<Float64Type>().iter().collect();
        let outside = |fraction: &&f64| !(0.0..=1.0).contains(*fraction);
        if let Some(fraction) = fractions.iter().flatten().find(outside) {
            return plan_err!("{function}: fraction {fraction} is not between 0 and 1");
        }
        Ok(Self { fractions, is_array, is_null, descending })
    }
}

/// Returns the arguments' types; the fractions become DOUBLE.
fn coerced(function: &str, value: DataType, fractions: &DataType) -> Result<Vec<DataType>> {
    let fractions = match fractions {
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
            list_of(DataType::Float64)
        }
        number if number.is_numeric() || number.is_null() => DataType::Float64,
        other => {
            return plan_err!(
                "{function} takes a fraction between 0 and 1, or an array of fractions, not {other}"
            );
        }
    };
    Ok(vec![value, fractions])
}

fn result(arguments: &[DataType]) -> DataType {
    match arguments {
        [value, fractions] if fractions.is_nested() => list_of(value.clone()),
        [value, ..] => value.clone(),
        [] => DataType::Null,
    }
}

impl Definition for Discrete {
    fn name(&self) -> &'static str {
        "quantile_disc"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["quantile", "percentile_disc"]
    }

    fn coerce(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [value, fractions] => coerced(self.name(), value.clone(), fractions),
            _ => plan_err!(
                "quantile_disc takes a value and a fraction: quantile_disc(x, 0.5), or \
                 percentile_disc(0.5) WITHIN GROUP (ORDER BY x)"
            ),
        }
    }

    fn result(&self, arguments: &[DataType]) -> DataType {
        result(arguments)
    }

    fn state(&self, arguments: &[DataType]) -> Vec<(&'static str, DataType)> {
        vec![("values", list_of(arguments.first().cloned().unwrap_or(DataType::Null)))]
    }

    fn keeps_values(&self, _: usize) -> bool {
        true
    }

    fn takes_within_group(&self) -> bool {
        true
    }

    fn factory(&self, args: &AccumulatorArgs<'_>) -> Result<Factory> {
        let fractions = Fractions::new(args, self.name())?;
        let value = args.expr_fields[0].data_type();
        Ok(Values::factory(value, move |lists| discrete(lists, &fractions)))
    }
}

impl Definition for Continuous {
    fn name(&self) -> &'static str {
        "percentile_cont"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["quantile_cont"]
    }

    fn coerce(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let [value, fractions] = arguments else {
            return plan_err!(
                "percentile_cont takes a value and a fraction: quantile_cont(x, 0.5), or \
                 percentile_cont(0.5) WITHIN GROUP (ORDER BY x)"
            );
        };
        let value = match value {
            number if number.is_numeric() || number.is_null() => DataType::Float64,
            moment @ DataType::Timestamp(..) => moment.clone(),
            DataType::Date32 | DataType::Date64 => DataType::Timestamp(TimeUnit::Microsecond, None),
            other => {
                return plan_err!(
                    "percentile_cont takes numbers, dates and timestamps, not {other}; use \
                     percentile_disc"
                );
            }
        };
        coerced(self.name(), value, fractions)
    }

    fn result(&self, arguments: &[DataType]) -> DataType {
        result(arguments)
    }

    fn state(&self, arguments: &[DataType]) -> Vec<(&'static str, DataType)> {
        vec![("values", list_of(arguments.first().cloned().unwrap_or(DataType::Float64)))]
    }

    fn keeps_values(&self, _: usize) -> bool {
        true
    }

    fn takes_within_group(&self) -> bool {
        true
    }

    fn factory(&self, args: &AccumulatorArgs<'_>) -> Result<Factory> {
        let fractions = Fractions::new(args, self.name())?;
        let value = args.expr_fields[0].data_type();
        Ok(Values::factory(value, move |lists| continuous(lists, &fractions)))
    }
}

/// Returns the position, from 0, of the discrete percentile `fraction` of `count` sorted values.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "between 0 and the count"
)]
fn rank(fraction: f64, count: usize) -> usize {
    ((fraction * count as f64).ceil() as usize).clamp(1, count.max(1)) - 1
}

fn pick(sorted: &Sorted<'_>, fraction: f64, descending: bool) -> Option<u32> {
    let count = sorted.order.len();
    let rank = rank(fraction, count);
    let rank = if descending { count.checked_sub(rank + 1)? } else { rank };
    sorted.order.get(rank).copied()
}

fn discrete(lists: &ListArray, fractions: &Fractions) -> Result<ArrayRef> {
    let mut places: Vec<Option<u32>> = Vec::new();
    let mut has_values = Vec::with_capacity(lists.len());
    for_each_sorted(lists, lists.values(), |_, sorted| {
        let is_valid = !fractions.is_null && !sorted.order.is_empty();
        has_values.push(is_valid);
        if is_valid || !fractions.is_array {
            places.extend(fractions.fractions.iter().map(|fraction| {
                fraction.and_then(|fraction| pick(&sorted, fraction, fractions.descending))
            }));
        }
        Ok(())
    })?;
    let values = take(lists.values(), &UInt32Array::from(places), None)?;
    if fractions.is_array { arrays(values, has_values, fractions) } else { Ok(values) }
}

/// Cuts values into one array for each group that has values.
fn arrays(values: ArrayRef, has_values: Vec<bool>, fractions: &Fractions) -> Result<ArrayRef> {
    let mut offsets = vec![0_i32];
    let len = i32::try_from(fractions.fractions.len()).unwrap_or(i32::MAX);
    for has_values in &has_values {
        let last = offsets.last().copied().unwrap_or(0);
        offsets.push(last.saturating_add(if *has_values { len } else { 0 }));
    }
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let nulls = NullBuffer::from(has_values);
    Ok(Arc::new(ListArray::try_new(field, offsets, values, Some(nulls))?))
}

/// A position between two values, for interpolation.
#[derive(Clone, Copy, Debug)]
struct Between {
    lower: usize,
    upper: usize,
    /// The fraction of the distance from the lower to the upper one, from 0 to 1.
    part: f64,
}

fn continuous(lists: &ListArray, fractions: &Fractions) -> Result<ArrayRef> {
    let mut places: Vec<Option<Between>> = Vec::new();
    let mut has_values = Vec::with_capacity(lists.len());
    for_each_sorted(lists, lists.values(), |_, sorted| {
        let is_valid = !fractions.is_null && !sorted.order.is_empty();
        has_values.push(is_valid);
        let place = |at: usize| sorted.order.get(at).map_or(0, |place| *place as usize);
        let one = |fraction: f64| {
            let fraction = if fractions.descending { 1.0 - fraction } else { fraction };
            let Between { lower, upper, part } = between(fraction, sorted.order.len());
            Between { lower: place(lower), upper: place(upper), part }
        };
        if is_valid {
            places.extend(fractions.fractions.iter().map(|fraction| fraction.map(one)));
        } else if !fractions.is_array {
            places.push(None);
        }
        Ok(())
    })?;
    let values = interpolated(lists.values(), &places)?;
    if fractions.is_array { arrays(values, has_values, fractions) } else { Ok(values) }
}

/// Returns the position of the continuous percentile `fraction` of `count` sorted values.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "between 0 and the count"
)]
fn between(fraction: f64, count: usize) -> Between {
    let at = fraction * count.saturating_sub(1) as f64;
    Between { lower: at.floor() as usize, upper: at.ceil() as usize, part: at.fract() }
}

/// Returns the interpolated numbers or timestamps at `places`; null where a place is `None`.
fn interpolated(values: &ArrayRef, places: &[Option<Between>]) -> Result<ArrayRef> {
    if let Some(numbers) = values.as_primitive_opt::<Float64Type>() {
        let number = |place: Between| {
            let (lower, upper) = (numbers.value(place.lower), numbers.value(place.upper));
            let is_lower = place.part == 0.0 || lower == upper;
            if is_lower { lower } else { lower + (upper - lower) * place.part }
        };
        let results = places.iter().map(|place| place.map(number));
        return Ok(Arc::new(results.collect::<Float64Array>()));
    }
    let moments = cast(values, &DataType::Int64)?;
    let moments = moments.as_primitive::<Int64Type>();
    let moment = |place: Between| {
        let lower = moments.value(place.lower);
        lower.saturating_add(rounded(moments.value(place.upper).abs_diff(lower), place.part))
    };
    let results: Int64Array = places.iter().map(|place| place.map(moment)).collect();
    Ok(cast(&results, values.data_type())?)
}

/// Returns a part of a distance, rounded.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "at most the distance, whose lowest digits do not matter"
)]
fn rounded(distance: u64, part: f64) -> i64 {
    (distance as f64 * part).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rank_of_a_fraction_is_the_first_that_reaches_it() {
        let ranks =
            [(0.0, 4, 0), (0.25, 4, 0), (0.26, 4, 1), (0.5, 5, 2), (1.0, 5, 4), (0.5, 1, 0)];
        for (fraction, count, expected) in ranks {
            assert_eq!(rank(fraction, count), expected, "{fraction} of {count}");
        }
    }

    #[test]
    fn a_value_between_two_is_interpolated() {
        let numbers: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 4.0]));
        let places: Vec<_> =
            [0.0, 0.25, 0.5, 0.75, 1.0].iter().map(|it| Some(between(*it, 3))).collect();
        let values = interpolated(&numbers, &places).expect("numbers");
        let values = values.as_primitive::<Float64Type>().values().to_vec();
        assert_eq!(values, [1.0, 1.5, 2.0, 3.0, 4.0]);
        let moments = DataType::Timestamp(TimeUnit::Microsecond, None);
        let moments = cast(&numbers, &DataType::Int64).and_then(|it| cast(&it, &moments));
        let values = interpolated(&moments.expect("moments"), &places).expect("moments");
        let values = cast(&values, &DataType::Int64).expect("micros");
        assert_eq!(values.as_primitive::<Int64Type>().values().to_vec(), [1, 2, 2, 3, 4]);
    }
}
