//! Splitting nodes to make room.
//!
//! New pages are allocated before any latch is taken. A split whose separator does not fit in the
//! parent releases all latches and splits the parent first. The root keeps its page: its records
//! move to two new pages below it.

use terrace_pool::{PageRef, Pages};

use crate::error::{Fault, Result, in_page};
use crate::tree::btree::BTree;
use crate::tree::edit::{Edit, Fit};
use crate::tree::node::{View, arrays_end};
use crate::tree::records::{Frame, Records, separator};
use crate::tree::walk::{Page, Pair};

/// A new page that no other thread can reach; freed on drop unless it was published.
pub(crate) struct Fresh<'t, P: Pages> {
    pages: &'t P,
    pub(crate) page: PageRef,
    pub(crate) bytes: Option<P::Write<'t>>,
    is_used: bool,
}

impl<'t, P: Pages> Fresh<'t, P> {
    pub(crate) fn new(pages: &'t P, page_bytes: usize) -> Result<Self> {
        let (page, bytes) = pages.allocate(page_bytes)?;
        Ok(Self { pages, page, bytes: Some(bytes), is_used: false })
    }

    pub(crate) fn bytes(&mut self) -> Result<&mut [u8], Fault> {
        self.bytes.as_deref_mut().ok_or("it is in use already")
    }

    /// Marks the page as part of the tree, so that it is kept.
    pub(crate) fn publish(mut self) -> PageRef {
        self.is_used = true;
        self.page
    }
}

impl<P: Pages> Drop for Fresh<'_, P> {
    fn drop(&mut self) {
        self.bytes = None;
        if !self.is_used {
            let freed = self.pages.free(self.page);
            debug_assert!(freed.is_ok(), "a page of this space: {freed:?}");
        }
    }
}

/// The record to make room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need<'k> {
    /// A key of the node to split.
    pub(crate) key: &'k [u8],
    /// Length of the key to insert, which is `key` or another.
    pub(crate) key_len: usize,
    pub(crate) value_len: usize,
    /// True if `key` itself is to be inserted.
    pub(crate) is_new: bool,
}

/// The point at which a node is split.
struct Cut {
    at: usize,
    separator: Vec<u8>,
}

impl<P: Pages> BTree<P> {
    /// Splits the leaf of `need`, unless it has room by now. Makes at most one split: of the leaf,
    /// or of the ancestor that has to be split first.
    #[cold]
    pub(crate) fn make_room(&self, need: Need<'_>) -> Result<()> {
        let mut need = need;
        // Each iteration is one level higher; a root always has room to grow.
        for level in 0..u8::MAX {
            match self.split(level, need)? {
                None => return Ok(()),
                Some(key_len) => need = Need { key_len, value_len: 0, is_new: false, ..need },
            }
        }
        Ok(())
    }

    /// Splits a node, or returns the length of the separator that the parent has no room for.
    fn split(&self, level: u8, need: Need<'_>) -> Result<Option<usize>> {
        let fresh = Fresh::new(&self.pages, self.page_bytes)?;
        let Pair { parent, mut node } = self.hold_pair(need.key, level)?;
        let edit = in_page(node.page.id(), Edit::open(&mut node.held))?;
        let has_room = edit.fit(need.key_len, need.value_len) != Fit::Not;
        let place = edit.last_place();
        if has_room || node.view()?.level != level {
            return Ok(None);
        }
        let view = node.view()?;
        let records = node.check(Records::of(&view))?;
        let cut = node.check(cut(&view, &records, place, need))?;
        let Some((mut parent, index)) = parent else {
            let other = Fresh::new(&self.pages, self.page_bytes)?;
            self.grow(node, &records, &cut, [fresh, other])?;
            return Ok(None);
        };
        let page = parent.page.id();
        let mut above = in_page(page, Edit::open(&mut parent.held))?;
        if above.fit(cut.separator.len(), 0) == Fit::Not {
            return Ok(Some(cut.separator.len()));
        }
        let right = fresh.page;
        let left = self.write_halves(&node, &records, &cut, fresh)?;
        let inserted = above.insert_child(index, &cut.separator, right);
        if !in_page(page, inserted)? {
            return in_page(page, Err("its counts are wrong"));
        }
        node.held.copy_from_slice(&left);
        Ok(None)
    }

    /// Writes the right half to a new page and returns the left half, to be copied over the node.
    fn write_halves(
        &self,
        node: &Page<'_, P>,
        records: &Records,
        cut: &Cut,
        mut fresh: Fresh<'_, P>,
    ) -> Result<Vec<u8>> {
        let view = node.view()?;
        let (lower, upper) = (node.check(view.lower())?, node.check(view.upper())?);
        let whole = Frame { tree: self.id, level: view.level, lower, upper };
        let between = cut.separator.as_slice();
        let mut left = vec![0; node.held.len()];
        let frame = Frame { upper: Some(between), ..whole };
        let wrote = node.check(records.write(0..cut.at, &mut left, &frame, 0))?;
        let frame = Frame { lower: between, ..whole };
        let page = node.check(fresh.bytes())?;
        let wrote_right = node.check(records.write(cut.at..records.len(), page, &frame, 0))?;
        if !wrote || !wrote_right {
            return node.check(Err("its halves do not fit pages"));
        }
        fresh.publish();
        Ok(left)
    }

    /// Moves the records of the root to two new pages, which become its only children.
    fn grow(
        &self,
        mut root: Page<'_, P>,
        records: &Records,
        cut: &Cut,
        [mut left, right]: [Fresh<'_, P>; 2],
    ) -> Result<()> {
        let level = root.view()?.level;
        let Some(above) = level.checked_add(1) else {
            return root.check(Err("its level is too high"));
        };
        let mut children = Records::default();
        children.push_child(&[], left.page);
        children.push_child(&cut.separator, right.page);
        let bytes = self.write_halves(&root, records, cut, right)?;
        root.check(left.bytes())?.copy_from_slice(&bytes);
        let frame = Frame { tree: self.id, level: above, lower: &[], upper: None };
        let wrote = children.write(0..2, &mut root.held, &frame, 0);
        if !root.check(wrote)? {
            return root.check(Err("a separator does not fit in it"));
        }
        left.publish();
        Ok(())
    }
}

/// Picks the split point: the middle, or the insertion point itself if keys come in ascending
/// order, so that the left node stays full.
fn cut(
    view: &View<'_>,
    records: &Records,
    place: Option<usize>,
    need: Need<'_>,
) -> Result<Cut, Fault> {
    let len = records.len();
    if len == 0 {
        return Err("it is empty and has no room");
    }
    if view.level > 0 {
        if len < 3 {
            return Err("it has no key to part with");
        }
        let at = if is_appended(view, place) { len - 1 - len / 16 } else { records.middle(1) };
        return Ok(Cut { at, separator: records.cut(view.level, at).to_vec() });
    }
    let (index, _) = view.search(need.key)?;
    let follows = need.is_new && place.is_some_and(|place| place + 1 == index);
    let at = match follows {
        _ if len == 1 => index,
        // A half with fewer records than the leaf has room for any fence between their keys.
        true if index < len || keeps_all(view, records, need.key) => index,
        true => len - 1,
        false => records.middle(0),
    };
    let between = match at {
        0 => separator(need.key, records.key(0)),
        _ if at == len => separator(records.key(len - 1), need.key),
        _ => records.cut(0, at),
    };
    Ok(Cut { at, separator: between.to_vec() })
}

/// True if a leaf has room for an upper fence between all of its keys and `key`.
fn keeps_all(view: &View<'_>, records: &Records, key: &[u8]) -> bool {
    let fence = separator(records.key(records.len() - 1), key).len().next_multiple_of(2);
    arrays_end(0, view.count) + view.live() + fence <= view.len()
}

/// True if the last separator inserted into a node is its last one.
fn is_appended(view: &View<'_>, place: Option<usize>) -> bool {
    place.is_some_and(|place| place + 1 == view.count)
}
