//! Sharing of one collection by several readers, each with its own pins.

use std::sync::Arc;

use super::address::RowAddress;
use super::collection::RowPages;
use super::pins::PinTable;
use crate::Grant;

impl RowPages {
    /// Ends the appending. Returns the collection without its pins, which owns the pages, and a
    /// view with the pins.
    #[must_use]
    pub fn share(mut self) -> (Arc<Self>, Self) {
        let (fixed, variable) = (self.fixed.split(), self.variable.split());
        let pinned_bytes = std::mem::take(&mut self.pinned_bytes);
        let reserved_bytes = std::mem::take(&mut self.reserved_bytes);
        let owner = Arc::new(self);
        let mut view = owner.view_of(Arc::clone(&owner.grant), fixed, variable);
        view.pinned_bytes = pinned_bytes;
        view.reserved_bytes = reserved_bytes;
        (owner, view)
    }

    /// Returns a view with nothing pinned yet, which is charged to `grant`.
    #[must_use]
    pub fn view(self: &Arc<Self>, grant: Arc<dyn Grant>) -> Self {
        self.view_of(grant, self.fixed.unpinned(), self.variable.unpinned())
    }

    fn view_of(
        self: &Arc<Self>,
        grant: Arc<dyn Grant>,
        fixed: PinTable,
        variable: PinTable,
    ) -> Self {
        let mut view = Self::new(self.space.clone(), grant, self.layout.clone());
        view.fixed = fixed;
        view.variable = variable;
        view.parts.clone_from(&self.parts);
        view.has_nulls.clone_from(&self.has_nulls);
        view.rows = self.rows;
        view.bytes = self.bytes;
        view.variable_freed = self.variable_freed;
        view.owner = Some(Arc::clone(self));
        view
    }

    /// Returns true if the collection owns its pages, so that it may free them before it is
    /// dropped.
    #[must_use]
    pub fn is_owner(&self) -> bool {
        self.owner.is_none()
    }

    /// Adds `bytes`, which the grant has already allowed, to the reserve for pages to be pinned.
    pub fn take_reserve(&mut self, bytes: u64) {
        self.reserved_bytes += bytes;
    }

    /// Returns the word at `offset` of the operator's own bytes of a row; `None` if its page is not
    /// pinned.
    #[inline]
    #[must_use]
    pub fn extra(&self, address: RowAddress, offset: usize) -> Option<u64> {
        let parts = self.layout.parts();
        let at = parts.extra_offset + offset;
        self.fixed.row_word(address.page(), address.row(), parts.width, at)
    }
}
