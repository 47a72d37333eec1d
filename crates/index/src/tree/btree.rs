//! A tree: its configuration, its root and its limits.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use terrace_pool::{Counter, PAGE_MIN_BYTES, Pages, Space};

use crate::error::{IndexError, Result, in_page};
use crate::tree::node::{ENTRY, HEADER, VALUE_LEN};
use crate::tree::records::{Frame, Records};

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
    pub(super) pages: P,
    /// Reference to the root. Its page id never changes; its frame hint may.
    pub(super) root: AtomicU64,
    pub(super) page_bytes: usize,
    /// Id of the tree in its pages, by which a hint to a page of another tree is detected.
    pub(super) id: u32,
    pub(super) records: Counter,
    pub(super) hint_hits: Counter,
    pub(super) hint_misses: Counter,
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
        in_page(page.id(), wrote)?;
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

    /// Checks that a record fits in a leaf.
    pub(super) fn check_size(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let (limit_bytes, key_limit_bytes) = (self.pair_limit(), self.key_limit());
        let (key_bytes, value_bytes) = (key.len(), value.len());
        if key_bytes <= key_limit_bytes && key_bytes.saturating_add(value_bytes) <= limit_bytes {
            return Ok(());
        }
        Err(IndexError::TooLarge { key_bytes, value_bytes, limit_bytes, key_limit_bytes })
    }
}
