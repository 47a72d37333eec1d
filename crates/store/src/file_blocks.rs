//! Blocks on a file or a block device.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use terrace_sys::buffer::AlignedBuffer;
use terrace_sys::file::DirectFile;
use terrace_sys::size::{GIB, MIB, PAGE_BYTES, to_u64, to_usize};
use terrace_sys::sync::lock;

use super::blocks::{Blocks, Done, Io};
use super::engine::{self, Engine, EngineChoice};

/// Bounds of a growth step, which is an eighth of the file's length: few calls, little slack.
const GROWTH_BYTES_MIN: u64 = 16 * MIB;
const GROWTH_BYTES_MAX: u64 = GIB;

/// Bytes at either end of a device that must be zero for it to count as blank: file systems,
/// partition tables and volume managers all leave a mark there (btrfs the farthest in, at 64 KiB).
const MARKED_BYTES: u64 = MIB;

/// A file that grows and shrinks with its contents, or a block device.
pub struct FileBlocks {
    file: Arc<DirectFile>,
    engine: Box<dyn Engine>,
    capacity_bytes: u64,
    /// End of the allocated space in bytes.
    allocated: Mutex<u64>,
}

impl FileBlocks {
    /// Creates blocks on an open file, which never grows beyond `capacity_bytes`.
    ///
    /// # Errors
    /// Returns an error if the length cannot be read, or if io_uring is demanded and the kernel
    /// refuses it.
    pub fn open(
        file: DirectFile,
        capacity_bytes: u64,
        choice: EngineChoice,
    ) -> io::Result<FileBlocks> {
        let allocated = Mutex::new(file.len()?);
        if !file.is_direct() {
            tracing::warn!("the file system refuses direct I/O: the page cache holds pages too");
        }
        Ok(FileBlocks {
            engine: engine::open(choice)?,
            capacity_bytes,
            allocated,
            file: Arc::new(file),
        })
    }

    /// True if transfers bypass the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.file.is_direct()
    }

    fn allocated(&self) -> MutexGuard<'_, u64> {
        lock(&self.allocated)
    }

    /// Allocates a whole growth step, or only up to `end_bytes` if the file system has no space for
    /// a step. Returns the new end of the allocated space.
    fn grow(&self, from: u64, end_bytes: u64) -> io::Result<u64> {
        let before = self.file.len()?;
        let step = (from / 8).clamp(GROWTH_BYTES_MIN, GROWTH_BYTES_MAX);
        let generous = from.saturating_add(step).min(self.capacity_bytes).max(end_bytes);
        match self.file.allocate(from, generous - from) {
            Err(error) if super::error::is_full(&error) => {
                // A failed step may have allocated a part of its space.
                self.file.truncate(before)?;
                self.file.allocate(from, end_bytes - from).map(|()| end_bytes)
            }
            result => result.map(|()| generous),
        }
    }

    fn is_zero(&self, offset: u64, len_bytes: u64) -> io::Result<bool> {
        let mut data = AlignedBuffer::zeroed(to_usize(len_bytes));
        self.file.read_at(offset, &mut data)?;
        Ok(data.iter().all(|byte| *byte == 0))
    }
}

impl Blocks for FileBlocks {
    fn run(&self, batch: &mut [Io<'_>], done: &Done<'_>) {
        self.engine.run(&self.file, batch, done);
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn ensure(&self, end_bytes: u64) -> io::Result<()> {
        let mut allocated = self.allocated();
        if end_bytes <= *allocated {
            return Ok(());
        }
        if self.file.is_block_device() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        *allocated = self.grow(*allocated, end_bytes)?;
        Ok(())
    }

    fn punch(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        self.file.punch(offset, len_bytes)
    }

    fn truncate(&self, end_bytes: u64) -> io::Result<()> {
        let mut allocated = self.allocated();
        if self.file.is_block_device() || *allocated <= end_bytes {
            return Ok(());
        }
        self.file.truncate(end_bytes)?;
        *allocated = end_bytes;
        Ok(())
    }

    /// Returns true for a file that is empty or one page of zeros, which a power failure may leave
    /// of the first page written to it, and for a device whose first and last MiB are zero.
    fn is_blank(&self) -> io::Result<bool> {
        let len = self.file.len()?;
        if self.file.is_block_device() {
            let marked = MARKED_BYTES.min(len);
            return Ok(self.is_zero(0, marked)? && self.is_zero(len - marked, marked)?);
        }
        Ok(len == 0 || len == to_u64(PAGE_BYTES) && self.is_zero(0, len)?)
    }

    fn len_bytes(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn room_bytes(&self) -> u64 {
        self.file.free_bytes().unwrap_or(0)
    }

    fn alignment_bytes(&self) -> u64 {
        let alignment = self.file.alignment();
        alignment.memory_bytes.max(alignment.offset_bytes)
    }

    fn file(&self) -> Option<Arc<DirectFile>> {
        Some(Arc::clone(&self.file))
    }

    fn kind(&self) -> &str {
        match (self.engine.name(), self.file.is_direct()) {
            (name, true) => name,
            ("io_uring", false) => "io_uring through the page cache",
            (_, false) => "pread through the page cache",
        }
    }
}
