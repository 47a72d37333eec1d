//! Reading of groups: as results, or as states for another table.

use datafusion::arrow::array::ArrayRef;
use datafusion::common::Result;
use datafusion::logical_expr::EmitTo;

use super::Table;
use crate::aggregate::program::{Arguments, Evaluated, State};
use crate::aggregate::spill::{Part, columns};
use crate::rows::{RowAddress, RowPages};

impl Table {
    /// Begins the output of results: returns those of the states outside of the rows, one column
    /// per aggregate, indexed by group. `picked` are the results of the pickers, in the order of
    /// the aggregates.
    ///
    /// # Errors
    /// The aggregate's own.
    pub(in crate::aggregate) fn evaluate_beside(
        &mut self,
        picked: Vec<ArrayRef>,
    ) -> Result<Vec<ArrayRef>> {
        self.parts[0].rows.release_reserve();
        let (mut values, mut picked) = (Vec::new(), picked.into_iter());
        if self.groups == 0 {
            // Some accumulators have no result for no group.
            return Ok(values);
        }
        for state in &mut self.states {
            match state {
                State::Cell(_) => {}
                State::Beside(groups) => values.push(groups.evaluate(EmitTo::All)?),
                State::Aside => values.extend(picked.next()),
            }
        }
        Ok(values)
    }

    /// Begins the output of states: returns the columns of those outside of the rows, indexed by
    /// group.
    ///
    /// # Errors
    /// The aggregate's own.
    pub(in crate::aggregate) fn states_beside(&mut self) -> Result<Vec<ArrayRef>> {
        self.parts[0].rows.release_reserve();
        let mut values = Vec::new();
        for state in self.states.iter_mut().filter(|_| self.groups > 0) {
            if let State::Beside(groups) = state {
                values.extend(groups.state(EmitTo::All)?);
            }
        }
        Ok(values)
    }

    /// Returns the rows of a table that never spilled.
    pub(in crate::aggregate) fn rows(&mut self) -> &mut RowPages {
        &mut self.parts[0].rows
    }

    /// Returns the output of the groups at `addresses`, which are consecutive, the first of them
    /// being group `from`. `beside` is the result of [`Table::evaluate_beside`] or, if the output
    /// is states, of [`Table::states_beside`].
    ///
    /// # Errors
    /// The aggregate's own.
    pub(in crate::aggregate) fn output(
        &self,
        addresses: &[RowAddress],
        from: usize,
        beside: &[ArrayRef],
    ) -> Result<Vec<ArrayRef>> {
        let rows = self.parts[0].rows.resolve(addresses.iter().copied())?;
        let mut output = if self.program.has_no_keys() { Vec::new() } else { columns(&rows)? };
        let slots = rows.into_slots_to_read()?;
        let hands_on = self.program.hands_on();
        let mut beside = beside.iter().map(|values| values.slice(from, addresses.len()));
        for (state, aggregate) in self.states.iter().zip(self.program.aggregates()) {
            match state {
                State::Cell(cell) if hands_on => output.extend(cell.states(&slots)?),
                State::Cell(cell) => output.push(cell.evaluate(&slots)?),
                State::Beside(_) if hands_on => {
                    output.extend(beside.by_ref().take(aggregate.state_types.len()));
                }
                State::Beside(_) | State::Aside => output.extend(beside.next()),
            }
        }
        Ok(output)
    }

    /// Reads groups of a partition that another table spilled, as a batch of states to aggregate.
    /// `addresses` are those of `part.rows`, `beside` those of `part.beside`.
    ///
    /// # Errors
    /// As [`crate::rows::Rows::gather`].
    pub(in crate::aggregate) fn read(
        &self,
        part: &Part,
        addresses: &[RowAddress],
        beside: &[RowAddress],
    ) -> Result<Evaluated> {
        let rows = part.rows.resolve(addresses.iter().copied())?;
        let keys = columns(&rows)?;
        let slots = rows.into_slots_to_read()?;
        let beside = match &part.beside {
            Some(pages) => columns(&pages.resolve(beside.iter().copied())?)?,
            None => Vec::new(),
        };
        let mut beside = beside.into_iter();
        let mut arguments = Vec::with_capacity(self.states.len());
        for (state, aggregate) in self.states.iter().zip(self.program.aggregates()) {
            let columns = match state {
                State::Cell(cell) => cell.states(&slots)?,
                State::Beside(_) | State::Aside => {
                    beside.by_ref().take(aggregate.state_types.len()).collect()
                }
            };
            arguments.push(Arguments { columns, filter: None });
        }
        Ok(Evaluated { keys, arguments: arguments.into(), states: true })
    }
}
