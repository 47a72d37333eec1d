//! Numbers and lengths in records, and the sources that they are read from.

use std::io;

use crate::config::OBJECT_BYTES_MAX;

/// Appends a length, seven bits to a byte from the lowest on; the eighth bit is set if more bytes
/// follow (LEB128).
pub(super) fn put_len(to: &mut Vec<u8>, len: usize) {
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
    /// Error of a read: of the source, or for an invalid record.
    type Error: From<Nonsense>;

    /// Reads as many bytes as `to` has.
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

/// Reads a little-endian number of 64 bits.
pub(super) fn word<S: Source>(from: &mut S) -> Result<u64, S::Error> {
    let mut word = [0; 8];
    from.fill(&mut word)?;
    Ok(u64::from_le_bytes(word))
}

/// Reads a byte.
pub(super) fn byte<S: Source>(from: &mut S) -> Result<u8, S::Error> {
    let mut byte = [0];
    from.fill(&mut byte)?;
    Ok(byte[0])
}

/// Reads a length as [`put_len`] writes it, of [`OBJECT_BYTES_MAX`] at most.
pub(super) fn len<S: Source>(from: &mut S) -> Result<usize, S::Error> {
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
