//! Look-ups of single keys.

use std::cell::Cell;

use terrace_pool::Pages;

use crate::error::{Fault, Result};
use crate::tree::btree::BTree;
use crate::tree::node::{Node, Seek};
use crate::tree::source::Source;
use crate::tree::walk::Visit;

thread_local! {
    /// Buffer that values are copied to before they are validated. It is taken out while in use, so
    /// that a callback that gets a value may use the tree.
    pub(super) static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Copies a key's value and returns its length, or `None` if there is no such key.
pub(super) struct CopyValue<'v, 'k> {
    pub(super) key: &'k [u8],
    pub(super) value: &'v mut Vec<u8>,
}

impl Visit for CopyValue<'_, '_> {
    type Out = Option<usize>;

    #[inline]
    fn leaf<S: Source + ?Sized>(&mut self, leaf: Node<'_, S>) -> Result<Option<usize>, Fault> {
        match leaf.search(self.key)? {
            (index, true) => leaf.copy_value(index, self.value).map(Some),
            _ => Ok(None),
        }
    }
}

impl<P: Pages> BTree<P> {
    /// Returns a copy of a key's value.
    ///
    /// # Errors
    /// [`crate::IndexError::Pool`] if a page cannot be read, [`crate::IndexError::Corrupt`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_with(key, <[u8]>::to_vec)
    }

    /// Calls `read` with a key's value and returns its result. `read` gets a copy, which was the
    /// value at one moment of the call; no latch is held meanwhile, so `read` may use the tree.
    ///
    /// # Errors
    /// As [`BTree::get`].
    #[inline]
    pub fn get_with<T>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        let mut value = SCRATCH.take();
        let found = self.visit(Seek::At(key), &mut CopyValue { key, value: &mut value });
        let out = found.map(|len| len.map(|len| read(&value[..len])));
        SCRATCH.set(value);
        out
    }

    /// Copies a key's value over the contents of `value`. Returns false, and leaves `value` empty,
    /// if the key has none.
    ///
    /// # Errors
    /// As [`BTree::get`].
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.visit(Seek::At(key), &mut CopyValue { key, value });
        value.truncate(*found.as_ref().ok().and_then(Option::as_ref).unwrap_or(&0));
        Ok(found?.is_some())
    }

    /// True if a key has a value.
    ///
    /// # Errors
    /// As [`BTree::get`].
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get_with(key, |_| ())?.is_some())
    }
}
