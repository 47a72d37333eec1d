//! Blocks in memory, for tests and for sessions without a disk.

use std::io;
use std::sync::{OnceLock, RwLock};

use terrace_sys::size::{MIB, to_u64, to_usize};
use terrace_sys::sync::{read, write};

use super::blocks::{Blocks, Buffer, Done, Io};

const CHUNK_BYTES: u64 = MIB;

/// Number of chunks whose slots are allocated together.
const GROUP_CHUNKS: usize = 1024;

type Chunk = RwLock<Option<Box<[u8]>>>;

/// Memory in chunks of 1 MiB, each allocated on its first write. Bytes never written read as zero.
pub struct MemoryBlocks {
    groups: Vec<OnceLock<Box<[Chunk]>>>,
    capacity_bytes: u64,
}

impl MemoryBlocks {
    /// Creates blocks of `capacity_bytes`.
    #[must_use]
    pub fn new(capacity_bytes: u64) -> Self {
        let count = to_usize(capacity_bytes.div_ceil(CHUNK_BYTES)).div_ceil(GROUP_CHUNKS);
        MemoryBlocks { groups: (0..count).map(|_| OnceLock::new()).collect(), capacity_bytes }
    }

    /// Returns the bytes of memory that chunks take now.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        let present = |chunk: &&Chunk| read(chunk).is_some();
        let groups = self.groups.iter().filter_map(OnceLock::get);
        to_u64(groups.flatten().filter(present).count()) * CHUNK_BYTES
    }

    /// Returns the slot of a chunk; `None` if no chunk of its group was ever written.
    fn chunk(&self, index: usize) -> Option<&Chunk> {
        self.groups[index / GROUP_CHUNKS].get().map(|group| &group[index % GROUP_CHUNKS])
    }

    fn chunk_to_write(&self, index: usize) -> &Chunk {
        let group = || (0..GROUP_CHUNKS).map(|_| RwLock::default()).collect();
        &self.groups[index / GROUP_CHUNKS].get_or_init(group)[index % GROUP_CHUNKS]
    }

    fn transfer(&self, offset: u64, buffer: &mut Buffer<'_>) -> io::Result<()> {
        self.within(offset, to_u64(buffer.len()))?;
        match buffer {
            Buffer::ReadInto(data) => self.read(offset, data),
            Buffer::WriteFrom(data) => self.write(offset, data),
        }
        Ok(())
    }

    fn read(&self, offset: u64, mut data: &mut [u8]) {
        let mut at = offset;
        while !data.is_empty() {
            let (index, start, len) = piece(at, data.len());
            let (head, tail) = data.split_at_mut(len);
            let chunk = self.chunk(index);
            let chunk = chunk.map(|chunk| read(chunk));
            match chunk.as_ref().and_then(|chunk| chunk.as_deref()) {
                Some(bytes) => head.copy_from_slice(&bytes[start..start + len]),
                None => head.fill(0),
            }
            (data, at) = (tail, at + to_u64(len));
        }
    }

    fn write(&self, offset: u64, mut data: &[u8]) {
        let mut at = offset;
        while !data.is_empty() {
            let (index, start, len) = piece(at, data.len());
            let (head, tail) = data.split_at(len);
            let chunk = self.chunk_to_write(index);
            let mut chunk = write(chunk);
            let bytes = chunk.get_or_insert_with(|| vec![0; to_usize(CHUNK_BYTES)].into());
            bytes[start..start + len].copy_from_slice(head);
            (data, at) = (tail, at + to_u64(len));
        }
    }

    fn drop_chunks(&self, first: u64, end: u64) {
        let end = to_usize(end).min(self.groups.len() * GROUP_CHUNKS);
        for chunk in (to_usize(first)..end).filter_map(|index| self.chunk(index)) {
            *write(chunk) = None;
        }
    }

    fn within(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        match offset.checked_add(len_bytes) {
            Some(end) if end <= self.capacity_bytes => Ok(()),
            _ => Err(io::ErrorKind::StorageFull.into()),
        }
    }
}

/// Returns the chunk index, the offset within the chunk, and the bytes that fall into it, of a
/// transfer of `len` bytes at `offset`.
fn piece(offset: u64, len: usize) -> (usize, usize, usize) {
    let start = offset % CHUNK_BYTES;
    let len = len.min(to_usize(CHUNK_BYTES - start));
    (to_usize(offset / CHUNK_BYTES), to_usize(start), len)
}

impl Blocks for MemoryBlocks {
    fn run(&self, batch: &mut [Io<'_>], done: &Done<'_>) {
        for io in batch {
            io.result = self.transfer(io.offset, &mut io.buffer);
            if io.result.is_ok() {
                done(io);
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn ensure(&self, end_bytes: u64) -> io::Result<()> {
        self.within(0, end_bytes)
    }

    fn punch(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        self.within(offset, len_bytes)?;
        self.drop_chunks(offset.div_ceil(CHUNK_BYTES), (offset + len_bytes) / CHUNK_BYTES);
        Ok(())
    }

    fn truncate(&self, end_bytes: u64) -> io::Result<()> {
        self.drop_chunks(end_bytes.div_ceil(CHUNK_BYTES), u64::MAX);
        Ok(())
    }

    fn is_blank(&self) -> io::Result<bool> {
        Ok(self.resident_bytes() == 0)
    }

    fn kind(&self) -> &str {
        "memory"
    }
}
