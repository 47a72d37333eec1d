//! One positioned transfer between a buffer and a file: the unit that I/O engines batch.

use std::io;

use crate::size::to_u64;

/// Memory of a transfer, and its direction.
#[derive(Debug)]
pub enum Buffer<'a> {
    /// The whole slice is filled from the file.
    ReadInto(&'a mut [u8]),
    /// The whole slice is written to the file.
    WriteFrom(&'a [u8]),
}

impl Buffer<'_> {
    /// Returns the number of bytes to transfer.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Buffer::ReadInto(data) => data.len(),
            Buffer::WriteFrom(data) => data.len(),
        }
    }

    /// True if the number of bytes is zero.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes, read or to be written.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Buffer::ReadInto(data) => data,
            Buffer::WriteFrom(data) => data,
        }
    }

    /// Returns the address and length of the bytes, for the kernel. The bytes of a write must not
    /// be modified through the pointer.
    pub(crate) fn as_raw(&mut self) -> (*mut u8, usize) {
        match self {
            Buffer::ReadInto(data) => (data.as_mut_ptr(), data.len()),
            Buffer::WriteFrom(data) => (data.as_ptr().cast_mut(), data.len()),
        }
    }

    /// True if this transfer writes to the file.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(self, Buffer::WriteFrom(_))
    }
}

/// Maximum bytes of a merged request, at which the reference device reaches its full bandwidth.
/// Longer requests would only delay their first transfers.
const MERGED_BYTES_MAX: usize = 256 << 10;
/// Maximum number of buffers of one request; the kernel's limit is 1,024.
const MERGED_COUNT_MAX: usize = 64;

/// Returns the number of transfers at the start of `batch` that have the same direction and
/// adjacent ranges of the file, so that one request can carry them: at most 64, and at most 256 KiB
/// unless the first alone is longer. At least 1, unless the batch is empty.
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

/// Completion callback of a transfer, while others are still in flight. An engine calls it once for
/// each transfer of a batch that succeeds, as soon as possible, on any thread.
pub type Done<'a> = dyn Fn(&mut Io<'_>) + Sync + 'a;

/// One transfer of a batch and its outcome.
#[derive(Debug)]
pub struct Io<'a> {
    /// Position in the file, in bytes.
    pub offset: u64,
    /// Memory and direction of the transfer.
    pub buffer: Buffer<'a>,
    /// Result, set by the engine: `Ok` if every byte was transferred.
    pub result: io::Result<()>,
    /// Expected checksum of the bytes; carried for the caller, not used by engines.
    pub expected: u32,
    /// Actual checksum of the bytes, set by [`Done`].
    pub found: u32,
}

impl<'a> Io<'a> {
    /// Creates a read of `data.len()` bytes from `offset`.
    #[must_use]
    pub fn read(offset: u64, data: &'a mut [u8]) -> Self {
        Io::new(offset, Buffer::ReadInto(data))
    }

    /// Creates a write of `data` to `offset`.
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
