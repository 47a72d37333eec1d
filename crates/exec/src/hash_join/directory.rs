//! The directory of a hash table: from hashes to rows in pages.
//!
//! Open addressing over words of 16 bits of salt and 48 bits of address (Leis, Boncz, Kemper,
//! Neumann: Morsel-Driven Parallelism, SIGMOD 2014, section 4.2, keep a filter in the same place).
//! Rows with the same hash hang together in links, the first appended first.
//!
//! Where the key is one integer and the keys lie close together, the place of a key is its distance
//! from the least one instead: then nothing has to be compared.

use std::ops::Range;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use datafusion::arrow::compute::{cast, max, min};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use terrace_sys::size::{to_u64, to_usize};

use crate::rows::{RowAddress, RowPages, prefetch};
use crate::{ExecError, Result};

use super::spec::HASH;

const SALT_SHIFT: u32 = RowAddress::BITS;
const ADDRESS_MASK: u64 = (1 << SALT_SHIFT) - 1;
/// Rows ahead of which the slot is asked for.
const AHEAD: usize = 16;
/// Rows inserted before other tasks may run.
const ROWS_AT_ONCE: usize = 1 << 16;

/// A directory of the rows of one collection.
#[derive(Debug)]
pub(super) struct Directory {
    /// Salt and address + 1, or 0.
    slots: Vec<u64>,
    mask: u64,
    /// The least key, if places are distances from it.
    least: Option<i64>,
    /// For each row address + 1 of the next with the same hash; empty if there is none anywhere.
    links: Vec<u64>,
    /// Rows before each page.
    firsts: Vec<u64>,
}

/// Rows of a batch and the first row of the table that each may match.
#[derive(Debug, Default)]
pub(super) struct Heads {
    pub(super) picks: Vec<u32>,
    pub(super) rows: Vec<RowAddress>,
}

impl Directory {
    /// Bytes that a directory of `rows` rows has, at most.
    pub(super) fn bytes_of(rows: u64) -> u64 {
        (Self::slots_of(rows) + rows) * 8
    }

    fn slots_of(rows: u64) -> u64 {
        (rows + rows / 2).max(32).next_power_of_two()
    }

    /// Bytes that it has.
    pub(super) fn bytes(&self) -> u64 {
        to_u64(self.slots.len() + self.links.len()) * 8
    }

    /// A directory of the rows of some pages, which are pinned.
    pub(super) async fn new(
        rows: &RowPages,
        pages: Range<usize>,
        is_integer: bool,
    ) -> Result<Self> {
        let mut firsts = Vec::with_capacity(rows.pages());
        let mut count = 0;
        for page in 0..rows.pages() {
            firsts.push(count);
            if pages.contains(&page) {
                count += to_u64(rows.rows_in(page));
            }
        }
        let mut slots = Self::slots_of(count);
        let mask = slots - 1;
        let mut least = None;
        if let Some((min, max)) = key_range(rows, pages.clone(), is_integer)? {
            let distance = max.abs_diff(min);
            if distance < slots {
                (least, slots) = (Some(min), distance + 1);
            }
        }
        let slots = vec![0; to_usize(slots)];
        let mut directory = Self { slots, mask, least, links: Vec::new(), firsts };
        let mut done = 0;
        // Backwards, so that of rows with the same hash the first comes first.
        for page in pages.rev() {
            match least {
                Some(least) => directory.insert_keys(rows, page, least, to_usize(count))?,
                None => directory.insert_page(rows, page, to_usize(count))?,
            }
            done += rows.rows_in(page);
            if done >= ROWS_AT_ONCE {
                done = 0;
                crate::stream::give_way().await;
            }
        }
        Ok(directory)
    }

    fn insert_keys(
        &mut self,
        rows: &RowPages,
        page: usize,
        least: i64,
        count: usize,
    ) -> Result<()> {
        let addresses: Vec<_> = rows.addresses(page).collect();
        let keys = rows.resolve(addresses.iter().copied())?.gather(0)?;
        let keys = integers(&keys)?;
        for (address, key) in addresses.into_iter().zip(keys.values()).rev() {
            let place = to_usize(key.abs_diff(least));
            let slot = std::mem::replace(&mut self.slots[place], address.to_bits() + 1);
            if slot != 0 {
                self.links.resize(count, 0);
                let number = self.number(address);
                self.links[number] = slot;
            }
        }
        Ok(())
    }

    fn insert_page(&mut self, rows: &RowPages, page: usize, count: usize) -> Result<()> {
        let addresses: Vec<_> = rows.addresses(page).collect();
        let hashes = rows.resolve(addresses.iter().copied())?.extras(HASH);
        for row in (0..hashes.len()).rev() {
            if let Some(ahead) = row.checked_sub(AHEAD) {
                prefetch(&self.slots[to_usize(hashes[ahead] & self.mask)]);
            }
            self.insert(rows, hashes[row], addresses[row], count)?;
        }
        Ok(())
    }

    fn insert(
        &mut self,
        rows: &RowPages,
        hash: u64,
        address: RowAddress,
        count: usize,
    ) -> Result<()> {
        let new = (hash & !ADDRESS_MASK) | (address.to_bits() + 1);
        let mut position = hash & self.mask;
        loop {
            let slot = self.slots[to_usize(position)];
            if slot == 0 {
                break;
            }
            if (slot ^ hash) >> SALT_SHIFT == 0 {
                let head = RowAddress::from_bits((slot & ADDRESS_MASK) - 1);
                if rows.extra(head, HASH).ok_or_else(|| not_pinned(head))? == hash {
                    self.links.resize(count, 0);
                    let number = self.number(address);
                    self.links[number] = slot & ADDRESS_MASK;
                    break;
                }
            }
            position = (position + 1) & self.mask;
        }
        self.slots[to_usize(position)] = new;
        Ok(())
    }

    fn number(&self, address: RowAddress) -> usize {
        to_usize(self.firsts[address.page()]) + address.row()
    }

    /// Whether no two rows have the same hash.
    pub(super) fn is_unique(&self) -> bool {
        self.links.is_empty()
    }

    /// The next row with the same hash.
    pub(super) fn next(&self, address: RowAddress) -> Option<RowAddress> {
        if self.links.is_empty() {
            return None;
        }
        self.links[self.number(address)].checked_sub(1).map(RowAddress::from_bits)
    }

    /// Whether what it finds needs no comparison.
    pub(super) fn is_exact(&self) -> bool {
        self.least.is_some()
    }

    /// For each pick whose salt is there the first row that has it.
    pub(super) fn heads(&self, hashes: &[u64], picks: impl Iterator<Item = u32>) -> Heads {
        let mut found = Found::new(picks.size_hint().1.unwrap_or(hashes.len()));
        for pick in picks {
            let index = pick as usize;
            if let Some(ahead) = hashes.get(index + AHEAD) {
                prefetch(&self.slots[to_usize(ahead & self.mask)]);
            }
            let hash = hashes[index];
            let position = hash & self.mask;
            let slot = self.slots[to_usize(position)];
            let differs = (slot ^ hash) >> SALT_SHIFT != 0;
            if slot != 0 && differs {
                if let Some(address) = self.find(hash, (position + 1) & self.mask).1 {
                    found.put(pick, address.to_bits() + 1, true);
                }
                continue;
            }
            found.put(pick, slot & ADDRESS_MASK, slot != 0);
        }
        found.finish()
    }

    /// For each pick whose key is there the first row that has it.
    ///
    /// # Errors
    /// If the keys are no integers.
    pub(super) fn exact_heads(
        &self,
        keys: &ArrayRef,
        picks: impl Iterator<Item = u32>,
    ) -> Result<Heads> {
        let keys = integers(keys)?;
        let (values, nulls) = (keys.values(), keys.nulls());
        let least = self.least.unwrap_or_default();
        let mut found = Found::new(picks.size_hint().1.unwrap_or(values.len()));
        for pick in picks {
            let index = pick as usize;
            // Below the least key the distance wraps and is beyond every place.
            let distance = values[index].wrapping_sub(least).cast_unsigned();
            let slot = self.slots.get(to_usize(distance)).copied().unwrap_or(0);
            let valid = nulls.is_none_or(|nulls| nulls.is_valid(index));
            found.put(pick, slot, slot != 0 && valid);
        }
        Ok(found.finish())
    }

    /// The first slot from `position` on with the salt of `hash`, and its row.
    #[inline]
    fn find(&self, hash: u64, mut position: u64) -> (u64, Option<RowAddress>) {
        loop {
            let slot = self.slots[to_usize(position)];
            if slot == 0 {
                return (position, None);
            }
            if (slot ^ hash) >> SALT_SHIFT == 0 {
                return (position, Some(RowAddress::from_bits((slot & ADDRESS_MASK) - 1)));
            }
            position = (position + 1) & self.mask;
        }
    }

    /// The row whose hash is `hash`, where one that has but its salt was found first.
    pub(super) fn find_hash(&self, rows: &RowPages, hash: u64) -> Result<Option<RowAddress>> {
        let mut position = hash & self.mask;
        loop {
            let (at, found) = self.find(hash, position);
            let Some(address) = found else { return Ok(None) };
            if rows.extra(address, HASH).ok_or_else(|| not_pinned(address))? == hash {
                return Ok(Some(address));
            }
            position = (at + 1) & self.mask;
        }
    }
}

/// Heads being found: everything is written, and only what was found is kept, without a branch.
struct Found {
    heads: Heads,
    kept: usize,
}

impl Found {
    fn new(most: usize) -> Self {
        let (picks, rows) = (vec![0; most + 1], vec![RowAddress::NONE; most + 1]);
        Self { heads: Heads { picks, rows }, kept: 0 }
    }

    #[inline]
    fn put(&mut self, pick: u32, slot: u64, is_found: bool) {
        self.heads.picks[self.kept] = pick;
        self.heads.rows[self.kept] = RowAddress::from_bits(slot.wrapping_sub(1));
        self.kept += usize::from(is_found);
    }

    fn finish(mut self) -> Heads {
        self.heads.picks.truncate(self.kept);
        self.heads.rows.truncate(self.kept);
        self.heads
    }
}

/// The least and the greatest key, if keys are integers without nulls.
fn key_range(rows: &RowPages, pages: Range<usize>, is_integer: bool) -> Result<Option<(i64, i64)>> {
    let mut range: Option<(i64, i64)> = None;
    for page in pages.filter(|_| is_integer) {
        let keys = rows.resolve(rows.addresses(page))?.gather(0)?;
        if keys.null_count() > 0 {
            return Ok(None);
        }
        let keys = integers(&keys)?;
        let ends = min(&keys).zip(max(&keys));
        range = match (range, ends) {
            (Some((least, most)), Some((min, max))) => Some((least.min(min), most.max(max))),
            (range, ends) => range.or(ends),
        };
    }
    Ok(range)
}

/// Whether keys of a type may be places: integers that fit 64 bits with a sign.
pub(super) fn is_integer(data_type: &DataType) -> bool {
    use DataType::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32};
    matches!(data_type, Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32)
}

fn integers(keys: &ArrayRef) -> Result<Int64Array> {
    Ok(cast(keys, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

fn not_pinned(address: RowAddress) -> ExecError {
    ExecError::NotPinned { page: address.page(), row: address.row(), how: "" }
}
