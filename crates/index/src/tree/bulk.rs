//! Building a tree from sorted records, leaf by leaf.

use terrace_pool::{PageRef, Pages};

use crate::error::{IndexError, Result, in_page};
use crate::tree::node::{CHILD, ENTRY, HEADER, heap_bytes};
use crate::tree::records::{Frame, Records, separator};
use crate::tree::split::Fresh;
use crate::tree::{BTree, TreeConfig};

/// The node of a level that is being filled.
#[derive(Default)]
struct Filling {
    records: Records,
    /// Bytes that the records take in a node without a prefix.
    bytes: usize,
    lower: Vec<u8>,
}

/// A tree that is being built: on each level one node that is not full yet.
struct Builder<'t, P: Pages> {
    tree: &'t BTree<P>,
    levels: Vec<Filling>,
    made: Vec<PageRef>,
}

impl<P: Pages> BTree<P> {
    /// A tree of records in ascending order of their keys, with full pages.
    ///
    /// # Errors
    /// [`IndexError::Order`] where a key is not above the one before it; otherwise as
    /// [`BTree::new`] and [`BTree::insert`]. Then the pages made so far are freed.
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
                builder.made.drain(..).for_each(|page| tree.pages.free(page));
                tree.pages.free(tree.root());
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
            if !self.has_room(0, need, key.len()) {
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

    /// Whether the node being filled has room for a record, and then for its fences.
    fn has_room(&self, level: usize, need: usize, key_len: usize) -> bool {
        let filling = &self.levels[level];
        // A leaf's upper fence is at most a byte longer than its last key.
        let (child, upper) = match level {
            0 => (0, key_len + 1),
            _ => (CHILD, self.tree.key_limit()),
        };
        let fences = filling.lower.len() + upper + 2;
        filling.records.len() == 0
            || HEADER + child + fences + filling.bytes + need <= self.tree.page_bytes
    }

    /// Writes the node being filled to a page of its own, below `upper`, and begins the next.
    fn close(&mut self, level: usize, upper: &[u8]) -> Result<()> {
        let page = self.write(level, Some(upper))?;
        let lower = std::mem::replace(&mut self.levels[level].lower, upper.to_vec());
        self.levels[level].records.clear();
        self.levels[level].bytes = 0;
        self.add_child(level + 1, &lower, page)
    }

    fn add_child(&mut self, level: usize, lower: &[u8], page: PageRef) -> Result<()> {
        if self.levels.len() == level {
            self.levels.push(Filling::default());
        }
        let need = heap_bytes(1, lower.len(), 0) + ENTRY + CHILD;
        if !self.has_room(level, need, lower.len()) {
            self.close(level, lower)?;
        }
        self.levels[level].records.push_child(lower, page);
        self.levels[level].bytes += need;
        Ok(())
    }

    fn write(&mut self, level: usize, upper: Option<&[u8]>) -> Result<PageRef> {
        let mut fresh = Fresh::new(&self.tree.pages, self.tree.page_bytes)?;
        let page = fresh.page;
        let bytes = in_page(page.id(), fresh.bytes())?;
        self.write_to(level, upper, page, bytes)?;
        self.made.push(fresh.publish());
        Ok(page)
    }

    fn write_to(
        &self,
        level: usize,
        upper: Option<&[u8]>,
        page: PageRef,
        bytes: &mut [u8],
    ) -> Result<()> {
        let Filling { records, lower, .. } = &self.levels[level];
        let height = u8::try_from(level).unwrap_or(u8::MAX);
        let frame = Frame { tree: self.tree.id, level: height, lower, upper };
        let wrote = records.write(0..records.len(), bytes, &frame, 0);
        match in_page(page.id(), wrote)? {
            true => Ok(()),
            false => in_page(page.id(), Err("its records do not fit in it")),
        }
    }

    /// Writes the last node of each level; that of the highest becomes the root.
    fn finish(&mut self) -> Result<()> {
        let mut level = 0;
        while level + 1 < self.levels.len() {
            let page = self.write(level, None)?;
            let lower = std::mem::take(&mut self.levels[level].lower);
            self.add_child(level + 1, &lower, page)?;
            level += 1;
        }
        let mut root = self.tree.root();
        let mut held = self.tree.pages.write(&mut root)?;
        self.write_to(level, None, root, &mut held)
    }
}
