//! Hash directory of a hash table: from hashes to rows in pages.
//!
//! Open addressing over words of 16 bits of salt and 48 bits of address (Leis, Boncz, Kemper,
//! Neumann: Morsel-Driven Parallelism, SIGMOD 2014, section 4.2, keep a filter in the same place),
//! with the [`Tags`] of each group of words beside them. Rows with the same hash form a collision
//! chain, in the order in which they were appended.
//!
//! If the key is one integer and the keys are dense, the slot of a key is its distance from the
//! least key instead: then no keys have to be compared.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::{max, min};
use terrace_sys::size::{to_u64, to_usize};

use crate::rows::{RowAddress, RowPages, prefetch};
use crate::{ExecError, Result};

use super::integer::integers;
use super::spec::HASH;
use super::tags::{GROUP, Tags, tag_of};

const SALT_SHIFT: u32 = RowAddress::BITS;
const ADDRESS_MASK: u64 = (1 << SALT_SHIFT) - 1;
/// Distance in rows at which tags are prefetched.
const AHEAD: usize = 16;
/// Number of keys whose tags are checked before their slots are read, which are prefetched
/// meanwhile.
const BLOCK: usize = 256;
/// Maximum number of slots per row when slots are distances of keys: more than hashing needs, but
/// no key is compared.
const PLACES_PER_ROW: u64 = 4;
/// Rows inserted between two yields to other tasks.
const ROWS_AT_ONCE: usize = 1 << 16;

/// Hash directory of the rows of one collection.
#[derive(Debug)]
pub(super) struct Directory {
    /// Salt and address + 1 of the first row of a chain, or 0 for an empty slot.
    slots: Vec<u64>,
    /// Tags of each group of slots; empty if slots are distances.
    tags: Vec<Tags>,
    /// Mask of the bits of a hash that are the number of its first group.
    mask: u64,
    /// The least key, if slots are distances from it.
    least: Option<i64>,
    /// For each row address + 1 of the next row with the same hash, or 0; empty if no row has a
    /// next one.
    links: Vec<AtomicU64>,
    /// Number of rows before each page.
    firsts: Vec<u64>,
}

/// Rows of a batch, each with the first row of the table that it may match.
#[derive(Debug, Default)]
pub(super) struct Heads {
    pub(super) picks: Vec<u32>,
    pub(super) rows: Vec<RowAddress>,
}

impl Directory {
    /// Returns the maximum bytes of a directory of `rows` rows.
    pub(super) fn bytes_of(rows: u64) -> u64 {
        (Self::slots_of(rows) + rows) * 8 + Self::slots_of(rows)
    }

    fn slots_of(rows: u64) -> u64 {
        (rows + rows / 2).max(32).next_power_of_two()
    }

    /// Returns the bytes of the directory's slots, links and tags.
    pub(super) fn bytes(&self) -> u64 {
        to_u64(self.slots.len() + self.links.len()) * 8 + to_u64(self.tags.len() * GROUP)
    }

    /// Builds a directory of the rows of `pages`, which are pinned. `is_integer` is true if the key
    /// is one integer. If slots by distance need more bytes than [`Directory::bytes_of`], it asks
    /// `may_have` for these; if that returns false, it hashes.
    pub(super) async fn new(
        rows: &RowPages,
        pages: Range<usize>,
        is_integer: bool,
        may_have: impl FnOnce(u64) -> bool,
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
        let mut groups = slots / to_u64(GROUP);
        let mask = groups - 1;
        let mut least = None;
        if let Some((min, max)) = key_range(rows, pages.clone(), is_integer)? {
            let distance = max.abs_diff(min);
            let lacking = distance.saturating_sub(slots - 1).saturating_mul(8);
            let is_dense = distance < slots.max(count.saturating_mul(PLACES_PER_ROW));
            if is_dense && (lacking == 0 || may_have(lacking)) {
                (least, slots, groups) = (Some(min), distance + 1, 0);
            }
        }
        let slots = vec![0; to_usize(slots)];
        let tags = vec![Tags::EMPTY; to_usize(groups)];
        let mut directory = Self { slots, tags, mask, least, links: Vec::new(), firsts };
        let mut done = 0;
        // Backwards, so that a chain has its rows in the order in which they were appended.
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
                self.link(address, slot, count);
            }
        }
        Ok(())
    }

    fn insert_page(&mut self, rows: &RowPages, page: usize, count: usize) -> Result<()> {
        let addresses: Vec<_> = rows.addresses(page).collect();
        let hashes = rows.resolve(addresses.iter().copied())?.extras(HASH);
        for row in (0..hashes.len()).rev() {
            if let Some(ahead) = row.checked_sub(AHEAD) {
                let group = self.home(hashes[ahead]);
                prefetch(&self.tags[group]);
                prefetch(&self.slots[group * GROUP]);
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
        let mut from = Start::of(self.home(hash));
        while let Some(at) = self.search(hash, from) {
            let slot = self.slots[at];
            let head = RowAddress::from_bits((slot & ADDRESS_MASK) - 1);
            if rows.extra(head, HASH).ok_or_else(|| not_pinned(head))? == hash {
                self.link(address, slot & ADDRESS_MASK, count);
                self.slots[at] = new;
                return Ok(());
            }
            from = Start::after(at);
        }
        let mut group = self.home(hash);
        // At least a third of the slots is empty.
        let slot = loop {
            match self.tags[group].first_empty() {
                Some(slot) => break slot,
                None => group = self.group_after(group),
            }
        };
        self.tags[group].set(slot, tag_of(hash));
        self.slots[group * GROUP + slot] = new;
        Ok(())
    }

    /// Makes `slot` (address + 1) the successor of the row at `address` in its chain; the table has
    /// `count` rows.
    fn link(&mut self, address: RowAddress, slot: u64, count: usize) {
        self.links.resize_with(count, AtomicU64::default);
        let number = self.number(address);
        *self.links[number].get_mut() = slot;
    }

    /// Returns the group at which the search for a hash begins.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        to_usize(hash & self.mask)
    }

    #[inline]
    fn group_after(&self, group: usize) -> usize {
        (group + 1) & to_usize(self.mask)
    }

    /// Returns the index of a row among those of the directory's pages.
    pub(super) fn number(&self, address: RowAddress) -> usize {
        to_usize(self.firsts[address.page()]) + address.row()
    }

    /// Returns true if no two rows have the same hash.
    pub(super) fn is_unique(&self) -> bool {
        self.links.is_empty()
    }

    /// Returns the next row with the same hash, in the order of appending; `None` for the last one.
    pub(super) fn next(&self, address: RowAddress) -> Option<RowAddress> {
        if self.links.is_empty() {
            return None;
        }
        let link = self.links[self.number(address)].load(Ordering::Relaxed);
        link.checked_sub(1).map(RowAddress::from_bits)
    }

    /// Returns the next row with the same hash for which `is_done` is false. Unlinks the rows in
    /// between: a row that is done must stay so.
    pub(super) fn next_undone(
        &self,
        address: RowAddress,
        mut is_done: impl FnMut(RowAddress) -> Result<bool>,
    ) -> Result<Option<RowAddress>> {
        let first = self.next(address);
        let mut next = first;
        while let Some(row) = next {
            if !is_done(row)? {
                break;
            }
            next = self.next(row);
        }
        if next != first {
            // Another stream may do the same: the link that is kept, of either, skips only rows
            // that are done.
            let link = next.map_or(0, |row| row.to_bits() + 1);
            self.links[self.number(address)].store(link, Ordering::Relaxed);
        }
        Ok(next)
    }

    /// Prefetches the link that [`Directory::next`] of a row reads.
    #[inline]
    pub(super) fn prefetch_next(&self, address: RowAddress) {
        if let Some(link) = self.links.get(self.number(address)) {
            prefetch(link);
        }
    }

    /// Returns true if slots are distances of keys, so that results need no comparison of keys.
    pub(super) fn is_exact(&self) -> bool {
        self.least.is_some()
    }

    /// Returns those of `picks`, indexes of `hashes`, whose salt is found, each with the first row
    /// that has it.
    pub(super) fn heads(&self, hashes: &[u64], mut picks: impl Iterator<Item = u32>) -> Heads {
        let mut found = Found::new(picks.size_hint().0);
        let mut likely = [(0, 0); BLOCK];
        loop {
            let (mut looks, mut count) = (0, 0);
            for pick in picks.by_ref().take(BLOCK) {
                looks += 1;
                let index = pick as usize;
                if let Some(ahead) = hashes.get(index + AHEAD) {
                    prefetch(&self.tags[self.home(*ahead)]);
                }
                let hash = hashes[index];
                let group = self.home(hash);
                let tags = &self.tags[group];
                let matches = tags.matches(tag_of(hash));
                // Branch-free: always written, and kept if there is a match.
                likely[count] = (pick, group * GROUP + matches.trailing_zeros() as usize % GROUP);
                if matches == 0 && !tags.has_empty() {
                    if let Some(at) = self.search(hash, Start::of(self.group_after(group))) {
                        likely[count] = (pick, at);
                        count += 1;
                    }
                    continue;
                }
                count += usize::from(matches != 0);
            }
            if looks == 0 {
                return found.finish();
            }
            for (_, at) in &likely[..count] {
                prefetch(&self.slots[*at]);
            }
            for (pick, at) in &likely[..count] {
                let hash = hashes[*pick as usize];
                let mut slot = self.slots[*at];
                if (slot ^ hash) >> SALT_SHIFT != 0 {
                    match self.search(hash, Start::after(*at)) {
                        Some(at) => slot = self.slots[at],
                        None => continue,
                    }
                }
                found.put(*pick, slot & ADDRESS_MASK, true);
            }
        }
    }

    /// Returns those of `picks`, indexes of `keys`, whose key is found, each with the first row
    /// that has it; for an exact directory.
    ///
    /// # Errors
    /// If the keys are not integers.
    pub(super) fn exact_heads(
        &self,
        keys: &ArrayRef,
        picks: impl Iterator<Item = u32>,
    ) -> Result<Heads> {
        let keys = integers(keys)?;
        let (values, nulls) = (keys.values(), keys.nulls());
        let least = self.least.unwrap_or_default();
        let mut found = Found::new(picks.size_hint().0);
        for pick in picks {
            let index = pick as usize;
            // A key below the least wraps around to a distance beyond every slot.
            let distance = values[index].wrapping_sub(least).cast_unsigned();
            let slot = self.slots.get(to_usize(distance)).copied().unwrap_or(0);
            let valid = nulls.is_none_or(|nulls| nulls.is_valid(index));
            found.put(pick, slot, slot != 0 && valid);
        }
        Ok(found.finish())
    }

    /// Returns the first slot, from `from` on, with the salt of `hash`; `None` if there is none.
    fn search(&self, hash: u64, from: Start) -> Option<usize> {
        let Start { mut group, mut seen } = from;
        loop {
            let tags = &self.tags[group];
            let mut matches = tags.matches(tag_of(hash)) & !seen;
            while matches != 0 {
                let at = group * GROUP + matches.trailing_zeros() as usize;
                if (self.slots[at] ^ hash) >> SALT_SHIFT == 0 {
                    return Some(at);
                }
                matches &= matches - 1;
            }
            if tags.has_empty() {
                return None;
            }
            (group, seen) = (self.group_after(group), 0);
        }
    }

    /// Returns the first row with exactly this hash; used when the first row found has only the
    /// same salt.
    pub(super) fn find_hash(&self, rows: &RowPages, hash: u64) -> Result<Option<RowAddress>> {
        let mut from = Start::of(self.home(hash));
        while let Some(at) = self.search(hash, from) {
            let address = RowAddress::from_bits((self.slots[at] & ADDRESS_MASK) - 1);
            if rows.extra(address, HASH).ok_or_else(|| not_pinned(address))? == hash {
                return Ok(Some(address));
            }
            from = Start::after(at);
        }
        Ok(None)
    }
}

/// Start of a search: a group, and the slots of it that were seen.
#[derive(Clone, Copy)]
struct Start {
    group: usize,
    seen: u32,
}

impl Start {
    fn of(group: usize) -> Self {
        Self { group, seen: 0 }
    }

    fn after(slot: usize) -> Self {
        Self { group: slot / GROUP, seen: (2 << (slot % GROUP)) - 1 }
    }
}

/// Collector of heads without branches: each element is written, and kept only if it was found.
struct Found {
    heads: Heads,
    picks: [u32; BLOCK],
    rows: [RowAddress; BLOCK],
    kept: usize,
}

impl Found {
    fn new(most: usize) -> Self {
        let (picks, rows) = (Vec::with_capacity(most), Vec::with_capacity(most));
        let heads = Heads { picks, rows };
        Self { heads, picks: [0; BLOCK], rows: [RowAddress::NONE; BLOCK], kept: 0 }
    }

    #[inline]
    fn put(&mut self, pick: u32, slot: u64, is_found: bool) {
        if self.kept == BLOCK {
            self.flush();
        }
        self.picks[self.kept] = pick;
        self.rows[self.kept] = RowAddress::from_bits(slot.wrapping_sub(1));
        self.kept += usize::from(is_found);
    }

    fn flush(&mut self) {
        self.heads.picks.extend_from_slice(&self.picks[..self.kept]);
        self.heads.rows.extend_from_slice(&self.rows[..self.kept]);
        self.kept = 0;
    }

    fn finish(mut self) -> Heads {
        self.flush();
        self.heads
    }
}

/// Returns the least and the greatest key of the rows of `pages`; `None` if keys are not integers,
/// or some are null, or there are no rows.
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

pub(super) fn not_pinned(address: RowAddress) -> ExecError {
    ExecError::NotPinned { page: address.page(), row: address.row(), how: "" }
}
