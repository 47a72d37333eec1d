//! Files of checksummed blocks.
//!
//! ```text
//! head    magic 8, version 4, node 2, generations 2, sequence 8, salt 8, boot 16, number 8,
//!         checksum of a batch 4, checksum 4
//! block   bytes 4, checksum 4, bytes
//! ```
//!
//! A dump is a head and blocks. The checksum of each block covers its offset in the file and the
//! file's salt, which no other file has, so that lost, swapped or stale blocks are found as well as
//! altered ones.

use std::hash::BuildHasher;
use std::io::{self, Read, Write};

use terrace_sys::size::{to_u64, to_usize};

use super::encoding::{Nonsense, Source};

/// Length of the head of a dump or log in bytes.
pub(crate) const HEAD_BYTES: usize = 64;
/// Format version of the dumps and logs that this program writes.
pub(crate) const VERSION: u32 = 3;
/// The version before: its dumps have the same format, and its logs are read if they have no
/// changes.
const VERSION_BEFORE: u32 = 2;
/// Maximum bytes of a block, without its length and checksum.
const BLOCK_BYTES: usize = if cfg!(miri) { 64 } else { 1 << 20 };

/// Link from a batch to the next: the batches of a store are a chain, from log to log. A batch that
/// another process wrote, or one of another copy of the log, does not continue it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    /// Number of batches up to this one, of all that the store ever wrote.
    pub(crate) number: u64,
    /// Checksum of the batch's head.
    pub(crate) sum: u32,
}

/// Head of a file: its kind and identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) magic: [u8; 8],
    pub(crate) version: u32,
    pub(crate) node: u16,
    /// True if ids have generations.
    pub(crate) generations: bool,
    /// Position in the order of the logs and the dumps between them.
    pub(crate) sequence: u64,
    /// Random number that no other file has; the checksums of the file's blocks cover it.
    pub(crate) salt: u64,
    /// Boot id of the machine at the time that the file was made; 0 if unknown.
    pub(crate) boot: u128,
    /// The last batch before the log that follows a dump, or before a log that recovery has begun;
    /// `None` if unknown.
    pub(crate) after: Option<Link>,
}

/// Returns a random number.
pub(crate) fn salt() -> u64 {
    std::hash::RandomState::new().hash_one(0)
}

/// Position of a block or batch: the salt of its file, and its offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockPosition {
    pub(crate) salt: u64,
    pub(crate) offset: u64,
}

impl Head {
    pub(crate) fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut all = [0; HEAD_BYTES];
        all[..8].copy_from_slice(&self.magic);
        all[8..12].copy_from_slice(&self.version.to_le_bytes());
        all[12..14].copy_from_slice(&self.node.to_le_bytes());
        all[14] = u8::from(self.generations);
        all[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        all[24..32].copy_from_slice(&self.salt.to_le_bytes());
        all[32..48].copy_from_slice(&self.boot.to_le_bytes());
        let Link { number, sum } = self.after.unwrap_or(UNKNOWN);
        all[48..56].copy_from_slice(&number.to_le_bytes());
        all[56..60].copy_from_slice(&sum.to_le_bytes());
        let sum = crc32c::crc32c(&all[..60]);
        all[60..].copy_from_slice(&sum.to_le_bytes());
        all
    }

    /// Reads the head of a file with this magic number, of the current version or the one before.
    pub(crate) fn read(from: &mut impl Read, magic: [u8; 8]) -> Result<Self, BlockError> {
        let mut all = [0; HEAD_BYTES];
        let found = read_up_to(from, &mut all)?;
        if found < HEAD_BYTES || all[..8] != magic {
            return Err(BlockError::Damaged("it does not begin as such a file does".to_owned()));
        }
        if crc32c::crc32c(&all[..60]) != u32_at(&all, 60) {
            return Err(BlockError::Damaged("its head is damaged".to_owned()));
        }
        let version = u32_at(&all, 8);
        if version != VERSION && version != VERSION_BEFORE {
            return Err(BlockError::Version(version));
        }
        let node = u16::from_le_bytes([all[12], all[13]]);
        let (sequence, salt) = (u64_at(&all, 16), u64_at(&all, 24));
        let generations = all[14] != 0;
        if version == VERSION_BEFORE {
            let (boot, after) = (0, None);
            return Ok(Self { magic, version, node, generations, sequence, salt, boot, after });
        }
        let boot = u128::from(u64_at(&all, 32)) | u128::from(u64_at(&all, 40)) << 64;
        let after = Some(Link { number: u64_at(&all, 48), sum: u32_at(&all, 56) });
        let after = after.filter(|link| *link != UNKNOWN);
        Ok(Self { magic, version, node, generations, sequence, salt, boot, after })
    }
}

/// Encoding of an unknown link in a head.
const UNKNOWN: Link = Link { number: u64::MAX, sum: u32::MAX };

/// Reason that the head or a block of a file cannot be read.
#[derive(Debug)]
pub(crate) enum BlockError {
    Damaged(String),
    /// The file has another version.
    Version(u32),
    Io(io::Error),
}

impl From<Nonsense> for BlockError {
    fn from(nonsense: Nonsense) -> Self {
        Self::Damaged(nonsense.0.to_owned())
    }
}

impl From<io::Error> for BlockError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap_or_default())
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default())
}

/// Fills `to` as far as there are bytes, and returns their number.
fn read_up_to(from: &mut impl Read, to: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < to.len() {
        match from.read(&mut to[done..]) {
            Ok(0) => break,
            Ok(some) => done += some,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Returns the checksum of bytes at a position.
pub(crate) fn checksum(place: BlockPosition, bytes: &[u8]) -> u32 {
    let salted = crc32c::crc32c(&place.salt.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(salted, &place.offset.to_le_bytes()), bytes)
}

/// Writer of a file of blocks: its head, then its blocks.
pub(crate) struct BlockWriter<W> {
    to: W,
    salt: u64,
    written: u64,
}

impl<W: Write> BlockWriter<W> {
    pub(crate) fn new(mut to: W, head: Head) -> io::Result<Self> {
        to.write_all(&head.to_bytes())?;
        Ok(Self { to, salt: head.salt, written: to_u64(HEAD_BYTES) })
    }

    /// Writes bytes as one or more blocks.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(BLOCK_BYTES) {
            let len = u32::try_from(piece.len()).unwrap_or(u32::MAX);
            self.to.write_all(&len.to_le_bytes())?;
            let place = BlockPosition { salt: self.salt, offset: self.written };
            self.to.write_all(&checksum(place, piece).to_le_bytes())?;
            self.to.write_all(piece)?;
            self.written += 8 + to_u64(piece.len());
        }
        Ok(())
    }

    /// Flushes, and returns the writer and the number of bytes written.
    pub(crate) fn end(mut self) -> io::Result<(W, u64)> {
        self.to.flush()?;
        Ok((self.to, self.written))
    }
}

/// Reader of a file of blocks, which verifies their checksums.
pub(crate) struct BlockReader<R> {
    from: R,
    salt: u64,
    block: Vec<u8>,
    used: usize,
    /// Offsets of the current block and of the next one.
    at: u64,
    next: u64,
}

impl<R: Read> BlockReader<R> {
    /// Reads the blocks that follow the head.
    pub(crate) fn new(from: R, head: Head) -> Self {
        let (at, salt) = (to_u64(HEAD_BYTES), head.salt);
        Self { from, salt, block: Vec::new(), used: 0, at, next: at }
    }

    /// Returns the offset of the block that was read last, valid or not.
    pub(crate) fn offset(&self) -> u64 {
        self.at
    }

    fn read_block(&mut self) -> Result<(), BlockError> {
        self.at = self.next;
        let damaged = |reason: &str| BlockError::Damaged(reason.to_owned());
        let mut head = [0; 8];
        if read_up_to(&mut self.from, &mut head)? < head.len() {
            return Err(damaged("it ends too early"));
        }
        let len = to_usize(u64::from(u32_at(&head, 0)));
        if len == 0 || len > BLOCK_BYTES {
            return Err(damaged("a block has no possible length"));
        }
        self.block.resize(len, 0);
        self.used = 0;
        if read_up_to(&mut self.from, &mut self.block)? < len {
            self.block.clear();
            return Err(damaged("it ends too early"));
        }
        let place = BlockPosition { salt: self.salt, offset: self.at };
        if checksum(place, &self.block) != u32_at(&head, 4) {
            self.block.clear();
            return Err(damaged("a block's checksum is wrong"));
        }
        self.next = self.at + 8 + to_u64(len);
        Ok(())
    }
}

impl<R: Read> Source for BlockReader<R> {
    type Error = BlockError;

    fn fill(&mut self, to: &mut [u8]) -> Result<(), BlockError> {
        let mut done = 0;
        while done < to.len() {
            if self.used == self.block.len() {
                self.read_block()?;
            }
            let some = (to.len() - done).min(self.block.len() - self.used);
            to[done..done + some].copy_from_slice(&self.block[self.used..self.used + some]);
            self.used += some;
            done += some;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Head = Head {
        magic: *b"sometest",
        version: VERSION,
        node: 4,
        generations: true,
        sequence: 77,
        salt: 5,
        boot: 1 << 100 | 6,
        after: Some(Link { number: 8, sum: 9 }),
    };

    fn file(bytes: &[u8]) -> Vec<u8> {
        salted(bytes, HEAD)
    }

    fn salted(bytes: &[u8], head: Head) -> Vec<u8> {
        let mut writer = BlockWriter::new(Vec::new(), head).expect("memory");
        writer.write(bytes).expect("memory");
        let (file, len) = writer.end().expect("memory");
        assert_eq!(to_u64(file.len()), len);
        file
    }

    fn read(file: &[u8], len: usize) -> Result<Vec<u8>, BlockError> {
        let mut from = file;
        assert_eq!(Head::read(&mut from, HEAD.magic)?, HEAD);
        let (mut reader, mut to) = (BlockReader::new(from, HEAD), vec![0; len]);
        reader.fill(&mut to)?;
        Ok(to)
    }

    #[test]
    fn any_changed_bit_and_any_missing_end_is_found() {
        let bytes: Vec<u8> = (0..=255).cycle().take(if cfg!(miri) { 100 } else { 3000 }).collect();
        let file = file(&bytes);
        assert_eq!(read(&file, bytes.len()).expect("whole"), bytes);
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(read(&damaged, bytes.len()).is_err(), "{at}");
            assert!(read(&file[..at], bytes.len()).is_err(), "{at}");
        }
    }

    #[test]
    fn other_versions_are_told() {
        let read = |version| Head::read(&mut &Head { version, ..HEAD }.to_bytes()[..], HEAD.magic);
        assert_eq!(read(VERSION).expect("this one"), HEAD);
        let before = read(VERSION_BEFORE).expect("the one before");
        assert_eq!((before.version, before.boot, before.after), (VERSION_BEFORE, 0, None));
        for other in [1, VERSION + 1] {
            assert!(matches!(read(other), Err(BlockError::Version(it)) if it == other));
        }
        let unknown = Head { after: None, ..HEAD };
        assert_eq!(Head::read(&mut &unknown.to_bytes()[..], HEAD.magic).expect("whole"), unknown);
    }

    #[test]
    fn blocks_belong_to_their_places() {
        let bytes: Vec<u8> = (0..=255).cycle().take(2 * BLOCK_BYTES).collect();
        let file = file(&bytes);
        let (head, blocks) = file.split_at(HEAD_BYTES);
        let (first, second) = blocks.split_at(8 + BLOCK_BYTES);
        let swapped = [head, second, first].concat();
        assert!(read(&file, bytes.len()).is_ok());
        assert!(read(&swapped, bytes.len()).is_err());
        let other = salted(&bytes, Head { salt: salt(), ..HEAD });
        let left_over = [head, first, &other[HEAD_BYTES + first.len()..]].concat();
        assert!(read(&left_over, bytes.len()).is_err());
        assert_ne!(salt(), salt());
    }
}
