//! Changes to a tree: insert, put, update, remove.
//!
//! A writer descends to the leaf by optimistic reads, as a reader does, and finds the key. If
//! nothing has to change it takes no latch; otherwise it upgrades to an exclusive latch, which
//! fails if the leaf has changed since it was read.

use terrace_pool::Pages;

use crate::error::{Fault, IndexError, Result, in_page};
use crate::tree::btree::BTree;
use crate::tree::edit::Edit;
use crate::tree::node::{Node, Seek};
use crate::tree::split::Need;
use crate::tree::walk::{Page, RESTARTS};

/// Maximum number of splits of one insertion. One is enough unless concurrent writers take the
/// room; this many indicate an error.
const SPLITS_MAX: usize = 1_000;

/// Position of a key in a leaf, or of its insertion.
struct KeyPosition<'t, P: Pages> {
    index: usize,
    is_found: bool,
    /// The leaf under an exclusive latch; `None` if nothing is to be changed.
    leaf: Option<Page<'t, P>>,
}

/// The index of a key, true if it was found, and its leaf under an exclusive latch.
type ToChange<'t, P> = (usize, bool, Page<'t, P>);

impl<P: Pages> BTree<P> {
    /// Inserts a new key. Returns false, and changes nothing, if the key exists.
    ///
    /// # Errors
    /// [`IndexError::TooLarge`]; [`IndexError::Pool`] if a page cannot be read or allocated and
    /// [`IndexError::Contended`], after which the records are unchanged; [`IndexError::Corrupt`].
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.check_size(key, value)?;
        for _ in 0..SPLITS_MAX {
            let KeyPosition { index, leaf: Some(mut leaf), .. } =
                self.place(key, |found| !found)?
            else {
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

    /// Inserts a key or replaces its value. Returns true if the key is new.
    ///
    /// A concurrent reader of an existing key gets the old value or the new one, never none.
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

    /// Changes a key's value in place; its length stays the same. `None` if the key has no value.
    ///
    /// The leaf is latched exclusively until `change` returns, so `change` must not use the tree:
    /// it would deadlock and fail with [`terrace_pool::PoolError::LatchTimeout`].
    ///
    /// # Errors
    /// As [`BTree::get`].
    pub fn update<T>(&self, key: &[u8], change: impl FnOnce(&mut [u8]) -> T) -> Result<Option<T>> {
        let KeyPosition { index, leaf: Some(mut leaf), .. } = self.place(key, |found| found)?
        else {
            return Ok(None);
        };
        edit(&mut leaf, |edit| edit.value_mut(index).map(|value| Some(change(value))))
    }

    /// Removes a key and its value. Returns false if the key did not exist.
    ///
    /// A leaf that uses less than a quarter of its page afterwards is merged with a sibling, or
    /// takes records from it.
    ///
    /// # Errors
    /// As [`BTree::get`]. A merge that the pool fails is left to a later removal.
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        let KeyPosition { index, leaf: Some(mut leaf), .. } = self.place(key, |found| found)?
        else {
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

    /// Finds the position of a key. The leaf is latched if `is_wanted` returns true for whether the
    /// key was found.
    fn place(&self, key: &[u8], is_wanted: impl Fn(bool) -> bool) -> Result<KeyPosition<'_, P>> {
        for _ in 0..RESTARTS {
            if let Some(place) = self.try_place(key, &is_wanted)? {
                return Ok(place);
            }
            std::hint::spin_loop();
        }
        let leaf = self.fix_pair(key, 0)?.node;
        let (index, is_found) = leaf.check(leaf.view()?.search(key))?;
        Ok(KeyPosition { index, is_found, leaf: is_wanted(is_found).then_some(leaf) })
    }

    fn place_to_change(&self, key: &[u8]) -> Result<ToChange<'_, P>> {
        match self.place(key, |_| true)? {
            KeyPosition { index, is_found, leaf: Some(leaf) } => Ok((index, is_found, leaf)),
            KeyPosition { leaf: None, .. } => unreachable!("every place was wanted"),
        }
    }

    #[inline(always)]
    fn try_place(
        &self,
        key: &[u8],
        is_wanted: &impl Fn(bool) -> bool,
    ) -> Result<Option<KeyPosition<'_, P>>> {
        let Some(look) = self.look_for_leaf(Seek::At(key))? else { return Ok(None) };
        let (index, is_found) = match Node::open(&look.guard).and_then(|leaf| leaf.search(key)) {
            Ok(place) => place,
            Err(fault) => return self.doubt(&look, fault),
        };
        if !is_wanted(is_found) {
            let place = KeyPosition { index, is_found, leaf: None };
            return Ok(look.guard.is_valid().then_some(place));
        }
        let leaf = self.upgrade(&look)?;
        Ok(leaf.map(|leaf| KeyPosition { index, is_found, leaf: Some(leaf) }))
    }
}

/// Applies a change to a page.
fn edit<P: Pages, T>(
    leaf: &mut Page<'_, P>,
    change: impl FnOnce(&mut Edit<'_>) -> Result<T, Fault>,
) -> Result<T> {
    let changed = Edit::open(&mut leaf.held).and_then(|mut edit| change(&mut edit));
    in_page(leaf.page.id(), changed)
}
