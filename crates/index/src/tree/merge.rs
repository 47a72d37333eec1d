//! Merging small nodes and freeing their pages.
//!
//! A node that uses less than a quarter of its page is merged with a sibling, the next one if there
//! is one, and again while the result is small; if both do not fit in one page, they share their
//! records evenly. The header of the emptied page is cleared before the page is freed, so that a
//! reader with an old reference does not take it for a node. A root with one child takes over the
//! contents of the child.

use terrace_pool::Pages;

use crate::error::{IndexError, Result, in_page};
use crate::tree::btree::BTree;
use crate::tree::edit::{Edit, Fit};
use crate::tree::node::{Node, Seek};
use crate::tree::records::{Frame, Records};
use crate::tree::walk::{Held, Page, Pair, lost_child};

/// Result of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Merged {
    /// The nodes above are not affected.
    Done,
    /// The parent may be small now.
    Parent,
    /// The merged node is small too, and has a sibling.
    Again,
    /// The node is its parent's only child: the parent needs children of a sibling first, or is a
    /// root to be shrunk.
    Alone,
}

impl<P: Pages> BTree<P> {
    /// Merges the leaf of `key`, and the nodes above it that become small.
    #[cold]
    pub(crate) fn merge_up(&self, key: &[u8]) -> Result<()> {
        match self.merge_from(key, 0) {
            // If the pool fails the node stays small, which is valid.
            Err(IndexError::Pool(_)) => Ok(()),
            merged => merged,
        }
    }

    fn merge_from(&self, key: &[u8], level: u8) -> Result<()> {
        // Each iteration is one level higher.
        for level in level..u8::MAX {
            let mut merged = self.merge(key, level)?;
            // The parent lost children, so the level above is checked whatever the result.
            let lost_some = merged == Merged::Again;
            while merged == Merged::Again {
                merged = self.merge(key, level)?;
            }
            match merged {
                Merged::Done if !lost_some => return Ok(()),
                Merged::Done | Merged::Parent | Merged::Again => {}
                Merged::Alone => {
                    self.merge_from(key, level + 1)?;
                    return self.merge(key, level).map(|_| ());
                }
            }
        }
        Ok(())
    }

    /// Loads the sibling that a node would be merged with before latches are taken, so that no
    /// other thread waits for the read. Concurrent changes are detected later.
    fn fetch_sibling(&self, key: &[u8], level: u8) -> Result<()> {
        let Some((Some((parent, index)), _)) = self.look_for_pair(Seek::At(key), level)? else {
            return Ok(());
        };
        let sibling = Node::open(&parent.guard).and_then(|node| {
            node.child(if index == node.count { index.saturating_sub(1) } else { index + 1 })
        });
        if let Ok(mut page) = sibling
            && parent.guard.is_valid()
            && self.pages.optimistic_resident(&mut page).is_none()
        {
            // An error is met again by the merge.
            drop(self.pages.load(&mut [page]));
        }
        Ok(())
    }

    /// Merges a node if it is small.
    fn merge(&self, key: &[u8], level: u8) -> Result<Merged> {
        self.fetch_sibling(key, level)?;
        let Pair { parent, mut node } = self.hold_pair(key, level)?;
        let (is_small, count) = {
            let edit = in_page(node.page.id(), Edit::open(&mut node.held))?;
            (edit.used_bytes() < self.page_bytes / 4, edit.count())
        };
        let node_level = node.view()?.level;
        let Some((mut parent, index)) = parent else {
            if node_level == 0 || count > 0 {
                return Ok(Merged::Done);
            }
            self.shrink(node)?;
            return Ok(Merged::Parent);
        };
        if !is_small || node_level != level {
            return Ok(Merged::Done);
        }
        if parent.view()?.count == 0 {
            return Ok(Merged::Alone);
        }
        let is_last = index == parent.view()?.count;
        let sibling = if is_last { index - 1 } else { index + 1 };
        let mut page = parent.check(parent.view()?.child(sibling))?;
        let held = self.pages.write(&mut page);
        let held = held.map_err(|error| lost_child(parent.page.id(), error))?;
        let other = Page { page, held: Held::Fixed(held) };
        match is_last {
            true => self.join(&mut parent, index - 1, other, node),
            false => self.join(&mut parent, index, node, other),
        }
    }

    /// Merges two siblings into one page, or shares their records; `index` is that of the left one.
    fn join<'t>(
        &'t self,
        parent: &mut Page<'_, P>,
        index: usize,
        mut left: Page<'t, P>,
        mut right: Page<'t, P>,
    ) -> Result<Merged> {
        let (first, second) = (left.view()?, right.view()?);
        if first.level != second.level {
            return right.check(Err("its level is not that of its sibling"));
        }
        let mut records = left.check(Records::of(&first))?;
        right.check(records.append(&second))?;
        let frame = Frame {
            tree: self.id,
            level: first.level,
            lower: left.check(first.lower())?,
            upper: right.check(second.upper())?,
        };
        let mut bytes = vec![0; left.held.len()];
        if !left.check(records.write(0..records.len(), &mut bytes, &frame, 0))? {
            return self.share(parent, index, [left, right], &records);
        }
        let page = parent.page.id();
        let mut above = in_page(page, Edit::open(&mut parent.held))?;
        in_page(page, above.remove(index))?;
        let (is_small, is_alone) = (above.used_bytes() < self.page_bytes / 4, above.count() == 0);
        left.held.copy_from_slice(&bytes);
        let used = in_page(left.page.id(), Edit::open(&mut left.held))?.used_bytes();
        Edit::bury(&mut right.held);
        let Page { page, held } = right;
        drop(held);
        self.pages.free(page)?;
        Ok(match is_small {
            _ if used < self.page_bytes / 4 && !is_alone => Merged::Again,
            true => Merged::Parent,
            false => Merged::Done,
        })
    }

    /// Moves half of the records to each of two siblings, if the parent has room for the separator.
    fn share(
        &self,
        parent: &mut Page<'_, P>,
        index: usize,
        [mut left, mut right]: [Page<'_, P>; 2],
        records: &Records,
    ) -> Result<Merged> {
        let level = left.view()?.level;
        if records.len() < 2 {
            return left.check(Err("it has no records and no room"));
        }
        let at = records.middle(level);
        let separator = records.cut(level, at);
        let (first, second) = (left.view()?, right.view()?);
        let whole = Frame {
            tree: self.id,
            level,
            lower: left.check(first.lower())?,
            upper: right.check(second.upper())?,
        };
        let mut halves = [vec![0; left.held.len()], vec![0; right.held.len()]];
        let frame = Frame { upper: Some(separator), ..whole };
        let wrote = left.check(records.write(0..at, &mut halves[0], &frame, 0))?;
        let frame = Frame { lower: separator, ..whole };
        let range = at..records.len();
        let wrote_right = right.check(records.write(range, &mut halves[1], &frame, 0))?;
        let page = parent.page.id();
        let mut above = in_page(page, Edit::open(&mut parent.held))?;
        let has_room = above.fit(separator.len(), 0) != Fit::Not;
        if wrote && wrote_right && has_room && in_page(page, above.replace_key(index, separator))? {
            left.held.copy_from_slice(&halves[0]);
            right.held.copy_from_slice(&halves[1]);
        }
        Ok(Merged::Done)
    }

    /// Replaces the contents of a root with a single child by those of the child.
    fn shrink(&self, mut root: Page<'_, P>) -> Result<()> {
        let mut page = root.check(root.view()?.child(0))?;
        let held = self.pages.write(&mut page);
        let held = held.map_err(|error| lost_child(root.page.id(), error))?;
        let mut child = Page { page, held: Held::<P>::Fixed(held) };
        child.view()?;
        root.held.copy_from_slice(&child.held);
        Edit::bury(&mut child.held);
        drop(child);
        self.pages.free(page)?;
        Ok(())
    }
}
