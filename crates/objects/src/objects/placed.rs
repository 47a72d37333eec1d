//! Placed runs: runs of long objects that are allocated and filled before a group is latched.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard};

use terrace_sys::sync::lock;

use crate::groups::content::Content;
use crate::groups::edit;
use crate::groups::header::Far;
use crate::groups::run::{NoRoom, Run};
use crate::groups::slabs::Slabs;
use crate::threads::place;

/// Runs of long objects that no group has yet, in lists for groups of threads.
pub(crate) struct PlacedRuns {
    lists: Vec<Mutex<Vec<Run>>>,
}

impl PlacedRuns {
    /// Creates an empty list for each of `places` groups of threads.
    pub(crate) fn new(places: usize) -> Self {
        Self { lists: (0..places).map(|_| Mutex::default()).collect() }
    }

    /// Locks all lists.
    pub(crate) fn lock_all(&self) -> Vec<MutexGuard<'_, Vec<Run>>> {
        self.lists.iter().map(lock).collect()
    }

    /// Returns a [`Placed`] without a run, for objects that are too short to need one.
    pub(crate) fn none<'a>(&'a self, slabs: &'a Slabs) -> Placed<'a> {
        let list = place() % self.lists.len();
        Placed { runs: self, slabs, far: None, list, kept: Cell::new(false) }
    }

    /// Allocates and fills the run of an object.
    pub(crate) fn take<'a>(
        &'a self,
        slabs: &'a Slabs,
        content: Content<'_>,
    ) -> Result<Placed<'a>, NoRoom> {
        let mut placed = self.none(slabs);
        let mut list = placed.list();
        let taken = edit::take(slabs, place(), content.len());
        if let Ok(far) = taken {
            list.extend(far.run());
        }
        drop(list);
        let far = taken?;
        placed.far = Some(far);
        // SAFETY: the run was just allocated for this content.
        unsafe { edit::fill(slabs, far, content) };
        Ok(placed)
    }
}

/// Run of a long object. Dropping this frees the run, unless an object has taken it.
pub(crate) struct Placed<'a> {
    runs: &'a PlacedRuns,
    slabs: &'a Slabs,
    far: Option<Far>,
    /// Index of the list that has the run until an object does.
    list: usize,
    kept: Cell<bool>,
}

impl Placed<'_> {
    /// Returns the run, if there is one.
    pub(crate) fn far(&self) -> Option<Far> {
        self.far
    }

    /// Leaves the run to an object, so that dropping this does not free it. Called under the latch
    /// of the object's group, or with the maker locked.
    pub(crate) fn keep(&self) {
        self.kept.set(true);
        let run = self.far.and_then(Far::run);
        run.into_iter().for_each(|run| self.list().retain(|other| *other != run));
    }

    fn list(&self) -> MutexGuard<'_, Vec<Run>> {
        lock(&self.runs.lists[self.list])
    }
}

impl Drop for Placed<'_> {
    fn drop(&mut self) {
        if let Some(run) = self.far.and_then(Far::run).filter(|_| !self.kept.get()) {
            let mut list = self.list();
            list.retain(|other| *other != run);
            self.slabs.give(run);
        }
    }
}
