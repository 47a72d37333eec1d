//! Changes to a page of a tree, under its exclusive latch.

use terrace_pool::PageRef;

use crate::error::Fault;
use crate::tree::node::{
    CHILD, ENTRY, HEADER, OUTSIDE, Span, VALUE_LEN, View, arrays_end, halves, heap_bytes,
};
use crate::tree::records::{Frame, NO_PLACE, Records, SKIP_MIN, common, entry};

/// A node for writing. A method that returns false or a fault has changed nothing.
pub(crate) struct Edit<'p> {
    page: &'p mut [u8],
    level: u8,
    count: usize,
    room: usize,
    begin: usize,
    live: usize,
    prefix: usize,
    skip: usize,
    place: u16,
}

/// Room in a node for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The record fits as the node is.
    Now,
    /// The record fits once the node is rewritten.
    Rewritten,
    /// The record does not fit.
    Not,
}

fn half(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

impl<'p> Edit<'p> {
    pub(crate) fn open(page: &'p mut [u8]) -> Result<Self, Fault> {
        let view = View::open(page)?;
        let (level, count, skip) = (view.level, view.count, view.skip());
        let first = page.first_chunk::<16>().ok_or(OUTSIDE)?;
        let [_, _, _, room] = half_words(first, 0);
        let [begin, live, prefix, place] = half_words(first, 8);
        if arrays_end(level, room) > begin || begin > page.len() || live > page.len() - begin {
            return Err("its arrays and its heap overlap");
        }
        Ok(Self { page, level, count, room, begin, live, prefix, skip, place: half(place) })
    }

    pub(crate) fn view(&self) -> Result<View<'_>, Fault> {
        View::open(self.page)
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Bytes in use: header, entries and live records.
    pub(crate) fn used_bytes(&self) -> usize {
        arrays_end(self.level, self.count) + self.live
    }

    /// Index of the last insertion, if it is known.
    pub(crate) fn last_place(&self) -> Option<usize> {
        (self.place != NO_PLACE).then_some(usize::from(self.place))
    }

    /// Returns how the node has room for one more record whose whole key has `key_len` bytes.
    ///
    /// A node that would have less than a 32nd of its page free after a rewrite counts as full,
    /// unless it is empty: the next few records would rewrite it again.
    pub(crate) fn fit(&self, key_len: usize, value_len: usize) -> Fit {
        let need = self.need(key_len, value_len);
        let end = arrays_end(self.level, self.room);
        if self.count < self.room && end + need <= self.begin {
            return Fit::Now;
        }
        let spare = if self.count == 0 { 0 } else { self.page.len() / 32 };
        let after = arrays_end(self.level, self.count + 1) + self.live + need;
        if after + spare <= self.page.len() { Fit::Rewritten } else { Fit::Not }
    }

    fn need(&self, key_len: usize, value_len: usize) -> usize {
        heap_bytes(self.level, key_len.saturating_sub(self.prefix), value_len)
    }

    /// Inserts a record at `index`. Returns false if it does not fit.
    pub(crate) fn insert(&mut self, index: usize, key: &[u8], value: &[u8]) -> Result<bool, Fault> {
        self.insert_entry(index, key, value, None)
    }

    /// Inserts `key` at `index` of an inner node and `child` behind it. Returns false if it does
    /// not fit.
    pub(crate) fn insert_child(
        &mut self,
        index: usize,
        key: &[u8],
        child: PageRef,
    ) -> Result<bool, Fault> {
        self.insert_entry(index, key, &[], Some(child))
    }

    fn insert_entry(
        &mut self,
        index: usize,
        key: &[u8],
        value: &[u8],
        child: Option<PageRef>,
    ) -> Result<bool, Fault> {
        match self.fit(key.len(), value.len()) {
            Fit::Not => return Ok(false),
            Fit::Rewritten => self.rewrite(self.need(key.len(), value.len()))?,
            Fit::Now => {}
        }
        if index > self.count || self.fit(key.len(), value.len()) != Fit::Now {
            return Err("its counts are wrong");
        }
        let suffix = key.get(self.prefix..).unwrap_or_default();
        self.skip_no_more_than(suffix)?;
        self.begin -= heap_bytes(self.level, suffix.len(), value.len());
        self.live += heap_bytes(self.level, suffix.len(), value.len());
        self.put_record(self.begin, suffix, value);
        let entry = entry(self.begin, suffix, self.skip).to_le_bytes();
        self.open_gap(HEADER, index, self.count, entry);
        if let Some(child) = child {
            let children = HEADER + self.room * ENTRY;
            self.open_gap(children, index + 1, self.count + 1, child.to_bits().to_le_bytes());
        }
        (self.count, self.place) = (self.count + 1, half(index));
        self.save();
        Ok(true)
    }

    /// Reduces `skip` to what `suffix` shares with the keys, and recomputes the heads.
    fn skip_no_more_than(&mut self, suffix: &[u8]) -> Result<(), Fault> {
        if self.skip == 0 || self.count == 0 {
            self.skip = 0;
            return Ok(());
        }
        let view = self.view()?;
        let alike = common(view.suffix(0)?, suffix).min(self.skip);
        if alike == self.skip {
            return Ok(());
        }
        let skip = if alike < SKIP_MIN { 0 } else { alike };
        let entries: Result<Vec<_>, Fault> = (0..self.count)
            .map(|index| Ok(entry(view.slot(index).at, view.suffix(index)?, skip)))
            .collect();
        for (index, entry) in entries?.into_iter().enumerate() {
            self.page[HEADER + index * ENTRY..][..ENTRY].copy_from_slice(&entry.to_le_bytes());
        }
        self.skip = skip;
        Ok(())
    }

    fn put_record(&mut self, at: usize, suffix: &[u8], value: &[u8]) {
        let mut at = at;
        if self.level == 0 {
            self.page[at..at + VALUE_LEN].copy_from_slice(&half(value.len()).to_le_bytes());
            at += VALUE_LEN;
        }
        self.page[at..at + suffix.len()].copy_from_slice(suffix);
        at += suffix.len();
        self.page[at..at + value.len()].copy_from_slice(value);
    }

    /// Shifts the items of an array from `index` on, and writes `item` there.
    fn open_gap<const N: usize>(&mut self, array: usize, index: usize, len: usize, item: [u8; N]) {
        let (from, end) = (array + index * N, array + len * N);
        self.page.copy_within(from..end, from + N);
        self.page[from..from + N].copy_from_slice(&item);
    }

    fn close_gap(&mut self, array: usize, index: usize, len: usize, each: usize) {
        let (from, end) = (array + index * each, array + len * each);
        self.page.copy_within(from + each..end, from);
    }

    /// Removes the record at `index`; from an inner node the key and the child behind it.
    pub(crate) fn remove(&mut self, index: usize) -> Result<(), Fault> {
        let view = self.view()?;
        if index >= view.count {
            return Err(OUTSIDE);
        }
        let value_len = if self.level == 0 { view.value(index)?.len() } else { 0 };
        let freed = heap_bytes(self.level, view.suffix(index)?.len(), value_len);
        self.live = self.live.checked_sub(freed).ok_or("its counts are wrong")?;
        self.close_gap(HEADER, index, self.count, ENTRY);
        if self.level > 0 {
            self.close_gap(HEADER + self.room * ENTRY, index + 1, self.count + 1, CHILD);
        }
        (self.count, self.place) = (self.count - 1, NO_PLACE);
        self.save();
        Ok(())
    }

    /// Replaces the value of the record at `index`. Returns false if it does not fit.
    pub(crate) fn replace(&mut self, index: usize, value: &[u8]) -> Result<bool, Fault> {
        let view = self.view()?;
        let span = view.value_span(index)?;
        let (old, suffix_len) = (view.value(index)?.len(), view.suffix(index)?.len());
        if old == value.len() {
            self.page[span.at..span.at + span.len].copy_from_slice(value);
            return Ok(true);
        }
        let (freed, need) =
            (heap_bytes(0, suffix_len, old), heap_bytes(0, suffix_len, value.len()));
        if arrays_end(0, self.room) + need > self.begin {
            return self.rewrite_with(0, |records| records.set_value(index, value));
        }
        self.live = self.live.checked_sub(freed).ok_or("its counts are wrong")? + need;
        self.begin -= need;
        let (suffix, at) = (span.at - suffix_len, self.begin);
        self.page[at..at + VALUE_LEN].copy_from_slice(&half(value.len()).to_le_bytes());
        self.page.copy_within(suffix..span.at, at + VALUE_LEN);
        let behind = at + VALUE_LEN + suffix_len;
        self.page[behind..behind + value.len()].copy_from_slice(value);
        let slot = HEADER + index * ENTRY;
        self.page[slot..slot + 2].copy_from_slice(&half(at).to_le_bytes());
        self.save();
        Ok(true)
    }

    /// Bytes of a value, for changes in place.
    pub(crate) fn value_mut(&mut self, index: usize) -> Result<&mut [u8], Fault> {
        let Span { at, len } = self.view()?.value_span(index)?;
        self.page.get_mut(at..at + len).ok_or(OUTSIDE)
    }

    /// Replaces the key at `index` of an inner node. Returns false if it does not fit.
    pub(crate) fn replace_key(&mut self, index: usize, key: &[u8]) -> Result<bool, Fault> {
        // The first record of an inner node is the child before its first key.
        self.rewrite_with(0, |records| records.set_key(index + 1, key))
    }

    fn rewrite(&mut self, reserve: usize) -> Result<(), Fault> {
        match self.rewrite_with(reserve, |_| ())? {
            true => Ok(()),
            false => Err("its counts are wrong"),
        }
    }

    /// Applies a change to the records and rewrites the node without removed bytes.
    fn rewrite_with(
        &mut self,
        reserve: usize,
        change: impl FnOnce(&mut Records),
    ) -> Result<bool, Fault> {
        let view = self.view()?;
        let mut records = Records::of(&view)?;
        let (lower, upper) = (view.lower()?.to_vec(), view.upper()?.map(<[u8]>::to_vec));
        let frame =
            Frame { tree: view.tree(), level: view.level, lower: &lower, upper: upper.as_deref() };
        change(&mut records);
        if !records.write(0..records.len(), self.page, &frame, reserve)? {
            return Ok(false);
        }
        let place = self.place;
        let first = self.page.first_chunk::<16>().ok_or(OUTSIDE)?;
        let [_, _, _, room] = half_words(first, 0);
        let [begin, live, ..] = half_words(first, 8);
        (self.room, self.begin, self.live, self.place) = (room, begin, live, place);
        self.skip = usize::from(self.page[3]);
        self.save();
        Ok(true)
    }

    /// Clears the header, so that a reader with an old reference does not take the page for a node.
    pub(crate) fn bury(page: &mut [u8]) {
        page[..HEADER].fill(0);
    }

    fn save(&mut self) {
        let halves = [half(self.begin), half(self.live), half(self.prefix), self.place];
        self.page[3] = u8::try_from(self.skip).unwrap_or(u8::MAX);
        self.page[4..6].copy_from_slice(&half(self.count).to_le_bytes());
        for (at, half) in halves.iter().enumerate() {
            self.page[8 + at * 2..][..2].copy_from_slice(&half.to_le_bytes());
        }
    }
}

fn half_words(first: &[u8; 16], at: usize) -> [usize; 4] {
    let word = first[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    halves(word).map(usize::from)
}
