//! Minimum and maximum of floating-point numbers, by group.

use std::sync::Arc;

use datafusion::arrow::array::PrimitiveArray;
use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray};
use datafusion::arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::sum::{nulls_of_taken, taken};
use crate::floats::Float;

/// Creates the accumulator of minima, or of maxima if `greatest`; `None` for types that are not
/// floats.
pub(super) fn groups(data_type: &DataType, greatest: bool) -> Option<Box<dyn GroupsAccumulator>> {
    Some(match data_type {
        DataType::Float16 => Box::new(Extremes::<Float16Type>::new(greatest)),
        DataType::Float32 => Box::new(Extremes::<Float32Type>::new(greatest)),
        DataType::Float64 => Box::new(Extremes::<Float64Type>::new(greatest)),
        _ => return None,
    })
}

/// The minimum or maximum of each group; `None` while a group has no value.
#[derive(Debug)]
struct Extremes<T: ArrowPrimitiveType> {
    greatest: bool,
    values: Vec<Option<T::Native>>,
}

impl<T: ArrowPrimitiveType> Extremes<T> {
    fn new(greatest: bool) -> Self {
        Self { greatest, values: Vec::new() }
    }
}

impl<T> GroupsAccumulator for Extremes<T>
where
    T: ArrowPrimitiveType,
    T::Native: Float,
{
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.values.resize(total, None);
        let values = values[0].as_primitive::<T>();
        for row in taken(values.nulls(), filter, values.len()) {
            let value = values.value(row);
            let state = &mut self.values[groups[row]];
            let replaces = match *state {
                None => true,
                Some(old) if self.greatest => value.is_above(old),
                Some(old) => old.is_above(value),
            };
            if replaces {
                *state = Some(value.canonical());
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update_batch(states, groups, None, total)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let values = emit.take_needed(&mut self.values);
        Ok(Arc::new(values.into_iter().collect::<PrimitiveArray<T>>()))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit)?])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<T>();
        let nulls = nulls_of_taken(values.nulls(), filter, values.len());
        Ok(vec![Arc::new(PrimitiveArray::<T>::new(values.values().clone(), nulls))])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<Option<T::Native>>()
    }
}
