//! Layout of a page of a tree, and reading it.
//!
//! ```text
//! 0   u16 magic, u8 level (0: leaf), u8 skip, u16 count, u16 room
//! 8   u16 begin of the heap, u16 live bytes in it, u16 prefix, u16 place of the last insertion
//! 16  lower fence: u16 place, u16 length; upper fence: u16 place (none: 65,535), u16 length
//! 24  u32 tree, u32 0
//! 32  entries: room x u64: u16 place and u16 length of each key behind the prefix, and in the
//!     upper half its head, four bytes of it as a number
//!     children: (room + 1) x u64, of an inner node: references, aligned for their repair
//!     ...
//!     heap, to the end: fences and keys; in a leaf each key has the u16 length of its value
//!     before it and the value behind it. Everything in the heap begins at an even place.
//! ```
//!
//! Keys of a node are at least its lower fence and below its upper fence, so all share the common
//! prefix of both fences. This prefix is stored once, in the lower fence. Child `i` of an inner
//! node has the keys from key `i - 1` on, below key `i`.
//!
//! A head is taken behind the prefix and `skip` more bytes, which are equal in all keys of the node
//! but not in its fences: at the edges of the tree a fence is empty or missing.
//!
//! Reading is generic over [`Source`], as a page under an optimistic read may change meanwhile.

use std::cmp::Ordering;

use terrace_pool::PageRef;

use crate::error::Fault;
use crate::tree::source::Source;

pub(crate) const MAGIC: [u8; 2] = *b"Bt";
/// Bytes of the header, before the entries.
pub(crate) const HEADER: usize = 32;
/// Bytes of an entry.
pub(crate) const ENTRY: usize = 8;
/// Bytes of a reference to a child.
pub(crate) const CHILD: usize = 8;
/// Offset of an upper fence that does not exist.
pub(crate) const NO_FENCE: u16 = u16::MAX;
/// Bytes before a key in a leaf: the length of its value.
pub(crate) const VALUE_LEN: usize = 2;
/// Linear part of the search in inner nodes: once this many heads are left, the binary search ends
/// and counts those below the key's. Inner nodes are in the processor's caches, where counting is
/// as fast as the last steps.
const COUNTED: usize = 16;
/// Linear part of the search in leaves, which are not in the caches: the loads of a count do not
/// depend on each other as those of a binary search do, so their cache misses overlap.
const COUNTED_IN_LEAF: usize = 48;

pub(crate) const OUTSIDE: Fault = "a record lies outside of it";

/// Returns the offset at which the arrays of a node end.
#[inline]
pub(crate) fn arrays_end(level: u8, room: usize) -> usize {
    let children = if level == 0 { 0 } else { (room + 1) * CHILD };
    HEADER + room * ENTRY + children
}

/// Bytes that a record takes in the heap; `value_len` is 0 for an inner node.
#[inline]
pub(crate) fn heap_bytes(level: u8, suffix_len: usize, value_len: usize) -> usize {
    let before = if level == 0 { VALUE_LEN } else { 0 };
    (before + suffix_len + value_len).next_multiple_of(2)
}

/// Returns the first four bytes as a number that sorts as they do; missing bytes count as zeroes.
#[inline]
pub(crate) fn head_of(suffix: &[u8]) -> u32 {
    if let Some(head) = suffix.first_chunk() {
        return u32::from_be_bytes(*head);
    }
    let mut head = [0; 4];
    head[..suffix.len()].copy_from_slice(suffix);
    u32::from_be_bytes(head)
}

/// Splits a word into its four parts of 16 bits, the lowest first.
#[inline]
pub(crate) fn halves(word: u64) -> [u16; 4] {
    let [a, b, c, d, e, f, g, h] = word.to_le_bytes();
    [[a, b], [c, d], [e, f], [g, h]].map(u16::from_le_bytes)
}

/// Target of a descent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seek<'k> {
    /// The leaf of a key.
    At(&'k [u8]),
    /// The leaf of the keys right before this one.
    Before(&'k [u8]),
    /// The last leaf.
    Last,
}

/// A node for reading.
#[derive(Debug)]
pub(crate) struct Node<'s, S: ?Sized> {
    source: &'s S,
    pub(crate) level: u8,
    pub(crate) count: usize,
    room: usize,
    prefix: usize,
    skip: usize,
}

/// A node under a latch.
pub(crate) type View<'s> = Node<'s, [u8]>;

impl<S: ?Sized> Clone for Node<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: ?Sized> Copy for Node<'_, S> {}

/// Byte range in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) at: usize,
    pub(crate) len: usize,
}

impl<'s, S: Source + ?Sized> Node<'s, S> {
    #[inline]
    pub(crate) fn open(source: &'s S) -> Result<Self, Fault> {
        let (Some(first), Some(second)) = (source.u64_at(0), source.u64_at(8)) else {
            return Err("it is too short");
        };
        let [m, n, level, skip, ..] = first.to_le_bytes();
        if [m, n] != MAGIC {
            return Err("it is no page of a tree");
        }
        let [_, _, count, room] = halves(first).map(usize::from);
        let [_, _, prefix, _] = halves(second).map(usize::from);
        if count > room || arrays_end(level, room) > source.len() {
            return Err("its arrays are longer than it is");
        }
        Ok(Self { source, level, count, room, prefix, skip: usize::from(skip) })
    }

    #[inline]
    fn entry(&self, index: usize) -> u64 {
        // Inside the page, as `open` has checked, unless the page changed; then validation fails.
        self.source.u64_at(HEADER + index * ENTRY).unwrap_or(0)
    }

    #[inline]
    pub(crate) fn head(&self, index: usize) -> u32 {
        let [.., a, b, c, d] = self.entry(index).to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }

    #[inline]
    pub(crate) fn slot(&self, index: usize) -> Span {
        let [at, len, ..] = halves(self.entry(index)).map(usize::from);
        Span { at, len }
    }

    /// Byte range of a key's suffix, behind the prefix.
    #[inline]
    fn suffix_span(&self, index: usize) -> Span {
        let slot = self.slot(index);
        let before = if self.level == 0 { VALUE_LEN } else { 0 };
        Span { at: slot.at + before, len: slot.len }
    }

    /// Byte range of a leaf's value.
    #[inline]
    pub(crate) fn value_span(&self, index: usize) -> Result<Span, Fault> {
        let slot = self.slot(index);
        let len = self.source.u16_at(slot.at).ok_or(OUTSIDE)?;
        Ok(Span { at: slot.at + VALUE_LEN + slot.len, len: usize::from(len) })
    }

    /// Number of heads below `head`.
    #[inline]
    fn heads_below(&self, head: u32) -> usize {
        // The head is the upper half of an entry.
        let bound = u64::from(head) << 32;
        let (mut from, mut left) = (0, self.count);
        let counted = if self.level == 0 { COUNTED_IN_LEAF } else { COUNTED };
        while left > counted {
            let half = left / 2;
            let step = if self.entry(from + half - 1) < bound { half } else { 0 };
            from += step;
            left -= half;
        }
        from + self.source.count_below(HEADER + from * ENTRY, left, bound).unwrap_or(0)
    }

    /// Returns the first index whose key is not below `key`, and true if it is that key.
    #[inline]
    pub(crate) fn search(&self, key: &[u8]) -> Result<(usize, bool), Fault> {
        let suffix = key.get(self.prefix..).unwrap_or_default();
        let mut behind = suffix;
        if self.skip > 0 && self.count > 0 {
            let (skipped, rest) = suffix.split_at(self.skip.min(suffix.len()));
            let Span { at, .. } = self.suffix_span(0);
            match self.source.compare(at, self.skip, skipped).ok_or(OUTSIDE)? {
                Ordering::Equal => behind = rest,
                Ordering::Greater => return Ok((0, false)),
                Ordering::Less => return Ok((self.count, false)),
            }
        }
        let head = head_of(behind);
        let low = self.heads_below(head);
        if low == self.count || self.head(low) != head {
            return Ok((low, false));
        }
        match self.compare(low, suffix)? {
            Ordering::Equal => Ok((low, true)),
            Ordering::Greater => Ok((low, false)),
            Ordering::Less => self.search_ties(low + 1, head, suffix),
        }
    }

    /// Continues the search among keys with equal heads.
    fn search_ties(
        &self,
        mut low: usize,
        head: u32,
        suffix: &[u8],
    ) -> Result<(usize, bool), Fault> {
        let above = head.checked_add(1).map_or(self.count, |next| self.heads_below(next));
        let mut high = above.max(low);
        while low < high {
            let middle = low.midpoint(high);
            match self.compare(middle, suffix)? {
                Ordering::Equal => return Ok((middle, true)),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        Ok((low, false))
    }

    /// Compares a key with `suffix`; their heads are equal.
    #[inline]
    fn compare(&self, index: usize, suffix: &[u8]) -> Result<Ordering, Fault> {
        let Span { at, len } = self.suffix_span(index);
        let in_head = self.skip + size_of::<u32>();
        if len <= in_head && suffix.len() <= in_head {
            // Heads are padded with zeroes, so of two keys with equal heads the shorter is below.
            return Ok(len.cmp(&suffix.len()));
        }
        self.source.compare(at, len, suffix).ok_or(OUTSIDE)
    }

    /// Index of the child that a descent follows.
    #[inline]
    pub(crate) fn child_index(&self, seek: Seek<'_>) -> Result<usize, Fault> {
        Ok(match seek {
            Seek::At(key) => {
                let (index, found) = self.search(key)?;
                index + usize::from(found)
            }
            Seek::Before(key) => self.search(key)?.0,
            Seek::Last => self.count,
        })
    }

    /// Offset of the reference to a child.
    #[inline]
    pub(crate) fn child_place(&self, index: usize) -> usize {
        HEADER + self.room * ENTRY + index * CHILD
    }

    #[inline]
    pub(crate) fn child(&self, index: usize) -> Result<PageRef, Fault> {
        self.source.u64_at(self.child_place(index)).map(PageRef::from_bits).ok_or(OUTSIDE)
    }

    /// Id of the tree that the page belongs to.
    pub(crate) fn tree(&self) -> u32 {
        self.source.u32_at(24).unwrap_or(0)
    }

    /// Bytes of the heap in use, as the header counts them.
    pub(crate) fn live(&self) -> usize {
        let [_, live, ..] = halves(self.source.u64_at(8).unwrap_or(0));
        usize::from(live)
    }

    fn lower_span(&self) -> Span {
        let [at, len, ..] = halves(self.source.u64_at(16).unwrap_or(0)).map(usize::from);
        Span { at, len }
    }

    fn upper_span(&self) -> Option<Span> {
        let [_, _, at, len] = halves(self.source.u64_at(16).unwrap_or(0));
        (at != NO_FENCE).then(|| Span { at: usize::from(at), len: usize::from(len) })
    }

    /// True if a key lies between the fences.
    pub(crate) fn covers(&self, key: &[u8]) -> Result<bool, Fault> {
        let lower = self.lower_span();
        if self.source.compare(lower.at, lower.len, key).ok_or(OUTSIDE)?.is_gt() {
            return Ok(false);
        }
        let Some(upper) = self.upper_span() else { return Ok(true) };
        Ok(self.source.compare(upper.at, upper.len, key).ok_or(OUTSIDE)?.is_gt())
    }

    /// Appends bytes of the page to `into`.
    #[inline]
    pub(crate) fn append(&self, span: Span, into: &mut Vec<u8>) -> Result<(), Fault> {
        let Span { at, len } = span;
        if len > self.source.len() {
            return Err(OUTSIDE);
        }
        let begin = into.len();
        into.resize(begin + len, 0);
        self.source.copy(at, &mut into[begin..]).then_some(()).ok_or(OUTSIDE)
    }

    /// Copies a value over the contents of `into` and returns its length.
    #[inline]
    pub(crate) fn copy_value(&self, index: usize, into: &mut Vec<u8>) -> Result<usize, Fault> {
        let Span { at, len } = self.value_span(index)?;
        if into.len() < len {
            into.resize(len, 0);
        }
        self.source.copy(at, &mut into[..len]).then_some(len).ok_or(OUTSIDE)
    }

    /// Copies bytes of the page to `into` from `at` on, growing it if needed. Returns the end of
    /// the copy.
    #[inline]
    pub(crate) fn copy_over(
        &self,
        span: Span,
        into: &mut Vec<u8>,
        at: usize,
    ) -> Result<usize, Fault> {
        let end = at + span.len;
        if end > into.len() {
            into.resize(end.next_power_of_two(), 0);
        }
        self.source.copy(span.at, &mut into[at..end]).then_some(end).ok_or(OUTSIDE)
    }

    /// Copies the whole key of a record; otherwise as [`Node::copy_over`].
    #[inline]
    pub(crate) fn copy_key_over(
        &self,
        index: usize,
        into: &mut Vec<u8>,
        at: usize,
    ) -> Result<usize, Fault> {
        let prefix = Span { at: self.lower_span().at, len: self.prefix };
        let at = self.copy_over(prefix, into, at)?;
        self.copy_over(self.suffix_span(index), into, at)
    }

    /// Appends the whole key of a record.
    pub(crate) fn append_key(&self, index: usize, into: &mut Vec<u8>) -> Result<(), Fault> {
        self.append(Span { at: self.lower_span().at, len: self.prefix }, into)?;
        self.append(self.suffix_span(index), into)
    }

    /// Copies the lower fence, the inclusive bound of keys, over the contents of `into`.
    pub(crate) fn copy_lower(&self, into: &mut Vec<u8>) -> Result<(), Fault> {
        into.clear();
        self.append(self.lower_span(), into)
    }

    /// Copies the upper fence, the exclusive bound of keys. Returns false if there is none.
    pub(crate) fn copy_upper(&self, into: &mut Vec<u8>) -> Result<bool, Fault> {
        into.clear();
        let upper = self.upper_span().map(|span| self.append(span, into));
        Ok(upper.transpose()?.is_some())
    }
}

impl<'s> View<'s> {
    fn slice(&self, span: Span) -> Result<&'s [u8], Fault> {
        let end = span.at.saturating_add(span.len);
        self.source.get(span.at..end).ok_or(OUTSIDE)
    }

    /// Bytes of the page.
    pub(crate) fn len(&self) -> usize {
        self.source.len()
    }

    pub(crate) fn suffix(&self, index: usize) -> Result<&'s [u8], Fault> {
        self.slice(self.suffix_span(index))
    }

    pub(crate) fn value(&self, index: usize) -> Result<&'s [u8], Fault> {
        self.slice(self.value_span(index)?)
    }

    /// Bytes behind the prefix that are equal in all keys and not part of heads.
    pub(crate) fn skip(&self) -> usize {
        self.skip
    }

    pub(crate) fn prefix(&self) -> Result<&'s [u8], Fault> {
        self.slice(Span { at: self.lower_span().at, len: self.prefix })
    }

    pub(crate) fn lower(&self) -> Result<&'s [u8], Fault> {
        self.slice(self.lower_span())
    }

    pub(crate) fn upper(&self) -> Result<Option<&'s [u8]>, Fault> {
        self.upper_span().map(|span| self.slice(span)).transpose()
    }
}
