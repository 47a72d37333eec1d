//! Spilling of groups: splits their rows into partitions and unpins them.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::logical_expr::EmitTo;
use terrace_sys::size::to_usize;

use super::{HASH, PARTS, Table};
use crate::aggregate::program::State;
use crate::aggregate::spill::{Part, columns};
use crate::aggregate::values::{StateColumn, States};
use crate::rows::{Columns, RowAddress, RowLayout, RowPages};

/// Number of pages of a partition that the page limit aims at when rows are split.
const PAGES_PER_PART: usize = 8;
/// Maximum number of rows whose states are written at once.
const ROWS_AT_ONCE: usize = 8192;

impl Table {
    /// Spills all groups: splits their rows into partitions if they are not yet, writes the states
    /// outside of the rows to pages, unpins all pages, and clears the directory. Returns the bytes
    /// unpinned.
    ///
    /// # Errors
    /// The pool's, if it has no page left.
    pub(in crate::aggregate) fn let_go(&mut self) -> Result<u64> {
        let mut unpinned = if self.parts.len() == 1 { self.partition()? } else { 0 };
        self.write_beside()?;
        unpinned += self.parts.iter_mut().map(Part::unpin).sum::<u64>();
        self.forget_places();
        self.groups = 0;
        Ok(unpinned)
    }

    /// Clears the directory.
    pub(in crate::aggregate) fn forget_places(&mut self) {
        let grant = &self.pages.grant;
        grant.shrink_heap(self.directory.bytes());
        self.directory.clear();
        grant.grow_heap(self.directory.bytes());
    }

    /// Copies the rows of the one collection into partitions; returns the bytes unpinned on the
    /// way.
    fn partition(&mut self) -> Result<u64> {
        let Some(mut all) = self.parts.pop() else { return Ok(0) };
        let mut unpinned = 0;
        let layouts = self.layouts.clone();
        // The last page of each partition is nearly empty: the limit keeps all of these smaller
        // than the rows spilled.
        let page_bytes = to_usize(all.rows.bytes()) / (PARTS * PAGES_PER_PART);
        let part = || Part::new(&self.pages, &layouts.rows, layouts.beside.as_ref());
        let part = || part().with_page_limit(page_bytes);
        self.parts = std::iter::repeat_with(part).take(PARTS).collect();
        for page in 0..all.rows.pages() {
            let addresses: Vec<_> = all.rows.addresses(page).collect();
            let rows = all.rows.resolve(addresses.iter().copied())?;
            let (keys, hashes) = (layouts.rows.prepare(&columns(&rows)?)?, rows.extras(HASH));
            drop(rows);
            let rows: Vec<u32> = (0_u32..).take(addresses.len()).collect();
            for (part, rows) in self.split(&rows, &hashes).into_iter().enumerate() {
                self.parts[part].note(rows.iter().map(|row| hashes[*row as usize]));
                let to = &mut self.parts[part].rows;
                copy(&all.rows, &addresses, &keys, &rows, to, layouts.extra_bytes)?;
            }
            all.rows.free_pages(page..page + 1);
            if self.layouts.beside.is_none() {
                unpinned += self.parts.iter_mut().map(|part| part.rows.unpin_full()).sum::<u64>();
            }
        }
        Ok(unpinned)
    }

    /// Writes the states outside of the rows to pages, in the order of the rows. A list of values
    /// is cut into pieces; each further piece gets a row of its own with the group's keys.
    fn write_beside(&mut self) -> Result<()> {
        let (Some(number), Some(layout)) = (self.layouts.number, self.layouts.beside.clone())
        else {
            return Ok(());
        };
        if self.groups == 0 {
            return Ok(());
        }
        let states = self.take_states()?;
        let mut start = vec![0; self.layouts.extra_bytes];
        for state in &self.states {
            if let State::Cell(cell) = state {
                cell.neutral(&mut start);
            }
        }
        for part in &mut self.parts {
            let Some(beside) = &mut part.beside else { continue };
            let pages = part.pages_done..part.rows.pages();
            let addresses: Vec<_> = pages.flat_map(|page| part.rows.addresses(page)).collect();
            let numbers = part.rows.resolve(addresses.iter().copied())?.extras(number);
            let picks: Vec<_> = numbers.iter().map(|number| (to_usize(*number), 0)).collect();
            append_states(beside, &layout, &states, &picks)?;
            let (mut more, mut picks) = (Vec::new(), Vec::new());
            for (address, number) in addresses.iter().zip(numbers) {
                let group = to_usize(number);
                let pieces = 1..states.pieces(group);
                more.extend(std::iter::repeat_n(*address, pieces.len()));
                picks.extend(pieces.map(|piece| (group, piece)));
            }
            repeat(&mut part.rows, &more, &start)?;
            append_states(beside, &layout, &states, &picks)?;
        }
        drop(states);
        self.settle_beside();
        Ok(())
    }

    /// Takes the states outside of the rows out of the accumulators, indexed by group.
    fn take_states(&mut self) -> Result<States> {
        let mut columns = Vec::new();
        for (state, aggregate) in self.states.iter_mut().zip(self.program.aggregates()) {
            let State::Beside(groups) = state else { continue };
            let arrays = groups.state(EmitTo::All)?;
            let neutral = self.program.neutral(aggregate)?;
            for (n, array) in arrays.into_iter().enumerate() {
                let neutral = neutral.as_ref().map(|neutral| Arc::clone(&neutral[n]));
                columns.push(StateColumn { array, neutral });
            }
        }
        Ok(States::new(columns, self.program.options().piece_bytes))
    }

    /// Returns the partitions that have rows, of a table that spilled all of its groups.
    pub(in crate::aggregate) fn into_parts(mut self) -> Vec<Part> {
        let parts = std::mem::take(&mut self.parts).into_iter();
        parts.filter(|part| part.rows.rows() > 0).collect()
    }
}

/// Appends the rows of `from` at `addresses` that `rows` selects, with their `keys`, to `to`.
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

/// Appends copies of the rows at `addresses`, with their keys and hashes and the initial states
/// `start`.
fn repeat(rows: &mut RowPages, addresses: &[RowAddress], start: &[u8]) -> Result<()> {
    for addresses in addresses.chunks(ROWS_AT_ONCE) {
        let own = rows.resolve(addresses.iter().copied())?;
        let (keys, hashes) = (rows.layout().prepare(&columns(&own)?)?, own.extras(HASH));
        drop(own);
        let mut places = Vec::with_capacity(addresses.len());
        rows.append(&keys, None, Some(&hashes), Some(&mut places))?;
        rows.slots(&places)?.write(size_of::<u64>(), &start[size_of::<u64>()..]);
    }
    Ok(())
}

fn append_states(
    beside: &mut RowPages,
    layout: &RowLayout,
    states: &States,
    picks: &[(usize, usize)],
) -> Result<()> {
    let mut rest = picks;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(states.at_once(rest, ROWS_AT_ONCE));
        beside.append(&layout.prepare(&states.take(now)?)?, None, None, None)?;
        // The accumulators still hold what is written here.
        beside.unpin_full();
        rest = later;
    }
    Ok(())
}
