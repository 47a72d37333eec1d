//! Aggregates of the frequencies of values: `entropy` and `histogram`.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, Float64Array, ListArray, MapArray, StructArray, UInt32Array, UInt64Array,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::function::AccumulatorArgs;

use super::definition::Definition;
use super::factory::{Factory, list_of};
use super::sorted::for_each_sorted;
use super::values::Values;

/// `entropy(x)`: the entropy of the values, in bits; 0 of no values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entropy;

/// `histogram(x)`: the number of rows of each value, as a map in the order of the values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Histogram;

fn one(function: &str, arguments: &[DataType]) -> Result<Vec<DataType>> {
    match arguments {
        [value] => Ok(vec![value.clone()]),
        _ => plan_err!("{function} takes one value, not {} arguments", arguments.len()),
    }
}

impl Definition for Entropy {
    fn name(&self) -> &'static str {
        "entropy"
    }

    fn coerce(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        one(self.name(), arguments)
    }

    fn result(&self, _: &[DataType]) -> DataType {
        DataType::Float64
    }

    fn state(&self, arguments: &[DataType]) -> Vec<(&'static str, DataType)> {
        vec![("values", list_of(arguments.first().cloned().unwrap_or(DataType::Null)))]
    }

    fn keeps_values(&self, _: usize) -> bool {
        true
    }

    fn factory(&self, args: &AccumulatorArgs<'_>) -> Result<Factory> {
        Ok(Values::factory(args.expr_fields[0].data_type(), entropies))
    }
}

impl Definition for Histogram {
    fn name(&self) -> &'static str {
        "histogram"
    }

    fn coerce(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        one(self.name(), arguments)
    }

    fn result(&self, arguments: &[DataType]) -> DataType {
        DataType::Map(entry(arguments.first().unwrap_or(&DataType::Null)), false)
    }

    fn state(&self, arguments: &[DataType]) -> Vec<(&'static str, DataType)> {
        vec![("values", list_of(arguments.first().cloned().unwrap_or(DataType::Null)))]
    }

    fn keeps_values(&self, _: usize) -> bool {
        true
    }

    fn factory(&self, args: &AccumulatorArgs<'_>) -> Result<Factory> {
        Ok(Values::factory(args.expr_fields[0].data_type(), histograms))
    }
}

/// Returns the field of the entries of a histogram.
fn entry(values: &DataType) -> Arc<Field> {
    let fields = Fields::from(vec![
        Field::new("key", values.clone(), false),
        Field::new("value", DataType::UInt64, true),
    ]);
    Arc::new(Field::new("entries", DataType::Struct(fields), false))
}

#[expect(clippy::cast_precision_loss, reason = "counts of rows are below 2^53")]
fn entropies(lists: &ListArray) -> Result<ArrayRef> {
    let mut results = vec![0.0; lists.len()];
    for_each_sorted(lists, lists.values(), |group, sorted| {
        let total = sorted.order.len() as f64;
        let bits = sorted.runs().map(|(_, len)| {
            let share = len as f64 / total;
            share * share.log2()
        });
        // The sum of one certain value is a zero with a sign.
        results[group] = 0.0 - bits.sum::<f64>();
        Ok(())
    })?;
    Ok(Arc::new(Float64Array::from(results)))
}

fn histograms(lists: &ListArray) -> Result<ArrayRef> {
    let (mut places, mut counts) = (Vec::new(), Vec::new());
    let mut offsets = vec![0_i32];
    let mut has_values = Vec::with_capacity(lists.len());
    for_each_sorted(lists, lists.values(), |_, sorted| {
        for (place, len) in sorted.runs() {
            places.push(place);
            counts.push(u64::try_from(len).unwrap_or(u64::MAX));
        }
        offsets.push(i32::try_from(places.len()).unwrap_or(i32::MAX));
        has_values.push(!sorted.order.is_empty());
        Ok(())
    })?;
    let keys = take(lists.values(), &UInt32Array::from(places), None)?;
    let entry = entry(keys.data_type());
    let DataType::Struct(fields) = entry.data_type() else {
        return plan_err!("the entries of a histogram are no structs");
    };
    let counts: ArrayRef = Arc::new(UInt64Array::from(counts));
    let entries = StructArray::try_new(fields.clone(), vec![keys, counts], None)?;
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let nulls = NullBuffer::from(has_values);
    Ok(Arc::new(MapArray::try_new(entry, offsets, entries, Some(nulls), false)?))
}
