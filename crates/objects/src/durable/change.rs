//! Changes of objects, and their records in logs.
//!
//! ```text
//! change   kind 1, id 8, and the fields of the kind
//! ```
//!
//! Numbers are little-endian. Lengths have seven bits to a byte; the eighth is set if more bytes
//! follow.

use super::encoding::{Nonsense, byte, len, put_len, word};
use crate::groups::content::Content;
use crate::id::ObjectId;

/// Change of an object, or of the state of ids, as a log record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    /// The object exists and holds these bytes.
    Put { id: ObjectId, bytes: &'a [u8] },
    /// The object exists and holds `len` zeros.
    Zeros { id: ObjectId, len: usize },
    /// The object's bytes from `offset` on are replaced by `bytes`.
    Write { id: ObjectId, offset: usize, bytes: &'a [u8] },
    /// The object has this length; bytes added to it are zero.
    Resize { id: ObjectId, len: usize },
    /// The object is removed.
    Remove { id: ObjectId },
    /// The object becomes read-only or writable.
    ReadOnly { id: ObjectId, read_only: bool },
    /// `count` consecutive ids are reserved, `id` first.
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
    /// Returns the change that gives an object this content.
    #[inline]
    pub(crate) fn of(id: ObjectId, content: Content<'a>) -> Self {
        match content {
            Content::Zeros(len) => Self::Zeros { id, len },
            Content::Bytes(bytes) => Self::Put { id, bytes },
            Content::Resized { len, .. } => Self::Resize { id, len },
        }
    }

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

    /// Appends the record of the change to `to`.
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
    use crate::config::OBJECT_BYTES_MAX;

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
}
