//! Layout of a group that is being rebuilt.

use terrace_sys::size::to_usize;

use crate::bytes;
use crate::groups::content::Content;
use crate::groups::group::{View, bits};
use crate::groups::header::{Far, Header};
use crate::groups::run::Run;
use crate::groups::slabs::Slabs;
use crate::groups::word::{FAR_BYTES, Kind};

/// Change of one slot of a group that is rebuilt.
pub(crate) struct Change<'a> {
    pub(crate) slot: u32,
    /// New state of the slot; `None` removes its object.
    pub(crate) to: Option<Piece<'a>>,
}

#[derive(Clone, Copy)]
pub(crate) enum Piece<'a> {
    /// Unchanged.
    Same,
    New(Content<'a>),
    /// The same content, in a run of its own.
    Far(Far),
    /// New content, in a run of its own.
    Placed(Far),
    ReadOnly(bool),
}

/// Layout of the new group: for each slot, the location of its bytes in the old run.
pub(crate) struct Draft {
    pub(crate) present: u64,
    far: u64,
    read_only: u64,
    from: [u32; 64],
    len: [u16; 64],
    /// Bytes of the changed slot in the old run.
    had: usize,
    /// Own run of the changed slot's object, if it has one.
    pub(crate) far_run: Option<Run>,
}

impl Draft {
    pub(crate) fn new(slabs: &Slabs, view: &View, change: &Change<'_>) -> Self {
        let mut draft = Self {
            present: view.present,
            far: 0,
            read_only: 0,
            from: [0; 64],
            len: [0; 64],
            had: 0,
            far_run: None,
        };
        let base = slabs.address(view.word.run().start).addr();
        for slot in view.slots() {
            let Some(found) = view.find(slabs, slot) else { continue };
            let n = slot as usize;
            let (at, len) = match (found.far, view.word.kind()) {
                (None, _) => (found.at.addr() - base, found.len),
                (Some(_), Kind::Mixed) => (far_place(slabs, view, slot), FAR_BYTES),
                (Some(_), _) => (view.rank(slot) * FAR_BYTES, FAR_BYTES),
            };
            draft.from[n] = u32::try_from(at).unwrap_or(u32::MAX);
            draft.len[n] = u16::try_from(len).unwrap_or(u16::MAX);
            draft.far |= u64::from(found.far.is_some()) << slot;
            draft.read_only |= u64::from(found.read_only) << slot;
            if slot == change.slot {
                (draft.had, draft.far_run) = (len, found.far);
            }
        }
        draft
    }

    pub(crate) fn apply(&mut self, change: &Change<'_>, far: Option<Far>) {
        let (bit, n) = (1_u64 << change.slot, change.slot as usize);
        match change.to {
            None => {
                self.present &= !bit;
                self.far &= !bit;
                self.read_only &= !bit;
                self.len[n] = 0;
            }
            Some(Piece::Same) => {}
            Some(Piece::ReadOnly(read_only)) => {
                self.read_only =
                    if read_only { self.read_only | bit } else { self.read_only & !bit };
            }
            Some(Piece::New(content)) => {
                self.present |= bit;
                self.far = if far.is_some() { self.far | bit } else { self.far & !bit };
                let len = if far.is_some() { FAR_BYTES } else { content.len() };
                self.len[n] = u16::try_from(len).unwrap_or(u16::MAX);
            }
            Some(Piece::Far(_) | Piece::Placed(_)) => {
                self.present |= bit;
                self.far |= bit;
                self.len[n] = u16::try_from(FAR_BYTES).unwrap_or(u16::MAX);
            }
        }
    }

    /// Lays out the object of `slot`, which has `len` bytes and a run of its own, in the group's
    /// run.
    pub(crate) fn bring_home(&mut self, slot: u32, len: usize) {
        self.far &= !(1 << slot);
        self.len[slot as usize] = u16::try_from(len).unwrap_or(u16::MAX);
    }

    /// Returns the layout that takes the fewest bytes, and their number.
    pub(crate) fn layout(&self) -> (Kind, usize) {
        let all: usize = bits(self.present).map(|slot| usize::from(self.len[slot as usize])).sum();
        let Some(first) = bits(self.present).next() else { return (Kind::Mixed, 0) };
        let len = self.len[first as usize];
        let equal = bits(self.present).all(|slot| self.len[slot as usize] == len) && len > 0;
        match equal && self.read_only == 0 {
            true if self.far == 0 => (Kind::Uniform(usize::from(len)), all),
            true if self.far == self.present => (Kind::Remote, all),
            _ => (Kind::Mixed, Header::BYTES + all),
        }
    }

    pub(crate) fn write(
        &self,
        kind: Kind,
        old: &[u8],
        change: &Change<'_>,
        far: Option<Far>,
        new: &mut [u8],
    ) {
        let skip = if kind == Kind::Mixed { Header::BYTES } else { 0 };
        let mut starts = [0_u16; 65];
        let mut end = 0;
        for slot in 0..64_u32 {
            let n = slot as usize;
            let len = usize::from(self.len[n]);
            let place = &mut new[skip + end..skip + end + len];
            let is_new = slot == change.slot;
            match (is_new.then_some(far).flatten(), change.to) {
                (Some(far), _) => place.copy_from_slice(&far.to_bytes()),
                (None, Some(Piece::New(content))) if is_new => {
                    let from = to_usize(u64::from(self.from[n]));
                    let near = self.far_run.is_none().then(|| &old[from..from + self.had]);
                    content.copy(near, place);
                }
                _ => {
                    let from = to_usize(u64::from(self.from[n]));
                    place.copy_from_slice(&old[from..from + len]);
                }
            }
            end += len;
            starts[n + 1] = u16::try_from(end).unwrap_or(u16::MAX);
        }
        if kind == Kind::Mixed {
            let header = Header { far: self.far, read_only: self.read_only, starts };
            new[..Header::BYTES].copy_from_slice(&header.to_bytes());
        }
    }
}

/// Returns the offset in a mixed run of the location ([`Far`]) of an object with a run of its own.
fn far_place(slabs: &Slabs, view: &View, slot: u32) -> usize {
    let base = slabs.address(view.word.run().start);
    // SAFETY: the run is mixed, so it begins with a header, and the caller has the group's latch.
    let start = unsafe { bytes::read_u16(base.add(16 + 2 * slot as usize)) };
    Header::BYTES + usize::from(start)
}
