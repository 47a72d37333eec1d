//! Record format of groups and changes, in dumps and logs.
//!
//! Numbers are little-endian. Lengths have seven bits to a byte; the eighth is set if more bytes
//! follow.
//!
//! ```text
//! group    number 8, present 8, reserved 8, read-only 8, generations 64 if ids have them, lengths,
//!          bytes
//! lengths  0 and the length of all objects; or 1 and the length of each
//! end      number 2^64 - 1, objects 8, bytes 8
//! change   kind 1, id 8, and the fields of the kind
//! ```

use std::collections::TryReserveError;
use std::io;

use crate::bytes;
use crate::group::{Found, GROUP_SLOTS, Kind, View, bits};
use crate::id::ObjectId;
use crate::slabs::Slabs;
use crate::store::OBJECT_BYTES_MAX;

/// Largest piece in which the bytes of an object are written and read.
pub(crate) const PIECE_BYTES: usize = 1 << 20;
/// Stands in place of a group's number behind the last group.
const END: u64 = u64::MAX;
/// Most bytes of a group's record beside those of its objects.
pub(crate) const GROUP_BYTES_MAX: usize = 32 + 64 + 1 + 64 * 10;

/// Makes room in a buffer for so many more bytes.
pub(crate) type Room<'a, E> = dyn FnMut(&mut Vec<u8>, usize) -> Result<(), E> + 'a;

/// Contents of a latched group, to be written to a dump before the latch is released.
pub(crate) struct Holding {
    objects: Vec<Found>,
    /// Bytes of all objects.
    pub(crate) bytes: usize,
    read_only: u64,
    is_uniform: bool,
}

impl Holding {
    /// Collects the objects of a latched group. Returns `None` if the location of an object is
    /// invalid, which means that the store's memory is damaged.
    pub(crate) fn of(slabs: &Slabs, view: &View) -> Result<Option<Self>, TryReserveError> {
        let is_uniform = matches!(view.word.kind(), Kind::Uniform(_));
        let mut all = Self { objects: Vec::new(), bytes: 0, read_only: 0, is_uniform };
        all.objects.try_reserve(view.count())?;
        for slot in view.slots() {
            let Some(found) = view.find(slabs, slot) else { return Ok(None) };
            all.bytes += found.len;
            all.read_only |= u64::from(found.read_only) << slot;
            all.objects.push(found);
        }
        Ok(Some(all))
    }

    pub(crate) fn count(&self) -> usize {
        self.objects.len()
    }

    /// Appends the group's record in pieces, for each of which `room` makes room first.
    pub(crate) fn append<E>(
        &self,
        number: u64,
        generations: Option<[u8; 64]>,
        view: &View,
        to: &mut Vec<u8>,
        room: &mut Room<'_, E>,
    ) -> Result<(), E> {
        room(to, GROUP_BYTES_MAX)?;
        for word in [number, view.present, view.reserved_slots(), self.read_only] {
            to.extend_from_slice(&word.to_le_bytes());
        }
        to.extend(generations.into_iter().flatten());
        let first = self.objects.first().map_or(0, |found| found.len);
        let equal = self.objects.iter().all(|found| found.len == first);
        to.push(u8::from(!equal));
        let lens = if equal { &self.objects[..self.count().min(1)] } else { &self.objects };
        lens.iter().for_each(|found| put_len(to, found.len));
        // Objects of one length are contiguous.
        if let (true, Some(found)) = (self.is_uniform, self.objects.first()) {
            return copy(found.at, self.bytes, to, room);
        }
        self.objects.iter().try_for_each(|found| copy(found.at, found.len, to, room))
    }
}

/// Appends bytes of a latched group.
fn copy<E>(from: *const u8, len: usize, to: &mut Vec<u8>, room: &mut Room<'_, E>) -> Result<(), E> {
    for done in (0..len).step_by(PIECE_BYTES) {
        let piece = PIECE_BYTES.min(len - done);
        room(to, piece)?;
        let at = to.len();
        to.resize(at + piece, 0);
        // SAFETY: the caller has the latch of the group that these objects belong to.
        unsafe { bytes::read(from.wrapping_add(done), &mut to[at..]) };
    }
    Ok(())
}

/// Appends the record that follows the last group.
pub(crate) fn end(objects: u64, object_bytes: u64, to: &mut Vec<u8>) {
    for word in [END, objects, object_bytes] {
        to.extend_from_slice(&word.to_le_bytes());
    }
}

fn put_len(to: &mut Vec<u8>, len: usize) {
    let mut left = len;
    loop {
        let [low, ..] = left.to_le_bytes();
        left >>= 7;
        if left == 0 {
            return to.push(low);
        }
        to.push(low | 0x80);
    }
}

/// Source of bytes that records are read from.
pub(crate) trait Source {
    /// Error of a read.
    type Error: From<Nonsense>;

    /// Fills `to`.
    fn fill(&mut self, to: &mut [u8]) -> Result<(), Self::Error>;
}

/// Invalid record, and the reason.
#[derive(Debug)]
pub(crate) struct Nonsense(pub(crate) &'static str);

impl Source for &[u8] {
    type Error = Nonsense;

    fn fill(&mut self, to: &mut [u8]) -> Result<(), Nonsense> {
        let short = |_| Nonsense("a record ends too early");
        io::Read::read_exact(self, to).map_err(short)
    }
}

fn word<S: Source>(from: &mut S) -> Result<u64, S::Error> {
    let mut word = [0; 8];
    from.fill(&mut word)?;
    Ok(u64::from_le_bytes(word))
}

fn byte<S: Source>(from: &mut S) -> Result<u8, S::Error> {
    let mut byte = [0];
    from.fill(&mut byte)?;
    Ok(byte[0])
}

fn len<S: Source>(from: &mut S) -> Result<usize, S::Error> {
    let mut len = 0;
    for shift in (0..63).step_by(7) {
        let byte = byte(from)?;
        len |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            let len = usize::try_from(len).ok().filter(|len| *len <= OBJECT_BYTES_MAX);
            return len.ok_or_else(|| Nonsense("an object is too long").into());
        }
    }
    Err(Nonsense("a length does not end").into())
}

/// Next record of a dump.
pub(crate) enum Next {
    Group(GroupRecord),
    /// Number of objects and bytes in the groups before.
    End {
        objects: u64,
        object_bytes: u64,
    },
}

/// Record of a group, without the bytes of its objects, which follow in the order of their slots.
pub(crate) struct GroupRecord {
    pub(crate) number: u64,
    pub(crate) reserved: u64,
    pub(crate) read_only: u64,
    pub(crate) generations: Option<[u8; 64]>,
    /// Slots and lengths.
    pub(crate) objects: Vec<(u32, usize)>,
}

/// Reads a record, up to the bytes of the group's objects.
pub(crate) fn next<S: Source>(from: &mut S, generations: bool) -> Result<Next, S::Error> {
    let number = word(from)?;
    if number == END {
        return Ok(Next::End { objects: word(from)?, object_bytes: word(from)? });
    }
    let (present, reserved, read_only) = (word(from)?, word(from)?, word(from)?);
    let sound = number <= u64::MAX / GROUP_SLOTS
        && present & reserved == 0
        && read_only & !present == 0
        && (present | reserved != 0 || generations)
        && (number != 0 || (present | reserved) & 1 == 0);
    if !sound {
        return Err(Nonsense("a group contradicts itself").into());
    }
    let mut all = [0; 64];
    if generations {
        from.fill(&mut all)?;
    }
    let equal = match byte(from)? {
        0 => true,
        1 => false,
        _ => return Err(Nonsense("lengths are of no known kind").into()),
    };
    let mut objects = Vec::with_capacity(present.count_ones() as usize);
    for slot in bits(present) {
        let before = objects.last().filter(|_| equal).map(|(_, len)| *len);
        objects.push((slot, before.map_or_else(|| len(from), Ok)?));
    }
    let generations = generations.then_some(all);
    Ok(Next::Group(GroupRecord { number, reserved, read_only, generations, objects }))
}

/// Change of an object, or of the state of ids, as a log record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    /// The object exists and holds these bytes.
    Put { id: ObjectId, bytes: &'a [u8] },
    /// The object exists and holds so many zeros.
    Zeros { id: ObjectId, len: usize },
    /// The object's bytes from `offset` on are these.
    Write { id: ObjectId, offset: usize, bytes: &'a [u8] },
    /// The object has this length; bytes added to it are zero.
    Resize { id: ObjectId, len: usize },
    /// The object is removed.
    Remove { id: ObjectId },
    /// The object becomes read-only or writable.
    ReadOnly { id: ObjectId, read_only: bool },
    /// So many ids from this one on are reserved.
    Reserve { id: ObjectId, count: u64 },
    /// The id is no longer reserved.
    Release { id: ObjectId },
}

const PUT: u8 = 1;
const ZEROS: u8 = 2;
const WRITE: u8 = 3;
const RESIZE: u8 = 4;
const REMOVE: u8 = 5;
const READ_ONLY: u8 = 6;
const WRITABLE: u8 = 7;
const RESERVE: u8 = 8;
const RELEASE: u8 = 9;

impl<'a> Change<'a> {
    /// Returns the id that the change applies to, or the first one.
    pub(crate) fn id(self) -> ObjectId {
        match self {
            Self::Put { id, .. }
            | Self::Zeros { id, .. }
            | Self::Write { id, .. }
            | Self::Resize { id, .. }
            | Self::Remove { id }
            | Self::ReadOnly { id, .. }
            | Self::Reserve { id, .. }
            | Self::Release { id } => id,
        }
    }

    /// Upper bound of the record's bytes.
    pub(crate) fn bytes_max(self) -> usize {
        32 + match self {
            Self::Put { bytes, .. } | Self::Write { bytes, .. } => bytes.len(),
            _ => 0,
        }
    }

    /// Appends the record.
    pub(crate) fn append(self, to: &mut Vec<u8>) {
        let mut head = |kind: u8, id: ObjectId| {
            to.push(kind);
            to.extend_from_slice(&id.to_bits().to_le_bytes());
        };
        match self {
            Self::Put { id, bytes } => {
                head(PUT, id);
                put_len(to, bytes.len());
                to.extend_from_slice(bytes);
            }
            Self::Zeros { id, len } => {
                head(ZEROS, id);
                put_len(to, len);
            }
            Self::Write { id, offset, bytes } => {
                head(WRITE, id);
                put_len(to, offset);
                put_len(to, bytes.len());
                to.extend_from_slice(bytes);
            }
            Self::Resize { id, len } => {
                head(RESIZE, id);
                put_len(to, len);
            }
            Self::Remove { id } => head(REMOVE, id),
            Self::ReadOnly { id, read_only } => {
                head(if read_only { READ_ONLY } else { WRITABLE }, id);
            }
            Self::Reserve { id, count } => {
                head(RESERVE, id);
                to.extend_from_slice(&count.to_le_bytes());
            }
            Self::Release { id } => head(RELEASE, id),
        }
    }

    /// Reads a record from the beginning of `from` and advances it.
    pub(crate) fn take(from: &mut &'a [u8]) -> Result<Self, Nonsense> {
        let kind = byte(from)?;
        let id = ObjectId::from_bits(word(from)?);
        Ok(match kind {
            PUT => {
                let count = len(from)?;
                Self::Put { id, bytes: cut(from, count)? }
            }
            ZEROS => Self::Zeros { id, len: len(from)? },
            WRITE => {
                let (offset, count) = (len(from)?, len(from)?);
                Self::Write { id, offset, bytes: cut(from, count)? }
            }
            RESIZE => Self::Resize { id, len: len(from)? },
            REMOVE => Self::Remove { id },
            READ_ONLY | WRITABLE => Self::ReadOnly { id, read_only: kind == READ_ONLY },
            RESERVE => Self::Reserve { id, count: word(from)? },
            RELEASE => Self::Release { id },
            _ => return Err(Nonsense("a change is of no known kind")),
        })
    }
}

fn cut<'a>(from: &mut &'a [u8], count: usize) -> Result<&'a [u8], Nonsense> {
    let (bytes, rest) = from.split_at_checked(count).ok_or(Nonsense("a record ends too early"))?;
    *from = rest;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_as_they_were_written() {
        let id = ObjectId::new(3, 0x1234_5678);
        let bytes = [7; 300];
        let changes = [
            Change::Put { id, bytes: &bytes },
            Change::Put { id, bytes: &[] },
            Change::Zeros { id, len: OBJECT_BYTES_MAX },
            Change::Write { id, offset: 1 << 30, bytes: &bytes[..5] },
            Change::Resize { id, len: 127 },
            Change::Resize { id, len: 128 },
            Change::Remove { id },
            Change::ReadOnly { id, read_only: true },
            Change::ReadOnly { id, read_only: false },
            Change::Reserve { id, count: u64::MAX },
            Change::Release { id },
        ];
        let mut all = Vec::new();
        for change in changes {
            let before = all.len();
            change.append(&mut all);
            assert!(all.len() - before <= change.bytes_max(), "{change:?}");
        }
        let mut rest = &all[..];
        for change in changes {
            assert_eq!(Change::take(&mut rest).expect("whole"), change);
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn whatever_is_no_change_is_refused() {
        let id = ObjectId::new(0, 9);
        let mut whole = Vec::new();
        Change::Write { id, offset: 300, bytes: &[1; 200] }.append(&mut whole);
        for end in 0..whole.len() {
            assert!(Change::take(&mut &whole[..end]).is_err(), "{end}");
        }
        for kind in [0, 10, 255] {
            whole[0] = kind;
            assert!(Change::take(&mut &whole[..]).is_err(), "{kind}");
        }
        let endless = [&[RESIZE; 9][..], &[0xff; 20]].concat();
        assert!(Change::take(&mut &endless[..]).is_err());
    }

    #[test]
    fn groups_that_cannot_be_are_refused() {
        let group = |words: [u64; 4]| words.iter().flat_map(|it| it.to_le_bytes()).collect();
        let wrong: [Vec<u8>; 5] = [
            group([5, 0b11, 0b10, 0]),
            group([5, 0b11, 0, 0b100]),
            group([5, 0, 0, 0]),
            group([u64::MAX - 1, 1, 0, 0]),
            group([0, 1, 0, 0]),
        ];
        for mut bytes in wrong {
            bytes.extend_from_slice(&[0, 4]);
            assert!(next(&mut &bytes[..], false).is_err(), "{bytes:?}");
        }
    }
}
