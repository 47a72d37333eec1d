//! DISTINCT: each value of a group counts once.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, ListArray, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::factory::Factory;
use super::sorted::for_each_sorted;
use super::values::Values;

/// Creates an accumulator that keeps the values of groups, and at the end feeds each distinct one
/// to an accumulator of `factory`.
///
/// # Errors
/// Those of DataFusion's accumulator of lists.
pub(super) fn groups(values: &DataType, factory: &Factory) -> Result<Box<dyn GroupsAccumulator>> {
    let factory = Arc::clone(factory);
    let finish = move |lists: &ListArray| fold(lists, &factory);
    Ok(Box::new(Values::new(values, Arc::new(finish))?))
}

fn fold(lists: &ListArray, factory: &Factory) -> Result<ArrayRef> {
    let (mut places, mut numbers) = (Vec::new(), Vec::new());
    for_each_sorted(lists, lists.values(), |group, sorted| {
        for (place, _) in sorted.runs() {
            places.push(place);
            numbers.push(group);
        }
        Ok(())
    })?;
    let values = take(lists.values(), &UInt32Array::from(places), None)?;
    let mut plain = factory()?;
    plain.update_batch(&[values], &numbers, None, lists.len())?;
    plain.evaluate(EmitTo::All)
}
