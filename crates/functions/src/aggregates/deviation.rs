//! `mad`: the median absolute deviation.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Float64Array, ListArray};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::function::AccumulatorArgs;

use super::definition::Definition;
use super::factory::{Factory, list_of};
use super::floats::of_double;
use super::values::Values;

/// `mad(x)`: the median of the distances of the numbers from their median, as DOUBLE.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Deviation;

impl Definition for Deviation {
    fn name(&self) -> &'static str {
        "mad"
    }

    fn coerce(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [number] if number.is_numeric() || number.is_null() => Ok(vec![DataType::Float64]),
            [other] => plan_err!("mad takes numbers, not {other}"),
            _ => plan_err!("mad takes one number, not {} arguments", arguments.len()),
        }
    }

    fn result(&self, _: &[DataType]) -> DataType {
        DataType::Float64
    }

    fn state(&self, _: &[DataType]) -> Vec<(&'static str, DataType)> {
        vec![("values", list_of(DataType::Float64))]
    }

    fn keeps_values(&self, _: usize) -> bool {
        true
    }

    fn factory(&self, _: &AccumulatorArgs<'_>) -> Result<Factory> {
        Ok(Values::factory(&DataType::Float64, deviations))
    }
}

fn deviations(lists: &ListArray) -> Result<ArrayRef> {
    let numbers = lists.values().as_primitive::<Float64Type>().values();
    let mut work: Vec<f64> = Vec::new();
    let results = lists.value_offsets().windows(2).map(|ends| {
        let place = |end: i32| usize::try_from(end).unwrap_or(0);
        work.clear();
        work.extend_from_slice(&numbers[place(ends[0])..place(ends[1])]);
        let median = median(&mut work)?;
        for number in &mut work {
            *number = (*number - median).abs();
        }
        self::median(&mut work)
    });
    Ok(Arc::new(results.collect::<Float64Array>()))
}

/// Returns the median of numbers, of which NaN is the greatest; none of no numbers. Changes their
/// order.
fn median(numbers: &mut [f64]) -> Option<f64> {
    let middle = numbers.len() / 2;
    let is_odd = numbers.len() % 2 == 1;
    if numbers.is_empty() {
        return None;
    }
    for number in numbers.iter_mut() {
        *number = of_double(*number);
    }
    let (lower, upper, _) = numbers.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    if is_odd {
        return Some(upper);
    }
    let lower = lower.iter().copied().max_by(f64::total_cmp).unwrap_or(upper);
    Some(if lower == upper { lower } else { lower / 2.0 + upper / 2.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between_two() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [3.0]), Some(3.0));
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&mut [f64::MAX, f64::MAX * 0.5]), Some(f64::MAX * 0.75));
        let infinite = f64::INFINITY;
        assert_eq!(median(&mut [infinite, infinite]), Some(infinite));
        assert!(median(&mut [1.0, f64::NAN]).is_some_and(f64::is_nan));
    }
}
