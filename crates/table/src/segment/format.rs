//! Binary format of the header and the directory.

use super::encoding::Encoding;
use super::error::SegmentError;

pub(super) const MAGIC: [u8; 4] = *b"TSEG";
pub(super) const VERSION: u8 = 1;
pub(super) const HEADER_BYTES: usize = 32;
/// Bytes of a block's entry in the directory.
pub(super) const BLOCK_ENTRY_BYTES: usize = 8;
/// Bytes of a node without its buffers.
pub(super) const NODE_BYTES: usize = 8;
/// Bytes of one buffer's offset and length.
pub(super) const BUFFER_ENTRY_BYTES: usize = 8;
/// Alignment of every buffer: a cache line, as Arrow recommends.
pub(super) const ALIGNMENT: usize = 64;
/// Flag in a node's number of buffers: the first of them is the validity bitmap.
pub(super) const HAS_VALIDITY: u32 = 1 << 31;

/// Contents of the first 32 bytes of a segment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub type_code: u32,
    pub blocks: u32,
    pub rows: u32,
    pub directory_bytes: u32,
    pub segment_bytes: u32,
}

/// Offset of the directory's checksum.
const CHECKSUM_OFFSET: usize = 28;

impl Header {
    pub(super) fn write(&self, encoding: Encoding, out: &mut [u8]) {
        out[..4].copy_from_slice(&MAGIC);
        out[4] = VERSION;
        out[5] = encoding.code();
        out[6..8].fill(0);
        put(out, 8, self.type_code);
        put(out, 12, self.blocks);
        put(out, 16, self.rows);
        put(out, 20, self.directory_bytes);
        put(out, 24, self.segment_bytes);
    }

    pub(super) fn read(bytes: &[u8]) -> Result<(Self, Encoding), SegmentError> {
        if bytes.len() < HEADER_BYTES || bytes[..4] != MAGIC {
            return Err(SegmentError::malformed("it does not begin with \"TSEG\""));
        }
        if bytes[4] != VERSION {
            return Err(SegmentError::Version { found: bytes[4], expected: VERSION });
        }
        let encoding = Encoding::from_code(bytes[5]).ok_or(SegmentError::Encoding(bytes[5]))?;
        let mut words = Words::new(bytes, 8, HEADER_BYTES);
        let header = Self {
            type_code: words.next()?,
            blocks: words.next()?,
            rows: words.next()?,
            directory_bytes: words.next()?,
            segment_bytes: words.next()?,
        };
        Ok((header, encoding))
    }
}

/// Writes the checksum of the header and the directory, once both are complete.
pub(super) fn seal(directory: &mut [u8]) {
    let checksum = checksum_of(directory);
    put(directory, CHECKSUM_OFFSET, checksum);
}

/// Returns true if the header and the directory match their checksum.
pub(super) fn is_sealed(directory: &[u8]) -> bool {
    let expected = checksum_of(directory).to_le_bytes();
    directory.get(CHECKSUM_OFFSET..HEADER_BYTES) == Some(expected.as_slice())
}

/// Computes the CRC-32C of the bytes except those of the checksum itself.
fn checksum_of(directory: &[u8]) -> u32 {
    let (header, entries) = directory.split_at(HEADER_BYTES.min(directory.len()));
    let header = &header[..CHECKSUM_OFFSET.min(header.len())];
    crc32c::crc32c_append(crc32c::crc32c(header), entries)
}

/// Writes `word` at `offset`, which must be in bounds.
pub(super) fn put(out: &mut [u8], offset: usize, word: u32) {
    out[offset..offset + 4].copy_from_slice(&word.to_le_bytes());
}

/// Reader of the words of a directory, within bounds.
pub(super) struct Words<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Words<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize, end: usize) -> Self {
        Self { bytes, at, end: end.min(bytes.len()) }
    }

    pub(super) fn next(&mut self) -> Result<u32, SegmentError> {
        let end = self.at.saturating_add(4);
        let word = (end <= self.end).then(|| self.bytes.get(self.at..end)).flatten();
        let word = word.and_then(|word| word.try_into().ok());
        let word = word.ok_or_else(|| {
            SegmentError::malformed(format!("its directory ends at byte {}", self.end))
        })?;
        self.at = end;
        Ok(u32::from_le_bytes(word))
    }

    /// Reads the next word as a length or an offset in memory.
    pub(super) fn next_len(&mut self) -> Result<usize, SegmentError> {
        self.next().map(wide)
    }
}

/// Converts a 32-bit length to one in memory.
pub(super) fn wide(word: u32) -> usize {
    // Every supported target has 64-bit pointers.
    word as usize
}

/// Converts a length in memory to a 32-bit field of the format.
pub(super) fn narrow(len: usize) -> Result<u32, SegmentError> {
    u32::try_from(len).map_err(|_| SegmentError::TooLong(len))
}
