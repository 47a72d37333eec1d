//! Letting groups go: their rows split into partitions and unpinned.

use datafusion::common::Result;
use datafusion::logical_expr::EmitTo;

use super::{HASH, PARTS, Table};
use crate::aggregate::program::State;
use crate::aggregate::spilled::{Part, columns};
use crate::rows::{Columns, RowAddress, RowPages};

impl Table {
    /// Lets go of all groups: splits their rows into partitions, unpins them, and forgets where
    /// they are. Bytes unpinned.
    ///
    /// # Errors
    /// What the pool says when there is no page to be had.
    pub(in crate::aggregate) fn let_go(&mut self) -> Result<u64> {
        if self.parts.len() == 1 {
            self.partition()?;
        }
        self.write_beside()?;
        let unpinned = self.parts.iter_mut().map(Part::unpin).sum();
        self.pages.grant.shrink(self.directory.bytes());
        self.directory.clear();
        self.pages.grant.grow(self.directory.bytes());
        self.groups = 0;
        Ok(unpinned)
    }

    /// Copies the rows of the one collection into partitions.
    fn partition(&mut self) -> Result<()> {
        let Some(mut all) = self.parts.pop() else { return Ok(()) };
        let layouts = self.layouts.clone();
        let part = || Part::new(&self.pages, &layouts.rows, layouts.beside.as_ref());
        self.parts = std::iter::repeat_with(part).take(PARTS).collect();
        for page in 0..all.rows.pages() {
            let addresses: Vec<_> = all.rows.addresses(page).collect();
            let rows = all.rows.resolve(addresses.iter().copied())?;
            let (keys, hashes) = (layouts.rows.prepare(&columns(&rows)?)?, rows.extras(HASH));
            drop(rows);
            let rows: Vec<u32> = (0_u32..).take(addresses.len()).collect();
            for (part, rows) in self.split(&rows, &hashes).into_iter().enumerate() {
                let to = &mut self.parts[part].rows;
                copy(&all.rows, &addresses, &keys, &rows, to, layouts.extra_bytes)?;
            }
            all.rows.free_pages(page..page + 1);
        }
        Ok(())
    }

    /// Writes the states beside the rows to pages of their own, in the order of the rows.
    fn write_beside(&mut self) -> Result<()> {
        let (Some(number), Some(layout)) = (self.layouts.number, &self.layouts.beside) else {
            return Ok(());
        };
        if self.groups == 0 {
            return Ok(());
        }
        let mut states = Vec::new();
        for state in &mut self.states {
            if let State::Beside(groups) = state {
                states.extend(groups.state(EmitTo::All)?);
            }
        }
        let states = layout.prepare(&states)?;
        for part in &mut self.parts {
            let Some(beside) = &mut part.beside else { continue };
            for page in part.pages_done..part.rows.pages() {
                let addresses: Vec<_> = part.rows.addresses(page).collect();
                let numbers = part.rows.resolve(addresses)?.extras(number);
                let numbers: Vec<u32> = numbers.into_iter().filter_map(narrow).collect();
                beside.append(&states, Some(&numbers), None, None)?;
            }
        }
        self.settle_beside();
        Ok(())
    }

    /// The partitions that have rows, of a table that let all of them go.
    pub(in crate::aggregate) fn into_parts(mut self) -> Vec<Part> {
        let parts = std::mem::take(&mut self.parts).into_iter();
        parts.filter(|part| part.rows.rows() > 0).collect()
    }
}

/// Appends the rows of `from` that `rows` picks of `addresses`, whose keys are `keys`, to `to`.
fn copy(
    from: &RowPages,
    addresses: &[RowAddress],
    keys: &Columns,
    rows: &[u32],
    to: &mut RowPages,
    extra_bytes: usize,
) -> Result<()> {
    let mut places = Vec::with_capacity(rows.len());
    to.append(keys, Some(rows), None, Some(&mut places))?;
    let picked: Vec<_> = rows.iter().map(|row| addresses[*row as usize]).collect();
    to.slots(&places)?.copy_from(&from.slots_to_read(&picked)?, 0, extra_bytes);
    Ok(())
}

fn narrow(number: u64) -> Option<u32> {
    u32::try_from(number).ok()
}
