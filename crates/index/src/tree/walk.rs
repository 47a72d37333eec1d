//! The way down a tree: looking, and holding.
//!
//! Looking (optimistic lock coupling): a node's child is believed when the node has not changed
//! since, which is asked once more after the child was found, because the id of a freed page names
//! another page at once. Who finds a change begins again at the root. After [`RESTARTS`] times the
//! way is taken by holding: the latch of a node is kept until that of its child is had, so that
//! nobody overtakes. Latches are taken from the root down, and of siblings only under their
//! parent's, so nobody waits in a circle.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;

use terrace_pool::{OptimisticGuard, PageRef, Pages, PoolError, WriteGuard};

use crate::error::{Fault, IndexError, Result, in_page};
use crate::tree::BTree;
use crate::tree::node::{Node, Seek, View};
use crate::tree::source::Source;

/// Times to begin again before latches are taken.
pub(crate) const RESTARTS: usize = 24;

/// A page that is held alone, whichever way the hold was come by.
pub(crate) enum Held<'t, P: Pages> {
    /// A look that became a hold.
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

/// A page that is held, and its reference.
pub(crate) struct Page<'t, P: Pages> {
    pub(crate) page: PageRef,
    pub(crate) held: Held<'t, P>,
}

impl<P: Pages> Page<'_, P> {
    pub(crate) fn view(&self) -> Result<View<'_>> {
        in_page(self.page.id(), View::open(&self.held))
    }

    /// Says that a fault is in this page.
    pub(crate) fn check<T>(&self, result: Result<T, Fault>) -> Result<T> {
        in_page(self.page.id(), result)
    }
}

/// A node that is held together with its parent, unless it is the root.
pub(crate) struct Pair<'t, P: Pages> {
    /// The parent and which child of it the node is.
    pub(crate) parent: Option<(Page<'t, P>, usize)>,
    pub(crate) node: Page<'t, P>,
}

/// A node that is looked at.
pub(crate) struct Look<'t> {
    pub(crate) page: PageRef,
    pub(crate) guard: OptimisticGuard<'t>,
}

/// A node that is looked at, with its parent, if it has one, and which child it is.
type LookedAt<'t> = (Option<(Look<'t>, usize)>, Look<'t>);

/// What a leaf is visited for. A visit that met a change is done again from its beginning.
pub(crate) trait Visit {
    type Out;

    fn leaf<S: Source + ?Sized>(&mut self, leaf: Node<'_, S>) -> Result<Self::Out, Fault>;
}

impl<P: Pages> BTree<P> {
    pub(crate) fn root(&self) -> PageRef {
        PageRef::from_bits(self.root.load(Ordering::Relaxed))
    }

    fn note_root(&self, known: PageRef, found: PageRef) {
        // The id is the same for ever; a hint may be any.
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

    /// What a fault in a page that is only looked at means: damage, or that the page changed.
    #[cold]
    pub(crate) fn doubt<T>(&self, look: &Look<'_>, fault: Fault) -> Result<Option<T>> {
        if look.guard.is_valid() {
            return Err(IndexError::Corrupt { page: look.guard.id(), what: fault });
        }
        Ok(None)
    }

    /// A child that is not in memory, or being written; `None` where the parent has changed.
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

    /// The next node on the way, and which child it is; `None` to begin again.
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
            // Where it cannot be done now, the next who comes finds it wrong again and tries.
            look.guard.repair(node.child_place(index), page);
        }
        Ok(Some((Look { page, guard }, index)))
    }

    /// The leaf at the end of the way, not yet known to be still unchanged; `None` to begin again.
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

    /// The node of a level and its parent, looked at; `None` to begin again.
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
            // A root below the level has shrunk meanwhile: it is the one that was meant.
            if node.level <= level {
                return Ok(look.guard.is_valid().then_some((parent, look)));
            }
            above = Some(node.level);
            let Some((next, index)) = self.step(&look, node, seek)? else { return Ok(None) };
            parent = Some((look, index));
            look = next;
        }
    }

    /// Has a leaf visited: looked at, or held where it keeps changing.
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

    /// Visits the leaf under shared latches.
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

    /// Holds the node of a level on the way to a key, and its parent.
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

    /// Makes a look a hold; `None` if the page has changed.
    #[inline]
    pub(crate) fn upgrade<'t>(&'t self, look: &Look<'t>) -> Result<Option<Page<'t, P>>> {
        match look.guard.upgrade() {
            Ok(held) => Ok(held.map(|held| Page { page: look.page, held: Held::Upgraded(held) })),
            // Freed since.
            Err(PoolError::NoSuchPage { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// As [`BTree::hold_pair`], by latches from the root on.
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

/// Whether a node's level is the one below its parent's.
pub(crate) fn is_below(level: u8, parent: u8) -> bool {
    parent.checked_sub(1) == Some(level)
}

pub(crate) const WRONG_LEVEL: Fault = "its level is not the one below its parent's";

/// The error of a child that a parent refers to, of a parent that did not change.
pub(crate) fn lost_child(parent: terrace_pool::PageId, error: PoolError) -> IndexError {
    match error {
        PoolError::NoSuchPage { .. } => {
            IndexError::Corrupt { page: parent, what: "it refers to a page that does not exist" }
        }
        error => error.into(),
    }
}
