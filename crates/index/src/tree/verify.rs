//! Size and integrity checks of a tree.

use terrace_pool::{PageId, PageRef, Pages};

use crate::error::{Fault, Result, in_page};
use crate::tree::btree::BTree;
use crate::tree::node::{View, arrays_end, head_of, heap_bytes};
use crate::tree::walk::lost_child;

/// Size of a tree: its pages and records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeShape {
    /// Number of levels, from the root to the leaves.
    pub height: u64,
    /// Number of inner nodes.
    pub inner_pages: u64,
    /// Number of leaves.
    pub leaves: u64,
    /// Number of records.
    pub records: u64,
    /// Bytes in use in all pages: headers, keys, values and entries.
    pub used_bytes: u64,
}

/// Properties of a node that its parent determines.
struct Expected<'e> {
    level: Option<u8>,
    lower: &'e [u8],
    upper: Option<&'e [u8]>,
}

impl<P: Pages> BTree<P> {
    /// Counts pages and records by reading the whole tree. Concurrent changes may or may not be
    /// counted.
    ///
    /// # Errors
    /// As [`BTree::verify`].
    pub fn shape(&self) -> Result<TreeShape> {
        self.verify()
    }

    /// Reads the whole tree and checks every page: order, fences, heads, lengths, levels.
    ///
    /// # Errors
    /// [`crate::IndexError::Pool`] if a page cannot be read; [`crate::IndexError::Corrupt`] with
    /// the first damage found.
    pub fn verify(&self) -> Result<TreeShape> {
        let mut shape = TreeShape::default();
        let mut root = self.root();
        let held = self.pages.read(&mut root)?;
        let view = in_page(root.id(), View::open(&held))?;
        shape.height = u64::from(view.level) + 1;
        let expected = Expected { level: None, lower: &[], upper: None };
        self.check_node(root.id(), view, &expected, &mut shape)?;
        Ok(shape)
    }

    /// Checks a node, which the caller has latched, and the subtree below it.
    fn check_node(
        &self,
        id: PageId,
        view: View<'_>,
        expected: &Expected<'_>,
        shape: &mut TreeShape,
    ) -> Result<()> {
        in_page(id, check_page(&view, self.id, expected))?;
        let used = in_page(id, live_bytes(&view))? + arrays_end(view.level, view.count);
        shape.used_bytes += used as u64;
        if view.level == 0 {
            shape.leaves += 1;
            shape.records += view.count as u64;
            return Ok(());
        }
        shape.inner_pages += 1;
        let mut lower = expected.lower.to_vec();
        for index in 0..=view.count {
            let mut upper = Vec::new();
            let is_last = index == view.count;
            if !is_last {
                in_page(id, view.append_key(index, &mut upper))?;
            }
            let child = in_page(id, view.child(index))?;
            let fence = if is_last { expected.upper } else { Some(upper.as_slice()) };
            let below = Expected { level: view.level.checked_sub(1), lower: &lower, upper: fence };
            self.check_child(id, child, &below, shape)?;
            lower = upper;
        }
        Ok(())
    }

    fn check_child(
        &self,
        parent: PageId,
        mut page: PageRef,
        expected: &Expected<'_>,
        shape: &mut TreeShape,
    ) -> Result<()> {
        let held = self.pages.read(&mut page).map_err(|error| lost_child(parent, error))?;
        let view = in_page(page.id(), View::open(&held))?;
        self.check_node(page.id(), view, expected, shape)
    }
}

fn live_bytes(view: &View<'_>) -> Result<usize, Fault> {
    let mut live = view.lower()?.len().next_multiple_of(2);
    live += view.upper()?.map_or(0, |upper| upper.len().next_multiple_of(2));
    for index in 0..view.count {
        let value_len = if view.level == 0 { view.value(index)?.len() } else { 0 };
        live += heap_bytes(view.level, view.suffix(index)?.len(), value_len);
    }
    Ok(live)
}

fn check_page(view: &View<'_>, tree: u32, expected: &Expected<'_>) -> Result<(), Fault> {
    if expected.level.is_some_and(|level| level != view.level) {
        return Err("its level is not the one below its parent's");
    }
    if view.tree() != tree {
        return Err("it is a page of another tree");
    }
    if view.lower()? != expected.lower || view.upper()? != expected.upper {
        return Err("its fences are not its parent's keys");
    }
    if live_bytes(view)? != view.live() {
        return Err("its counts are wrong");
    }
    let (mut before, mut key): (Option<Vec<u8>>, _) = (None, Vec::new());
    for index in 0..view.count {
        key.clear();
        view.append_key(index, &mut key)?;
        let (first, suffix) = (view.suffix(0)?, view.suffix(index)?);
        if suffix.get(..view.skip()).is_none_or(|skipped| !first.starts_with(skipped)) {
            return Err("its keys are not alike where heads leave them out");
        }
        if view.head(index) != head_of(&suffix[view.skip()..]) {
            return Err("a head is not that of its key");
        }
        if !view.covers(&key)? {
            return Err("a key is outside of its fences");
        }
        if before.as_ref().is_some_and(|before| *before >= key) {
            return Err("its keys are out of order");
        }
        if view.search(&key)? != (index, true) {
            return Err("a key cannot be found");
        }
        before = Some(key.clone());
    }
    Ok(())
}
