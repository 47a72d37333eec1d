//! Groups in row pages: found or made by a batch's keys, updated by its arguments.

mod let_go;
mod output;

use std::sync::Arc;

use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::common::{Result, exec_err};
use terrace_sys::size::{to_u64, to_usize};

use super::cell::Room;
use super::directory::{Directory, Found};
use super::program::{Evaluated, Program, State};
use super::spilled::{Pages, Part};
use crate::rows::{Columns, Equality, RowAddress, RowLayout, Slots, SlotsBuilder};

/// Partitions that the rows of a table are split into when it lets them go.
const PARTS: usize = 16;
/// The lowest of the bits of the hash that choose the partition. They are part of a directory's
/// salt, so that rows with the salt of a slot are in its partition.
const PART_SHIFT: u32 = 59;
/// How often a partition is split again. After that there is no more to be won.
const LEVELS_MAX: u32 = 8;
/// Bytes of groups below which letting go is not worth the pages: they come to about a quarter of a
/// page for every partition.
const USED_MIN: u64 = 64 << 10;
/// Keeps the hashes here apart from those of the exchange below.
const HASH_SEED: u64 = 0x7465_7272_6163_6521;
/// The hash is the first of a row's extra bytes.
const HASH: usize = 0;
/// Keys are equal as groups: nulls are, and zeros were made one before.
const EQUALITY: Equality = Equality { nulls: true, zeros: false };

/// The groups of one partition of the plan, or of one partition of their rows.
#[derive(Debug)]
pub(super) struct Table {
    program: Arc<Program>,
    pages: Pages,
    layouts: Layouts,
    states: Vec<State>,
    /// One collection until rows are let go for the first time, then one per partition.
    parts: Vec<Part>,
    directory: Directory,
    level: u32,
    /// Groups that the directory knows.
    groups: usize,
    beside_bytes: u64,
    /// Memory was refused.
    pressed: bool,
    work: Work,
}

/// Where things are in a row.
#[derive(Clone, Debug)]
struct Layouts {
    rows: RowLayout,
    beside: Option<RowLayout>,
    /// Where the number of the group is, if any state is beside the rows.
    number: Option<usize>,
    extra_bytes: usize,
}

/// What is kept from batch to batch for its allocations.
#[derive(Debug, Default)]
struct Work {
    hashes: Vec<u64>,
    addresses: Vec<RowAddress>,
    /// Where in the directory each row of the batch is.
    places: Vec<usize>,
    /// Rows whose group is not known yet.
    open: Vec<u32>,
    /// Rows that probably have the group at their address.
    likely: Vec<u32>,
    /// All rows.
    all: Vec<u32>,
    made: Vec<u32>,
    alike: Vec<u32>,
    kept: Vec<u32>,
    made_at: Vec<RowAddress>,
    start: Vec<u8>,
}

impl Table {
    /// An empty table. Tables of `level` 0 take the input, others a partition of a table before.
    ///
    /// # Errors
    /// If rows cannot hold the keys or states.
    pub(super) fn new(program: &Arc<Program>, pages: &Pages, level: u32) -> Result<Self> {
        let mut room = Room(size_of::<u64>());
        let states = program.states(&mut room)?;
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
        pages.grant.grow(directory.bytes());
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

    /// Whether some groups were let go.
    pub(super) fn has_let_go(&self) -> bool {
        self.parts.len() > 1
    }

    /// Takes in a batch.
    ///
    /// # Errors
    /// What an aggregate says, and what the pool says when there is no page to be had.
    pub(super) fn take(&mut self, batch: &Evaluated) -> Result<()> {
        let rows = batch.rows();
        if rows == 0 {
            return Ok(());
        }
        if u32::try_from(rows).is_err() {
            return exec_err!("a batch of {rows} rows is too large to be aggregated");
        }
        self.work.hashes.clear();
        self.work.hashes.resize(rows, 0);
        // Every level has hashes of its own: those of one partition have bits in common.
        let state = RandomState::with_seed(HASH_SEED.wrapping_add(u64::from(self.level)));
        create_hashes(&batch.keys, &state, &mut self.work.hashes)?;
        self.begin(batch)?;
        let keys = self.layouts.rows.prepare(&batch.keys)?;
        let all = u32::try_from(rows).unwrap_or(u32::MAX);
        self.work.all.clear();
        self.work.all.extend(0..all);
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
        Ok(())
    }

    /// Shows the cells the batch, and asks them how a group begins.
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

    /// Takes in a batch while there is one collection. Most rows find their group at once.
    fn take_one(&mut self, keys: &Columns, batch: &Evaluated) -> Result<()> {
        let Work { hashes, addresses, likely, open, .. } = &mut self.work;
        self.directory.look(hashes, addresses, likely, open);
        self.find_or_make(keys)?;
        let Work { addresses, likely, all, kept, .. } = &mut self.work;
        let rows = self.parts[0].rows.resolve_mut(addresses)?;
        let mut columns = 0..self.layouts.rows.columns();
        let mut are_equal = true;
        for column in columns.clone() {
            are_equal = are_equal && rows.rows().all_equal(column, keys)?;
        }
        kept.clone_from(likely);
        if !are_equal {
            columns.try_for_each(|n| rows.rows().equal(n, keys, all, EQUALITY, kept))?;
        }
        if kept.len() == likely.len() {
            let slots = rows.into_slots();
            return update(&mut self.states, &self.layouts, self.groups, slots, batch);
        }
        drop(rows);
        let mut kept = self.work.kept.iter().peekable();
        self.work.open.clear();
        let unlike = self.work.likely.iter().filter(|row| kept.next_if_eq(row).is_none());
        self.work.open.extend(unlike);
        self.find_or_make(keys)?;
        let slots = self.parts[0].rows.slots(&self.work.addresses)?;
        update(&mut self.states, &self.layouts, self.groups, slots, batch)
    }

    /// Finds or makes the groups of the rows in `work.open`; `work.addresses`.
    fn find_or_make(&mut self, keys: &Columns) -> Result<()> {
        if self.work.open.is_empty() {
            return Ok(());
        }
        let mut work = std::mem::take(&mut self.work);
        work.places.resize(keys.rows(), 0);
        for row in &work.open {
            work.places[*row as usize] = self.directory.home(work.hashes[*row as usize]);
        }
        while !work.open.is_empty() {
            let is_full = self.probe(&mut work);
            self.make(keys, &mut work)?;
            self.compare(keys, &mut work)?;
            if is_full {
                self.grow()?;
                for row in &work.open {
                    let row = *row as usize;
                    work.places[row] = self.directory.home(work.hashes[row]);
                }
            }
        }
        self.work = work;
        Ok(())
    }

    /// Sorts the open rows into those of new groups and those to be compared; the others stay
    /// open. Whether the directory is full.
    fn probe(&mut self, work: &mut Work) -> bool {
        work.made.clear();
        work.alike.clear();
        let mut kept = 0;
        for n in 0..work.open.len() {
            let row = work.open[n];
            let place = &mut work.places[row as usize];
            match self.directory.probe(work.hashes[row as usize], place) {
                Found::Made => work.made.push(row),
                Found::Alike => work.alike.push(row),
                Found::Full => {
                    work.open[kept] = row;
                    kept += 1;
                }
            }
        }
        work.open.truncate(kept);
        kept > 0
    }

    /// Appends the rows of new groups.
    fn make(&mut self, keys: &Columns, work: &mut Work) -> Result<()> {
        if work.made.is_empty() {
            return Ok(());
        }
        if self.parts.len() == 1 {
            return self.make_in(0, keys, work);
        }
        let made = std::mem::take(&mut work.made);
        for (index, rows) in self.split(&made, &work.hashes).into_iter().enumerate() {
            if !rows.is_empty() {
                work.made = rows;
                self.make_in(index, keys, work)?;
            }
        }
        work.made = made;
        Ok(())
    }

    fn make_in(&mut self, part: usize, keys: &Columns, work: &mut Work) -> Result<()> {
        let rows = &mut self.parts[part].rows;
        self.pressed |= !rows.try_reserve(keys, work.made.len());
        work.made_at.clear();
        rows.append(keys, Some(&work.made), Some(&work.hashes), Some(&mut work.made_at))?;
        let mut slots = rows.slots(&work.made_at)?;
        slots.write(size_of::<u64>(), &work.start[size_of::<u64>()..]);
        if let Some(number) = self.layouts.number {
            slots.store(number, (to_u64(self.groups)..).take(work.made.len()));
        }
        self.groups += work.made.len();
        for (row, address) in work.made.iter().zip(&work.made_at) {
            work.addresses[*row as usize] = *address;
            self.directory.set_address(work.places[*row as usize], *address);
        }
        Ok(())
    }

    /// Compares keys with those of the rows found; where they differ the search goes on.
    fn compare(&mut self, keys: &Columns, work: &mut Work) -> Result<()> {
        if work.alike.is_empty() {
            return Ok(());
        }
        if self.parts.len() == 1 {
            return self.compare_in(0, keys, work);
        }
        let alike = std::mem::take(&mut work.alike);
        for (index, rows) in self.split(&alike, &work.hashes).into_iter().enumerate() {
            if !rows.is_empty() {
                work.alike = rows;
                self.compare_in(index, keys, work)?;
            }
        }
        work.alike = alike;
        Ok(())
    }

    fn compare_in(&mut self, part: usize, keys: &Columns, work: &mut Work) -> Result<()> {
        let (directory, places) = (&self.directory, &work.places);
        let found = work.alike.iter().map(|row| directory.address(places[*row as usize]));
        let rows = self.parts[part].rows.resolve(found)?;
        work.kept.clear();
        work.kept.extend((0_u32..).take(work.alike.len()));
        for column in 0..self.layouts.rows.columns() {
            rows.equal(column, keys, &work.alike, EQUALITY, &mut work.kept)?;
        }
        drop(rows);
        let mut kept = work.kept.iter().peekable();
        for (n, row) in (0_u32..).zip(&work.alike) {
            let place = &mut work.places[*row as usize];
            if kept.next_if_eq(&&n).is_some() {
                work.addresses[*row as usize] = self.directory.address(*place);
            } else {
                *place = self.directory.next(*place);
                work.open.push(*row);
            }
        }
        Ok(())
    }

    /// Rows by the partition of their hash.
    fn split(&self, rows: &[u32], hashes: &[u64]) -> Vec<Vec<u32>> {
        let mut parts = vec![Vec::new(); self.parts.len()];
        for row in rows {
            parts[Self::part_of(hashes[*row as usize])].push(*row);
        }
        parts
    }

    fn part_of(hash: u64) -> usize {
        to_usize(hash >> PART_SHIFT) % PARTS
    }

    /// Makes the directory larger.
    fn grow(&mut self) -> Result<()> {
        let more = self.directory.bytes_grown() - self.directory.bytes();
        if !self.pages.grant.try_grow(more) {
            self.pressed = true;
            self.pages.grant.grow(more);
        }
        self.directory.grow();
        for part in &self.parts {
            for page in part.pages_done..part.rows.pages() {
                let addresses: Vec<_> = part.rows.addresses(page).collect();
                let hashes = part.rows.resolve(addresses.iter().copied())?.extras(HASH);
                for (address, hash) in addresses.into_iter().zip(hashes) {
                    self.directory.put(hash, address);
                }
            }
        }
        Ok(())
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

    /// Settles with the grant what the states beside the rows hold.
    fn settle_beside(&mut self) {
        let sizes = self.states.iter().map(|state| match state {
            State::Cell(_) => 0,
            State::Beside(groups) => groups.size(),
        });
        let bytes = to_u64(sizes.sum());
        let grant = &self.pages.grant;
        if bytes < self.beside_bytes {
            grant.shrink(self.beside_bytes - bytes);
        } else if bytes > self.beside_bytes && !grant.try_grow(bytes - self.beside_bytes) {
            grant.grow(bytes - self.beside_bytes);
            self.pressed = true;
        }
        self.beside_bytes = bytes;
    }

    /// Whether the table should let its groups go: memory was refused, or is wanted back, and
    /// letting go helps.
    pub(super) fn should_let_go(&mut self) -> bool {
        let pressed = std::mem::take(&mut self.pressed) || self.pages.grant.excess_bytes() > 0;
        // One group is one row wherever it is, and rows that no bit tells apart stay together.
        pressed && self.groups > 1 && self.level < LEVELS_MAX && self.used_bytes() >= USED_MIN
    }

    /// Bytes that the groups use, of their pages and beside them.
    fn used_bytes(&self) -> u64 {
        to_u64(self.groups * self.layouts.rows.width()) + self.beside_bytes
    }

    /// Whether there is no group.
    pub(super) fn is_empty(&self) -> bool {
        self.groups == 0 && !self.has_let_go()
    }
}

/// Takes the arguments of a batch into the states of its rows' groups.
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
        self.pages.grant.shrink(self.directory.bytes() + self.beside_bytes);
    }
}
