//! Layout of a page of a bucket, and reading it: header, slot table, records.
//!
//! ```text
//! 0      8       12      16      20     24     28      32    64             begin          end
//! | next | count | slots | begin | live | used | magic | ... | table | free | records ...  |
//! ```
//!
//! `next` is the reference to the next page of the chain, with its hint. The table uses open
//! addressing: a slot is empty (0), removed (1), or holds 11 bits of the key's hash and the offset
//! of the record. A miss costs the cache line of the header and, mostly, one line of the table.
//! Records grow down from the end of the page: the lengths of key and value in 4 bytes each, then
//! both, then padding to 8 bytes.

use terrace_pool::PageRef;

use crate::error::Fault;
#[cfg(test)]
use crate::hash::KeyHash;
use crate::hash::{Hash, TAG_BITS};

/// Offset of the reference to the next page.
pub(crate) const NEXT: usize = 0;
/// Offset of the table, which begins a cache line.
pub(crate) const TABLE: usize = 64;
/// Bytes of a slot.
pub(crate) const SLOT: usize = 4;
/// Minimum number of slots of a table.
pub(crate) const SLOTS_MIN: usize = 8;
/// Bytes of the record header, before the key.
pub(crate) const RECORD: usize = 8;
/// Alignment of records in bytes.
pub(crate) const ALIGN: usize = 8;

/// An empty slot, which ends a probe.
pub(crate) const EMPTY: u32 = 0;
/// A removed slot (tombstone): a probe continues past it.
pub(crate) const REMOVED: u32 = 1;

const MAGIC: u32 = u32::from_le_bytes(*b"hxp1");
/// The end of a chain: no page of a pool has this id.
const NO_PAGE: u64 = u64::MAX;

/// Header of a page, decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) next: Option<PageRef>,
    /// Number of records.
    pub(crate) count: usize,
    /// Number of slots of the table, a power of two.
    pub(crate) slots: usize,
    /// Offset of the lowest record.
    pub(crate) begin: usize,
    /// Bytes of live records.
    pub(crate) live: usize,
    /// Slots that are not empty: records and removed slots.
    pub(crate) used: usize,
}

/// A record in a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// A record that a look-up found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'a> {
    pub(crate) slot: usize,
    /// Offset of the record.
    pub(crate) at: usize,
    pub(crate) record: Record<'a>,
}

/// Room in a page for a record of a given size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The record fits as the page is.
    Now,
    /// The record fits once the page is rebuilt with a table of this many slots.
    Rebuilt(usize),
    /// The record does not fit.
    Not,
}

/// Bytes that a record takes in a page.
pub(crate) fn record_bytes(key: &[u8], value: &[u8]) -> usize {
    (RECORD + key.len() + value.len()).next_multiple_of(ALIGN)
}

/// Maximum bytes of a key and its value together in a page of `page_bytes`.
pub(crate) fn pair_limit(page_bytes: usize) -> usize {
    page_bytes.saturating_sub(TABLE + SLOTS_MIN * SLOT + RECORD + ALIGN)
}

fn word(bytes: &[u8], at: usize) -> Result<usize, Fault> {
    let word = bytes.get(at..).and_then(<[u8]>::first_chunk);
    word.map(|word| u32::from_le_bytes(*word) as usize).ok_or("it is too short")
}

impl Header {
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Fault> {
        let head: &[u8; TABLE] = bytes.first_chunk().ok_or("it is too short")?;
        let next = u64::from(u32::from_le_bytes([head[0], head[1], head[2], head[3]]))
            | u64::from(u32::from_le_bytes([head[4], head[5], head[6], head[7]])) << 32;
        let header = Self {
            next: (next != NO_PAGE).then(|| PageRef::from_bits(next)),
            count: word(head, 8)?,
            slots: word(head, 12)?,
            begin: word(head, 16)?,
            live: word(head, 20)?,
            used: word(head, 24)?,
        };
        if word(head, 28)? != MAGIC as usize {
            return Err("it is no page of a hash index");
        }
        let table_end = header.slots.saturating_mul(SLOT).saturating_add(TABLE);
        if !header.slots.is_power_of_two() || table_end > header.begin || header.begin > bytes.len()
        {
            return Err("its table and its records overlap");
        }
        if header.count > header.used || header.used > header.slots {
            return Err("its table has more records than slots");
        }
        Ok(header)
    }

    pub(crate) fn write(&self, bytes: &mut [u8]) {
        let next = self.next.map_or(NO_PAGE, PageRef::to_bits);
        let words = [self.count, self.slots, self.begin, self.live, self.used, MAGIC as usize];
        let Some(head) = bytes.first_chunk_mut::<TABLE>() else { return };
        head[..8].copy_from_slice(&next.to_le_bytes());
        for (place, word) in head[8..32].chunks_exact_mut(4).zip(words) {
            // Offsets within a page of at most 16 MiB.
            place.copy_from_slice(&u32::try_from(word).unwrap_or(u32::MAX).to_le_bytes());
        }
    }

    /// Returns how a page of `len` bytes with this header has room for a record of `need` bytes.
    ///
    /// A rebuild pays for a larger table, or if removed records take an eighth of the page; with a
    /// lower limit every other insertion would copy the page.
    pub(crate) fn fit(&self, len: usize, need: usize) -> Fit {
        let full = (self.used + 1) * 4 > self.slots * 3;
        let slots = if full && self.count * 2 >= self.slots { self.slots * 2 } else { self.slots };
        let free = self.begin - (TABLE + self.slots * SLOT);
        if !full && need <= free {
            return Fit::Now;
        }
        let removed = len.saturating_sub(self.begin).saturating_sub(self.live);
        let compacted = TABLE + slots * SLOT + self.live + need;
        let worth = full || removed >= len / 8;
        if worth && compacted <= len { Fit::Rebuilt(slots) } else { Fit::Not }
    }
}

/// Encodes the slot of a record at offset `at`.
pub(crate) fn slot_of(hash: Hash, at: usize) -> u32 {
    // Below 16 MiB / 8, which is 21 bits.
    let place = u32::try_from(at / ALIGN).unwrap_or(0);
    hash.tag() << (u32::BITS - TAG_BITS) | place
}

/// Returns the offset of a slot's record.
pub(crate) fn place_of(slot: u32) -> usize {
    (slot & (u32::MAX >> TAG_BITS)) as usize * ALIGN
}

fn tag_of(slot: u32) -> u32 {
    slot >> (u32::BITS - TAG_BITS)
}

pub(crate) fn slot_at(bytes: &[u8], slot: usize) -> u32 {
    let at = TABLE + slot * SLOT;
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(EMPTY, |bits| u32::from_le_bytes(*bits))
}

fn record_at(bytes: &[u8], at: usize) -> Result<Record<'_>, Fault> {
    const OUTSIDE: Fault = "a record lies outside of it";
    let (key_len, value_len) = (word(bytes, at)?, word(bytes, at + 4)?);
    let pair = bytes.get(at + RECORD..).ok_or(OUTSIDE)?;
    let pair = pair.get(..key_len.saturating_add(value_len)).ok_or(OUTSIDE)?;
    let (key, value) = pair.split_at(key_len);
    Ok(Record { key, value })
}

/// A page for reading, with its decoded header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    bytes: &'a [u8],
    pub(crate) header: Header,
}

impl<'a> View<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Result<Self, Fault> {
        Ok(Self { bytes, header: Header::read(bytes)? })
    }

    /// Finds the record of a key.
    pub(crate) fn find(&self, hash: Hash, key: &[u8]) -> Result<Option<Found<'a>>, Fault> {
        let (mask, tag) = (self.header.slots - 1, hash.tag());
        let mut slot = hash.slot(self.header.slots);
        for _ in 0..self.header.slots {
            let bits = slot_at(self.bytes, slot);
            if bits == EMPTY {
                return Ok(None);
            }
            if bits != REMOVED && tag_of(bits) == tag {
                let at = place_of(bits);
                let record = record_at(self.bytes, at)?;
                if record.key == key {
                    return Ok(Some(Found { slot, at, record }));
                }
            }
            slot = (slot + 1) & mask;
        }
        Ok(None)
    }

    /// Returns how this page has room for a record of `need` bytes.
    pub(crate) fn fit(&self, need: usize) -> Fit {
        self.header.fit(self.bytes.len(), need)
    }

    /// Iterates over all records, in the order of the table.
    pub(crate) fn records(&self) -> impl Iterator<Item = Result<Record<'a>, Fault>> {
        let bytes = self.bytes;
        let slots = (0..self.header.slots).map(move |slot| slot_at(bytes, slot));
        let live = slots.filter(|bits| *bits != EMPTY && *bits != REMOVED);
        live.map(move |bits| record_at(bytes, place_of(bits)))
    }

    /// Checks that every record can be found by its key, and that the counts of the header are
    /// right.
    #[cfg(test)]
    pub(crate) fn check(&self, hasher: KeyHash) -> Result<(), Fault> {
        let mut live = 0;
        let mut count = 0;
        for record in self.records() {
            let record = record?;
            let found = self.find(hasher.of(record.key), record.key)?;
            found.ok_or("a record cannot be found")?;
            live += record_bytes(record.key, record.value);
            count += 1;
        }
        if (live, count) == (self.header.live, self.header.count) {
            return Ok(());
        }
        Err("its counts are wrong")
    }
}
