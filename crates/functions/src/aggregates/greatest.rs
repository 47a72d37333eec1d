//! Lists of the greatest and least values: `max(x, n)`, `min(x, n)`, and those of rows:
//! `arg_max(x, y, n)`, `arg_min(x, y, n)`.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, ListArray, StructArray, UInt32Array,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Field, Fields, Int64Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::constant::constant;
use super::definition::Definition;
use super::factory::{Factory, list_of};
use super::sorted::for_each_sorted;
use super::values::Values;

/// Exclusive limit of the length of a list; DuckDB's.
const LENGTH_LIMIT: i64 = 1_000_000;

/// `max(x, n)` or `min(x, n)`: at most `n` values, the greatest or the least, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Greatest {
    pub(super) name: &'static str,
    pub(super) descending: bool,
}

impl Greatest {
    /// Returns the name that statements call the function by.
    fn spelled(&self) -> &'static str {
        self.name.trim_end_matches("_n")
    }
}

impl Definition for Greatest {
    fn name(&self) -> &'static str {
        self.name
    }

    fn coerce(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [value, length] => Ok(vec![value.clone(), length_type(self.spelled(), length)?]),
            _ => plan_err!("{} takes a value and a length of the list", self.spelled()),
        }
    }

    fn result(&self, arguments: &[DataType]) -> DataType {
        list_of(arguments.first().cloned().unwrap_or(DataType::Null))
    }

    fn state(&self, arguments: &[DataType]) -> Vec<(&'static str, DataType)> {
        vec![("values", self.result(arguments))]
    }

    fn keeps_values(&self, _: usize) -> bool {
        true
    }

    fn factory(&self, args: &AccumulatorArgs<'_>) -> Result<Factory> {
        let length = length(args, self.spelled(), 1)?;
        let value = args.expr_fields[0].data_type().clone();
        let descending = self.descending;
        Ok(Arc::new(move || {
            Ok(Box::new(Cut { length, descending, by_key: false }.values(&value)?))
        }))
    }
}

/// Returns the type that a length is cast to.
///
/// # Errors
/// If the argument is no integer.
pub(super) fn length_type(function: &str, length: &DataType) -> Result<DataType> {
    match length.is_integer() || length.is_null() {
        true => Ok(DataType::Int64),
        false => plan_err!("the length of the list of {function} is an integer, not {length}"),
    }
}

/// Returns the list length that argument number `argument`, from 0, specifies.
fn length(args: &AccumulatorArgs<'_>, function: &str, argument: usize) -> Result<usize> {
    let value = constant(args, function, argument)?;
    let value = value.to_array()?;
    let number = value.as_primitive_opt::<Int64Type>().filter(|number| number.is_valid(0));
    match number.map(|number| number.value(0)).filter(|n| (1..LENGTH_LIMIT).contains(n)) {
        Some(number) => Ok(usize::try_from(number).unwrap_or(usize::MAX)),
        None => plan_err!("the length of the list of {function} is from 1 to {}", LENGTH_LIMIT - 1),
    }
}

/// Returns the type of the pairs of a list of rows: the key that orders them, and the value.
pub(super) fn pair_type(value: &DataType, key: &DataType) -> DataType {
    DataType::Struct(pair_fields(value, key))
}

fn pair_fields(value: &DataType, key: &DataType) -> Fields {
    Fields::from(vec![
        Field::new("key", key.clone(), true),
        Field::new("value", value.clone(), true),
    ])
}

/// Returns the factory of lists of rows: the values of the rows with the greatest or least keys.
///
/// # Errors
/// If the length is out of range.
pub(super) fn of_rows(
    args: &AccumulatorArgs<'_>,
    function: &str,
    descending: bool,
    takes_null_values: bool,
) -> Result<Factory> {
    let length = length(args, function, 2)?;
    let value = args.expr_fields[0].data_type().clone();
    let key = args.expr_fields[1].data_type().clone();
    Ok(Arc::new(move || {
        let fields = pair_fields(&value, &key);
        let pairs = DataType::Struct(fields.clone());
        let pairs = Cut { length, descending, by_key: true }.values(&pairs)?;
        Ok(Box::new(Rows { pairs, fields, takes_null_values }))
    }))
}

/// The length of lists and their order.
#[derive(Clone, Copy, Debug)]
struct Cut {
    length: usize,
    descending: bool,
    /// True if the values are pairs, ordered by the first of each.
    by_key: bool,
}

impl Cut {
    /// Returns an accumulator of the values that are kept.
    fn values(self, values: &DataType) -> Result<Values> {
        Values::trimmed(values, Arc::new(move |lists| Ok(Arc::new(self.apply(lists)?))))
    }

    /// Returns lists in order, cut to their length.
    fn apply(self, lists: &ListArray) -> Result<ListArray> {
        let keys = match self.by_key {
            true => Arc::clone(lists.values().as_struct().column(0)),
            false => Arc::clone(lists.values()),
        };
        let mut places: Vec<u32> = Vec::new();
        let mut offsets = vec![0_i32];
        let mut has_values = Vec::with_capacity(lists.len());
        for_each_sorted(lists, &keys, |_, sorted| {
            let order = sorted.order;
            let kept = order.len().min(self.length);
            match self.descending {
                true => places.extend(order.iter().rev().take(kept)),
                false => places.extend(&order[..kept]),
            }
            offsets.push(i32::try_from(places.len()).unwrap_or(i32::MAX));
            has_values.push(!order.is_empty());
            Ok(())
        })?;
        let values = take(lists.values(), &UInt32Array::from(places), None)?;
        let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        Ok(ListArray::try_new(field, offsets, values, Some(NullBuffer::from(has_values)))?)
    }
}

/// The values of the rows with the greatest or least keys, by group.
struct Rows {
    pairs: Values,
    fields: Fields,
    takes_null_values: bool,
}

impl Rows {
    /// Returns rows as pairs of key and value; null where a row is left out.
    fn paired(&self, arguments: &[ArrayRef]) -> Result<ArrayRef> {
        let [value, key, ..] = arguments else {
            return plan_err!("a list of rows takes a value and a key");
        };
        let mut nulls = key.logical_nulls();
        if !self.takes_null_values {
            nulls = NullBuffer::union(nulls.as_ref(), value.logical_nulls().as_ref());
        }
        let columns = vec![Arc::clone(key), Arc::clone(value)];
        Ok(Arc::new(StructArray::try_new(self.fields.clone(), columns, nulls)?))
    }
}

impl GroupsAccumulator for Rows {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.pairs.update_batch(&[self.paired(values)?], groups, filter, total)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.pairs.merge_batch(states, groups, total)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let lists = self.pairs.evaluate(emit)?;
        let lists = lists.as_list::<i32>();
        let values = Arc::clone(lists.values().as_struct().column(1));
        let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
        Ok(Arc::new(ListArray::try_new(field, offsets, values, nulls)?))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        self.pairs.state(emit)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.pairs.convert_to_state(&[self.paired(values)?], filter)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.pairs.size()
    }
}
