//! Descent from the root, by optimistic reads and by latches.
//!
//! Optimistic lock coupling: a reference to a child is trusted only if the version of the node is
//! unchanged after the child was found, not only after the reference was read, as the id of a freed
//! page is reused at once (ABA). On a conflict the descent restarts at the root. After [`RESTARTS`]
//! conflicts it uses latch coupling: the latch of a node is held until that of its child is
//! acquired, so that no writer overtakes. Latches are taken from the root down, and those of
//! siblings only under the latch of their parent, so there is no deadlock.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;

use terrace_pool::{OptimisticGuard, PageRef, Pages, PoolError, WriteGuard};

use crate::error::{Fault, IndexError, Result, in_page};
use crate::tree::btree::BTree;
use crate::tree::node::{Node, Seek, View};
use crate::tree::source::Source;

/// Optimistic attempts before a descent takes latches.
pub(crate) const RESTARTS: usize = 24;

/// A page under an exclusive latch, which was upgraded from a read or acquired for writing.
pub(crate) enum Held<'t, P: Pages> {
    /// An optimistic read that was upgraded.
    Upgraded(WriteGuard<'t>),
    /// A page fixed for writing.
    Fixed(P::Write<'t>),
}

impl<P: Pages> Deref for Held<'_, P> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Held::Upgraded(held) => held,
            Held::Fixed(held) => held,
        }
    }
}

impl<P: Pages> DerefMut for Held<'_, P> {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Held::Upgraded(held) => held,
            Held::Fixed(held) => held,
        }
    }
}

/// A page under an exclusive latch, and its reference.
pub(crate) struct Page<'t, P: Pages> {
    pub(crate) page: PageRef,
    pub(crate) held: Held<'t, P>,
}

impl<P: Pages> Page<'_, P> {
    pub(crate) fn view(&self) -> Result<View<'_>> {
        in_page(self.page.id(), View::open(&self.held))
    }

    /// Adds this page to a fault.
    pub(crate) fn check<T>(&self, result: Result<T, Fault>) -> Result<T> {
        in_page(self.page.id(), result)
    }
}

/// An exclusively latched node and its parent; the root has none.
pub(crate) struct Pair<'t, P: Pages> {
    /// The parent and the index of the node among its children.
    pub(crate) parent: Option<(Page<'t, P>, usize)>,
    pub(crate) node: Page<'t, P>,
}

/// A node under an optimistic read.
pub(crate) struct Look<'t> {
    pub(crate) page: PageRef,
    pub(crate) guard: OptimisticGuard<'t>,
}

/// A node under an optimistic read, with its parent, if any, and its index there.
type LookedAt<'t> = (Option<(Look<'t>, usize)>, Look<'t>);

/// An operation on a leaf. It runs again from the start if the leaf changed meanwhile.
pub(crate) trait Visit {
    type Out;

    fn leaf<S: Source + ?Sized>(&mut self, leaf: Node<'_, S>) -> Result<Self::Out, Fault>;
}

impl<P: Pages> BTree<P> {
    pub(crate) fn root(&self) -> PageRef {
        PageRef::from_bits(self.root.load(Ordering::Relaxed))
    }

    fn note_root(&self, known: PageRef, found: PageRef) {
        // The id never changes; the hint may be any.
        if known != found {
            self.root.store(found.to_bits(), Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(crate) fn look_at_root(&self) -> Result<Look<'_>> {
        let known = self.root();
        let mut page = known;
        let guard = match self.pages.optimistic_resident(&mut page) {
            Some(guard) => guard,
            None => self.pages.optimistic(&mut page)?,
        };
        self.note_root(known, page);
        Ok(Look { page, guard })
    }

    /// Interprets a fault under an optimistic read: an error if the page is unchanged, otherwise
    /// `None` for a restart.
    #[cold]
    pub(crate) fn doubt<T>(&self, look: &Look<'_>, fault: Fault) -> Result<Option<T>> {
        if look.guard.is_valid() {
            return Err(IndexError::Corrupt { page: look.guard.id(), what: fault });
        }
        Ok(None)
    }

    /// Reads a child that is not in memory or is being written; `None` if the parent has changed.
    #[cold]
    #[inline(never)]
    fn absent_child<'t>(
        &'t self,
        parent: &Look<'t>,
        page: &mut PageRef,
    ) -> Result<Option<OptimisticGuard<'t>>> {
        match self.pages.optimistic(page) {
            Ok(guard) => Ok(Some(guard)),
            Err(_) if !parent.guard.is_valid() => Ok(None),
            Err(error) => Err(lost_child(parent.guard.id(), error)),
        }
    }

    /// Descends to the next node and returns its index among the children; `None` for a restart.
    #[inline(always)]
    pub(crate) fn step<'t>(
        &'t self,
        look: &Look<'t>,
        node: Node<'_, OptimisticGuard<'t>>,
        seek: Seek<'_>,
    ) -> Result<Option<(Look<'t>, usize)>> {
        let index = match node.child_index(seek) {
            Ok(index) => index,
            Err(fault) => return self.doubt(look, fault),
        };
        let known = match node.child(index) {
            Ok(known) => known,
            Err(fault) => return self.doubt(look, fault),
        };
        if !look.guard.is_valid() {
            return Ok(None);
        }
        let mut page = known;
        let guard = match self.pages.optimistic_resident(&mut page) {
            Some(guard) => guard,
            None => match self.absent_child(look, &mut page)? {
                Some(guard) => guard,
                None => return Ok(None),
            },
        };
        if !look.guard.is_valid() {
            return Ok(None);
        }
        if page != known {
            // If the repair fails now, the next descent finds the hint wrong again and retries.
            look.guard.repair(node.child_place(index), page);
        }
        Ok(Some((Look { page, guard }, index)))
    }

    /// Descends to a leaf, which is not validated yet; `None` for a restart.
    #[inline(always)]
    pub(crate) fn look_for_leaf(&self, seek: Seek<'_>) -> Result<Option<Look<'_>>> {
        let mut look = self.look_at_root()?;
        let mut above = None;
        loop {
            let node = match Node::open(&look.guard) {
                Ok(node) => node,
                Err(fault) => return self.doubt(&look, fault),
            };
            if above.is_some_and(|above| !is_below(node.level, above)) {
                return self.doubt(&look, WRONG_LEVEL);
            }
            if node.level == 0 {
                return Ok(Some(look));
            }
            above = Some(node.level);
            let Some((next, _)) = self.step(&look, node, seek)? else { return Ok(None) };
            look = next;
        }
    }

    /// Descends to the node of a level and its parent; `None` for a restart.
    pub(crate) fn look_for_pair(&self, seek: Seek<'_>, level: u8) -> Result<Option<LookedAt<'_>>> {
        let mut look = self.look_at_root()?;
        let mut parent: Option<(Look<'_>, usize)> = None;
        let mut above = None;
        loop {
            let node = match Node::open(&look.guard) {
                Ok(node) => node,
                Err(fault) => return self.doubt(&look, fault),
            };
            if above.is_some_and(|above| !is_below(node.level, above)) {
                return self.doubt(&look, WRONG_LEVEL);
            }
            // The tree shrank meanwhile and the root is below the level: the root is the result.
            if node.level <= level {
                return Ok(look.guard.is_valid().then_some((parent, look)));
            }
            above = Some(node.level);
            let Some((next, index)) = self.step(&look, node, seek)? else { return Ok(None) };
            parent = Some((look, index));
            look = next;
        }
    }

    /// Visits a leaf by optimistic reads, or under a latch if it keeps changing.
    #[inline]
    pub(crate) fn visit<V: Visit>(&self, seek: Seek<'_>, visit: &mut V) -> Result<V::Out> {
        for _ in 0..RESTARTS {
            if let Some(out) = self.try_visit(seek, visit)? {
                return Ok(out);
            }
            std::hint::spin_loop();
        }
        self.visit_held(seek, visit)
    }

    #[inline(always)]
    fn try_visit<V: Visit>(&self, seek: Seek<'_>, visit: &mut V) -> Result<Option<V::Out>> {
        let Some(look) = self.look_for_leaf(seek)? else { return Ok(None) };
        match Node::open(&look.guard).and_then(|leaf| visit.leaf(leaf)) {
            Ok(out) => Ok(look.guard.is_valid().then_some(out)),
            Err(fault) => self.doubt(&look, fault),
        }
    }

    /// Visits a leaf by latch coupling with shared latches.
    #[cold]
    pub(crate) fn visit_held<V: Visit>(&self, seek: Seek<'_>, visit: &mut V) -> Result<V::Out> {
        let mut page = self.root();
        let mut held = self.pages.read(&mut page)?;
        let mut above = None;
        loop {
            let id = page.id();
            let node = in_page(id, View::open(&held))?;
            if above.is_some_and(|above| !is_below(node.level, above)) {
                return Err(IndexError::Corrupt { page: id, what: WRONG_LEVEL });
            }
            if node.level == 0 {
                return in_page(id, visit.leaf(node));
            }
            above = Some(node.level);
            page = in_page(id, node.child_index(seek).and_then(|index| node.child(index)))?;
            held = self.pages.read(&mut page).map_err(|error| lost_child(id, error))?;
        }
    }

    /// Latches the node of a level on the path of a key, and its parent.
    pub(crate) fn hold_pair(&self, key: &[u8], level: u8) -> Result<Pair<'_, P>> {
        for _ in 0..RESTARTS {
            if let Some(pair) = self.try_hold_pair(key, level)? {
                return Ok(pair);
            }
            std::hint::spin_loop();
        }
        self.fix_pair(key, level)
    }

    fn try_hold_pair(&self, key: &[u8], level: u8) -> Result<Option<Pair<'_, P>>> {
        let Some((parent, node)) = self.look_for_pair(Seek::At(key), level)? else {
            return Ok(None);
        };
        let parent = match parent {
            None => None,
            Some((look, index)) => match self.upgrade(&look)? {
                Some(page) => Some((page, index)),
                None => return Ok(None),
            },
        };
        let node = self.upgrade(&node)?;
        Ok(node.map(|node| Pair { parent, node }))
    }

    /// Upgrades an optimistic read to an exclusive latch; `None` if the page has changed.
    #[inline]
    pub(crate) fn upgrade<'t>(&'t self, look: &Look<'t>) -> Result<Option<Page<'t, P>>> {
        match look.guard.upgrade() {
            Ok(held) => Ok(held.map(|held| Page { page: look.page, held: Held::Upgraded(held) })),
            // The page was freed meanwhile.
            Err(PoolError::NoSuchPage { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Latches a pair as [`BTree::hold_pair`] does, by exclusive latch coupling from the root.
    #[cold]
    pub(crate) fn fix_pair(&self, key: &[u8], level: u8) -> Result<Pair<'_, P>> {
        let mut page = self.root();
        let held = Held::Fixed(self.pages.write(&mut page)?);
        let mut pair = Pair { parent: None, node: Page { page, held } };
        loop {
            let node = pair.node.view()?;
            if let Some((parent, _)) = &pair.parent
                && !is_below(node.level, parent.view()?.level)
            {
                return pair.node.check(Err(WRONG_LEVEL));
            }
            if node.level <= level {
                return Ok(pair);
            }
            let index = pair.node.check(node.child_index(Seek::At(key)))?;
            let mut page = pair.node.check(node.child(index))?;
            let id = pair.node.page.id();
            let held = self.pages.write(&mut page).map_err(|error| lost_child(id, error))?;
            let child = Page { page, held: Held::Fixed(held) };
            let parent = std::mem::replace(&mut pair.node, child);
            pair.parent = Some((parent, index));
        }
    }
}

/// True if a node's level is one below that of its parent.
pub(crate) fn is_below(level: u8, parent: u8) -> bool {
    parent.checked_sub(1) == Some(level)
}

pub(crate) const WRONG_LEVEL: Fault = "its level is not the one below its parent's";

/// Converts the error of reading a child that an unchanged parent refers to.
pub(crate) fn lost_child(parent: terrace_pool::PageId, error: PoolError) -> IndexError {
    match error {
        PoolError::NoSuchPage { .. } => {
            IndexError::Corrupt { page: parent, what: "it refers to a page that does not exist" }
        }
        error => error.into(),
    }
}
