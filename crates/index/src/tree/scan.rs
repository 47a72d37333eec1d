//! Scans in both directions.
//!
//! A scan copies a few records of a leaf, validates the leaf, and passes the copies to the
//! callback; then it copies twice as many. So a scan that needs one record copies few, and no latch
//! is held while the callback runs. If the leaf has changed meanwhile, the scan descends again from
//! the last key.

use std::cell::Cell;
use std::ops::{Bound, ControlFlow};

use terrace_pool::Pages;

use crate::error::{Fault, Result};
use crate::tree::btree::BTree;
use crate::tree::node::{Node, Seek};
use crate::tree::source::Source;
use crate::tree::walk::{Look, RESTARTS, Visit};

/// Number of records of the first copy.
const FIRST: usize = 4;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Direction {
    #[default]
    Up,
    Down,
}

/// Start of the next step of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum From {
    /// The end of the tree.
    #[default]
    End,
    /// The key of the cursor, inclusive.
    Key,
    /// The key of the cursor, exclusive.
    Beyond,
}

/// Position of a scan, and the records copied from the current leaf.
#[derive(Debug, Default)]
struct Cursor {
    direction: Direction,
    from: From,
    key: Vec<u8>,
    /// Keys and values, one after the other, followed by unused bytes of earlier copies.
    bytes: Vec<u8>,
    /// End offsets of each key and of its value in `bytes`.
    ends: Vec<(usize, usize)>,
}

thread_local! {
    /// Taken out while a scan uses it, so that a callback may start another scan.
    static CURSOR: Cell<Cursor> = Cell::default();
}

/// Remainder of a scan after the records that were copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// Records of the same leaf, from this index on upwards, or below it downwards.
    Here(usize),
    /// The next leaf, at the fence in [`Fill::fence`].
    Leaf,
    Nothing,
}

/// Copies records of a leaf to the cursor.
struct Fill<'c> {
    cursor: &'c mut Cursor,
    /// Index of the first record, if it is known.
    place: Option<usize>,
    /// Maximum number of records to copy.
    limit: usize,
    /// Fence of the leaf in the direction of the scan, if the leaf has no records beyond the
    /// copies.
    fence: Vec<u8>,
}

impl Cursor {
    fn new(direction: Direction, from: Bound<&[u8]>) -> Self {
        let mut cursor = CURSOR.take();
        cursor.direction = direction;
        cursor.key.clear();
        let (from, key) = match (from, direction) {
            (Bound::Included(key), _) => (From::Key, key),
            (Bound::Excluded(key), _) => (From::Beyond, key),
            (Bound::Unbounded, Direction::Up) => (From::Key, [].as_slice()),
            (Bound::Unbounded, Direction::Down) => (From::End, [].as_slice()),
        };
        cursor.from = from;
        cursor.key.extend_from_slice(key);
        cursor
    }

    fn seek(&self) -> Seek<'_> {
        match (self.from, self.direction) {
            (From::End, _) => Seek::Last,
            (From::Beyond, Direction::Down) => Seek::Before(&self.key),
            _ => Seek::At(&self.key),
        }
    }

    fn show(&self, see: &mut impl FnMut(&[u8], &[u8]) -> ControlFlow<()>) -> ControlFlow<()> {
        let mut begin = 0;
        for (key_end, end) in &self.ends {
            see(&self.bytes[begin..*key_end], &self.bytes[*key_end..*end])?;
            begin = *end;
        }
        ControlFlow::Continue(())
    }

    /// Moves the cursor behind the last record that was copied.
    fn pass(&mut self) {
        let before = self.ends.len().checked_sub(2).map_or(0, |before| self.ends[before].1);
        if let Some((key_end, _)) = self.ends.last() {
            self.key.clear();
            self.key.extend_from_slice(&self.bytes[before..*key_end]);
            self.from = From::Beyond;
        }
    }
}

impl Fill<'_> {
    fn first<S: Source + ?Sized>(&self, leaf: &Node<'_, S>) -> Result<usize, Fault> {
        if let Some(place) = self.place {
            return Ok(place.min(leaf.count));
        }
        let Cursor { direction, from, key, .. } = &*self.cursor;
        if *from == From::End {
            return Ok(leaf.count);
        }
        let (index, found) = leaf.search(key)?;
        // Downwards, an index is that of the record above it.
        let with = (*from == From::Key) == (*direction == Direction::Down);
        Ok(index + usize::from(found && with))
    }

    #[inline]
    fn copy<S: Source + ?Sized>(&mut self, leaf: &Node<'_, S>, index: usize) -> Result<(), Fault> {
        let Cursor { bytes, ends, .. } = &mut *self.cursor;
        let begin = ends.last().map_or(0, |(_, end)| *end);
        let key_end = leaf.copy_key_over(index, bytes, begin)?;
        let end = leaf.copy_over(leaf.value_span(index)?, bytes, key_end)?;
        ends.push((key_end, end));
        Ok(())
    }

    fn rest_above<S: Source + ?Sized>(&mut self, leaf: &Node<'_, S>) -> Result<Rest, Fault> {
        if !leaf.copy_upper(&mut self.fence)? {
            return Ok(Rest::Nothing);
        }
        // A damaged fence would make the scan loop for ever.
        if self.fence <= self.cursor.key {
            return Err(DISORDER);
        }
        Ok(Rest::Leaf)
    }

    fn rest_below<S: Source + ?Sized>(&mut self, leaf: &Node<'_, S>) -> Result<Rest, Fault> {
        leaf.copy_lower(&mut self.fence)?;
        if self.fence.is_empty() {
            return Ok(Rest::Nothing);
        }
        let Cursor { from, key, .. } = &*self.cursor;
        let is_below = match from {
            From::End => true,
            From::Key => self.fence <= *key,
            From::Beyond => self.fence < *key,
        };
        if is_below { Ok(Rest::Leaf) } else { Err(DISORDER) }
    }
}

const DISORDER: Fault = "its fences are out of order";

impl Visit for Fill<'_> {
    type Out = Rest;

    fn leaf<S: Source + ?Sized>(&mut self, leaf: Node<'_, S>) -> Result<Rest, Fault> {
        self.cursor.ends.clear();
        let first = self.first(&leaf)?;
        match self.cursor.direction {
            Direction::Up => {
                let end = leaf.count.min(first.saturating_add(self.limit));
                for index in first..end {
                    self.copy(&leaf, index)?;
                }
                if end < leaf.count { Ok(Rest::Here(end)) } else { self.rest_above(&leaf) }
            }
            Direction::Down => {
                let end = first.saturating_sub(self.limit);
                for index in (end..first).rev() {
                    self.copy(&leaf, index)?;
                }
                if end > 0 { Ok(Rest::Here(end)) } else { self.rest_below(&leaf) }
            }
        }
    }
}

impl<P: Pages> BTree<P> {
    /// Calls `see` with each key from `from` on and its value, in ascending order, until it breaks.
    ///
    /// A record that exists throughout the call is visited once; one that is inserted, removed or
    /// changed meanwhile may or may not be visited. Each value was that of its key at one moment of
    /// the call. No latch is held while `see` runs, so it may use the tree, and the scan may meet
    /// its changes.
    ///
    /// # Errors
    /// As [`BTree::get`].
    pub fn scan(
        &self,
        from: Bound<&[u8]>,
        see: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.run(Cursor::new(Direction::Up, from), see)
    }

    /// Scans downwards: the keys up to `from`, in descending order; otherwise as [`BTree::scan`].
    ///
    /// # Errors
    /// As [`BTree::get`].
    pub fn scan_back(
        &self,
        from: Bound<&[u8]>,
        see: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.run(Cursor::new(Direction::Down, from), see)
    }

    fn run(
        &self,
        mut cursor: Cursor,
        mut see: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let done = self.run_with(&mut cursor, &mut see);
        CURSOR.set(cursor);
        done
    }

    fn run_with(
        &self,
        cursor: &mut Cursor,
        see: &mut impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut limit = FIRST;
        let mut kept = None;
        let mut fence = Vec::new();
        loop {
            let mut fill = Fill { cursor, place: None, limit, fence };
            let (rest, look) = self.fill(&mut fill, kept)?;
            fence = fill.fence;
            if cursor.show(see).is_break() {
                return Ok(());
            }
            kept = None;
            match rest {
                Rest::Nothing => return Ok(()),
                Rest::Here(place) => {
                    cursor.pass();
                    kept = look.map(|look| (look, place));
                }
                Rest::Leaf => {
                    std::mem::swap(&mut cursor.key, &mut fence);
                    cursor.from = match cursor.direction {
                        Direction::Up => From::Key,
                        Direction::Down => From::Beyond,
                    };
                }
            }
            limit = limit.saturating_mul(2);
        }
    }

    /// Copies records of a leaf: of the last one, if it is unchanged, otherwise after a descent.
    fn fill<'t>(
        &'t self,
        fill: &mut Fill<'_>,
        kept: Option<(Look<'t>, usize)>,
    ) -> Result<(Rest, Option<Look<'t>>)> {
        if let Some((look, place)) = kept {
            fill.place = Some(place);
            if let Some(rest) = self.try_fill(fill, &look)? {
                return Ok((rest, Some(look)));
            }
            fill.place = None;
        }
        for _ in 0..RESTARTS {
            let seek = fill.cursor.seek();
            if let Some(look) = self.look_for_leaf(seek)?
                && let Some(rest) = self.try_fill(fill, &look)?
            {
                return Ok((rest, Some(look)));
            }
            std::hint::spin_loop();
        }
        // The seek needs a key of its own, as the visit writes to the cursor.
        let key = fill.cursor.key.clone();
        let seek = match fill.cursor.seek() {
            Seek::At(_) => Seek::At(&key),
            Seek::Before(_) => Seek::Before(&key),
            Seek::Last => Seek::Last,
        };
        Ok((self.visit_held(seek, fill)?, None))
    }

    fn try_fill(&self, fill: &mut Fill<'_>, look: &Look<'_>) -> Result<Option<Rest>> {
        match Node::open(&look.guard).and_then(|leaf| fill.leaf(leaf)) {
            Ok(rest) => Ok(look.guard.is_valid().then_some(rest)),
            Err(fault) => self.doubt(look, fault),
        }
    }
}
