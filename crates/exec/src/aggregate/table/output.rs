//! Reading groups: as results, or as states to be taken in by another table.

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::EmitTo;

use super::Table;
use crate::aggregate::program::{Arguments, Evaluated, State};
use crate::aggregate::spilled::{Part, columns};
use crate::rows::{RowAddress, RowPages};

impl Table {
    /// Begins to give out groups: the results of the states beside the rows, by group.
    ///
    /// # Errors
    /// What an aggregate says.
    pub(in crate::aggregate) fn evaluate_beside(&mut self) -> Result<Vec<ArrayRef>> {
        self.parts[0].rows.release_reserve();
        let mut values = Vec::new();
        if self.groups == 0 {
            // Some accumulators have no result for no group.
            return Ok(values);
        }
        for state in &mut self.states {
            if let State::Beside(groups) = state {
                values.push(groups.evaluate(EmitTo::All)?);
            }
        }
        Ok(values)
    }

    /// The rows of a table that has let none go.
    pub(in crate::aggregate) fn rows(&mut self) -> &mut RowPages {
        &mut self.parts[0].rows
    }

    /// The results of the groups at `addresses`, which are consecutive; the first of them is the
    /// `from`th group, and `beside` what [`Table::evaluate_beside`] gave.
    ///
    /// # Errors
    /// What an aggregate says.
    pub(in crate::aggregate) fn results(
        &self,
        addresses: &[RowAddress],
        from: usize,
        beside: &[ArrayRef],
    ) -> Result<Vec<ArrayRef>> {
        let rows = self.parts[0].rows.resolve(addresses.iter().copied())?;
        let mut output = columns(&rows)?;
        let slots = rows.into_slots_to_read()?;
        let mut beside = beside.iter();
        for state in &self.states {
            output.push(match (state, beside.as_slice()) {
                (State::Cell(cell), _) => cell.evaluate(&slots)?,
                (State::Beside(_), [values, ..]) => {
                    beside.next();
                    values.slice(from, addresses.len())
                }
                (State::Beside(_), []) => return internal_err!("a state was not evaluated"),
            });
        }
        Ok(output)
    }

    /// Groups of a partition that another table let go, as a batch to be taken in.
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
                State::Beside(_) => beside.by_ref().take(aggregate.state_types.len()).collect(),
            };
            arguments.push(Arguments { columns, filter: None });
        }
        Ok(Evaluated { keys, arguments: arguments.into(), states: true })
    }
}
