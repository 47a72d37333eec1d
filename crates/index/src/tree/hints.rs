//! Look-ups that start at a leaf, by hints stored outside of the tree.

use terrace_pool::{PageRef, Pages};

use crate::error::{Fault, Result};
use crate::tree::btree::BTree;
use crate::tree::lookup::{CopyValue, SCRATCH};
use crate::tree::node::{Node, Seek, Span};
use crate::tree::source::Source;
use crate::tree::walk::{Look, RESTARTS, Visit};

/// Hint to the location of a record: a reference to the leaf in which it was last found.
///
/// A hint is never trusted: a look-up that follows it checks that the leaf is still the key's, and
/// otherwise descends from the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHint(PageRef);

impl RecordHint {
    /// Creates the hint of a record that was not found yet.
    pub fn none() -> Self {
        Self::from_bits(u64::MAX)
    }

    /// Encodes the hint as a word, for storage in a page.
    pub fn to_bits(self) -> u64 {
        self.0.to_bits()
    }

    /// Decodes a hint from [`RecordHint::to_bits`]; any other word is a wrong hint.
    pub fn from_bits(bits: u64) -> Self {
        Self(PageRef::from_bits(bits))
    }
}

impl Default for RecordHint {
    fn default() -> Self {
        Self::none()
    }
}

/// Hits and misses of record hints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HintStats {
    /// Look-ups that a hint answered.
    pub hits: u64,
    /// Look-ups that descended from the root, as there was no hint or it was wrong.
    pub misses: u64,
}

/// Finds a key in the leaf of a hint. `None` if the leaf is not the key's.
struct InLeaf<'v, 'k> {
    tree: u32,
    copy: CopyValue<'v, 'k>,
}

impl Visit for InLeaf<'_, '_> {
    type Out = Option<Option<usize>>;

    fn leaf<S: Source + ?Sized>(&mut self, leaf: Node<'_, S>) -> Result<Self::Out, Fault> {
        if leaf.level != 0 || leaf.tree() != self.tree {
            return Ok(None);
        }
        // A key belongs to one leaf; a missing key may be in another leaf unless the fences cover
        // it.
        match self.copy.leaf(leaf)? {
            None if !leaf.covers(self.copy.key)? => Ok(None),
            found => Ok(Some(found)),
        }
    }
}

impl<P: Pages> BTree<P> {
    /// Reads a value as [`BTree::get_with`] does, starting at the leaf of `hint` if that is in
    /// memory and the key's; otherwise descends from the root and corrects the hint.
    ///
    /// # Errors
    /// As [`BTree::get`].
    pub fn get_hinted<T>(
        &self,
        key: &[u8],
        hint: &mut RecordHint,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        let mut value = SCRATCH.take();
        let found = self.find_hinted(key, hint, &mut value);
        let out = found.map(|len| len.map(|len| read(&value[..len])));
        SCRATCH.set(value);
        out
    }

    /// Counts the hits and misses of hints given to [`BTree::get_hinted`].
    pub fn hint_stats(&self) -> HintStats {
        HintStats { hits: self.hint_hits.get(), misses: self.hint_misses.get() }
    }

    fn find_hinted(
        &self,
        key: &[u8],
        hint: &mut RecordHint,
        value: &mut Vec<u8>,
    ) -> Result<Option<usize>> {
        if *hint != RecordHint::none()
            && let Some(guard) = self.pages.optimistic_resident(&mut hint.0)
        {
            let look = Look { page: hint.0, guard };
            let mut visit = InLeaf { tree: self.id, copy: CopyValue { key, value } };
            // A fault means that the page was reused.
            let found = Node::open(&look.guard).and_then(|leaf| visit.leaf(leaf));
            if let Ok(Some(found)) = found
                && look.guard.is_valid()
            {
                self.hint_hits.add(1);
                return Ok(found);
            }
        }
        self.hint_misses.add(1);
        let mut visit = CopyValue { key, value };
        for _ in 0..RESTARTS {
            let Some(look) = self.look_for_leaf(Seek::At(key))? else { continue };
            match Node::open(&look.guard).and_then(|leaf| visit.leaf(leaf)) {
                Ok(found) if look.guard.is_valid() => {
                    *hint = RecordHint(look.page);
                    return Ok(found);
                }
                Ok(_) => {}
                Err(fault) => drop(self.doubt::<()>(&look, fault)?),
            }
        }
        self.visit_held(Seek::At(key), &mut visit)
    }

    /// Replaces the hint that is a key's value by a corrected one. If only the frame differs, the
    /// page does not become dirty, as with hints in inner nodes.
    pub(crate) fn mend_hint(&self, key: &[u8], old: RecordHint, new: RecordHint) -> Result<()> {
        if old.0.id() != new.0.id() {
            let (old, new) = (old.to_bits().to_le_bytes(), new.to_bits().to_le_bytes());
            return self
                .update(key, |value| {
                    if *value == old {
                        value.copy_from_slice(&new);
                    }
                })
                .map(|_| ());
        }
        let Some(look) = self.look_for_leaf(Seek::At(key))? else { return Ok(()) };
        let place = Node::open(&look.guard).and_then(|leaf| match leaf.search(key)? {
            (index, true) => leaf.value_span(index).map(Some),
            _ => Ok(None),
        });
        // If the repair fails now, the next look-up finds the hint wrong again and retries.
        if let Ok(Some(Span { at, len: size })) = place
            && size == size_of::<u64>()
        {
            look.guard.repair(at, new.0);
        }
        Ok(())
    }
}
