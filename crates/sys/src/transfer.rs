//! One positioned transfer between a buffer and a file: the unit that I/O engines batch.

use std::io;

use crate::size::to_u64;

/// Where the bytes of a transfer go to or come from.
#[derive(Debug)]
pub enum Buffer<'a> {
    /// The whole slice is filled from the file.
    ReadInto(&'a mut [u8]),
    /// The whole slice is written to the file.
    WriteFrom(&'a [u8]),
}

impl Buffer<'_> {
    /// Bytes to transfer.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Buffer::ReadInto(data) => data.len(),
            Buffer::WriteFrom(data) => data.len(),
        }
    }

    /// Whether there is nothing to transfer.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, read or to be written.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Buffer::ReadInto(data) => data,
            Buffer::WriteFrom(data) => data,
        }
    }

    /// Where the bytes are, for the kernel: those of a write must not be written to.
    pub(crate) fn as_raw(&mut self) -> (*mut u8, usize) {
        match self {
            Buffer::ReadInto(data) => (data.as_mut_ptr(), data.len()),
            Buffer::WriteFrom(data) => (data.as_ptr().cast_mut(), data.len()),
        }
    }

    /// Whether this transfer changes the file.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(self, Buffer::WriteFrom(_))
    }
}

/// The most bytes that are merged into one request: what the reference device moves at full speed.
/// Longer ones would only delay the first of them.
const MERGED_BYTES_MAX: usize = 256 << 10;
/// The most buffers of one request; the kernel takes 1,024.
const MERGED_COUNT_MAX: usize = 64;

/// How many transfers at the start of `batch` go the same way and follow one another in the file,
/// so that one request can carry them. At least one, unless the batch is empty.
#[must_use]
pub fn run_len(batch: &[Io<'_>]) -> usize {
    let Some(first) = batch.first() else { return 0 };
    let mut bytes = first.buffer.len();
    let mut count = 1;
    for io in batch.iter().take(MERGED_COUNT_MAX).skip(1) {
        let follows = first.offset.checked_add(to_u64(bytes)) == Some(io.offset);
        let same_way = io.buffer.is_write() == first.buffer.is_write();
        bytes += io.buffer.len();
        if !follows || !same_way || bytes > MERGED_BYTES_MAX {
            break;
        }
        count += 1;
    }
    count
}

/// What to do with a transfer whose bytes have all moved, while others are still in flight. An
/// engine calls it once for each transfer of a batch that succeeds, as soon as it can, on any
/// thread.
pub type Done<'a> = dyn Fn(&mut Io<'_>) + Sync + 'a;

/// One transfer of a batch and its outcome.
#[derive(Debug)]
pub struct Io<'a> {
    /// Position in the file, in bytes.
    pub offset: u64,
    /// The memory side.
    pub buffer: Buffer<'a>,
    /// Set by the engine: `Ok` when every byte was transferred.
    pub result: io::Result<()>,
    /// The checksum that the bytes should have: carried for the caller, no engine looks at it.
    pub expected: u32,
    /// The checksum that they have, as [`Done`] found it.
    pub found: u32,
}

impl<'a> Io<'a> {
    /// A read of `data.len()` bytes from `offset`.
    #[must_use]
    pub fn read(offset: u64, data: &'a mut [u8]) -> Self {
        Io::new(offset, Buffer::ReadInto(data))
    }

    /// A write of `data` to `offset`.
    #[must_use]
    pub fn write(offset: u64, data: &'a [u8]) -> Self {
        Io::new(offset, Buffer::WriteFrom(data))
    }

    fn new(offset: u64, buffer: Buffer<'a>) -> Self {
        Io { offset, buffer, result: Ok(()), expected: 0, found: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_end_at_gaps_turns_and_lengths() {
        let page = [0u8; 4096];
        let long = vec![0u8; MERGED_BYTES_MAX];
        let mut other = [0u8; 4096];
        let adjacent: Vec<Io<'_>> = (0..100).map(|index| Io::write(index * 4096, &page)).collect();
        assert_eq!(run_len(&adjacent), 64);
        assert_eq!(run_len(&adjacent[..3]), 3);
        assert_eq!(run_len(&[]), 0);
        assert_eq!(run_len(&[Io::write(0, &page), Io::write(8192, &page)]), 1);
        assert_eq!(run_len(&[Io::write(0, &page), Io::read(4096, &mut other)]), 1);
        assert_eq!(run_len(&[Io::write(0, &page), Io::write(4096, &long)]), 1);
        assert_eq!(run_len(&[Io::write(u64::MAX, &page), Io::write(4095, &page)]), 1);
    }
}
