//! Functions of numbers whose state is a few numbers: `product`, `fsum`, `skewness`, `kurtosis`.

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::definition::Definition;
use super::factory::Factory;
use super::formula::{Formula, STATE, State};

/// A function of one column of numbers.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Numeric<F> {
    name: &'static str,
    aliases: &'static [&'static str],
    formula: PhantomData<F>,
}

impl<F> Numeric<F> {
    pub(super) fn new(name: &'static str, aliases: &'static [&'static str]) -> Self {
        Self { name, aliases, formula: PhantomData }
    }
}

impl<F> Clone for Numeric<F> {
    fn clone(&self) -> Self {
        Self::new(self.name, self.aliases)
    }
}

impl<F: Formula + fmt::Debug + Eq + Hash> Definition for Numeric<F> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn aliases(&self) -> &'static [&'static str] {
        self.aliases
    }

    fn coerce(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [number] if number.is_numeric() || number.is_null() => Ok(vec![DataType::Float64]),
            [other] => plan_err!("{} takes numbers, not {other}; cast it", self.name),
            _ => plan_err!("{} takes one number, not {} arguments", self.name, arguments.len()),
        }
    }

    fn result(&self, _: &[DataType]) -> DataType {
        DataType::Float64
    }

    fn state(&self, _: &[DataType]) -> Vec<(&'static str, DataType)> {
        STATE.map(|name| (name, DataType::Float64)).to_vec()
    }

    fn factory(&self, _: &AccumulatorArgs<'_>) -> Result<Factory> {
        Ok(Arc::new(|| Ok(Box::new(Numbers::<F> { states: Vec::new(), formula: PhantomData }))))
    }
}

/// The states of groups.
struct Numbers<F> {
    states: Vec<State>,
    formula: PhantomData<F>,
}

impl<F: Formula> Numbers<F> {
    fn columns(states: &[State]) -> Vec<ArrayRef> {
        let column = |n: usize| states.iter().map(|state| state[n]).collect::<Vec<_>>();
        let columns = (0..STATE.len()).map(column);
        columns.map(|column| Arc::new(Float64Array::from(column)) as ArrayRef).collect()
    }
}

impl<F: Formula> GroupsAccumulator for Numbers<F> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.states.resize(total.max(self.states.len()), F::START);
        let numbers = values[0].as_primitive::<Float64Type>();
        for (row, &group) in groups.iter().enumerate() {
            let passes = filter.is_none_or(|it| it.is_valid(row) && it.value(row));
            if passes && numbers.is_valid(row) {
                F::add(&mut self.states[group], numbers.value(row));
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.states.resize(total.max(self.states.len()), F::START);
        let columns: Vec<_> =
            states.iter().map(|column| column.as_primitive::<Float64Type>()).collect();
        for (row, &group) in groups.iter().enumerate() {
            let mut other = F::START;
            for (field, column) in other.iter_mut().zip(&columns) {
                *field = column.value(row);
            }
            F::merge(&mut self.states[group], &other);
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let states = emit.take_needed(&mut self.states);
        Ok(Arc::new(states.iter().map(F::result).collect::<Float64Array>()))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(Self::columns(&emit.take_needed(&mut self.states)))
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let rows = values[0].len();
        let mut each = Self { states: Vec::new(), formula: PhantomData };
        let groups: Vec<usize> = (0..rows).collect();
        each.update_batch(values, &groups, filter, rows)?;
        Ok(Self::columns(&each.states))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.states.capacity() * size_of::<State>()
    }
}
