//! Bulk load: builds a tree from sorted records, leaf by leaf.

use terrace_pool::{PageRef, Pages};

use crate::error::{IndexError, Result, in_page};
use crate::tree::btree::{BTree, TreeConfig};
use crate::tree::node::{CHILD, ENTRY, HEADER, heap_bytes};
use crate::tree::records::{Frame, Records, common, separator};
use crate::tree::split::Fresh;

/// The node of a level that is being filled.
#[derive(Default)]
struct Filling {
    records: Records,
    /// Bytes of the records in a node without a prefix.
    bytes: usize,
    lower: Vec<u8>,
}

/// A tree under construction, with one node being filled on each level.
struct Builder<'t, P: Pages> {
    tree: &'t BTree<P>,
    levels: Vec<Filling>,
    made: Vec<PageRef>,
}

impl<P: Pages> BTree<P> {
    /// Builds a tree with full pages from records in ascending order of their keys.
    ///
    /// # Errors
    /// [`IndexError::Order`] if a key is not above the one before it; otherwise as [`BTree::new`]
    /// and [`BTree::insert`]. On an error, the pages allocated so far are freed.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        pages: P,
        config: &TreeConfig,
        sorted: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self> {
        let tree = Self::new(pages, config)?;
        let mut builder = Builder { tree: &tree, levels: Vec::new(), made: Vec::new() };
        let built = builder.add_all(sorted).and_then(|records| {
            builder.finish()?;
            Ok(records)
        });
        match built {
            Ok(records) => {
                tree.records.add(records);
                Ok(tree)
            }
            Err(error) => {
                for page in builder.made.drain(..).chain([tree.root()]) {
                    tree.pages.free(page)?;
                }
                Err(error)
            }
        }
    }
}

impl<P: Pages> Builder<'_, P> {
    fn add_all<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        sorted: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        self.levels.push(Filling::default());
        let (mut before, mut records) = (Vec::new(), 0);
        for (key, value) in sorted {
            let (key, value) = (key.as_ref(), value.as_ref());
            self.tree.check_size(key, value)?;
            if records > 0 && key <= before.as_slice() {
                return Err(IndexError::Order { record: records });
            }
            let need = heap_bytes(0, key.len(), value.len()) + ENTRY;
            if !self.has_room(0, need, key) {
                let cut = separator(&before, key).to_vec();
                self.close(0, &cut)?;
            }
            self.levels[0].records.push(key, value);
            self.levels[0].bytes += need;
            before.clear();
            before.extend_from_slice(key);
            records += 1;
        }
        Ok(records)
    }

    /// True if the node being filled may have room for a record. This is an estimate, as the upper
    /// fence is not known yet; [`Builder::close`] is exact.
    fn has_room(&self, level: usize, need: usize, key: &[u8]) -> bool {
        let Filling { records, bytes, lower } = &self.levels[level];
        let child = if level == 0 { 0 } else { CHILD };
        let prefix = common(lower, key) * (records.len() + 1);
        let taken = HEADER + child + lower.len() + bytes + need;
        records.len() == 0 || taken - prefix <= self.tree.page_bytes
    }

    /// Writes the records of the node being filled to a new page, as many as fit. The remaining
    /// records, all below `upper`, are the first of the next node.
    fn close(&mut self, level: usize, upper: &[u8]) -> Result<()> {
        let height = u8::try_from(level).unwrap_or(u8::MAX);
        let mut fresh = Fresh::new(&self.tree.pages, self.tree.page_bytes)?;
        let page = fresh.page;
        let bytes = in_page(page.id(), fresh.bytes())?;
        for count in (1..=self.levels[level].records.len()).rev() {
            let records = &self.levels[level].records;
            let all = count == records.len();
            let fence = if all { upper } else { records.cut(height, count) }.to_vec();
            if !self.write_to(level, count, Some(&fence), page, bytes)? {
                continue;
            }
            self.made.push(fresh.publish());
            let Filling { records, bytes, lower } = &mut self.levels[level];
            let lower = std::mem::replace(lower, fence);
            *records = records.from(count);
            *bytes = records.bytes(height);
            return self.add_child(level + 1, &lower, page);
        }
        in_page(page.id(), Err("a record does not fit in a page"))
    }

    fn add_child(&mut self, level: usize, lower: &[u8], page: PageRef) -> Result<()> {
        if self.levels.len() == level {
            self.levels.push(Filling::default());
        }
        let need = heap_bytes(1, lower.len(), 0) + ENTRY + CHILD;
        if !self.has_room(level, need, lower) {
            self.close(level, lower)?;
        }
        self.levels[level].records.push_child(lower, page);
        self.levels[level].bytes += need;
        Ok(())
    }

    /// Writes the last node of a level to a new page; `None` if it does not fit.
    fn write_last(&mut self, level: usize) -> Result<Option<PageRef>> {
        let mut fresh = Fresh::new(&self.tree.pages, self.tree.page_bytes)?;
        let page = fresh.page;
        let bytes = in_page(page.id(), fresh.bytes())?;
        if !self.write_to(level, self.levels[level].records.len(), None, page, bytes)? {
            return Ok(None);
        }
        self.made.push(fresh.publish());
        Ok(Some(page))
    }

    /// Writes the first records of the node being filled over a page; false if they do not fit.
    fn write_to(
        &self,
        level: usize,
        count: usize,
        upper: Option<&[u8]>,
        page: PageRef,
        bytes: &mut [u8],
    ) -> Result<bool> {
        let Filling { records, lower, .. } = &self.levels[level];
        let height = u8::try_from(level).unwrap_or(u8::MAX);
        let frame = Frame { tree: self.tree.id, level: height, lower, upper };
        in_page(page.id(), records.write(0..count, bytes, &frame, 0))
    }

    /// Writes the last node of each level; that of the highest level becomes the root.
    fn finish(&mut self) -> Result<()> {
        let mut level = 0;
        loop {
            let count = self.levels[level].records.len();
            let is_highest = level + 1 == self.levels.len();
            if is_highest {
                let mut root = self.tree.root();
                let mut held = self.tree.pages.write(&mut root)?;
                if self.write_to(level, count, None, root, &mut held)? {
                    return Ok(());
                }
            } else if let Some(page) = self.write_last(level)? {
                let lower = std::mem::take(&mut self.levels[level].lower);
                self.add_child(level + 1, &lower, page)?;
                level += 1;
                continue;
            }
            // Without an upper fence the node has no prefix and may not fit: it is split.
            self.halve(level)?;
        }
    }

    fn halve(&mut self, level: usize) -> Result<()> {
        let records = &self.levels[level].records;
        if records.len() < 2 {
            return in_page(self.tree.root().id(), Err("a record does not fit in a page"));
        }
        let height = u8::try_from(level).unwrap_or(u8::MAX);
        let at = records.middle(height);
        let rest = records.from(at);
        let fence = records.cut(height, at).to_vec();
        self.levels[level].records = records.to(at);
        self.close(level, &fence)?;
        let Filling { records, bytes, .. } = &mut self.levels[level];
        records.extend(&rest);
        *bytes = records.bytes(height);
        Ok(())
    }
}
