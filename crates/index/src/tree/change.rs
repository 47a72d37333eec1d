//! Changing a tree: insert, put, update, remove.
//!
//! A writer looks for its leaf like a reader, and for the key in it. Where that shows that nothing
//! is to be changed it holds nothing at all; otherwise the look becomes a hold, under which the
//! leaf is known to be what was looked at.

use terrace_pool::Pages;

use crate::error::{Fault, IndexError, Result, in_page};
use crate::tree::BTree;
use crate::tree::edit::Edit;
use crate::tree::node::{Node, Seek};
use crate::tree::split::Need;
use crate::tree::walk::{Page, RESTARTS};

/// Splits that one insertion makes at most. One is enough unless others fill the room at once, so
/// that this many mean that something is wrong.
const SPLITS_MAX: usize = 1_000;

/// Where a key is, or would be, in a leaf.
struct Place<'t, P: Pages> {
    index: usize,
    is_found: bool,
    /// The leaf, unless nothing is to be changed.
    leaf: Option<Page<'t, P>>,
}

/// The place, and the leaf's page, to change.
type ToChange<'t, P> = (usize, bool, Page<'t, P>);

impl<P: Pages> BTree<P> {
    /// Adds a key that is not there yet. False, and nothing changed, when it is.
    ///
    /// # Errors
    /// [`IndexError::TooLarge`]; [`IndexError::Pool`] when a page cannot be had and
    /// [`IndexError::Contended`]: then the tree has what it had; [`IndexError::Corrupt`].
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.check_size(key, value)?;
        for _ in 0..SPLITS_MAX {
            let Place { index, leaf: Some(mut leaf), .. } = self.place(key, |found| !found)? else {
                return Ok(false);
            };
            if edit(&mut leaf, |edit| edit.insert(index, key, value))? {
                self.records.add(1);
                return Ok(true);
            }
            drop(leaf);
            self.make_room(Need { key, key_len: key.len(), value_len: value.len(), is_new: true })?;
        }
        Err(IndexError::Contended { turns: SPLITS_MAX })
    }

    /// Gives a key a value, whether it had one or not. True when the key is new.
    ///
    /// A reader sees the old value or the new one, never neither.
    ///
    /// # Errors
    /// As [`BTree::insert`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.check_size(key, value)?;
        for _ in 0..SPLITS_MAX {
            let (index, is_found, mut leaf) = self.place_to_change(key)?;
            let is_put = edit(&mut leaf, |edit| match is_found {
                true => edit.replace(index, value),
                false => edit.insert(index, key, value),
            })?;
            if is_put {
                self.records.add(u64::from(!is_found));
                return Ok(!is_found);
            }
            drop(leaf);
            let is_new = !is_found;
            self.make_room(Need { key, key_len: key.len(), value_len: value.len(), is_new })?;
        }
        Err(IndexError::Contended { turns: SPLITS_MAX })
    }

    /// Has a key's value changed in place; its length stays. `None` when the key has no value.
    ///
    /// The leaf is held for writing until `change` returns, so `change` must not use the tree: it
    /// would wait for itself and end as [`terrace_pool::PoolError::LatchTimeout`].
    ///
    /// # Errors
    /// As [`BTree::get`].
    pub fn update<T>(&self, key: &[u8], change: impl FnOnce(&mut [u8]) -> T) -> Result<Option<T>> {
        let Place { index, leaf: Some(mut leaf), .. } = self.place(key, |found| found)? else {
            return Ok(None);
        };
        edit(&mut leaf, |edit| edit.value_mut(index).map(|value| Some(change(value))))
    }

    /// Removes a key and its value. False when it was not there.
    ///
    /// A leaf that is left with less than a quarter of its bytes is merged with its neighbour, or
    /// gets records of it.
    ///
    /// # Errors
    /// As [`BTree::get`]. Pages that cannot be had for a merge are left for the next.
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        let Place { index, leaf: Some(mut leaf), .. } = self.place(key, |found| found)? else {
            return Ok(false);
        };
        let used = edit(&mut leaf, |edit| edit.remove(index).map(|()| edit.used_bytes()))?;
        self.records.take(1);
        drop(leaf);
        if used < self.page_bytes / 4 {
            self.merge_up(key)?;
        }
        Ok(true)
    }

    /// The place of a key. Its leaf is held if `is_wanted` says so of whether the key was found.
    fn place(&self, key: &[u8], is_wanted: impl Fn(bool) -> bool) -> Result<Place<'_, P>> {
        for _ in 0..RESTARTS {
            if let Some(place) = self.try_place(key, &is_wanted)? {
                return Ok(place);
            }
            std::hint::spin_loop();
        }
        let leaf = self.fix_pair(key, 0)?.node;
        let (index, is_found) = leaf.check(leaf.view()?.search(key))?;
        Ok(Place { index, is_found, leaf: is_wanted(is_found).then_some(leaf) })
    }

    fn place_to_change(&self, key: &[u8]) -> Result<ToChange<'_, P>> {
        match self.place(key, |_| true)? {
            Place { index, is_found, leaf: Some(leaf) } => Ok((index, is_found, leaf)),
            Place { leaf: None, .. } => unreachable!("every place was wanted"),
        }
    }

    #[inline(always)]
    fn try_place(
        &self,
        key: &[u8],
        is_wanted: &impl Fn(bool) -> bool,
    ) -> Result<Option<Place<'_, P>>> {
        let Some(look) = self.look_for_leaf(Seek::At(key))? else { return Ok(None) };
        let (index, is_found) = match Node::open(&look.guard).and_then(|leaf| leaf.search(key)) {
            Ok(place) => place,
            Err(fault) => return self.doubt(&look, fault),
        };
        if !is_wanted(is_found) {
            let place = Place { index, is_found, leaf: None };
            return Ok(look.guard.is_valid().then_some(place));
        }
        let leaf = self.upgrade(&look)?;
        Ok(leaf.map(|leaf| Place { index, is_found, leaf: Some(leaf) }))
    }
}

/// Changes a page.
fn edit<P: Pages, T>(
    leaf: &mut Page<'_, P>,
    change: impl FnOnce(&mut Edit<'_>) -> Result<T, Fault>,
) -> Result<T> {
    let changed = Edit::open(&mut leaf.held).and_then(|mut edit| change(&mut edit));
    in_page(leaf.page.id(), changed)
}
