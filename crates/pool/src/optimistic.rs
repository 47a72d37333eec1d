//! Optimistic reads: look without holding, then check that no writer came between.
//!
//! A reader may load a byte while a writer, who has the page as a plain `&mut [u8]`, stores to it.
//! Rust's memory model, like that of C++, gives such a race no meaning, so this is outside of what
//! the language promises; every optimistic latch over plain memory is. What is relied on instead:
//!
//! - The reader's loads are atomic, aligned and at most 8 bytes wide. On the processors that Linux
//!   runs on in 64 bits such a load returns some value and has no other effect, and the compiler
//!   neither repeats it nor reasons about the value.
//! - The writer's stores cannot be moved before its exclusive hold, nor behind its release: the
//!   latch has the fences of a sequence lock on both sides (Boehm, "Can seqlocks get along with
//!   programming language memory models?", MSPC 2012, section 4). A reader that saw any of them
//!   therefore finds another version, and discards what it read.
//!
//! Because the promise is not the language's, [`crate::Space::optimistic`] is `unsafe`, and nothing
//! else in the workspace depends on it.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::error::PoolError;
use crate::fix::Hold;
use crate::frame::Frame;
use crate::guard::ReadGuard;
use crate::page::PageRef;
use crate::pool::Inner;
use crate::state::PageState;

/// Looks before a reader takes the latch after all.
const TRIES: usize = 8;

/// The bytes of a page that somebody may be writing: read them by copies.
#[derive(Clone, Copy, Debug)]
pub struct OptimisticPage<'a> {
    data: *const u8,
    len: usize,
    _page: PhantomData<&'a [u8]>,
}

impl OptimisticPage<'_> {
    fn of(frame: &Frame) -> Self {
        Self { data: frame.data(), len: frame.len(), _page: PhantomData }
    }

    /// The bytes of a page that somebody holds; frames are page aligned, and so must these be.
    pub(crate) fn held(bytes: &[u8]) -> OptimisticPage<'_> {
        debug_assert!(bytes.as_ptr().cast::<u64>().is_aligned(), "a page begins at its alignment");
        OptimisticPage { data: bytes.as_ptr(), len: bytes.len(), _page: PhantomData }
    }

    /// The page's length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes, as of a page that went away.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies bytes from `offset` on into `into`. False when they are not all within the page.
    pub fn copy(&self, offset: usize, into: &mut [u8]) -> bool {
        if offset.checked_add(into.len()).is_none_or(|end| end > self.len) {
            return false;
        }
        for (index, byte) in into.iter_mut().enumerate() {
            // SAFETY: the byte is within the frame's room, by the check above, and the room stays
            // mapped as long as the pool, which the lifetime borrows. A writer may race with the
            // load: the module says what is relied on then.
            *byte = unsafe { AtomicU8::from_ptr(self.data.add(offset + index).cast_mut()) }
                .load(Ordering::Relaxed);
        }
        true
    }

    /// The little-endian word at `offset`, which must be a multiple of 8; `None` beyond the page.
    pub fn u64_at(&self, offset: usize) -> Option<u64> {
        if !offset.is_multiple_of(8) || offset.checked_add(8)? > self.len {
            return None;
        }
        // SAFETY: as in `copy`; frames are page aligned, so the word is aligned.
        let word = unsafe { AtomicU64::from_ptr(self.data.add(offset).cast_mut().cast()) };
        Some(u64::from_le(word.load(Ordering::Relaxed)))
    }
}

impl Inner {
    /// See [`crate::Space::optimistic`].
    ///
    /// # Safety
    /// `read` looks at the bytes through [`OptimisticPage`]'s methods alone.
    pub(crate) unsafe fn optimistic<T>(
        self: &Arc<Self>,
        page: &mut PageRef,
        mut read: impl FnMut(OptimisticPage<'_>) -> T,
    ) -> Result<T, PoolError> {
        for _ in 0..TRIES {
            let Some(id) = self.look(page) else { break };
            let frame = &self.frames[id];
            let Some(seen) = frame.latch.version() else { continue };
            if !frame.holds(page.id()) {
                continue;
            }
            let value = read(OptimisticPage::of(frame));
            if frame.holds(page.id()) && frame.latch.is_still(seen) {
                self.after_fix(id);
                return Ok(value);
            }
        }
        let id = self.fix(page, Hold::Shared)?;
        let _hold = ReadGuard::new(self, id);
        Ok(read(OptimisticPage::of(&self.frames[id])))
    }

    /// The frame where the page seems to be, without holding it.
    fn look(&self, page: &mut PageRef) -> Option<crate::page::FrameId> {
        let hinted = page
            .hint()
            .filter(|id| self.frames.find(*id).is_some_and(|frame| frame.holds(page.id())));
        if hinted.is_some() {
            return hinted;
        }
        match self.pages.find(page.id())?.state.get() {
            PageState::Resident(id) => {
                page.repair(id);
                Some(id)
            }
            PageState::Free | PageState::Stored | PageState::Loading => None,
        }
    }
}
