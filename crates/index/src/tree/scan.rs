//! Scans in both directions.
//!
//! A scan copies a few records of a leaf, finds the leaf unchanged, and shows them; then it copies
//! twice as many. So a scan that wants one record copies few, and nothing is held while records are
//! shown. Where the leaf has changed meanwhile it is looked for again, from the last key on.

use std::cell::Cell;
use std::ops::{Bound, ControlFlow};

use terrace_pool::Pages;

use crate::error::{Fault, Result};
use crate::tree::BTree;
use crate::tree::node::{Node, Seek};
use crate::tree::source::Source;
use crate::tree::walk::{Look, RESTARTS, Visit};

/// Records of the first copy.
const FIRST: usize = 4;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Direction {
    #[default]
    Up,
    Down,
}

/// Where a scan goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum From {
    /// At the end of the tree.
    #[default]
    End,
    /// From the key of the cursor on, with it.
    Key,
    /// From the key of the cursor on, without it.
    Beyond,
}

/// What is copied out of a leaf.
#[derive(Debug, Default)]
struct Cursor {
    direction: Direction,
    from: From,
    key: Vec<u8>,
    /// Keys and values, one after the other, and behind them what is left of others.
    bytes: Vec<u8>,
    /// Where each key and each value ends.
    ends: Vec<(usize, usize)>,
}

thread_local! {
    /// Taken out while a scan uses it, so that whoever sees a record may scan, too.
    static CURSOR: Cell<Cursor> = Cell::default();
}

/// What is left behind the records that were copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// Records of the same leaf, from this place on or below it.
    Here(usize),
    /// The next leaf; its fence is in [`Fill::fence`].
    Leaf,
    Nothing,
}

/// Copies records of a leaf.
struct Fill<'c> {
    cursor: &'c mut Cursor,
    /// Where to begin, if that is known.
    place: Option<usize>,
    limit: usize,
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

    /// Goes on behind the last record.
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
        // Downwards a place is that of the record above.
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
        // Otherwise a damaged fence would have the scan come by here again and again.
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
    /// Shows `see` the keys from `from` on and their values, in ascending order, until it breaks.
    ///
    /// What is there all the while is seen once; what comes, goes or changes meanwhile may or may
    /// not be. Each value was its key's at one moment of the call. Nothing is held while `see`
    /// runs, so it may use the tree, and may see what it does itself.
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

    /// As [`BTree::scan`], downwards: the keys up to `from`, in descending order.
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

    /// Copies records of a leaf: of the one that the last came from, if it is still as it was.
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
        // The leaf to go to is named by the cursor, which the visit writes records to.
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
