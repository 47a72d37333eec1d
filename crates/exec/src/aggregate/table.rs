//! Group table: finds or creates groups in row pages by a batch's keys, updates them by its
//! arguments.

mod find;
mod limit;
mod output;
mod spill;

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::common::{Result, exec_err};
use terrace_sys::size::{to_u64, to_usize};

use super::cell::Room;
use super::directory::Directory;
use super::program::{Evaluated, Program, State};
use super::spill::{Pages, Part};
use crate::rows::{Columns, Equality, RowAddress, RowLayout, Slots, SlotsBuilder};

/// Number of partitions that the rows of a table are split into when it spills.
const PARTS: usize = 16;
/// Position of the lowest of the hash bits that choose a partition. These bits are part of the
/// salt in the directory, so that all rows with the salt of a slot are in the same partition.
const PART_SHIFT: u32 = 59;
/// Maximum number of times that a partition is split again; further splits gain nothing.
const LEVELS_MAX: u32 = 8;
/// Bytes of states outside of the rows from which on a partial aggregation flushes its groups: the
/// consumer copies these states.
const HANDED_ON_MAX: u64 = 2 << 20;
/// Bytes of pinned pages from which on a table spills when memory is scarce, however small its
/// groups: more than the first pages of all partitions.
const PINNED_LARGE: u64 = 8 << 20;
/// Seed of the hashes, which makes them independent of those of the hash repartitioning below.
const HASH_SEED: u64 = 0x7465_7272_6163_6521;
/// An odd number of many bits (Knuth's, from the golden ratio).
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
/// Offset of the hash, the first of a row's extra bytes.
const HASH: usize = 0;
/// Equality of the keys of groups: nulls are equal, and floats are compared by their bits, since
/// [`Evaluated`] has canonical zeros and NaNs.
const EQUALITY: Equality = Equality { nulls: true, floats: false };

/// Hash table of the groups of one partition of the plan (level 0), or of one spilled partition.
#[derive(Debug)]
pub(super) struct Table {
    program: Arc<Program>,
    pages: Pages,
    layouts: Layouts,
    states: Vec<State>,
    /// One collection until the first spill, then one per partition.
    parts: Vec<Part>,
    directory: Directory,
    level: u32,
    /// Number of groups in the directory.
    groups: usize,
    beside_bytes: u64,
    /// True if memory was refused since the last check.
    pressed: bool,
    work: Work,
}

/// Layouts of a group's row and of its states outside of the row.
#[derive(Clone, Debug)]
struct Layouts {
    rows: RowLayout,
    beside: Option<RowLayout>,
    /// Offset of the group's number in the extra bytes, if any state is outside of the rows.
    number: Option<usize>,
    extra_bytes: usize,
}

/// Buffers kept from batch to batch to reuse their allocations.
#[derive(Debug, Default)]
struct Work {
    hashes: Vec<u64>,
    column_hashes: Vec<u64>,
    addresses: Vec<RowAddress>,
    /// Slot of the directory where the search of each row of the batch stands.
    places: Vec<usize>,
    /// Rows whose group is not known yet.
    open: Vec<u32>,
    /// Rows whose group is probably the one at their address, by the salt; keys are still to be
    /// compared.
    likely: Vec<u32>,
    /// Rows with the hash of the row before them, which probably belong to its group.
    repeats: Vec<u32>,
    /// The indexes of all rows of the batch.
    all: Vec<u32>,
    made: Vec<u32>,
    alike: Vec<u32>,
    kept: Vec<u32>,
    made_at: Vec<RowAddress>,
    start: Vec<u8>,
}

impl Work {
    /// Moves open rows with the hash of the row before them to `repeats`: rows of a group are often
    /// adjacent.
    fn leave_repeats(&mut self) {
        let Self { hashes, open, repeats, .. } = self;
        repeats.clear();
        repeats.resize(open.len(), 0);
        let (mut opens, mut repeated) = (0, 0);
        for n in 0..open.len() {
            let row = open[n];
            let index = row as usize;
            let is_repeat = index > 0 && hashes[index] == hashes[index - 1];
            // Branch-free: writes both, keeps one. A branch here would be mispredicted too often.
            open[opens] = row;
            repeats[repeated] = row;
            opens += usize::from(!is_repeat);
            repeated += usize::from(is_repeat);
        }
        open.truncate(opens);
        repeats.truncate(repeated);
    }

    /// Copies the address of the row before each repeat, and appends the repeats to `likely`.
    fn place_repeats(&mut self) {
        for row in &self.repeats {
            let row = *row as usize;
            self.addresses[row] = self.addresses[row - 1];
        }
        self.likely.extend_from_slice(&self.repeats);
    }
}

impl Table {
    /// Creates an empty table. Tables of `level` 0 take the input, others a partition of an earlier
    /// table.
    ///
    /// # Errors
    /// If rows cannot hold the keys or states.
    pub(super) fn new(program: &Arc<Program>, pages: &Pages, level: u32) -> Result<Self> {
        Self::with_aside(program, pages, level, false)
    }

    /// As [`Table::new`]; with `aside`, for one group whose values a
    /// [`Picker`](super::oversized_group::Picker) sorts where an aggregate allows it.
    pub(super) fn with_aside(
        program: &Arc<Program>,
        pages: &Pages,
        level: u32,
        aside: bool,
    ) -> Result<Self> {
        let mut room = Room(size_of::<u64>());
        let states = program.states(&mut room, aside)?;
        let has_beside = states.iter().any(|state| matches!(state, State::Beside(_)));
        let number = has_beside.then(|| room.take::<u64>());
        let rows = RowLayout::new(program.key_types(), room.0)?;
        let beside = states.iter().zip(program.aggregates());
        let beside = beside.filter(|(state, _)| matches!(state, State::Beside(_)));
        let types: Vec<_> =
            beside.flat_map(|(_, aggregate)| aggregate.state_types.iter().cloned()).collect();
        let beside = if has_beside { Some(RowLayout::new(&types, 0)?) } else { None };
        let layouts = Layouts { rows, beside, number, extra_bytes: room.0 };
        let parts = vec![Part::new(pages, &layouts.rows, layouts.beside.as_ref())];
        let directory = Directory::new();
        pages.grant.grow_heap(directory.bytes());
        Ok(Self {
            program: Arc::clone(program),
            pages: pages.clone(),
            layouts,
            states,
            parts,
            directory,
            level,
            groups: 0,
            beside_bytes: 0,
            pressed: false,
            work: Work::default(),
        })
    }

    pub(super) fn level(&self) -> u32 {
        self.level
    }

    /// Returns true if some groups were spilled.
    pub(super) fn has_let_go(&self) -> bool {
        self.parts.len() > 1
    }

    /// Aggregates a batch.
    ///
    /// # Errors
    /// The aggregate's own, and the pool's if it has no page left.
    pub(super) fn take(&mut self, batch: &Evaluated) -> Result<()> {
        let rows = batch.rows();
        if rows == 0 {
            return Ok(());
        }
        if u32::try_from(rows).is_err() {
            return exec_err!("a batch of {rows} rows is too large to be aggregated");
        }
        self.work.hashes.resize(rows, 0);
        // Every level hashes with its own seed: hashes of one partition have bits in common.
        let seed = HASH_SEED.wrapping_add(u64::from(self.level));
        hash_keys(&batch.keys, seed, &mut self.work.hashes, &mut self.work.column_hashes)?;
        self.begin(batch)?;
        let keys = self.layouts.rows.prepare(&batch.keys)?;
        let all = u32::try_from(rows).unwrap_or(u32::MAX);
        if self.work.all.len() != rows {
            self.work.all.clear();
            self.work.all.extend(0..all);
        }
        if self.parts.len() == 1 {
            self.take_one(&keys, batch)?;
        } else {
            self.work.addresses.clear();
            self.work.addresses.resize(rows, RowAddress::NONE);
            self.work.open.clone_from(&self.work.all);
            self.find_or_make(&keys)?;
            self.update_many(batch)?;
        }
        self.settle_beside();
        self.refuse_oversized()
    }

    /// Prepares the cells for the batch, and writes the initial states of a group to `work.start`.
    fn begin(&mut self, batch: &Evaluated) -> Result<()> {
        let start = &mut self.work.start;
        start.clear();
        start.resize(self.layouts.extra_bytes, 0);
        for (state, arguments) in self.states.iter_mut().zip(batch.arguments.iter()) {
            if let State::Cell(cell) = state {
                cell.begin(arguments.input(batch.states))?;
                cell.start(start);
            }
        }
        Ok(())
    }

    /// Aggregates a batch before the first spill, while there is one collection of rows. Most rows
    /// find their group in the home slot of their hash.
    fn take_one(&mut self, keys: &Columns, batch: &Evaluated) -> Result<()> {
        let Work { hashes, addresses, likely, open, .. } = &mut self.work;
        let all_likely = self.directory.look(hashes, addresses, likely, open);
        if !all_likely {
            self.work.leave_repeats();
            self.find_or_make(keys)?;
            self.work.place_repeats();
        }
        let Work { addresses, likely, open, all, kept, .. } = &mut self.work;
        let rows = self.parts[0].rows.resolve_mut(addresses)?;
        let mut columns = 0..self.layouts.rows.columns();
        let mut are_equal = true;
        for column in columns.clone() {
            are_equal = are_equal && rows.rows().all_equal(column, keys)?;
        }
        if !are_equal {
            match all_likely {
                true => likely.clone_from(all),
                // Repeats are at the end.
                false => likely.sort(),
            }
            kept.clone_from(likely);
            columns.try_for_each(|n| rows.rows().equal(n, keys, all, EQUALITY, kept))?;
        }
        if are_equal || kept.len() == likely.len() {
            let slots = rows.into_slots();
            return update(&mut self.states, &self.layouts, self.groups, slots, batch);
        }
        drop(rows);
        let mut kept = kept.iter().peekable();
        open.clear();
        open.extend(likely.iter().filter(|row| kept.next_if_eq(row).is_none()));
        self.find_or_make(keys)?;
        let slots = self.parts[0].rows.slots(&self.work.addresses)?;
        update(&mut self.states, &self.layouts, self.groups, slots, batch)
    }

    /// Updates the groups of a batch whose rows are in several partitions.
    fn update_many(&mut self, batch: &Evaluated) -> Result<()> {
        let by_part = self.split(&self.work.all, &self.work.hashes);
        let addresses = &self.work.addresses;
        let mut slots = SlotsBuilder::with_len(addresses.len());
        for (part, rows) in self.parts.iter_mut().zip(by_part) {
            let rows = rows.into_iter().map(|row| row as usize);
            part.rows.fill_slots(&mut slots, rows.map(|row| (row, addresses[row])))?;
        }
        update(&mut self.states, &self.layouts, self.groups, slots.finish()?, batch)
    }

    /// Adjusts the grant to the bytes of the accumulators, the states outside of the rows.
    fn settle_beside(&mut self) {
        let sizes = self.states.iter().map(|state| match state {
            State::Beside(groups) => groups.size(),
            State::Cell(_) | State::Aside => 0,
        });
        let bytes = to_u64(sizes.sum());
        let grant = &self.pages.grant;
        if bytes < self.beside_bytes {
            grant.shrink_heap(self.beside_bytes - bytes);
        } else if bytes > self.beside_bytes {
            let more = bytes - self.beside_bytes;
            if !grant.try_grow_heap(more) {
                grant.grow_heap(more);
                self.pressed = true;
            }
        }
        self.beside_bytes = bytes;
    }

    /// Returns true if the table should spill: memory was refused since the last call or the grant
    /// wants bytes back, and spilling helps.
    pub(super) fn should_let_go(&mut self) -> bool {
        let pressed = std::mem::take(&mut self.pressed) || self.pages.grant.excess_bytes() > 0;
        pressed && self.is_divisible() && self.is_worth_letting_go()
    }

    /// Returns true if the table of a partial aggregation should flush its groups: memory is
    /// scarce, or the states outside of the rows reach `HANDED_ON_MAX`.
    pub(super) fn should_hand_on(&mut self) -> bool {
        let pressed = std::mem::take(&mut self.pressed) || self.pages.grant.excess_bytes() > 0;
        self.beside_bytes >= HANDED_ON_MAX || (pressed && self.is_worth_letting_go())
    }

    /// Returns true if the groups, or the pages pinned for them, are large enough to spill.
    fn is_worth_letting_go(&self) -> bool {
        self.used_bytes() >= self.program.options().let_go_bytes_min
            || self.parts.iter().map(|part| part.rows.pinned_bytes()).sum::<u64>() >= PINNED_LARGE
    }

    /// Returns the bytes of the groups' rows, without their long values, and of the accumulators.
    fn used_bytes(&self) -> u64 {
        to_u64(self.groups * self.layouts.rows.width()) + self.beside_bytes
    }

    /// Returns the number of groups in memory, those since the last spill.
    pub(super) fn groups(&self) -> usize {
        self.groups
    }

    /// Returns true if there is no group, neither in memory nor spilled.
    pub(super) fn is_empty(&self) -> bool {
        self.groups == 0 && !self.has_let_go()
    }
}

/// Hashes the rows of `keys` into `hashes`; `one` is a buffer. DataFusion combines the hashes of
/// columns by a sum that skips nulls and does not depend on the order of the columns; here every
/// column is hashed separately and then mixed in.
fn hash_keys(keys: &[ArrayRef], seed: u64, hashes: &mut [u64], one: &mut Vec<u64>) -> Result<()> {
    let Some((first, others)) = keys.split_first() else { return Ok(()) };
    hashes.fill(0);
    create_hashes([first], &RandomState::with_seed(seed), hashes)?;
    for key in others {
        one.clear();
        one.resize(hashes.len(), 0);
        create_hashes([key], &RandomState::with_seed(seed), one)?;
        for (hash, one) in hashes.iter_mut().zip(one.iter()) {
            *hash = (hash.rotate_left(29) ^ one).wrapping_mul(MIX);
            *hash ^= *hash >> 32;
        }
    }
    Ok(())
}

/// Updates the states of the rows' groups with the arguments of a batch.
fn update(
    states: &mut [State],
    layouts: &Layouts,
    groups: usize,
    mut slots: Slots<'_>,
    batch: &Evaluated,
) -> Result<()> {
    let numbers: Vec<usize> = match layouts.number {
        Some(number) => slots.load::<u64>(number).into_iter().map(to_usize).collect(),
        None => Vec::new(),
    };
    for (state, arguments) in states.iter_mut().zip(batch.arguments.iter()) {
        let input = arguments.input(batch.states);
        match state {
            State::Cell(cell) => cell.take(&mut slots, input)?,
            State::Aside => {}
            State::Beside(beside) if input.states => {
                beside.merge_batch(input.columns, &numbers, groups)?;
            }
            State::Beside(beside) => {
                beside.update_batch(input.columns, &numbers, input.filter, groups)?;
            }
        }
    }
    Ok(())
}

impl Drop for Table {
    fn drop(&mut self) {
        let bytes = self.directory.bytes() + self.beside_bytes;
        self.pages.grant.shrink_heap(bytes);
    }
}
