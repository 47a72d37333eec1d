//! Records of groups in dumps.
//!
//! Numbers are little-endian. Lengths have seven bits to a byte; the eighth is set if more bytes
//! follow.
//!
//! ```text
//! group    number 8, present 8, reserved 8, read-only 8, generations 64 if ids have them, lengths,
//!          bytes
//! lengths  0 and the length of all objects; or 1 and the length of each
//! end      number 2^64 - 1, objects 8, bytes 8
//! ```

use std::collections::TryReserveError;

use super::encoding::{Nonsense, Source, byte, len, put_len, word};
use crate::bytes;
use crate::groups::group::{Found, GROUP_SLOTS, View, bits};
use crate::groups::slabs::Slabs;
use crate::groups::word::Kind;

/// Largest piece in which the bytes of an object are written and read.
pub(crate) const PIECE_BYTES: usize = 1 << 20;
/// Number in the record that follows the last group.
const END: u64 = u64::MAX;
/// Maximum bytes of a group's record without the bytes of its objects.
pub(crate) const GROUP_BYTES_MAX: usize = 32 + 64 + 1 + 64 * 10;

/// Function that makes room in a buffer for a number of further bytes.
pub(crate) type Room<'a, E> = dyn FnMut(&mut Vec<u8>, usize) -> Result<(), E> + 'a;

/// Locations of the objects of a latched group, whose bytes are written to a dump before the latch
/// is released.
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

/// Reads a record, up to the bytes of the group's objects. `generations`: the ids in the dump have
/// generations.
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

#[cfg(test)]
mod tests {
    use super::*;

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
