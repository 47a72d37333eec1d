//! Accumulator of one group, and of window frames that only grow.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use datafusion::arrow::array::{ArrayRef, new_empty_array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use super::factory::Factory;

/// Accumulator of one group, which wraps an accumulator of many groups.
pub(super) struct Single {
    factory: Factory,
    types: Vec<DataType>,
    /// Only ever used by its owner: the lock makes it `Sync`, which window functions ask for.
    groups: Mutex<Box<dyn GroupsAccumulator>>,
    bytes: usize,
    /// The group of every row.
    zeros: Vec<usize>,
}

impl Single {
    /// Creates an accumulator without rows, for arguments of `types`.
    ///
    /// # Errors
    /// The function's own.
    pub(super) fn new(factory: Factory, types: Vec<DataType>) -> Result<Self> {
        let groups = Mutex::new(with_one_group(&factory, &types)?);
        Ok(Self { factory, types, groups, bytes: 0, zeros: Vec::new() })
    }

    /// Calls `add` with the accumulator and the group number 0 for each row of `columns`.
    fn add(
        &mut self,
        columns: &[ArrayRef],
        add: impl Fn(&mut dyn GroupsAccumulator, &[usize]) -> Result<()>,
    ) -> Result<()> {
        let rows = columns.first().map_or(0, |column| column.len());
        if self.zeros.len() < rows {
            self.zeros.resize(rows, 0);
        }
        let groups = self.groups.get_mut().unwrap_or_else(PoisonError::into_inner);
        add(groups.as_mut(), &self.zeros[..rows])?;
        self.bytes = groups.size();
        Ok(())
    }

    /// Returns the state without resetting the accumulator.
    fn kept_state(&mut self) -> Result<Vec<ArrayRef>> {
        let groups = self.groups.get_mut().unwrap_or_else(PoisonError::into_inner);
        let state = groups.state(EmitTo::All)?;
        *groups = with_one_group(&self.factory, &self.types)?;
        groups.merge_batch(&state, &[0], 1)?;
        Ok(state)
    }
}

/// Creates an accumulator with one group without rows.
pub(super) fn with_one_group(
    factory: &Factory,
    types: &[DataType],
) -> Result<Box<dyn GroupsAccumulator>> {
    let mut groups = factory()?;
    let none: Vec<ArrayRef> = types.iter().map(new_empty_array).collect();
    groups.update_batch(&none, &[], None, 1)?;
    Ok(groups)
}

impl Accumulator for Single {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(values, |groups, zeros| groups.update_batch(values, zeros, None, 1))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.add(states, |groups, zeros| groups.merge_batch(states, zeros, 1))
    }

    /// Returns the result; a window function asks for it after every row.
    fn evaluate(&mut self) -> Result<ScalarValue> {
        let state = self.kept_state()?;
        let mut groups = with_one_group(&self.factory, &self.types)?;
        groups.merge_batch(&state, &[0], 1)?;
        ScalarValue::try_from_array(&groups.evaluate(EmitTo::All)?, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let state = self.kept_state()?;
        state.iter().map(|column| ScalarValue::try_from_array(column, 0)).collect()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bytes + self.zeros.capacity() * size_of::<usize>()
    }
}

impl fmt::Debug for Single {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Single").field("types", &self.types).finish_non_exhaustive()
    }
}
