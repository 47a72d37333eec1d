//! Guards and pins of fixed pages.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::core::Core;
use crate::error::PoolError;
use crate::frame::Frame;
use crate::hold;
use crate::page::{FrameId, PageId, PageRef};

/// A page fixed for reading. Readers share it; it is not written, moved or evicted meanwhile.
pub struct ReadGuard<'a> {
    core: &'a Arc<Core>,
    frame: FrameId,
}

/// A page fixed for writing, exclusively.
pub struct WriteGuard<'a> {
    core: &'a Arc<Core>,
    frame: FrameId,
}

/// A pin for reading: holds the page for as long as the pin lives, on any thread. Clones share the
/// hold.
///
/// A zero-copy batch keeps a pin: the page stays at its address until the last clone is dropped.
#[derive(Clone)]
pub struct Pinned(Arc<Hold>);

struct Hold {
    core: Arc<Core>,
    frame: FrameId,
}

/// A pin for writing: holds the page exclusively for as long as the pin lives, on any thread.
///
/// Operators keep the pages that they are filling this way between two batches. The page neither
/// moves nor leaves memory, and no other thread reads it, until the pin is dropped.
pub struct PinnedMut {
    core: Arc<Core>,
    frame: FrameId,
    /// True if the hold was passed on to another guard.
    is_passed_on: bool,
}

impl<'a> ReadGuard<'a> {
    /// Takes over a shared hold on `frame`.
    pub(crate) fn new(core: &'a Arc<Core>, frame: FrameId) -> Self {
        Self { core, frame }
    }

    fn frame(&self) -> &Frame {
        &self.core.frames[self.frame]
    }

    /// Converts the guard into a pin, which may outlive the space it came from and change threads.
    pub fn pin(self) -> Pinned {
        let this = std::mem::ManuallyDrop::new(self);
        Pinned::new(Arc::clone(this.core), this.frame)
    }

    /// Returns the index of the memory tier that the page is in.
    pub fn tier(&self) -> usize {
        self.frame().tier()
    }

    /// Overwrites the reference to `page` at `offset` of this page with `page`, whose hint a fix
    /// has repaired: 8 bytes, little-endian. False if `offset` does not hold a reference to `page`,
    /// or if other threads hold this page too; then the hint stays wrong until a later repair.
    ///
    /// The page does not become dirty: its copy on the store with the old hint is not wrong, and
    /// writing a page again for a hint would cost more than the hint saves. A write-back of the
    /// page is a holder, so the bytes that it checksums and writes stay the same.
    pub fn repair(&mut self, offset: usize, page: PageRef) -> bool {
        let frame = self.frame();
        if !frame.latch.try_upgrade() {
            return false;
        }
        // SAFETY: the upgrade made this the only hold, and `&mut self` excludes live references
        // that this guard gave out.
        let bytes = unsafe { frame.bytes_mut() };
        let right = put_hint(bytes, offset, page);
        frame.latch.downgrade(&self.core.lot);
        right
    }
}

/// Overwrites a reference to `page` at `offset`; false if there is none.
pub(crate) fn put_hint(bytes: &mut [u8], offset: usize, page: PageRef) -> bool {
    let place = offset.checked_add(8).and_then(|end| bytes.get_mut(offset..end));
    let Some(place) = place else { return false };
    let known = place
        .first_chunk()
        .is_some_and(|bits| PageRef::from_bits(u64::from_le_bytes(*bits)).id() == page.id());
    if known {
        place.copy_from_slice(&page.to_bits().to_le_bytes());
    }
    known
}

impl Deref for ReadGuard<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: this guard is a shared hold, for as long as the reference it gives.
        unsafe { self.frame().bytes() }
    }
}

impl Drop for ReadGuard<'_> {
    fn drop(&mut self) {
        hold::release_shared(self.core, self.frame);
    }
}

impl<'a> WriteGuard<'a> {
    /// Takes over the exclusive hold on `frame`.
    pub(crate) fn new(core: &'a Arc<Core>, frame: FrameId) -> Self {
        Self { core, frame }
    }

    /// Turns the exclusive hold on the page's frame into a guard and marks the page dirty. Releases
    /// the hold of a durable page, which must not be written.
    pub(crate) fn begin(
        core: &'a Arc<Core>,
        page: PageId,
        frame: FrameId,
    ) -> Result<Self, PoolError> {
        let guard = Self::new(core, frame);
        if core.pages[page].is_durable() {
            return Err(PoolError::Durable { pool: core.name.clone(), page });
        }
        guard.frame().set_dirty();
        Ok(guard)
    }

    fn frame(&self) -> &Frame {
        &self.core.frames[self.frame]
    }

    /// Downgrades to a shared hold without releasing the latch in between.
    pub fn downgrade(self) -> ReadGuard<'a> {
        let this = std::mem::ManuallyDrop::new(self);
        this.frame().latch.downgrade(&this.core.lot);
        ReadGuard::new(this.core, this.frame)
    }

    /// Converts the guard into a pin, which may outlive the space it came from and change threads.
    pub fn pin(self) -> PinnedMut {
        let this = std::mem::ManuallyDrop::new(self);
        PinnedMut { core: Arc::clone(this.core), frame: this.frame, is_passed_on: false }
    }
}

impl Deref for WriteGuard<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: this guard is the exclusive hold; `&self` excludes `deref_mut` meanwhile.
        unsafe { self.frame().bytes() }
    }
}

impl DerefMut for WriteGuard<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: this guard is the exclusive hold; `&mut self` makes the reference the only one.
        unsafe { self.frame().bytes_mut() }
    }
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        hold::release_exclusive(self.core, self.frame);
    }
}

impl Pinned {
    /// Takes over a shared hold on `frame`.
    pub(crate) fn new(core: Arc<Core>, frame: FrameId) -> Self {
        Self(Arc::new(Hold { core, frame }))
    }

    /// Returns the page's id, which does not change while the page is pinned; never `None`.
    pub fn id(&self) -> Option<PageId> {
        self.0.core.frames[self.0.frame].page()
    }

    /// Returns the index of the memory tier that the page is in.
    pub fn tier(&self) -> usize {
        self.0.core.frames[self.0.frame].tier()
    }
}

impl Deref for Pinned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the hold is shared and lives as long as `self`.
        unsafe { self.0.core.frames[self.0.frame].bytes() }
    }
}

impl AsRef<[u8]> for Pinned {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        hold::release_shared(&self.core, self.frame);
    }
}

impl PinnedMut {
    fn frame(&self) -> &Frame {
        &self.core.frames[self.frame]
    }

    /// Returns the index of the memory tier that the page is in.
    pub fn tier(&self) -> usize {
        self.frame().tier()
    }

    /// Downgrades to a shared hold without releasing the latch in between.
    pub fn downgrade(mut self) -> Pinned {
        self.frame().latch.downgrade(&self.core.lot);
        self.is_passed_on = true;
        Pinned::new(Arc::clone(&self.core), self.frame)
    }
}

impl Deref for PinnedMut {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: this pin is the exclusive hold; `&self` excludes `deref_mut` meanwhile.
        unsafe { self.frame().bytes() }
    }
}

impl DerefMut for PinnedMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: this pin is the exclusive hold; `&mut self` makes the reference the only one.
        unsafe { self.frame().bytes_mut() }
    }
}

impl Drop for PinnedMut {
    fn drop(&mut self) {
        if !self.is_passed_on {
            hold::release_exclusive(&self.core, self.frame);
        }
    }
}

/// Debug format of every guard: the page and its length, not its bytes.
fn describe(f: &mut fmt::Formatter<'_>, kind: &str, frame: &Frame) -> fmt::Result {
    let page = frame.page().unwrap_or(PageId(0));
    write!(f, "{kind}(page {page}, {} bytes)", frame.len())
}

impl fmt::Debug for ReadGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(f, "ReadGuard", self.frame())
    }
}

impl fmt::Debug for WriteGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(f, "WriteGuard", self.frame())
    }
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(f, "Pinned", &self.0.core.frames[self.0.frame])
    }
}

impl fmt::Debug for PinnedMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(f, "PinnedMut", self.frame())
    }
}

// A pin is read-only bytes and an atomic count, neither of which a panic leaves half changed.
impl std::panic::RefUnwindSafe for Pinned {}
impl std::panic::UnwindSafe for Pinned {}
