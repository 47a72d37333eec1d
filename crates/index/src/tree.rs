//! A B+-tree over pages: what it is made of, and look-ups.
//!
//! Nodes are slotted pages ([`node`]). Readers look at pages without holding them and begin again
//! where one changed ([`walk`]); writers make the look at the leaf they change a hold. Splits
//! ([`split`]) and merges ([`merge`]) hold a node and its parent.
//!
//! Latches are taken in the order: parent, its child, that child's siblings. A new page is held
//! from before, and nobody knows it.
//!
//! Expected cost of a look-up in DRAM: for each level the line of the frame and two or three lines
//! of the node, at the leaf those of the record. Inner nodes stay in the processor's caches; the
//! leaf's five lines do not.

mod batch;
mod bulk;
mod change;
mod edit;
mod hinted;
mod merge;
mod node;
mod records;
mod scan;
mod source;
mod split;
mod verify;
mod walk;

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use terrace_pool::{Counter, PAGE_MIN_BYTES, Pages, Space};

use crate::error::{Fault, IndexError, Result};
use crate::tree::node::{ENTRY, HEADER, Node, Seek, VALUE_LEN};
use crate::tree::records::{Frame, Records};
use crate::tree::source::Source;
use crate::tree::walk::Visit;

pub use hinted::{HintStats, RecordHint};
pub use verify::TreeShape;

/// Bytes of the largest page of a tree: places in a page have 16 bits, and one stands for none.
const TREE_PAGE_MAX_BYTES: usize = 32 << 10;

/// How a tree is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeConfig {
    /// Bytes of a page, rounded up to 4 KiB, at most 32 KiB.
    pub page_bytes: usize,
}

impl TreeConfig {
    fn page_bytes(self) -> Result<usize> {
        if !(1..=TREE_PAGE_MAX_BYTES).contains(&self.page_bytes) {
            return Err(IndexError::Config(format!(
                "pages of a tree have {PAGE_MIN_BYTES} to {TREE_PAGE_MAX_BYTES} bytes, not {}",
                self.page_bytes
            )));
        }
        Ok(self.page_bytes.next_multiple_of(PAGE_MIN_BYTES))
    }
}

/// An ordered index from keys to values, both of any bytes: a B+-tree over a pool.
///
/// All methods may be called from any number of threads. Keys are compared as byte strings; a key
/// has one value. The pages are in the space that the tree was made with, evicted and brought back
/// as the pool sees fit, and go with that space.
#[derive(Debug)]
pub struct BTree<P: Pages = Space> {
    pages: P,
    /// The root's reference. Its page is the same for ever.
    root: AtomicU64,
    page_bytes: usize,
    /// Tells pages of this tree from those of others, for hints from outside.
    id: u32,
    records: Counter,
    hint_hits: Counter,
    hint_misses: Counter,
}

thread_local! {
    /// Where values are copied to before they are believed. Taken out while it is in use, so that
    /// whoever sees a value may use the tree.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Copies a key's value; its length, or `None` when there is no such key.
struct CopyValue<'v, 'k> {
    key: &'k [u8],
    value: &'v mut Vec<u8>,
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
    /// An empty tree, of one page.
    ///
    /// # Errors
    /// [`IndexError::Config`] outside the limits of [`TreeConfig`]; [`IndexError::Pool`] when the
    /// page cannot be had.
    pub fn new(pages: P, config: &TreeConfig) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let page_bytes = config.page_bytes()?;
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let frame = Frame { tree: id, level: 0, lower: &[], upper: None };
        let (page, mut bytes) = pages.allocate(page_bytes)?;
        let wrote = Records::default().write(0..0, &mut bytes, &frame, 0);
        crate::error::in_page(page.id(), wrote)?;
        drop(bytes);
        Ok(Self {
            root: AtomicU64::new(page.to_bits()),
            pages,
            page_bytes,
            id,
            records: Counter::default(),
            hint_hits: Counter::default(),
            hint_misses: Counter::default(),
        })
    }

    /// A copy of a key's value.
    ///
    /// # Errors
    /// [`IndexError::Pool`] when a page cannot be had, [`IndexError::Corrupt`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_with(key, <[u8]>::to_vec)
    }

    /// What `read` makes of a key's value. It sees a copy, which was the value at one moment of the
    /// call; nothing is held meanwhile, so `read` may use the tree.
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

    /// Copies a key's value into `value`, in place of what was there. False, and `value` empty,
    /// when the key has none.
    ///
    /// # Errors
    /// As [`BTree::get`].
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.visit(Seek::At(key), &mut CopyValue { key, value });
        value.truncate(*found.as_ref().ok().and_then(Option::as_ref).unwrap_or(&0));
        Ok(found?.is_some())
    }

    /// Whether a key has a value.
    ///
    /// # Errors
    /// As [`BTree::get`].
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get_with(key, |_| ())?.is_some())
    }

    /// How many keys there are. While others change the tree, how many there were at some moments
    /// of the call, added up.
    pub fn len(&self) -> u64 {
        self.records.get()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that a key may have.
    pub fn key_limit(&self) -> usize {
        self.page_bytes / 8
    }

    /// Bytes that a key and its value may have together: what fits in a leaf with fences that are
    /// as long as keys can be.
    pub fn pair_limit(&self) -> usize {
        self.page_bytes - HEADER - 2 * self.key_limit() - ENTRY - VALUE_LEN - 1
    }

    fn check_size(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let (limit_bytes, key_limit_bytes) = (self.pair_limit(), self.key_limit());
        let (key_bytes, value_bytes) = (key.len(), value.len());
        if key_bytes <= key_limit_bytes && key_bytes.saturating_add(value_bytes) <= limit_bytes {
            return Ok(());
        }
        Err(IndexError::TooLarge { key_bytes, value_bytes, limit_bytes, key_limit_bytes })
    }
}

#[cfg(test)]
mod tests;
