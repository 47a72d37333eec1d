//! Lookup of the groups of rows by hash and keys, and creation of new ones.

use datafusion::common::Result;
use terrace_sys::size::{to_u64, to_usize};

use super::{EQUALITY, HASH, PART_SHIFT, PARTS, Table, Work};
use crate::aggregate::directory::Found;
use crate::rows::Columns;

impl Table {
    /// Finds or creates the groups of the rows in `work.open`, and writes their addresses to
    /// `work.addresses`; `keys` are those of the whole batch.
    pub(super) fn find_or_make(&mut self, keys: &Columns) -> Result<()> {
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

    /// Moves each open row to `work.made` if it reserved an empty slot, or to `work.alike` if it
    /// found a slot with its salt; rows that find no slot stay open. Returns true if the directory
    /// is full.
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

    /// Appends a row per group of `work.made` to its partition.
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
        self.parts[part].note(work.made.iter().map(|row| work.hashes[*row as usize]));
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

    /// Compares the keys of `work.alike` with those of the groups found; rows that differ are open
    /// again and continue at the next slot.
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

    /// Returns the rows of each partition, by their hashes.
    pub(super) fn split(&self, rows: &[u32], hashes: &[u64]) -> Vec<Vec<u32>> {
        let mut parts = vec![Vec::new(); self.parts.len()];
        for row in rows {
            parts[Self::part_of(hashes[*row as usize])].push(*row);
        }
        parts
    }

    fn part_of(hash: u64) -> usize {
        to_usize(hash >> PART_SHIFT) % PARTS
    }

    /// Grows the directory, and inserts all groups again.
    fn grow(&mut self) -> Result<()> {
        let more = self.directory.bytes_grown() - self.directory.bytes();
        if !self.pages.grant.try_grow_heap(more) {
            self.pressed = true;
            self.pages.grant.grow_heap(more);
        }
        self.directory.grow();
        for part in &self.parts {
            for page in part.pages_done..part.rows.pages() {
                let addresses: Vec<_> = part.rows.addresses(page).collect();
                let hashes = part.rows.resolve(addresses.iter().copied())?.extras(HASH);
                self.directory.put(&hashes, &addresses);
            }
        }
        Ok(())
    }
}
