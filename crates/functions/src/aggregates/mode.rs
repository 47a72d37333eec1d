//! `mode`: the most frequent value.

use std::cmp::Reverse;

use datafusion::arrow::array::{Array, ArrayRef, ListArray, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::function::AccumulatorArgs;

use super::definition::Definition;
use super::factory::{Factory, list_of};
use super::sorted::for_each_sorted;
use super::values::Values;

/// `mode(x)` and `mode() WITHIN GROUP (ORDER BY x)`.
///
/// Of values that are equally frequent it returns the first in the order: the smallest, or with
/// `ORDER BY x DESC` the largest, as in PostgreSQL. DuckDB returns the first that it reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Mode;

impl Definition for Mode {
    fn name(&self) -> &'static str {
        "mode"
    }

    fn coerce(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [value] => Ok(vec![value.clone()]),
            _ => plan_err!("mode takes one value: mode(x), or mode() WITHIN GROUP (ORDER BY x)"),
        }
    }

    fn result(&self, arguments: &[DataType]) -> DataType {
        arguments.first().cloned().unwrap_or(DataType::Null)
    }

    fn state(&self, arguments: &[DataType]) -> Vec<(&'static str, DataType)> {
        vec![("values", list_of(self.result(arguments)))]
    }

    fn keeps_values(&self, _: usize) -> bool {
        true
    }

    fn takes_within_group(&self) -> bool {
        true
    }

    fn factory(&self, args: &AccumulatorArgs<'_>) -> Result<Factory> {
        let descending = args.order_bys.first().is_some_and(|key| key.options.descending);
        Ok(Values::factory(args.return_type(), move |lists| modes(lists, descending)))
    }
}

fn modes(lists: &ListArray, descending: bool) -> Result<ArrayRef> {
    let mut places = vec![None; lists.len()];
    for_each_sorted(lists, lists.values(), |group, sorted| {
        let runs = sorted.runs();
        let longest = match descending {
            // The last one of the greatest.
            true => runs.max_by_key(|(_, len)| *len),
            false => runs.min_by_key(|(_, len)| Reverse(*len)),
        };
        places[group] = longest.map(|(place, _)| place);
        Ok(())
    })?;
    Ok(take(lists.values(), &UInt32Array::from(places), None)?)
}
