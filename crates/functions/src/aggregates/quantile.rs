//! Quantiles: values at fractions of the way from the first to the last.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, ListArray, UInt32Array};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Field, Float64Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::function::AccumulatorArgs;

use super::constant::constant;
use super::definition::Definition;
use super::factory::{Factory, list_of};
use super::sorted::{Sorted, for_each_sorted};
use super::values::Values;

/// `quantile_disc(x, fraction)` and `percentile_disc(fraction) WITHIN GROUP (ORDER BY x)`: the
/// first value of the order whose place is at least the fraction of all. An array of fractions
/// gives an array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Discrete;

/// `percentile_cont` of an array of fractions: an array of interpolated values.
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
        "percentile_cont_array"
    }

    fn coerce(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [value, fractions] if value.is_numeric() || value.is_null() => {
                coerced(self.name(), DataType::Float64, fractions)
            }
            [value, _] => {
                plan_err!("percentile_cont takes numbers, not {value}; use percentile_disc")
            }
            _ => plan_err!("percentile_cont takes a value and an array of fractions"),
        }
    }

    fn result(&self, arguments: &[DataType]) -> DataType {
        result(arguments)
    }

    fn state(&self, _: &[DataType]) -> Vec<(&'static str, DataType)> {
        vec![("values", list_of(DataType::Float64))]
    }

    fn keeps_values(&self, _: usize) -> bool {
        true
    }

    fn takes_within_group(&self) -> bool {
        true
    }

    fn factory(&self, args: &AccumulatorArgs<'_>) -> Result<Factory> {
        let fractions = Fractions::new(args, "percentile_cont")?;
        Ok(Values::factory(&DataType::Float64, move |lists| continuous(lists, &fractions)))
    }
}

/// Returns the position in the order of the value at a fraction of `count` values.
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

fn continuous(lists: &ListArray, fractions: &Fractions) -> Result<ArrayRef> {
    let numbers = lists.values().as_primitive::<Float64Type>();
    let mut results: Vec<Option<f64>> = Vec::new();
    let mut has_values = Vec::with_capacity(lists.len());
    for_each_sorted(lists, lists.values(), |_, sorted| {
        let is_valid = !fractions.is_null && !sorted.order.is_empty();
        has_values.push(is_valid);
        if is_valid {
            let number = |place: usize| {
                sorted.order.get(place).map_or(f64::NAN, |place| numbers.value(*place as usize))
            };
            let one = |fraction: f64| {
                let fraction = if fractions.descending { 1.0 - fraction } else { fraction };
                interpolated(number, fraction, sorted.order.len())
            };
            results.extend(fractions.fractions.iter().map(|fraction| fraction.map(one)));
        }
        Ok(())
    })?;
    arrays(Arc::new(Float64Array::from(results)), has_values, fractions)
}

/// Returns the value at a fraction of the way from the first of `count` numbers to the last.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "between 0 and the count"
)]
fn interpolated(number: impl Fn(usize) -> f64, fraction: f64, count: usize) -> f64 {
    let at = fraction * count.saturating_sub(1) as f64;
    let (lower, upper) = (number(at.floor() as usize), number(at.ceil() as usize));
    if at.fract() == 0.0 || lower == upper { lower } else { lower + (upper - lower) * at.fract() }
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
        let numbers = [1.0, 2.0, 4.0];
        let at = |fraction| interpolated(|place| numbers[place], fraction, 3);
        assert_eq!((at(0.0), at(0.25), at(0.5), at(0.75), at(1.0)), (1.0, 1.5, 2.0, 3.0, 4.0));
    }
}
