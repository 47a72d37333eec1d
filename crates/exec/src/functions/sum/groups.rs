//! Sums of many groups.

use std::marker::PhantomData;

use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray};
use datafusion::arrow::buffer::{BooleanBuffer, NullBuffer};
use datafusion::common::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::types::Types;
use crate::functions::wide::{Wide, array, natives};

/// Creates the accumulator of many groups.
pub(super) fn many<V, S>(types: Types) -> Box<dyn GroupsAccumulator>
where
    V: ArrowPrimitiveType,
    V::Native: Into<S>,
    S: Wide,
{
    Box::new(Sums { types, sums: Vec::new(), seen: Vec::new(), values: PhantomData::<fn(V)> })
}

/// The sums of many groups.
struct Sums<V, S> {
    types: Types,
    sums: Vec<S>,
    /// True for groups that have a value.
    seen: Vec<bool>,
    values: PhantomData<fn(V)>,
}

impl<V, S: Wide> Sums<V, S> {
    fn resize(&mut self, groups: usize) {
        self.sums.resize(groups, S::ZERO);
        self.seen.resize(groups, false);
    }

    fn add(&mut self, group: usize, more: S) -> Result<()> {
        self.sums[group] = self.types.add(self.sums[group], more)?;
        self.seen[group] = true;
        Ok(())
    }

    fn take(&mut self, emit: EmitTo) -> (Vec<S>, Option<NullBuffer>) {
        let sums = emit.take_needed(&mut self.sums);
        (sums, nulls(emit.take_needed(&mut self.seen)))
    }
}

impl<V, S> GroupsAccumulator for Sums<V, S>
where
    V: ArrowPrimitiveType,
    V::Native: Into<S>,
    S: Wide,
{
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
            self.add(groups[row], values.value(row).into())?;
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.resize(total);
        let sums = natives::<S>(&states[0])?;
        for row in taken(states[0].nulls(), None, sums.len()) {
            self.add(groups[row], sums[row])?;
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let (sums, nulls) = self.take(emit);
        S::results("sum", sums, nulls, &self.types.result)
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let (sums, nulls) = self.take(emit);
        Ok(vec![array(&self.types.sum, sums, nulls)?])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<V>();
        let sums: Vec<S> = values.values().iter().map(|value| (*value).into()).collect();
        let nulls = nulls_of_taken(values.nulls(), filter, values.len());
        Ok(vec![array(&self.types.sum, sums, nulls)?])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.sums.capacity() * size_of::<S>() + self.seen.capacity()
    }
}

/// Returns a null buffer that is null for groups without a value; `None` if all have one.
pub(super) fn nulls(seen: Vec<bool>) -> Option<NullBuffer> {
    let nulls = NullBuffer::new(BooleanBuffer::from(seen));
    (nulls.null_count() > 0).then_some(nulls)
}

/// Returns a null buffer for states of single rows: null for rows that are null or filtered out.
pub(in crate::functions) fn nulls_of_taken(
    of_values: Option<&NullBuffer>,
    filter: Option<&BooleanArray>,
    rows: usize,
) -> Option<NullBuffer> {
    let mut seen = vec![false; rows];
    taken(of_values, filter, rows).for_each(|row| seen[row] = true);
    nulls(seen)
}

/// Returns the rows that are neither null nor filtered out.
pub(in crate::functions) fn taken<'a>(
    nulls: Option<&'a NullBuffer>,
    filter: Option<&'a BooleanArray>,
    rows: usize,
) -> impl Iterator<Item = usize> + 'a {
    let is_valid = move |row: &usize| nulls.is_none_or(|nulls| nulls.is_valid(*row));
    let passes =
        move |row: &usize| filter.is_none_or(|filter| filter.is_valid(*row) && filter.value(*row));
    (0..rows).filter(move |row| is_valid(row) && passes(row))
}
