//! Mutations of a latched group.
//!
//! Objects are added to and removed from groups of equal lengths in place. Every other change -
//! another length, an object that gets a run of its own - rebuilds the group in the layout that
//! suits its new contents, a copy of some kilobytes.

use terrace_sys::size::to_u64;

use crate::bytes;
use crate::groups::content::{Content, copy};
use crate::groups::draft::{Change, Draft, Piece};
use crate::groups::group::{Found, Group, View};
use crate::groups::header::{Far, Header};
use crate::groups::run::{NoRoom, Run};
use crate::groups::scratch::{shift, with_scratch};
use crate::groups::slabs::{Slabs, Supply};
use crate::groups::word::{FAR_BYTES, Kind, NEAR_BYTES_MAX};

/// A latched group, and the slabs that its runs come from.
pub(crate) struct Editor<'a> {
    slabs: &'a Slabs,
    group: &'a Group,
    /// Group of threads whose open slab runs are allocated from.
    place: usize,
    supply: Supply,
}

impl<'a> Editor<'a> {
    /// Makes an editor of a group that the caller has latched, for a thread of group `place`.
    #[inline]
    pub(crate) fn new(slabs: &'a Slabs, group: &'a Group, place: usize, supply: Supply) -> Self {
        Self { slabs, group, place, supply }
    }

    /// Returns the latched group.
    #[inline]
    pub(crate) fn group(&self) -> &'a Group {
        self.group
    }

    /// Returns the location of the object of a slot; `None` for a slot without one.
    pub(crate) fn find(&self, slot: u32) -> Option<Found> {
        let view = self.group.view();
        if !view.is_present(slot) {
            return None;
        }
        let found = view.find(self.slabs, slot);
        debug_assert!(found.is_some(), "a latched group makes no sense: {view:?}");
        found
    }

    /// Inserts an object into an empty slot.
    pub(crate) fn insert(&self, slot: u32, content: Content<'_>) -> Result<(), NoRoom> {
        let view = self.group.view();
        let len = content.len();
        let kind = if len > NEAR_BYTES_MAX { Kind::Remote } else { Kind::Uniform(len) };
        let suits = view.present == 0 || view.word.kind() == kind;
        if !suits || len == 0 {
            return self.rebuild(Change { slot, to: Some(Piece::New(content)) });
        }
        if kind != Kind::Remote {
            return self.insert_equal(&view, slot, kind, content);
        }
        let far = self.far(content)?;
        let inserted = self.insert_far(slot, far);
        if inserted.is_err() {
            self.give_far(far);
        }
        inserted
    }

    /// Allocates a run for an object and fills it.
    fn far(&self, content: Content<'_>) -> Result<Far, NoRoom> {
        let far = take(self.slabs, self.place, content.len())?;
        // SAFETY: the run was just allocated for this content.
        unsafe { fill(self.slabs, far, content) };
        Ok(far)
    }

    /// Inserts an object that has a run already. If this fails, the run stays the caller's.
    pub(crate) fn insert_far(&self, slot: u32, far: Far) -> Result<(), NoRoom> {
        let view = self.group.view();
        if view.present == 0 || view.word.kind() == Kind::Remote {
            return self.insert_equal(&view, slot, Kind::Remote, Content::Bytes(&far.to_bytes()));
        }
        self.rebuild(Change { slot, to: Some(Piece::Placed(far)) })
    }

    /// Replaces an object by one in a run that is filled already. If this fails, the run stays the
    /// caller's.
    pub(crate) fn replace_by_far(&self, slot: u32, far: Far) -> Result<(), NoRoom> {
        self.rebuild(Change { slot, to: Some(Piece::Placed(far)) })
    }

    fn take(&self, len: u64) -> Result<Run, NoRoom> {
        self.slabs.take_from(self.supply, self.place, len)
    }

    fn give_far(&self, far: Far) {
        if let Some(run) = far.run() {
            self.slabs.give(run);
        }
    }

    /// Inserts an object into an empty group, or one whose objects have the same length.
    fn insert_equal(
        &self,
        view: &View,
        slot: u32,
        kind: Kind,
        content: Content<'_>,
    ) -> Result<(), NoRoom> {
        let (count, rank, stride) = (view.count(), view.rank(slot), content.len());
        self.reserve(view, kind, stride, count + 1)?;
        let start = self.slabs.address(self.group.view().word.run().start);
        // SAFETY: the run has room for `count + 1` objects, and the latch makes it this thread's.
        unsafe {
            let at = start.add(rank * stride);
            shift(at, at.add(stride), (count - rank) * stride);
            content.write(at);
        }
        self.group.set_present(slot, true);
        Ok(())
    }

    /// Makes sure that the group's run has room for `count` objects of `stride` bytes.
    fn reserve(&self, view: &View, kind: Kind, stride: usize, count: usize) -> Result<(), NoRoom> {
        let (word, used) = (view.word, view.count() * stride);
        let need = Run::granules(count * stride);
        if need <= word.run().len && view.present != 0 {
            return Ok(());
        }
        // Room for all 64 objects at once if they are short; otherwise the run doubles.
        let full = Run::granules(64 * stride);
        let wish =
            if full <= WHOLE_GRANULES { full } else { full.min(need.max(2 * word.run().len)) };
        self.enlarge(wish.max(need), need, used, kind)
    }

    /// Extends the run to `wish` granules, or else to `need`: in place, or by a move of its first
    /// `used` bytes to a longer run.
    fn enlarge(&self, wish: u64, need: u64, used: usize, kind: Kind) -> Result<(), NoRoom> {
        let word = self.group.view().word;
        let old = word.run();
        for len in [wish, need] {
            if old.len > 0 && self.slabs.extend(old, len) {
                self.group.set_word(word.over(Run { len, ..old }, kind));
                return Ok(());
            }
        }
        let new = self.take(wish).or_else(|_| self.take(need))?;
        self.move_to(new, used, kind);
        Ok(())
    }

    /// Copies the first `used` bytes to another run and frees the old one.
    fn move_to(&self, new: Run, used: usize, kind: Kind) {
        let word = self.group.view().word;
        let (from, to) = (self.slabs.address(word.run().start), self.slabs.address(new.start));
        // SAFETY: both runs have `used` bytes; the old one is the group's, which is latched, and
        // the new one is not yet known to any other thread.
        unsafe { copy(from, to, used) };
        self.group.set_word(word.over(new, kind));
        if word.run().len > 0 {
            self.slabs.give(word.run());
        }
    }

    /// Removes the object of a slot.
    pub(crate) fn remove(&self, slot: u32) {
        let view = self.group.view();
        let Some(stride) = view.word.kind().stride() else {
            let removed = self.rebuild(Change { slot, to: None });
            debug_assert!(removed.is_ok(), "less needs no more room");
            return;
        };
        if let Some(far) = view.find(self.slabs, slot).and_then(|found| found.far) {
            self.slabs.give(far);
        }
        let (count, rank) = (view.count(), view.rank(slot));
        let start = self.slabs.address(view.word.run().start);
        // SAFETY: the run holds `count` objects, and the latch makes it this thread's.
        unsafe {
            let at = start.add(rank * stride);
            shift(at.add(stride), at, (count - rank - 1) * stride);
        }
        self.group.set_present(slot, false);
        self.shrink((count - 1) * stride, Left::AQuarter);
    }

    /// Frees the unused end of the run, if it is more than `left` allows.
    fn shrink(&self, used: usize, left: Left) {
        let word = self.group.view().word;
        let (run, need) = (word.run(), Run::granules(used));
        let slack = run.len - need.min(run.len);
        let too_much = match left {
            Left::Nothing => slack > 0,
            Left::AQuarter => slack * 4 > run.len,
        };
        if too_much || (need == 0 && run.len > 0) {
            let kind = if need == 0 { Kind::Mixed } else { word.kind() };
            let kept = if need == 0 { Run { start: 0, len: 0 } } else { Run { len: need, ..run } };
            self.group.set_word(word.over(kept, kind));
            self.slabs.give(Run { start: run.start + need, len: run.len - need });
        }
    }

    /// Replaces the content of an object, with any length.
    pub(crate) fn replace(&self, slot: u32, content: Content<'_>) -> Result<(), NoRoom> {
        self.rebuild(Change { slot, to: Some(Piece::New(content)) })
    }

    /// Moves an object from the group's run to a run of its own, unless it has one.
    pub(crate) fn move_out(&self, slot: u32) -> Result<(), NoRoom> {
        let Some(found) = self.find(slot).filter(|found| found.far.is_none()) else {
            return Ok(());
        };
        let mut copy = [0; NEAR_BYTES_MAX];
        let copy = &mut copy[..found.len];
        // SAFETY: the object is in the group, which is latched.
        unsafe { bytes::read(found.at, copy) };
        let far = self.far(Content::Bytes(copy))?;
        let moved = self.rebuild(Change { slot, to: Some(Piece::Far(far)) });
        if moved.is_err() {
            self.give_far(far);
        }
        moved
    }

    /// Makes the object of a slot read-only or writable.
    pub(crate) fn set_read_only(&self, slot: u32, read_only: bool) -> Result<(), NoRoom> {
        self.rebuild(Change { slot, to: Some(Piece::ReadOnly(read_only)) })
    }

    /// Frees the unused end of the group's run.
    pub(crate) fn trim(&self) {
        self.shrink(self.group.view().used_bytes(self.slabs), Left::Nothing);
    }

    /// Changes a mixed group to the layout of objects of one length, or of objects with runs of
    /// their own, if its contents allow it; then frees the unused end of the run, as
    /// [`Editor::trim`] does.
    pub(crate) fn tidy(&self) -> Result<(), NoRoom> {
        let view = self.group.view();
        if view.word.kind() == Kind::Mixed {
            let same = Change { slot: 0, to: Some(Piece::Same) };
            if Draft::new(self.slabs, &view, &same).layout().0 != Kind::Mixed {
                self.rebuild(same)?;
            }
        }
        self.trim();
        Ok(())
    }

    /// True if moving these objects from runs of their own into the group's run takes no more
    /// memory.
    pub(crate) fn is_less_at_home(&self, slots: &[u32]) -> bool {
        let (view, same) = (self.group.view(), Change { slot: 0, to: Some(Piece::Same) });
        let mut draft = Draft::new(self.slabs, &view, &same);
        let mut now = Run::granules(draft.layout().1);
        for slot in slots {
            let Some(found) = self.find(*slot) else { continue };
            now += found.far.map_or(0, |run| run.len);
            draft.bring_home(*slot, found.len);
        }
        Run::granules(draft.layout().1) <= now
    }

    /// Moves an object from its own run into the group's run, if it is short enough.
    pub(crate) fn move_in(&self, slot: u32) -> Result<(), NoRoom> {
        let Some(found) = self.find(slot).filter(|found| found.far.is_some()) else {
            return Ok(());
        };
        let mut copy = [0; NEAR_BYTES_MAX];
        let Some(copy) = copy.get_mut(..found.len) else { return Ok(()) };
        // SAFETY: the object is of the group, which is latched.
        unsafe { bytes::read(found.at, copy) };
        self.rebuild(Change { slot, to: Some(Piece::New(Content::Bytes(copy))) })
    }

    /// Moves the group's run to another place.
    pub(crate) fn relocate(&self) -> Result<(), NoRoom> {
        let word = self.group.view().word;
        let new = self.elsewhere(word.run())?;
        self.move_to(new, word.bytes(), word.kind());
        Ok(())
    }

    fn elsewhere(&self, run: Run) -> Result<Run, NoRoom> {
        self.take(run.len).or_else(|no_room| self.slabs.take_lower(run).ok_or(no_room))
    }

    /// Moves an object's own run to another place.
    pub(crate) fn relocate_far(&self, slot: u32) -> Result<(), NoRoom> {
        let view = self.group.view();
        let Some(found) = view.find(self.slabs, slot) else { return Ok(()) };
        let Some(old) = found.far else { return Ok(()) };
        let new = self.elsewhere(old)?;
        let far = Far { start: new.start, len: to_u64(found.len) };
        let base = self.slabs.address(view.word.run().start);
        // SAFETY: both runs are as long as the object, and the latch makes the old one this
        // thread's; the object's location stands in the group's run, at the offset computed here.
        unsafe {
            copy(found.at, self.slabs.address(new.start), found.len);
            let place = match view.word.kind() {
                Kind::Mixed => {
                    let place = bytes::read_u16(base.add(16 + 2 * slot as usize));
                    base.add(Header::BYTES + usize::from(place))
                }
                _ => base.add(view.rank(slot) * FAR_BYTES),
            };
            bytes::write(place, &far.to_bytes());
        }
        self.slabs.give(old);
        Ok(())
    }

    fn rebuild(&self, change: Change<'_>) -> Result<(), NoRoom> {
        let view = self.group.view();
        let mut draft = Draft::new(self.slabs, &view, &change);
        // An object that needs a run of its own gets it first, as that may fail.
        let (made, far) = match change.to {
            Some(Piece::New(content)) if content.len() > NEAR_BYTES_MAX => {
                let far = self.far(content)?;
                (Some(far), Some(far))
            }
            Some(Piece::Far(far) | Piece::Placed(far)) => (None, Some(far)),
            _ => (None, None),
        };
        draft.apply(&change, far);
        let rebuilt = self.put_together(&view, &draft, &change, far);
        if let (Err(_), Some(far)) = (rebuilt, made) {
            self.give_far(far);
        }
        rebuilt
    }

    fn put_together(
        &self,
        view: &View,
        draft: &Draft,
        change: &Change<'_>,
        far: Option<Far>,
    ) -> Result<(), NoRoom> {
        let (kind, used) = draft.layout();
        let old_bytes = view.word.bytes();
        with_scratch(old_bytes + used, |scratch| {
            let (old, new) = scratch.split_at_mut(old_bytes);
            // SAFETY: the run is the group's, which is latched.
            unsafe { bytes::read(self.slabs.address(view.word.run().start), old) };
            self.room(view, used, kind)?;
            if used == 0 {
                return Ok(());
            }
            draft.write(kind, old, change, far, new);
            let start = self.slabs.address(self.group.view().word.run().start);
            // SAFETY: `room` made sure of a run of `used` bytes, and the latch makes it this
            // thread's.
            unsafe { bytes::write(start, new) };
            Ok(())
        })?;
        self.group.set_present(change.slot, draft.present >> change.slot & 1 != 0);
        let loses = matches!(change.to, None | Some(Piece::New(_) | Piece::Placed(_)));
        if let (true, Some(run)) = (loses, draft.far_run) {
            self.slabs.give(run);
        }
        // A full group needs no more room; other groups keep some for further objects.
        self.shrink(used, if draft.present == u64::MAX { Left::Nothing } else { Left::AQuarter });
        Ok(())
    }

    /// Makes sure that the group's run has `used` bytes; its contents are lost.
    fn room(&self, view: &View, used: usize, kind: Kind) -> Result<(), NoRoom> {
        let (run, need) = (view.word.run(), Run::granules(used));
        if need > run.len {
            let spare = if view.count() < 63 { need / 4 } else { 0 };
            return self.enlarge(need + spare, need, 0, kind);
        }
        self.group.set_word(view.word.over(run, kind));
        Ok(())
    }
}

/// Allocates a run for an object of `len` bytes.
pub(crate) fn take(slabs: &Slabs, place: usize, len: usize) -> Result<Far, NoRoom> {
    let run = slabs.take(place, Run::granules(len.max(1)))?;
    Ok(Far { start: run.start, len: to_u64(len) })
}

/// Fills a run that was just allocated.
///
/// # Safety
/// The run was allocated for as many bytes as the content has, and no object has it yet.
pub(crate) unsafe fn fill(slabs: &Slabs, far: Far, content: Content<'_>) {
    // SAFETY: the caller's promise.
    unsafe { content.write(slabs.address(far.start)) };
}

/// Maximum length, in granules, of a run that a group gets in full with its first object (objects
/// of up to 256 bytes): runs that grow leave holes.
const WHOLE_GRANULES: u64 = 256;

/// Unused part of a run that its group may keep.
#[derive(Clone, Copy)]
enum Left {
    Nothing,
    AQuarter,
}
