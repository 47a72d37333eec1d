//! B+-tree over pages: its structure and look-ups.
//!
//! Nodes are slotted pages ([`node`]). Readers use optimistic reads and restart if a page changed
//! ([`walk`]); a writer upgrades its optimistic read of a leaf to an exclusive latch. Splits
//! ([`split`]) and merges ([`merge`]) latch a node and its parent.
//!
//! Latches are taken in the order: parent, its child, the child's siblings. A new page is latched
//! before any of them; no other thread can reach it.
//!
//! Expected cost of a look-up in DRAM: for each level the cache line of the frame and two or three
//! lines of the node; at the leaf also those of the record. Inner nodes stay in the processor's
//! caches; the five lines of the leaf do not.

mod batch;
mod bulk;
mod change;
mod edit;
mod hints;
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

pub use hints::{HintStats, RecordHint};
pub use verify::TreeShape;

/// Maximum page size of a tree: offsets in a page have 16 bits, and one value stands for none.
const TREE_PAGE_MAX_BYTES: usize = 32 << 10;

/// Configuration of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeConfig {
    /// Page size in bytes, rounded up to 4 KiB, at most 32 KiB.
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

/// An ordered index from keys to values, both arbitrary bytes: a B+-tree over a pool.
///
/// All methods may be called from any number of threads. Keys are compared as byte strings; a key
/// has one value. The pages belong to the space that the tree was created with: the pool evicts and
/// loads them, and they are freed with that space.
#[derive(Debug)]
pub struct BTree<P: Pages = Space> {
    pages: P,
    /// Reference to the root. Its page id never changes; its frame hint may.
    root: AtomicU64,
    page_bytes: usize,
    /// Id of the tree in its pages, by which a hint to a page of another tree is detected.
    id: u32,
    records: Counter,
    hint_hits: Counter,
    hint_misses: Counter,
}

thread_local! {
    /// Buffer that values are copied to before they are validated. It is taken out while in use, so
    /// that a callback that gets a value may use the tree.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Copies a key's value and returns its length, or `None` if there is no such key.
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
    /// Creates an empty tree of one page.
    ///
    /// # Errors
    /// [`IndexError::Config`] outside the limits of [`TreeConfig`]; [`IndexError::Pool`] if the
    /// page cannot be allocated.
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

    /// Returns a copy of a key's value.
    ///
    /// # Errors
    /// [`IndexError::Pool`] if a page cannot be read, [`IndexError::Corrupt`].
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

    /// Number of keys. During concurrent changes, a sum of counts that were read at different
    /// moments of the call.
    pub fn len(&self) -> u64 {
        self.records.get()
    }

    /// True if the tree has no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Maximum bytes of a key.
    pub fn key_limit(&self) -> usize {
        self.page_bytes / 8
    }

    /// Maximum bytes of a key and its value together: one such record fits in a leaf whose fences
    /// have the maximum length of a key.
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
