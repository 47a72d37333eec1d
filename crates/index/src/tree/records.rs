//! Records outside of pages, for splits, merges and bulk loads.

use std::ops::Range;

use terrace_pool::PageRef;

use crate::error::Fault;
use crate::tree::node::{
    CHILD, ENTRY, HEADER, MAGIC, NO_FENCE, VALUE_LEN, View, arrays_end, head_of, heap_bytes,
};

/// Index of the last insertion if it is not known.
pub(crate) const NO_PLACE: u16 = u16::MAX;

/// Header data of a node: its tree, its level and its fences.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'f> {
    pub(crate) tree: u32,
    pub(crate) level: u8,
    pub(crate) lower: &'f [u8],
    pub(crate) upper: Option<&'f [u8]>,
}

#[derive(Clone, Debug)]
struct Item {
    /// Range of the whole key in the arena.
    key: Range<usize>,
    /// Range of the value in the arena; empty for an inner node.
    value: Range<usize>,
    /// The child; `None` for a leaf.
    child: Option<PageRef>,
}

/// Records of one or two nodes, in order. Those of an inner node are its children, each with the
/// key before it; the key before the first child is the lower fence.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    arena: Vec<u8>,
    items: Vec<Item>,
}

/// Minimum number of bytes, beyond the prefix of the fences, that heads skip because all keys share
/// them: comparing fewer costs more than the space they would leave in the head gains.
pub(crate) const SKIP_MIN: usize = 3;

/// Converts a number below the length of a page, which 16 bits hold.
fn half(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

/// Encodes the entry of a key at offset `at`, with the head behind `skip` bytes.
pub(crate) fn entry(at: usize, suffix: &[u8], skip: usize) -> u64 {
    let head = head_of(suffix.get(skip..).unwrap_or_default());
    u64::from(head) << 32 | u64::from(half(suffix.len())) << 16 | u64::from(half(at))
}

/// Length of the common prefix of two keys.
pub(crate) fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Returns the shortest key above `below` and not above `from`; `below` must be below `from`.
pub(crate) fn separator<'k>(below: &[u8], from: &'k [u8]) -> &'k [u8] {
    &from[..(common(below, from) + 1).min(from.len())]
}

impl Records {
    pub(crate) fn of(view: &View<'_>) -> Result<Self, Fault> {
        let mut records = Self::default();
        records.append(view)?;
        Ok(records)
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Appends the records of a node; its keys must follow those here.
    pub(crate) fn append(&mut self, view: &View<'_>) -> Result<(), Fault> {
        let (prefix, lower) = (view.prefix()?, view.lower()?);
        if view.level > 0 {
            self.push_child(lower, view.child(0)?);
        }
        for index in 0..view.count {
            let suffix = view.suffix(index)?;
            let begin = self.arena.len();
            self.arena.extend_from_slice(prefix);
            self.arena.extend_from_slice(suffix);
            let key = begin..self.arena.len();
            let child = if view.level > 0 { Some(view.child(index + 1)?) } else { None };
            if view.level == 0 {
                self.arena.extend_from_slice(view.value(index)?);
            }
            self.items.push(Item { value: key.end..self.arena.len(), key, child });
        }
        Ok(())
    }

    fn add(&mut self, bytes: &[u8]) -> Range<usize> {
        let begin = self.arena.len();
        self.arena.extend_from_slice(bytes);
        begin..self.arena.len()
    }

    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        let (key, value) = (self.add(key), self.add(value));
        self.items.push(Item { key, value, child: None });
    }

    pub(crate) fn push_child(&mut self, key: &[u8], child: PageRef) {
        let key = self.add(key);
        self.items.push(Item { key, value: 0..0, child: Some(child) });
    }

    /// Replaces the value of a record.
    pub(crate) fn set_value(&mut self, index: usize, value: &[u8]) {
        self.items[index].value = self.add(value);
    }

    /// Replaces the key before a child.
    pub(crate) fn set_key(&mut self, index: usize, key: &[u8]) {
        self.items[index].key = self.add(key);
    }

    pub(crate) fn key(&self, index: usize) -> &[u8] {
        &self.arena[self.items[index].key.clone()]
    }

    /// Copies the records from an index on.
    pub(crate) fn from(&self, at: usize) -> Self {
        self.some(at..self.len())
    }

    /// Copies the records before an index.
    pub(crate) fn to(&self, at: usize) -> Self {
        self.some(0..at)
    }

    fn some(&self, range: Range<usize>) -> Self {
        let mut some = Self::default();
        for item in &self.items[range] {
            let key = some.add(&self.arena[item.key.clone()]);
            let value = some.add(&self.arena[item.value.clone()]);
            some.items.push(Item { key, value, child: item.child });
        }
        some
    }

    /// Appends the records of `other`; its keys must follow those here.
    pub(crate) fn extend(&mut self, other: &Records) {
        for item in &other.items {
            let key = self.add(&other.arena[item.key.clone()]);
            let value = self.add(&other.arena[item.value.clone()]);
            self.items.push(Item { key, value, child: item.child });
        }
    }

    /// Bytes of all records in a node without a prefix.
    pub(crate) fn bytes(&self, level: u8) -> usize {
        (0..self.len()).map(|index| self.bytes_of(level, index)).sum()
    }

    /// Bytes of one record in a node without a prefix.
    fn bytes_of(&self, level: u8, index: usize) -> usize {
        let item = &self.items[index];
        let child = if level == 0 { 0 } else { CHILD };
        heap_bytes(level, item.key.len(), item.value.len()) + ENTRY + child
    }

    /// Returns the index of a cut with about half of the bytes before it, at least 1 and below the
    /// number of records; among those near the half, the one with the shortest separator.
    pub(crate) fn middle(&self, level: u8) -> usize {
        let last = self.len() - 1;
        let total = self.bytes(level);
        let mut before = 0;
        let half = (0..last)
            .find(|index| {
                before += self.bytes_of(level, *index);
                before * 2 >= total
            })
            .map_or(last, |index| index + 1);
        let near = self.len() / 16;
        let places = half.saturating_sub(near).max(1)..=(half + near).min(last);
        let best = places.min_by_key(|at| (self.cut(level, *at).len(), at.abs_diff(half)));
        best.unwrap_or(half)
    }

    /// Returns the separator between the records before `at`, which is not 0, and those from it on.
    pub(crate) fn cut(&self, level: u8, at: usize) -> &[u8] {
        match level {
            0 => separator(self.key(at - 1), self.key(at)),
            _ => self.key(at),
        }
    }

    /// Writes some of the records over a page, with room in the heap for `reserve` bytes of one
    /// more. Returns false, with nothing written, if they do not fit.
    pub(crate) fn write(
        &self,
        range: Range<usize>,
        page: &mut [u8],
        frame: &Frame<'_>,
        reserve: usize,
    ) -> Result<bool, Fault> {
        let Frame { level, lower, upper, .. } = *frame;
        let prefix = upper.map_or(0, |upper| common(lower, upper));
        let items = self.items.get(range).ok_or("its counts are wrong")?;
        // The first child of an inner node has no key in the node.
        let keyed = if level == 0 { items } else { items.get(1..).unwrap_or_default() };
        let mut heap = 0;
        for item in keyed {
            let suffix = item.key.len().checked_sub(prefix).ok_or("its keys are out of order")?;
            heap += heap_bytes(level, suffix, item.value.len());
        }
        let fences = [lower.len(), upper.map_or(0, <[u8]>::len)].map(|len| len.next_multiple_of(2));
        let live = heap + fences[0] + fences[1];
        let more = usize::from(reserve > 0);
        let taken = arrays_end(level, keyed.len() + more) + live + reserve;
        let Some(free) = page.len().checked_sub(taken) else { return Ok(false) };
        let room = keyed.len() + more + further(level, keyed.len(), heap, free);
        let skip = match keyed {
            [first, .., last] => {
                let alike = common(&self.arena[first.key.clone()], &self.arena[last.key.clone()]);
                u8::try_from(alike.saturating_sub(prefix)).unwrap_or(u8::MAX)
            }
            _ => 0,
        };
        let skip = if usize::from(skip) < SKIP_MIN { 0 } else { skip };
        let mut writer = Writer { page, level, room, begin: 0, prefix, skip };
        writer.begin = writer.page.len();
        let lower_at = writer.put(&[lower]);
        let upper_at = upper.map(|upper| writer.put(&[upper]));
        if let Some(child) = items.first().and_then(|item| item.child) {
            writer.put_child(0, child);
        }
        for (index, item) in keyed.iter().enumerate() {
            let value = &self.arena[item.value.clone()];
            writer.record(index, &self.arena[item.key.clone()], value, item.child);
        }
        let (begin, magic) = (writer.begin, u16::from_le_bytes(MAGIC));
        let upper_len = upper.map_or(0, <[u8]>::len);
        let words = [
            [magic, u16::from_le_bytes([level, skip]), half(keyed.len()), half(room)],
            [half(begin), half(live), half(prefix), NO_PLACE],
            [half(lower_at), half(lower.len()), upper_at.map_or(NO_FENCE, half), half(upper_len)],
        ];
        for (at, half) in words.as_flattened().iter().enumerate() {
            writer.page[at * 2..][..2].copy_from_slice(&half.to_le_bytes());
        }
        writer.page[24..28].copy_from_slice(&frame.tree.to_le_bytes());
        writer.page[28..HEADER].fill(0);
        Ok(true)
    }
}

/// Returns the number of entries to reserve beyond `count`: as many as fit with the mean length of
/// the records (64 bytes if there are none), but at least an eighth of `count`.
fn further(level: u8, count: usize, heap: usize, free: usize) -> usize {
    let array = if level == 0 { ENTRY } else { ENTRY + CHILD };
    let each = if count == 0 { 64 } else { heap.div_ceil(count) };
    // With few spare entries, the node would be rewritten for every few records.
    (free / (each + array)).max(count / 8 + 1).min(free / array)
}

struct Writer<'p> {
    page: &'p mut [u8],
    level: u8,
    room: usize,
    begin: usize,
    prefix: usize,
    skip: u8,
}

impl Writer<'_> {
    /// Writes bytes below the heap; the caller has checked that they fit.
    fn put(&mut self, parts: &[&[u8]]) -> usize {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        self.begin -= len.next_multiple_of(2);
        let mut at = self.begin;
        for part in parts {
            self.page[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        self.begin
    }

    fn record(&mut self, index: usize, key: &[u8], value: &[u8], child: Option<PageRef>) {
        let suffix = &key[self.prefix..];
        let at = match self.level {
            0 => self.put(&[&half(value.len()).to_le_bytes(), suffix, value]),
            _ => self.put(&[suffix]),
        };
        let entry = entry(at, suffix, usize::from(self.skip));
        self.page[HEADER + index * ENTRY..][..ENTRY].copy_from_slice(&entry.to_le_bytes());
        if let Some(child) = child {
            self.put_child(index + 1, child);
        }
    }

    fn put_child(&mut self, index: usize, child: PageRef) {
        let at = HEADER + self.room * ENTRY + index * CHILD;
        self.page[at..at + CHILD].copy_from_slice(&child.to_bits().to_le_bytes());
    }
}

const _: () = assert!(VALUE_LEN == size_of::<u16>());
